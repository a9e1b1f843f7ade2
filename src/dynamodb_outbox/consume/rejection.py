"""Where events go that can never be applied: a sink, in which an operator or another consumer finds them.

An event is published there as it came, with its id, and with two extension attributes: `rejectedby`, the consumer's
name, and `rejectreason`. It is acknowledged only after the sink has accepted it, so it may arrive there twice, and is
never lost in between.

What cannot be published there comes back for ever, and holds the stream that it came by. So nothing that is added may
be in the way: the reason is made text that any sink takes, and where the event fits without the attributes alone, they
are left out. An extension attribute of another maker that no CloudEvent can have is left out, too. The log names what
was.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.codec.envelope import attribute_fault
from dynamodb_outbox.core.relay.outcome import Fault, Kind, RequestFailed
from dynamodb_outbox.errors import RejectionUnpublished
from dynamodb_outbox.ports import lacks

if TYPE_CHECKING:
    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.errors import Reject, Skip
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Sink

__all__ = ["checked_sink", "publish_rejected", "reason_of"]

_log = logging.getLogger(__name__)

_REASON_LENGTH = 1_000
"""Characters, with those that tell of a cut: enough for any sentence, and nothing that an entry's size depends on."""
_CUT = "..."
_NO_RESULT = Fault(Kind.UNKNOWN, "NoResult", "the answer has no result for it")


def checked_sink(given: object, refuse: Refusal) -> None:
    """Raise what `refuse` makes, for what is no sink."""
    missing = lacks(given)
    if missing:
        raise refuse(f"is {shown(given)}; a sink, such as Sqs(url), is needed. It lacks {', '.join(missing)}.")


def reason_of(verdict: Skip | Reject) -> str:
    """Return the reason that a function gave as text that has a form in UTF-8, cut where it is long.

    A function may have given what is no text, an exception above all.
    """
    given = getattr(verdict, "reason", verdict)  # a class of the user's may have none
    try:
        said = "" if given is None else str(given)
    except Exception:  # noqa: BLE001 - the caller's own code: that there is no text must not be in the event's way
        said = f"a {type(given).__name__}"
    said = said.encode("utf-8", "replace").decode("utf-8")
    return said if len(said) <= _REASON_LENGTH else said[: _REASON_LENGTH - len(_CUT)] + _CUT


def publish_rejected(sink: Sink, event: Event, consumer: str, reason: str) -> None:
    """Publish an event that a consumer rejected. Raises RejectionUnpublished unless the sink has accepted it."""
    own = {name: value for name, value in event.attributes.items() if attribute_fault(name, value) is None}
    by = {**own, "rejectedby": consumer}
    tries = ({**by, "rejectreason": reason}, by, own) if reason else (by, own)
    fault: Fault | None = None
    for attributes in tries:
        fault = _published(sink, replace(event, attributes=attributes))
        if fault is None:
            left_out = sorted({*event.attributes, *tries[0]} - {*attributes})
            if left_out:
                _log.warning("%s: event %s is rejected without %s", consumer, event.id, ", ".join(map(shown, left_out)))
            return
        if fault.kind is not Kind.CONTENT:
            break
    retryable = fault is not None and fault.kind in {Kind.TRANSIENT, Kind.UNKNOWN}
    raise RejectionUnpublished(sink.name, str(fault), retryable=retryable)


def _published(sink: Sink, event: Event) -> Fault | None:
    prepared = sink.prepare(event)
    if isinstance(prepared, Fault):
        return prepared
    outcome = sink.publish([prepared.entry])
    if isinstance(outcome, RequestFailed):
        return outcome.fault
    return outcome.results[0] if len(outcome.results) == 1 else _NO_RESULT
