"""The contract kit: every sink keeps it, and no wrong sink gets through the check of what it does wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from own_sink import Webhook
from stand_ins import HttpStandIn, PublishBatch, PutEvents, SendMessageBatch, WebhookService
from wrong_sinks import WRONG

from dynamodb_outbox.sinks import RequestFailed, SinkLimits
from dynamodb_outbox.testing.sink_contract import CHECKS, ContractBroken, check_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.sinks import Outcome

SPEECHES = {
    "EventBridge": PutEvents,
    "EventBridge, by ARN": lambda: PutEvents(by_arn=True),
    "Sns": PublishBatch,
    "Sns, FIFO": lambda: PublishBatch("orders.fifo"),
    "Sqs": SendMessageBatch,
    "Sqs, FIFO": lambda: SendMessageBatch("orders.fifo"),
    "the example": WebhookService,
}


def name_of(check: Any) -> str:
    """Return a check's name."""
    return str(check.__name__)


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("speech", SPEECHES)
def test_our_sinks_and_the_example_keep_the_contract(speech: str, check: Callable[[Any], None]) -> None:
    """Each check by itself, against a server that speaks the service's protocol."""
    made: Any = SPEECHES[speech]
    with HttpStandIn(made()) as stand_in:
        check(stand_in)


class OneByOne(Webhook):
    """Sends one event in a request, which is refused as a whole."""

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Put an entry's own fault as the request's."""
        outcome = super().publish(entries)
        if isinstance(outcome, RequestFailed) or outcome.results[0] is None:
            return outcome
        return RequestFailed(outcome.results[0])


def test_a_sink_of_single_events_can_keep_the_contract() -> None:
    """A request of one entry may be refused as a whole; nothing asks for more than the limits say."""
    limits = SinkLimits(entries=1, request_bytes=4000, entry_bytes=4000)
    with HttpStandIn(WebhookService(lambda url: OneByOne(url, timeout_s=0.9, limits=limits))) as stand_in:
        check_sink(stand_in)


def test_all_checks_in_one_go() -> None:
    """A stand-in can be used for one check after the other."""
    with HttpStandIn(WebhookService()) as stand_in:
        check_sink(stand_in)


@pytest.mark.parametrize(("wrong", "name"), WRONG, ids=lambda each: getattr(each, "__name__", each))
def test_a_wrong_sink_fails_its_check(wrong: type[Webhook], name: str) -> None:
    """By name, with what was found."""
    (check,) = (check for check in CHECKS if check.__name__ == name)
    service = WebhookService(lambda url: wrong(url, timeout_s=0.9))
    with HttpStandIn(service) as stand_in, pytest.raises(ContractBroken) as caught:
        check(stand_in)
    assert caught.value.check == name
    assert caught.value.why in str(caught.value)


def test_each_check_has_a_wrong_sink() -> None:
    """A check that nothing fails would be no check."""
    assert {name for _, name in WRONG} == {check.__name__ for check in CHECKS}
