"""Events that are too large: for the bus, or all of a key together for one item.

With a claim check the data of such events is kept outside of the table, and they are stored and published by
reference. Which these are follows from sizes alone, so that a transaction that runs again claims the same. An event's
size is that of its entry, envelope included; it is measured only where a bound that costs nothing does not tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.codec.size import entry_bytes, text_bytes
from dynamodb_outbox.core.limits import EVENTBRIDGE
from dynamodb_outbox.errors import EventTooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.codec.claim import Claim, ClaimRule
    from dynamodb_outbox.event import Event

__all__ = ["check_event_size", "claimed", "lightened"]

_ENVELOPE_BYTES = 256
"""More than an entry has beside its fields: names, punctuation, the time twice."""
_QUOTED_BYTES = 6
"""The most that one character takes in JSON text and UTF-8: a control character, written as an escape."""
_REFERENCE_BYTES = 512
"""About what a reference takes in a record. Less data than that is not worth an object."""


def claimed(events: Sequence[Event], rule: ClaimRule) -> tuple[tuple[Event, ...], tuple[Claim, ...]]:
    """Return the events as they are stored and published, large ones by reference, and the data to keep for these.

    Raises EventTooLarge for data with more bytes than the rule takes.
    """
    done, claims = [], []
    for event in events:
        if _size_over(event, rule.threshold_bytes) is None:
            done.append(event)
            continue
        claim = rule.claim(event)
        if len(claim.content) > rule.max_bytes:
            advice = "Emit less, or raise max_bytes of the claim check, the consumers' too: they hold it in memory."
            raise EventTooLarge(_label(event), len(claim.content), rule.max_bytes, "bytes of data", advice)
        done.append(replace(event, payload="", dataref=claim.reference))
        claims.append(claim)
    return tuple(done), tuple(claims)


def lightened(
    events: Sequence[Event], rule: ClaimRule, excess: int, *, least: int
) -> tuple[tuple[Event, ...], tuple[Claim, ...]]:
    """Return the events with the largest of them by reference, and the data to keep for these.

    As many as take `excess` bytes away, and `least` at least; fewer when no more can be claimed: those whose data is
    larger than a reference, and not larger than the rule takes.
    """
    sizes = {i: text_bytes(event.payload) for i, event in enumerate(events) if event.dataref is None}
    done = list(events)
    claims: list[Claim] = []
    for i in sorted(sizes, key=lambda each: -sizes[each]):
        if (excess <= 0 and len(claims) >= least) or sizes[i] <= _REFERENCE_BYTES:
            break
        if sizes[i] <= rule.max_bytes:
            claim = rule.claim(events[i])
            done[i] = replace(events[i], payload="", dataref=claim.reference)
            claims.append(claim)
            excess -= sizes[i] - _REFERENCE_BYTES
    return tuple(done), tuple(claims)


def check_event_size(event: Event, limit: int) -> None:
    """Raise EventTooLarge when the event has more bytes than `limit`, as EventBridge counts them with an envelope."""
    size = _size_over(event, limit)
    if size is not None:
        advice = (
            "Give the outbox a claim_check=, which keeps the data of large events in S3, or raise max_event_bytes if "
            "the bus takes it."
        )
        raise EventTooLarge(_label(event), size, limit, "bytes", advice)


def _size_over(event: Event, limit: int) -> int | None:
    """Return the size of an event with more bytes than `limit`, None for any other."""
    if _most_bytes(event) <= limit:
        return None
    entry = {"Source": event.source, "DetailType": event.type, "Detail": cloudevent(event)}
    size = entry_bytes(entry, EVENTBRIDGE)
    return size if size > limit else None


def _label(event: Event) -> str:
    return f"event {event.type!r} ({event.id})"


def _most_bytes(event: Event) -> int:
    """Return a bound on the size of an event that costs next to nothing: nearly every event is far below its limit."""
    fields = 2 * len(event.source) + 2 * len(event.type) + len(event.key or "")
    fields += len(event.subject or "") + len(event.sequence or "")
    fields += 0 if event.dataref is None else len(event.dataref.uri) + len(event.dataref.sha256)
    fields += sum(len(name) + len(value) + 1 for name, value in event.attributes.items())
    return _ENVELOPE_BYTES + _QUOTED_BYTES * fields + len(event.id) + text_bytes(event.payload)
