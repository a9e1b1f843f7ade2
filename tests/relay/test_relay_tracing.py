"""Publish requests that are followed: a span for each, linked to the contexts of its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from relay_shell import CONTENT, TRANSIENT, Bus, Table, failures, relay, row

from dynamodb_outbox import Relay
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.otel import OpenTelemetry
from dynamodb_outbox.sinks import EventBridge, Router, Sns, Sqs
from spans_kept import Kept, attributes, linked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.outcome import Outcome
    from dynamodb_outbox.event import Event

LAYOUT = Layout(columns={"attributes": "extras"})
TRACE = 0x0AF7651916CD43DD8448EB211C80319C


def traced_row(number: int, **fields: Any) -> dict[str, Any]:
    """Return the stream record of a row whose event has a context: the span `number`."""
    return row(number, pk=f"ORDER#{number}", extras={"M": {"traceparent": {"S": parent(number)}}}, **fields)


def parent(number: int) -> str:
    """Return the context whose span is `number`."""
    return f"00-{TRACE:032x}-{number:016x}-01"


def relayed(kept: Kept, bus: Any, *records: dict[str, Any]) -> list[str]:
    """Relay records through a sink with spans; return the answer."""
    made = relay(kept.tracing.sink(bus), Table(), layout=LAYOUT)
    return failures(made.lambda_handler({"Records": list(records)}, None))


def test_a_request_is_linked_to_each_of_its_events() -> None:
    """One span, of the kind CLIENT, below the invocation's: three events, of which the third has no context."""
    kept = Kept()
    bus = Bus()
    with kept.tracer.start_as_current_span("invocation") as invocation:
        assert relayed(kept, bus, traced_row(1), traced_row(2), row(3, pk="ORDER#3")) == []
    span = kept.one("publish")
    assert (span.name, span.kind, span.status.status_code) == ("publish orders", SpanKind.CLIENT, StatusCode.UNSET)
    assert span.parent == invocation.get_span_context()
    assert linked(span) == [(TRACE, 1), (TRACE, 2)]
    assert [dict(link.attributes or {}) for link in span.links] == [
        {
            "cloudevents.event_id": event.id,
            "cloudevents.event_source": event.source,
            "cloudevents.event_type": "order.placed",
        }
        for event in bus.accepted[:2]
    ]
    assert attributes(span) == {
        "messaging.system": "Bus",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 3,
    }
    assert [event.attributes.get("traceparent") for event in bus.accepted] == [parent(1), parent(2), None]


def test_what_is_not_accepted_is_an_error_of_its_request() -> None:
    """Its span has the code, the one that all share or none, and how many; each attempt has a span."""
    kept = Kept()
    tries: list[str] = []

    def script(event: Event) -> Fault | None:
        tries.append(event.id)
        fault = CONTENT if event.id.endswith("1") else TRANSIENT
        return fault if len(tries) <= 3 else None

    assert relayed(kept, Bus(script), traced_row(1), traced_row(2), traced_row(3)) == []
    first, second = kept.spans("publish")
    assert (attributes(first)["error.type"], first.status.status_code) == ("_OTHER", StatusCode.ERROR)
    assert first.status.description == "3 of 3 not accepted"
    assert ("error.type" in attributes(second), second.status.status_code) == (False, StatusCode.UNSET)
    assert linked(second) == [(TRACE, 2), (TRACE, 3)]


