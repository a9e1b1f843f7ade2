"""The handler with several destinations, and what it says of destinations that are missing or in trouble."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from relay_shell import CONTENT, Bus, Context, Table, failures, relay, row, several, short

from dynamodb_outbox.core.relay.outcome import Fault, Kind, Outcome, Presence, RequestFailed, Verified
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import Router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.event import Event

MISSING = Verified(Presence.MISSING, "ResourceNotFoundException: no such bus")
UNSURE = Verified(Presence.UNSURE, "AccessDeniedException: not authorized")
RESET = RequestFailed(Fault(Kind.UNKNOWN, "ConnectionClosedError", "reset"))


class Dead(Bus):
    """A bus that answers nothing."""

    def publish(self, entries: Sequence[Any]) -> Outcome:  # noqa: ARG002 -- it answers to none
        """Count, and reset."""
        self.calls += 1
        return RESET


def two(orders: Bus, audit: Bus) -> Router:
    """Return a router by the key: keys that begin with `audit` go to the one, all others to the other."""
    sinks: dict[str, Any] = {"orders": orders, "audit": audit}
    return Router(lambda event: "audit" if str(event.key).startswith("audit") else "orders", sinks=sinks)


def words(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged."""
    return [f"{one.levelname} {one.getMessage()}" for one in caplog.records]


def test_each_event_goes_to_exactly_one_sink() -> None:
    """And all of them are settled in one call."""
    orders, audit, table = Bus(), Bus(name="audit"), Table()
    records = [row(1, pk="a"), row(2, pk="audit"), row(3, pk="a"), row(4, pk="audit-2")]
    assert failures(relay(two(orders, audit), table).lambda_handler({"Records": records}, Context())) == []
    assert [short(event) for event in orders.accepted] == ["1", "3"]
    assert sorted(short(event) for event in audit.accepted) == ["2", "4"]
    assert len(table.settled) == 4


def test_one_sink_that_is_down_holds_its_own() -> None:
    """The others' events are published in the same invocation; the checkpoint stays at the first that is held."""
    orders, audit = Bus(), Dead(name="audit")
    records = [row(1, pk="a"), row(2, pk="audit"), row(3, pk="a"), row(4, pk="b")]
    assert failures(relay(two(orders, audit)).lambda_handler({"Records": records}, Context(1500))) == ["2"]
    assert sorted(short(event) for event in orders.accepted) == ["1", "3", "4"]


def test_an_event_without_a_route_is_parked(caplog: pytest.LogCaptureFixture) -> None:
    """Its own reason is logged and stored; nothing is asked of a sink for it."""
    bus, table = Bus(), Table()
    made = relay(Router({"order.shipped": bus}), table)
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    assert [parking.code for _, _, parking in table.parked] == ["NoRoute"]
    assert bus.asked == bus.calls == 0
    assert "of key 'ORDER#1', record 1: NoRoute" in caplog.text


def test_of_a_record_the_events_that_one_sink_refuses_are_parked_and_the_others_published() -> None:
    """Wherever each of them goes."""

    def route(event: Event) -> str:
        return "audit" if event.id == "b" else "orders"

    orders, audit, table = Bus(), Bus(lambda _: CONTENT, name="audit"), Table()
    sinks: dict[str, Any] = {"orders": orders, "audit": audit}
    made = relay(Router(route, sinks=sinks), table)
    assert failures(made.lambda_handler({"Records": [several(1, "abc")]}, Context())) == []
    assert [short(event) for event in orders.accepted] == ["a", "c"]
    assert [parking.events for _, _, parking in table.parked] == [(1,)]
    assert table.settled == []


def test_a_missing_bus_is_told_each_time_and_nothing_is_published(caplog: pytest.LogCaptureFixture) -> None:
    """EventBridge would answer 200. It is asked for again in each invocation, and published to when it is there."""
    bus = Bus()
    bus.found = [MISSING, MISSING, Verified(Presence.OK)]
    made = relay(bus)
    records = [row(1, pk="a"), row(2, pk="b")]
    for _ in range(2):
        caplog.clear()
        assert failures(made.lambda_handler({"Records": records}, Context())) == ["1"]
        assert words(caplog) == [
            "WARNING 2 events of 2 records: 0 accepted, 0 parked; delivered again from 1 on",
            "ERROR orders does not exist, and 2 events are held: ResourceNotFoundException: no such bus",
        ]
    assert bus.accepted == []
    assert failures(made.lambda_handler({"Records": records}, Context())) == []
    assert bus.asked == 3
    assert failures(made.lambda_handler({"Records": [row(3)]}, Context())) == []
    assert bus.asked == 3, "found less than a minute ago"


