"""A sink around a sink, with a span around each publish request: its only place where requests are seen as such.

A request has the events of many commits, so its span is no child of any of them: it is linked to each of their
contexts. Its own context goes nowhere, since events carry that of their commit to the end, as CloudEvents' extension
demands; so its kind is CLIENT, by the conventions.

Requests are sent by the threads of a crew, which have no context of their own. The parent is the span that was active
where the first of the events was prepared: that of the function's invocation, where somebody makes one.

What the tracer raises is logged, and changes nothing: an event is published without a span then.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry import context as contexts
from opentelemetry.trace import Link, SpanKind, set_span_in_context

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Prepared, RequestFailed
from dynamodb_outbox.otel.spans import about, context_of, destined, failed, failed_by
from dynamodb_outbox.sinks import EventBridge, Sns, Sqs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from dynamodb_outbox.core.limits import SinkLimits
    from dynamodb_outbox.core.relay.outcome import Outcome, Verified
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import PreparesAgain, Sink

__all__ = ["traced_sink"]

_log = logging.getLogger(__name__)

_SYSTEMS: tuple[tuple[type, str], ...] = ((EventBridge, "aws.eventbridge"), (Sns, "aws.sns"), (Sqs, "aws_sqs"))


def traced_sink(sink: Sink, tracer: Tracer) -> Sink:
    """Return a sink that has spans; it prepares events again if `sink` does (`ports.PreparesAgain`)."""
    system = next((name for kind, name in _SYSTEMS if isinstance(sink, kind)), type(sink).__name__)
    again = callable(getattr(sink, "prepare_again", None))
    return (_TracedAgain if again else _Traced)(sink, tracer, system)


@dataclass(frozen=True)
class _Entry:
    """An entry of the sink's own, with the context of its event, what a link says of it, and where it was prepared."""

    entry: Any
    trace: Mapping[str, str]
    about: Mapping[str, str]
    around: Context


class _Traced:
    """A sink with spans: `ports.Sink`."""

    def __init__(self, sink: Any, tracer: Tracer, system: str) -> None:
        self._sink = sink
        self._tracer = tracer
        self._system = system

    def __repr__(self) -> str:
        return repr(self._sink)

    @property
    def name(self) -> str:
        return str(self._sink.name)

    @property
    def limits(self) -> SinkLimits:
        limits: SinkLimits = self._sink.limits
        return limits

    @property
    def request_ms(self) -> int:
        return int(self._sink.request_ms)

    def prepare(self, event: Event) -> Prepared | Fault:
        return _with_trace(self._sink.prepare(event), event)

    def verify(self) -> Verified:
        verified: Verified = self._sink.verify()
        return verified

    def publish(self, entries: Sequence[_Entry]) -> Outcome:
        own = [each.entry for each in entries]
        try:
            active = self._begin(entries)
        except Exception:  # noqa: BLE001 -- anybody's tracer
            _log.exception("the tracer raised; a request to %s has no span", self.name)
            found: Outcome = self._sink.publish(own)
            return found
        try:
            outcome: Outcome = self._sink.publish(own)
        except BaseException as error:
            _end(active, error)
            raise
        _end(active, outcome)
        return outcome

    def _begin(self, entries: Sequence[_Entry]) -> tuple[Span, Any]:
        attributes = destined(self._system, "publish", "send", self.name)
        attributes["messaging.batch.message_count"] = len(entries)
        parent = entries[0].around
        created = ((context_of(each.trace), each) for each in entries)
        span = self._tracer.start_span(
            f"publish {self.name}",
            parent,
            SpanKind.CLIENT,
            attributes=attributes,
            links=[Link(context, each.about) for context, each in created if context is not None],
        )
        return span, contexts.attach(set_span_in_context(span, parent))


class _TracedAgain(_Traced):
    """A sink with spans, around one that prepares events again."""

    def prepare_again(self, event: Event, mark: str) -> Prepared | Fault:
        sink: PreparesAgain = self._sink
        return _with_trace(sink.prepare_again(event, mark), event)


def _with_trace(prepared: Prepared | Fault, event: Event) -> Prepared | Fault:
    if not isinstance(prepared, Prepared):
        return prepared
    return Prepared(_Entry(prepared.entry, event.attributes, about(event), contexts.get_current()), prepared.size)


def _end(active: tuple[Span, Any], came_to: Outcome | BaseException) -> None:
    span, token = active
    try:
        contexts.detach(token)
        if isinstance(came_to, BaseException):
            failed_by(span, came_to)
        elif isinstance(came_to, RequestFailed):
            failed(span, came_to.fault.code)
        elif isinstance(came_to, Answered):
            faults = [fault for fault in came_to.results if fault is not None]
            if faults:
                codes = {fault.code for fault in faults}
                said = f"{len(faults)} of {len(came_to.results)} not accepted"
                failed(span, codes.pop() if len(codes) == 1 else "_OTHER", said)
        span.end()
    except Exception:  # noqa: BLE001 -- anybody's tracer
        _log.exception("the tracer raised at the end of a request")