class Failing(Bus):
    """A bus whose first request fails as a whole, or raises."""

    def __init__(self, came_to: Outcome | Exception) -> None:
        super().__init__()
        self.came_to: Outcome | Exception | None = came_to

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Fail, once."""
        came_to, self.came_to = self.came_to, None
        if isinstance(came_to, Exception):
            raise came_to
        return super().publish(entries) if came_to is None else came_to


@pytest.mark.parametrize(
    ("came_to", "code"),
    [
        (RequestFailed(Fault(Kind.TRANSIENT, "Throttled", "its words")), "Throttled"),
        (ValueError("its words"), "ValueError"),
    ],
)
def test_a_request_that_fails_as_a_whole(came_to: Any, code: str) -> None:
    """Its span has the code or the type, and no words; what comes of it is what comes of it without a span."""
    kept = Kept()
    bus = Failing(came_to)
    assert relayed(kept, bus, traced_row(1)) == []
    first, second = kept.spans("publish")
    assert (attributes(first)["error.type"], first.status.description) == (code, None)
    assert "its words" not in first.to_json()
    assert (second.status.status_code, len(bus.accepted)) == (StatusCode.UNSET, 1)


def test_the_span_is_active_while_its_request_is_sent() -> None:
    """So that spans of an instrumented client are its children; afterwards the thread has none."""
    kept = Kept()
    seen: list[Any] = []

    def script(_: Event) -> None:
        seen.append(get_current_span().get_span_context())

    bus = Bus(script)
    sink = kept.tracing.sink(bus)
    prepared = sink.prepare(an_event())
    assert isinstance(prepared, Prepared)
    sink.publish([prepared.entry])
    assert seen == [kept.one("publish").get_span_context()]
    assert not get_current_span().get_span_context().is_valid


def an_event() -> Event:
    """Return an event that has no context."""
    bus = Bus()
    relay(bus).lambda_handler({"Records": [row(1)]}, None)
    return bus.accepted[0]


class Again(Bus):
    """A sink that prepares events again."""

    def prepare_again(self, event: Event, mark: str) -> Prepared | Fault:
        """Say so."""
        return Prepared((event, mark), 1)


class Refusing(Bus):
    """A sink that can take nothing."""

    def prepare(self, event: Event) -> Fault:  # noqa: ARG002 -- whatever it is
        """Refuse it."""
        return CONTENT


def test_a_sink_with_spans_is_the_sink_that_it_was() -> None:
    """Name, limits, time, words, faults, and preparing again where the sink does that."""
    tracing = Kept().tracing
    bus, event = Again(), an_event()
    sink: Any = tracing.sink(bus)
    assert (sink.name, sink.limits, sink.request_ms, repr(sink)) == (bus.name, bus.limits, bus.request_ms, repr(bus))
    assert sink.verify() is bus.found[0]
    assert (sink.prepare_again(event, "m").entry.entry, sink.prepare_again(event, "m").size) == ((event, "m"), 1)
    assert not hasattr(tracing.sink(Bus()), "prepare_again")
    assert tracing.sink(Refusing()).prepare(event) is CONTENT
    assert Relay(Router({"a": sink}, default=tracing.sink(Bus(name="rest")))).least_timeout_s > 0


@pytest.mark.parametrize(
    ("sink", "system"),
    [
        (EventBridge("orders"), "aws.eventbridge"),
        (Sns("arn:aws:sns:eu-west-1:123456789012:orders"), "aws.sns"),
        (Sqs("arn:aws:sqs:eu-west-1:123456789012:orders"), "aws_sqs"),
    ],
)
def test_the_buses_have_the_names_of_the_conventions(sink: Any, system: str) -> None:
    """By their kind."""
    assert vars(Kept().tracing.sink(sink))["_system"] == system


class Raising:
    """A provider, a tracer and a span, one of which raises."""

    def __init__(self, where: str) -> None:
        self.where = where

    def get_tracer(self, *_: object, **__: object) -> Raising:
        """Return the tracer."""
        return self

    def start_span(self, *_: object, **__: object) -> Raising:
        """Return the span, or raise."""
        return self._or_raise("start")

    def end(self) -> None:
        """End, or raise."""
        self._or_raise("end")

    def get_span_context(self) -> Any:
        """Return the context of nothing."""
        return get_current_span().get_span_context()

    def _or_raise(self, what: str) -> Raising:
        if what == self.where:
            raise RuntimeError(what)
        return self


@pytest.mark.parametrize("where", ["start", "end"])
def test_what_a_tracer_raises_changes_nothing(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """Everything is published, and the log has it."""
    provider: Any = Raising(where)
    bus = Bus()
    made = relay(OpenTelemetry(provider).sink(bus), Table())
    assert failures(made.lambda_handler({"Records": [row(1)]}, None)) == []
    assert len(bus.accepted) == 1
    assert "the tracer raised" in caplog.text
    assert not get_current_span().get_span_context().is_valid


def test_what_cannot_be_followed_is_refused() -> None:
    """What is no sink, and what is no provider."""
    no_sink: Any = "orders"
    with pytest.raises(ConfigurationError, match=r"OpenTelemetry.sink: 'orders' is no sink: it lacks"):
        OpenTelemetry().sink(no_sink)
    no_provider: Any = object()
    with pytest.raises(ConfigurationError, match="a TracerProvider is needed"):
        OpenTelemetry(no_provider)
    no_flag: Any = "yes"
    with pytest.raises(ConfigurationError, match="one_trace"):
        OpenTelemetry(one_trace=no_flag)