def test_after_missing_an_unsure_answer_holds_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """The reason is not the sink's: it has none any more."""
    bus = Bus()
    bus.found = [MISSING, UNSURE]
    made = relay(bus)
    for _ in range(2):
        assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == ["1"]
    assert "orders does not exist, and 1 event is held: it was missing before, and now nobody can tell" in caplog.text


def test_a_bus_of_which_nobody_can_tell_is_published_to_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """With the reason; again when that changes."""
    bus = Bus()
    other = Verified(Presence.UNSURE, "ReadTimeoutError")
    bus.found = [UNSURE, UNSURE, other]
    made = relay(bus)
    for number in (1, 2, 3):
        assert failures(made.lambda_handler({"Records": [row(number)]}, Context())) == []
        made._carried = type(made._carried)()
    told = [line for line in words(caplog) if "cannot be told" in line]
    assert told == [
        f"WARNING it cannot be told whether orders exists; it is published to: {reason}"
        for reason in (UNSURE.reason, other.reason)
    ]


def test_a_bus_that_does_not_answer_the_question_is_not_published_to(caplog: pytest.LogCaptureFixture) -> None:
    """It might be gone. It is asked again, and the log says what the matter is."""
    bus = Bus()
    bus.found = [Verified(Presence.UNSURE, "ReadTimeoutError", passing=True)]
    made = relay(bus)
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context(1000))) == ["1"]
    assert bus.accepted == []
    assert bus.asked > 1
    assert "nobody answers whether orders exists: ReadTimeoutError" in caplog.text


WRONG_ANSWERS = [
    True, ZeroDivisionError("x"), None, Verified(cast("Any", "missing")), Verified(Presence.OK, cast("Any", None)),
    Verified(Presence.OK, "", cast("Any", 1)),
]  # fmt: skip


