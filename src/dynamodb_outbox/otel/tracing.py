"""Spans around commits and around events in a consumer.

A commit's span has the kind PRODUCER, for its context is what its events carry: the conventions' "creation context". It
is the parent of whatever the commit does, such as the calls of an instrumented botocore.

An event in a consumer has a span of the kind CONSUMER, which is linked to the event's context. It is a child of the
span that is active; where none is, it is a child of the event's context, and so in the trace of the commit. With
`one_trace` it always is, and linked to the active span: what the conventions leave to whoever asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry.trace import Link, SpanKind, get_current_span, get_tracer, set_span_in_context

from dynamodb_outbox._version import __version__
from dynamodb_outbox.arguments import flag, refusal, shown
from dynamodb_outbox.errors import ConfigurationError, RetryLater
from dynamodb_outbox.otel.sink import traced_sink
from dynamodb_outbox.otel.spans import OUTCOME, about, context_of, destined, failed, failed_by, injected, within
from dynamodb_outbox.ports import lacks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Sink

__all__ = ["OpenTelemetry"]

_OURSELVES = "dynamodb_outbox"
_BY_SERVICE = {"sqs": "aws_sqs", "sns": "aws.sns", "kinesis": "aws.kinesis", "dynamodb": "aws.dynamodb"}
_BY_NOBODY = "aws.eventbridge"
"""Of what has no origin: a rule delivers it, or a pipe that made it anew, and both are EventBridge's."""


class OpenTelemetry:
    """Makes spans of commits, publish requests and events in consumers: `ports.Tracing`, and `sink` for relays.

    provider   the TracerProvider; the process's own, set now or later, when none is given
    one_trace  let events in a consumer be in the trace of their commit also where another span is active, such as that
               of the function's invocation, to which they are linked then. Without it, it is the other way round

    Raises ConfigurationError for a provider that is none.
    """

    def __init__(self, provider: TracerProvider | None = None, *, one_trace: bool = False) -> None:
        refuse = refusal("OpenTelemetry", "provider")
        if provider is not None and not callable(getattr(provider, "get_tracer", None)):
            raise refuse(f"is {shown(provider)}; a TracerProvider is needed.")
        self._one_trace = flag(one_trace, refusal("OpenTelemetry", "one_trace"))
        self._tracer = get_tracer(_OURSELVES, __version__, provider)

    def sink(self, sink: Sink) -> Sink:
        """Return a sink that does what `sink` does, with a span around each publish request.

        For a Relay, a Sweeper, and each sink of a Router. Raises ConfigurationError for what is no sink.
        """
        if lacking := lacks(sink):
            raise ConfigurationError(f"OpenTelemetry.sink: {shown(sink)} is no sink: it lacks {', '.join(lacking)}.")
        return traced_sink(sink, self._tracer)

    def context(self) -> Mapping[str, str]:
        """Return the trace context of who is calling, empty where there is none."""
        return injected()

    def committing(self, table: str, events: Sequence[Event]) -> _Active:
        """Begin the span of a commit, linked to the contexts that its events have already."""
        attributes = destined(_OURSELVES, "commit", "send", table)
        attributes["messaging.batch.message_count"] = len(events)
        if len(events) == 1:
            attributes.update(about(events[0]))
        own = ((context_of(event.attributes), event) for event in events)
        span = self._tracer.start_span(
            f"commit {table}",
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            links=[Link(context, about(event)) for context, event in own if context is not None],
        )
        return _Active(span, contexts.get_current())

    def processing(self, consumer: str, event: Event, origin: str) -> _Active:
        """Begin the span of an event in a consumer."""
        service = origin.split(":")[2:3]
        system = _BY_SERVICE.get(service[0], service[0]) if service else _BY_NOBODY
        attributes = destined(system, "process", "process", origin) | about(event)
        attributes["messaging.consumer.group.name"] = consumer
        around, created = get_current_span().get_span_context(), context_of(event.attributes)
        links = [] if created is None else [Link(created)]
        parent = contexts.get_current()
        if created is not None and (self._one_trace or not around.is_valid):
            parent = within(created)
            links += [Link(around)] if around.is_valid else []
        span = self._tracer.start_span(
            f"process {origin}".rstrip(), parent, SpanKind.CONSUMER, attributes=attributes, links=links
        )
        return _Active(span, parent)


class _Active:
    """A span that is the active one until it is ended: `ports.Span`."""

    def __init__(self, span: Span, parent: Context) -> None:
        self._span = span
        self._context = set_span_in_context(span, parent)
        self._token = contexts.attach(self._context)

    @property
    def context(self) -> Mapping[str, str]:
        """The context of what comes from it."""
        return injected(self._context)

    def end(self, outcome: str, error: BaseException | None) -> None:
        """End the span. An event that is to be tried later has not failed."""
        contexts.detach(self._token)
        try:
            if isinstance(error, RetryLater):
                self._span.set_attribute(OUTCOME, "retry_later")
            elif error is not None:
                self._span.set_attribute(OUTCOME, "failed")
                failed_by(self._span, error)
            else:
                self._span.set_attribute(OUTCOME, outcome)
            if outcome == "rejected":
                failed(self._span, "Reject")
        finally:
            self._span.end()
