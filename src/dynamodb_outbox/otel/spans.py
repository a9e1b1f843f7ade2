"""What all spans have in common: names, the contexts of events, and how a span ends.

Names are those of the semantic conventions 1.44 for messaging and for CloudEvents, which are in development; of what is
not in there the names begin with `dynamodb_outbox.`. They are written out, since the package that has them is a beta.

Of an event a span has `id`, `source` and `type`, as the conventions say, and nothing of its data, its key and its
subject. Of an error it has the type alone: the text of a function's own error may quote what it was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context

    from dynamodb_outbox.event import Event

__all__ = ["OUTCOME", "about", "context_of", "destined", "failed", "failed_by", "injected", "within"]

OUTCOME = "dynamodb_outbox.outcome"
_W3C = TraceContextTextMapPropagator()
"""Whatever is propagated elsewhere in the process: CloudEvents' extension is W3C Trace Context."""
_NOBODY = set_span_in_context(INVALID_SPAN)


def destined(system: str, operation: str, kind: str, destination: str) -> dict[str, str | int]:
    """Return the attributes of a span: the operation's name and type, and where it goes, empty where that is unsaid."""
    attributes: dict[str, str | int] = {
        "messaging.system": system,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }
    if destination:
        attributes["messaging.destination.name"] = destination
    return attributes


def about(event: Event) -> dict[str, str]:
    """Return the attributes of a span, or a link, of one event."""
    return {
        "cloudevents.event_id": event.id,
        "cloudevents.event_source": event.source,
        "cloudevents.event_type": event.type,
    }


def context_of(attributes: Mapping[str, str]) -> SpanContext | None:
    """Return the trace context that an event has, None where it has none."""
    if "traceparent" not in attributes:
        return None
    found = get_current_span(_W3C.extract(attributes, _NOBODY)).get_span_context()
    return found if found.is_valid else None


def within(context: SpanContext) -> Context:
    """Return the caller's context, with the span of `context` in place of its own."""
    return set_span_in_context(NonRecordingSpan(context))


def injected(context: Context | None = None) -> Mapping[str, str]:
    """Return the attributes of events that come from a context, the caller's when none is given."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return carrier


def failed(span: Span, code: str, said: str | None = None) -> None:
    """Let a span say that it failed."""
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, said))


def failed_by(span: Span, error: BaseException) -> None:
    """Let a span say that an error ended it."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    span.add_event("exception", {"exception.type": name})
    failed(span, name)