@pytest.mark.parametrize("answer", WRONG_ANSWERS)
def test_a_verify_with_a_bug_is_a_question_without_an_answer(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It may have meant "missing": nothing is published, it is asked again, and the log has the traceback."""

    class Buggy(Bus):
        def verify(self) -> Verified:
            if isinstance(super().verify(), Verified) and self.asked > 1:
                return Verified(Presence.OK)
            assert not self.calls
            if isinstance(answer, Exception):
                raise answer
            return cast("Verified", answer)

    bus = Buggy()
    assert failures(relay(bus).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert (bus.asked, len(bus.accepted)) == (2, 1)
    assert "Verify failed" in caplog.text


def test_after_five_resets_a_bus_is_left_alone_and_invocations_end_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """In place of burning their time; the log says for how long."""

    class Quick:
        """No pauses before so many calls, and nearly the longest from then on."""

        def __init__(self, bus: Dead, calls: int) -> None:
            self.bus, self.calls = bus, calls

        def bytes(self, count: int) -> bytes:
            return b"\0" * count

        def unit(self) -> float:
            return 0.999 if self.bus.calls >= self.calls else 0.0

    bus = Dead()
    made = relay(bus, entropy=Quick(bus, 5))
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context(60_000))) == ["1"]
    assert bus.calls == 5
    assert "1 event is held: requests to orders fail, and nothing is sent to it for" in caplog.text
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context(60_000))) == ["1"]
    assert bus.calls == 5
    patient = Dead()
    unlimited = relay(patient, entropy=Quick(patient, 8), breaker_after=None)
    assert failures(unlimited.lambda_handler({"Records": [row(1)]}, Context(1500))) == ["1"]
    assert patient.calls > 5


def test_a_rate_limit_slows_a_batch_down() -> None:
    """Ten at once, and the other five half a second later."""
    bus = Bus()
    made = relay(bus, rate_limit_per_instance=10)
    records = [row(number, pk=str(number)) for number in range(15)]
    assert failures(made.lambda_handler({"Records": records}, Context(10_000))) == []
    assert len(bus.accepted) == 15
    assert failures(made.lambda_handler({"Records": [row(99)]}, Context(0))) == ["99"]


def test_block_holds_poison_and_its_key_and_parks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Other keys go on; each delivery tries it again, since a bus may change its mind."""
    bus, table = Bus(lambda event: CONTENT if short(event) == "1" else None), Table()
    made = relay(bus, table, on_poison="block")
    records = [row(1, pk="a"), row(2, pk="b"), row(3, pk="a"), row(4, pk="c", payload={"S": "bad"})]
    for _ in range(2):
        assert failures(made.lambda_handler({"Records": records}, Context())) == ["1"]
    assert [short(event) for event in bus.accepted] == ["2"]
    assert table.parked == []
    assert "1 event was not accepted: Bad (the event 'order.placed' " in caplog.text
    bus.script = lambda _: None
    assert failures(made.lambda_handler({"Records": records}, Context())) == ["4"]
    assert [short(event) for event in bus.accepted] == ["2", "1", "3"]


class NoSinks:
    """No router."""

    sinks = ()

    def route(self, event: Event) -> int:
        """Lead nowhere."""
        raise AssertionError(event)


def test_what_has_no_destination_is_parked_within_one_limit() -> None:
    """Rows that nobody can read, and events that no route fits: ten new ones a minute together; the rest is held."""
    table = Table()
    made = relay(Router({"order.*": cast("Any", Bus())}), table)
    records = [row(number, pk=str(number), payload={"S": "{"}) for number in range(1, 7)]
    records += [row(number, pk=str(number), type={"S": "stock.counted"}) for number in range(7, 13)]
    assert failures(made.lambda_handler({"Records": records}, Context())) == ["11"]
    assert sorted(parking.code for _, _, parking in table.parked) == ["InvalidRecord"] * 6 + ["NoRoute"] * 4


def without(member: str, value: Any) -> Bus:
    """Return a sink whose member is something else."""
    bus = Bus()
    setattr(bus, member, value)
    return bus


LACKING: list[tuple[str, Any]] = [
    ("prepare", None),
    ("publish", "text"),
    ("verify", None),
    ("limits", (10, 1000, 1000)),
    ("name", ""),
    ("name", None),
    ("request_ms", None),
    ("request_ms", 2.5),
    ("request_ms", 0),
    ("request_ms", True),
]


@pytest.mark.parametrize(("member", "value"), LACKING)
def test_what_a_sink_lacks_is_told_alone_or_behind_a_router(member: str, value: Any) -> None:
    """That one member, by name, wherever a sink is handed in."""
    wrong: Any = without(member, value)
    ways: Any = SimpleNamespace(sinks=[Bus(), wrong], route=lambda _: 0)
    for make in (lambda: Relay(wrong), lambda: Relay(ways), lambda: Router({"*": wrong})):
        with pytest.raises(ConfigurationError, match=rf"lacks {member}\b[^,]*[,.]") as caught:
            make()
        told = str(caught.value).partition("lacks ")[2]
        assert not any(other in told for other, _ in LACKING if other != member)


@pytest.mark.parametrize("given", [NoSinks(), Router, Bus, "orders"])
def test_what_is_no_sink_and_no_router_is_refused(given: Any) -> None:
    """With what to write."""
    with pytest.raises(ConfigurationError, match="Relay takes a sink"):
        Relay(given)


def test_nothing_is_said_when_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    """But for a line of detail."""
    with caplog.at_level(logging.INFO, "dynamodb_outbox.relay"):
        assert failures(relay(Bus()).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert caplog.records == []


def test_with_a_layout_that_settles_nothing_no_call_is_made() -> None:
    """Hand-written rows are done when they are accepted; they are not waited for, and not counted as left pending."""
    bus, table = Bus(), Table()
    made = relay(bus, table, layout=Layout(settle="none"))
    assert failures(made.lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert table.settled == []
    assert len(bus.accepted) == 2
