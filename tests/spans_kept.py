"""Spans that tests look at: a tracer provider that keeps those that have ended, and tracings that break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dynamodb_outbox.otel import OpenTelemetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext


class Kept:
    """A tracing, and the spans that have ended."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = OpenTelemetry(self.provider, **options)
        self.tracer = self.provider.get_tracer("test")

    def spans(self, operation: str) -> list[ReadableSpan]:
        """Return the spans of an operation ("commit", "publish", "process"), in the order in which they ended."""
        ended = self._exporter.get_finished_spans()
        return [span for span in ended if attributes(span).get("messaging.operation.name") == operation]

    def one(self, operation: str) -> ReadableSpan:
        """Return the only span of an operation."""
        (span,) = self.spans(operation)
        return span


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


def context(span: Any) -> SpanContext:
    """Return a span's context."""
    found: SpanContext = span.get_span_context()
    return found


def traceparent(span: Any) -> str:
    """Return the `traceparent` of what comes from a span."""
    of = context(span)
    return f"00-{of.trace_id:032x}-{of.span_id:016x}-{of.trace_flags:02x}"


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    """Return the trace and the span of each link."""
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def place(span: Any) -> tuple[int, int]:
    """Return a span's trace and its own id, as links have them."""
    return context(span).trace_id, context(span).span_id


class BrokenSpan:
    """A span of which nothing works."""

    @property
    def context(self) -> Mapping[str, str]:
        """Raise."""
        raise RuntimeError("context")

    def end(self, *_: object) -> None:
        """Raise."""
        raise RuntimeError("end")


class BrokenTracing:
    """A tracing that raises where it is called, or gives spans that do; `said` is its context, raised if an error."""

    def __init__(self, *, begins: bool = True, said: Any = None) -> None:
        self.begins = begins
        self.said = RuntimeError("context") if said is None else said

    def context(self) -> Any:
        """Give what it was told to, or raise."""
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def committing(self, *_: object) -> BrokenSpan:
        """Begin, or raise."""
        if not self.begins:
            raise RuntimeError("begin")
        return BrokenSpan()

    processing = committing
