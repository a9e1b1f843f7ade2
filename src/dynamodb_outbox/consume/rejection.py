"""Where events go that can never be applied: a sink, in which an operator or another consumer finds them.

An event is published there as it came, with its id, and with two extension attributes: `rejectedby`, the consumer's
name, and `rejectreason`. It is acknowledged only after the sink has accepted it, so it may arrive there twice, and is
never lost in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.relay.outcome import Fault, Kind, RequestFailed
from dynamodb_outbox.errors import ConfigurationError, RejectionUnpublished
from dynamodb_outbox.ports import lacks

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Sink

__all__ = ["checked_sink", "publish_rejected"]

_NO_RESULT = Fault(Kind.UNKNOWN, "NoResult", "the answer has no result for it")


def checked_sink(given: object) -> None:
    """Raise ConfigurationError for what is no sink."""
    missing = lacks(given)
    if missing:
        raise ConfigurationError(
            f"Inbox: rejected is {shown(given)}; a sink, such as Sqs(url), is needed. It lacks {', '.join(missing)}."
        )


def publish_rejected(sink: Sink, event: Event, consumer: str, reason: str) -> None:
    """Publish an event that a consumer rejected. Raises RejectionUnpublished unless the sink has accepted it."""
    attributes = {**event.attributes, "rejectedby": consumer}
    if reason:
        attributes["rejectreason"] = reason
    fault = _published(sink, replace(event, attributes=attributes))
    if fault is not None:
        raise RejectionUnpublished(sink.name, str(fault), retryable=fault.kind in {Kind.TRANSIENT, Kind.UNKNOWN})


def _published(sink: Sink, event: Event) -> Fault | None:
    prepared = sink.prepare(event)
    if isinstance(prepared, Fault):
        return prepared
    outcome = sink.publish([prepared.entry])
    if isinstance(outcome, RequestFailed):
        return outcome.fault
    return outcome.results[0] if len(outcome.results) == 1 else _NO_RESULT
