"""Nothing that a consumer adds to an event keeps the event from being rejected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from billing_desk import DONE, Sink, delivered
from deliveries import WAYS, order
from remembering import Remembering, throw

from dynamodb_outbox.consume import Rejected
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.errors import Reject
from dynamodb_outbox.sinks import Answered, Fault, Kind, Prepared

if TYPE_CHECKING:
    from dynamodb_outbox import Event

TOO_LARGE = Fault(Kind.CONTENT, "TooLarge")


class Small(Sink):
    """A sink of CloudEvents that takes so many bytes, says before or after sending that it does not, and keeps them."""

    def __init__(self, most: int, says: str = "prepare") -> None:
        super().__init__()
        self.most, self.says = most, says
        self.taken: list[Event] = []

    def prepare(self, event: Event) -> Any:
        """Refuse what is too large, where it is to be said here."""
        large = len(cloudevent(event).encode("utf-8")) > self.most
        return TOO_LARGE if large and self.says == "prepare" else Prepared((event, large), 1)

    def publish(self, entries: Any) -> Any:
        """Take it, unless it is too large."""
        ((event, large),) = entries
        if not large:
            self.taken.append(event)
        return Answered((TOO_LARGE if large else None,))


class Mute:
    """Something without a text."""

    def __str__(self) -> str:
        raise ValueError


class Bare(Reject):
    """A class of the user's that keeps what it is given elsewhere."""

    def __init__(self, sku: str) -> None:
        self.sku = sku


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (Reject(ValueError("no number")), "no number"),
        (Reject(5), "5"),
        (Reject(None), None),
        (Reject(Mute()), "a Mute"),
        (Bare("A-1"), "A-1"),
        (Reject("half \ud800"), "half ?"),
        (Reject("x" * 1_000), "x" * 1_000),
        (Reject("x" * 1_001), f"{'x' * 997}..."),
        (Reject("x" * 1_100_000), f"{'x' * 997}..."),
    ],
)
def test_no_reason_keeps_an_event_from_being_rejected(
    raised: Reject, reason: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """It is made text that fits: an event that cannot be rejected comes back for ever, and holds its stream."""
    sink = Small(100_000)
    taker = Remembering(rejected=sink)
    taker.consumer(lambda event: throw(raised))  # noqa: ARG005 -- whatever the event
    assert taker.lambda_handler(delivered(order(1))) == DONE
    told = {"rejectedby": "memory", **({} if reason is None else {"rejectreason": reason})}
    assert [dict(event.attributes) for event in sink.taken] == [told]
    assert taker.noted.facts == [Rejected(order(1), reason or "")]
    assert (reason or "no reason is given") in caplog.text


@pytest.mark.parametrize(
    ("room", "left"),
    [(0, set()), (26, {"rejectedby"}), (60, {"rejectedby", "rejectreason"})],
    ids=["none", "one", "both"],
)
@pytest.mark.parametrize("says", ["prepare", "publish"])
def test_attributes_that_do_not_fit_are_left_out(
    room: int, left: set[str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An event of exactly the most bytes is rejected all the same; the log says by whom, and why."""
    sink = Small(len(cloudevent(order(1))) + room, says)
    taker = Remembering(rejected=sink)
    taker.consumer(lambda event: throw(Reject("no such product")))  # noqa: ARG005 -- whatever the event
    assert taker.lambda_handler(delivered(order(1))) == DONE
    assert [set(event.attributes) for event in sink.taken] == [left]
    assert "memory: event" in caplog.text
    assert "no such product" in caplog.text
    dropped = [name for name in ("rejectedby", "rejectreason") if name not in left]
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warned == (
        [f"memory: event {order(1).id} is rejected without {', '.join(map(repr, dropped))}"] * bool(dropped)
    )
    sink.most -= 100
    assert len(taker.lambda_handler(delivered(order(1)))["batchItemFailures"]) == 1


def test_what_another_maker_added_against_the_rules_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """CloudEvents has no such names: who publishes it as one would be refused each time. The log names them."""
    sink = Small(100_000)
    taker = Remembering(rejected=sink)
    taker.consumer(lambda event: throw(Reject()))  # noqa: ARG005 -- whatever the event
    assert taker.lambda_handler(delivered(order(1))) == DONE
    body = {**json.loads(cloudevent(order(2))), "my_extension": "1", "myextension": "2"}
    assert taker.lambda_handler(WAYS["SQS, sent there by the relay"].of(body)) == DONE
    assert dict(sink.taken[1].attributes) == {"myextension": "2", "rejectedby": "memory"}
    assert "is rejected without 'my_extension'" in caplog.text
