"""Events in a consumer that are followed: where their spans belong, and what they say of the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from deliveries import QUEUE, STREAM, TABLE_STREAM, TOPIC, order, sqs_record
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from remembering import Remembering

from dynamodb_outbox import Inbox
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.limits import EVENTBRIDGE
from dynamodb_outbox.core.relay.outcome import Answered, Prepared, Presence, Verified
from dynamodb_outbox.errors import ConfigurationError, Reject, RetryLater, Skip
from dynamodb_outbox.otel import OpenTelemetry
from spans_kept import BrokenTracing, Kept, attributes, linked, place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.event import Event

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
CREATED = {"traceparent": f"00-{TRACE:032x}-{SPAN:016x}-01", "tracestate": "a=1"}


class Sent:
    """A sink for events that are rejected."""

    name = "rejected"
    limits = EVENTBRIDGE
    request_ms = 1

    def prepare(self, event: Event) -> Prepared:
        """Take it."""
        return Prepared(event, 1)

    def publish(self, entries: Sequence[Any]) -> Answered:
        """Accept it."""
        return Answered((None,) * len(entries))

    def verify(self) -> Verified:
        """Be there."""
        return Verified(Presence.OK)


def consumed(tracing: Any, *events: Event, function: Callable[[Event], object] = print, **options: Any) -> list[str]:
    """Have events consumed from a queue; return what goes back."""
    consumer = Remembering(tracing=tracing, **options)
    consumer.consumer(function)
    records = [sqs_record(cloudevent(event), at) for at, event in enumerate(events)]
    answer = consumer.lambda_handler({"Records": records})
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_an_event_has_a_span_in_the_trace_of_its_commit() -> None:
    """Its parent is what the event carries, and it is linked to it; it is the active span of the function."""
    kept = Kept()
    seen: list[Any] = []
    consumed(kept.tracing, order(1, attributes=CREATED), function=lambda _: seen.append(get_current_span()))
    span = kept.one("process")
    assert (span.name, span.kind, span.status.status_code) == (
        f"process {QUEUE}", SpanKind.CONSUMER, StatusCode.UNSET
    )  # fmt: skip
    assert (place(span)[0], linked(span), seen[0].get_span_context()) == (TRACE, [(TRACE, SPAN)], span.context)
    assert span.parent is not None
    assert (span.parent.span_id, span.parent.trace_state.to_header()) == (SPAN, "a=1")
    assert attributes(span) == {
        "messaging.system": "aws_sqs",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": QUEUE,
        "messaging.consumer.group.name": "memory",
        "cloudevents.event_id": order(1).id,
        "cloudevents.event_source": "shop.orders",
        "cloudevents.event_type": "order.placed",
        "dynamodb_outbox.outcome": "applied",
    }
    assert not get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("one_trace", [False, True])
def test_an_event_inside_of_an_active_span(one_trace: bool) -> None:
    """That is the parent, and the commit is linked; with one_trace the commit is the parent, and both are linked."""
    kept = Kept(one_trace=one_trace)
    with kept.tracer.start_as_current_span("invocation") as invocation:
        consumed(kept.tracing, order(1, attributes=CREATED))
    span = kept.one("process")
    assert span.parent is not None
    above = (span.parent.trace_id, span.parent.span_id)
    if one_trace:
        assert (above, linked(span)) == ((TRACE, SPAN), [(TRACE, SPAN), place(invocation)])
    else:
        assert (above, linked(span)) == (place(invocation), [(TRACE, SPAN)])


@pytest.mark.parametrize("own", [{}, {"traceparent": "mine"}, {"traceparent": f"00-{'0' * 32}-{SPAN:016x}-01"}])
def test_an_event_without_a_context_has_a_span_of_its_own(own: dict[str, str]) -> None:
    """Which is linked to nothing: there is none, or what it carries is none."""
    kept = Kept(one_trace=True)
    consumed(kept.tracing, order(1, attributes=own))
    span = kept.one("process")
    assert (span.parent, linked(span)) == (None, [])


def raising(error: Exception) -> Callable[[Event], object]:
    """Return a function that raises."""

    def function(_: Event) -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "options", "outcome", "error_type", "back"),
    [
        (Skip("its words"), {}, "skipped", None, 0),
        (Reject("its words"), {"rejected": True}, "rejected", "Reject", 0),
        (RetryLater("its words"), {}, "retry_later", None, 1),
        (ValueError("its words"), {}, "failed", "ValueError", 1),
        (Reject("its words"), {}, "failed", "Reject", 1),
    ],
)
def test_a_span_says_how_it_ended(
    error: Exception, options: dict[str, Any], outcome: str, error_type: str | None, back: int
) -> None:
    """An error has its type, and no word of its text, which may quote the event."""
    kept = Kept()
    sink = {"rejected": Sent()} if options else {}
    assert len(consumed(kept.tracing, order(1, attributes=CREATED), function=raising(error), **sink)) == back
    span = kept.one("process")
    assert attributes(span)["dynamodb_outbox.outcome"] == outcome
    assert str(attributes(span).get("error.type")).rpartition(".")[2] == str(error_type)
    assert (span.status.status_code is StatusCode.ERROR) == (error_type is not None)
    assert [event.name for event in span.events] == (["exception"] if outcome == "failed" else [])
    assert "its words" not in span.to_json()


def test_a_duplicate_is_marked_and_others_are_not_touched() -> None:
    """Of three messages one is a copy, and one fails: three spans, each in the trace of its event."""
    kept = Kept()

    def function(event: Event) -> None:
        if event.id == order(2).id:
            raise ValueError

    events = [order(number, attributes=CREATED) for number in (1, 2, 1)]
    assert len(consumed(kept.tracing, *events, function=function)) == 1
    outcomes = [attributes(span)["dynamodb_outbox.outcome"] for span in kept.spans("process")]
    assert outcomes == ["applied", "failed", "duplicate"]
    assert {place(span)[0] for span in kept.spans("process")} == {TRACE}


def test_a_coroutine_sees_the_span() -> None:
    """It is active inside of the function, also where that is asynchronous."""
    kept = Kept()
    seen: list[Any] = []

    async def function(_: Event) -> None:
        await asyncio.sleep(0)
        seen.append(get_current_span().get_span_context())

    consumed(kept.tracing, order(1, attributes=CREATED), function=function)
    assert seen == [kept.one("process").context]


@pytest.mark.parametrize(
    ("origin", "system"),
    [
        (QUEUE, "aws_sqs"),
        (TOPIC, "aws.sns"),
        (STREAM, "aws.kinesis"),
        (TABLE_STREAM, "aws.dynamodb"),
        ("arn:aws:mq:eu-west-1:1:x", "mq"),
        ("", "aws.eventbridge"),
    ],
)
def test_the_system_is_told_by_the_origin(origin: str, system: str) -> None:
    """What has none comes from a rule, or from a pipe that made it anew."""
    kept = Kept()
    kept.tracing.processing("billing", order(1), origin).end("applied", None)
    span = kept.one("process")
    assert (attributes(span)["messaging.system"], span.name) == (system, f"process {origin}".strip())
    assert attributes(span).get("messaging.destination.name", "") == origin


@pytest.mark.parametrize("tracing", [BrokenTracing(), BrokenTracing(begins=False)])
def test_what_a_tracing_raises_changes_nothing(tracing: BrokenTracing, caplog: pytest.LogCaptureFixture) -> None:
    """What is applied is applied, and what fails goes back with its own error."""
    assert consumed(tracing, order(1), order(2), function=lambda event: {order(1).id: 1}[event.id]) == [
        sqs_record("", 1)["messageId"]
    ]
    assert "KeyError" in caplog.text
    assert "the tracing raised" in caplog.text


def test_what_is_no_tracing_is_refused() -> None:
    """When the inbox is made."""
    no_tracing: Any = object()
    with pytest.raises(ConfigurationError, match="Inbox: tracing is"):
        Inbox("billing", consumer="invoices", tracing=no_tracing)


def test_without_a_provider_nothing_is_carried_and_nothing_breaks() -> None:
    """The API alone: a span is nothing, and an event has no context of it."""
    tracing = OpenTelemetry()
    assert consumed(tracing, order(1, attributes=CREATED)) == []
    span = tracing.committing("shop", [order(1)])
    assert (span.context, tracing.context()) == ({}, {})
    span.end("committed", None)
