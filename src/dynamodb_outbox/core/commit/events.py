"""The events of a transaction: made by `emit`, given their keys at the commit, gathered into one record a key."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import mapping, text
from dynamodb_outbox.core.codec.envelope import attribute_fault, cloudevent
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.size import entry_bytes, text_bytes
from dynamodb_outbox.core.commit.keying import checked_key
from dynamodb_outbox.core.commit.numbering import Ties, check_dense
from dynamodb_outbox.core.limits import EVENT_TYPE_LENGTH, EVENTBRIDGE
from dynamodb_outbox.core.record.encode import RecordDraft
from dynamodb_outbox.errors import AmbiguousKey, EventTooLarge, InvalidEvent, MissingKey
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.codec.claim import Claim, ClaimRule
    from dynamodb_outbox.core.commit.actions import Action
    from dynamodb_outbox.core.commit.targets import Tables
    from dynamodb_outbox.layout import Layout

__all__ = ["check_event_size", "checked_fields", "claimed", "gather", "lightened", "new_event", "settled"]

_ENVELOPE_BYTES = 256
"""More than an entry has beside its fields: names, punctuation, the time twice."""
_QUOTED_BYTES = 6
"""The most that one character takes in JSON text and UTF-8: a control character, written as an escape."""
_REFERENCE_BYTES = 512
"""About what a reference takes in a record. Less data than that is not worth an object."""


def new_event(
    type: str,  # noqa: A002 -- the public name of the argument
    data: Any,
    *,
    id: str,  # noqa: A002 -- CloudEvents' own word
    source: str,
    time: object,
    key: str | None,
    subject: str | None,
    attributes: Mapping[str, str] | None,
    layout: Layout,
) -> Event:
    """Return the event with its data fixed as text. Raises InvalidEvent, and InvalidValue with the path in the data."""
    fields = checked_fields(type=type, time=time, key=key, subject=subject, attributes=attributes, layout=layout)
    return Event(id=id, source=source, payload=dump_payload(data), **fields)


def checked_fields(
    *,
    type: object,  # noqa: A002 -- the public name of the argument
    time: object,
    key: object,
    subject: object,
    attributes: object,
    layout: Layout,
) -> dict[str, Any]:
    """Return the fields of an event that its maker chooses, checked. Raises InvalidEvent."""
    return {
        "type": _type(type),
        "time": _utc(time),
        "key": None if key is None else checked_key(key, layout, partial(InvalidEvent, "key")),
        "subject": None if subject is None else _text("subject", subject),
        "attributes": _attributes(attributes),
    }


def settled(events: Sequence[Event], actions: Sequence[Action], tables: Tables) -> tuple[Event, ...]:
    """Return the events as they will be published: each with its key, and with its sequence where it has one.

    An event without a key of its own gets the one partition that the actions write. Raises AmbiguousKey when there are
    several, MissingKey when there is none, InvalidEvent when it cannot be that of a record, InvalidAction for a version
    without an event under dense_versions.
    """
    layout = tables.layout
    partitions = list(dict.fromkeys(action.target.pk for action in actions if action.writes))
    ties = Ties(actions if layout.version is not None else (), tables.default)
    done = tuple(_settled(event, _key_of(event, partitions, layout), ties) for event in events)
    if layout.dense_versions:
        check_dense(actions, ties)
    return done


def _key_of(event: Event, partitions: Sequence[str], layout: Layout) -> str:
    if event.key is not None:
        return event.key
    if len(partitions) == 1:
        return checked_key(partitions[0], layout, _unfit_partition)
    if partitions:
        raise AmbiguousKey(event.type, partitions)
    raise MissingKey(event.type)


def _settled(event: Event, key: str, ties: Ties) -> Event:
    subject, sequence = ties.next(key) or (event.subject, event.sequence)
    return Event(
        id=event.id,
        type=event.type,
        source=event.source,
        payload=event.payload,
        time=event.time,
        key=key,
        subject=subject if event.subject is None else event.subject,
        sequence=sequence,
        attributes=event.attributes,
    )


def gather(events: Sequence[Event], ids: Sequence[str]) -> list[RecordDraft]:
    """Return one record a key, keys in the order of their first event, events in the order of emit.

    A record of one event has that event's id; each of the others takes one of `ids`.
    """
    by_key: dict[str, list[Event]] = {}
    for event in events:
        by_key.setdefault(event.key or "", []).append(event)
    fresh = iter(ids)
    return [
        RecordDraft(own[0].id if len(own) == 1 else next(fresh), key, tuple(own), index, len(by_key))
        for index, (key, own) in enumerate(by_key.items())
    ]


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


def _type(value: object) -> str:
    kind = _text("type", value)
    if len(kind) > EVENT_TYPE_LENGTH:
        raise InvalidEvent("type", f"has {len(kind)} characters; EventBridge takes {EVENT_TYPE_LENGTH} at most.")
    return kind


def _text(field: str, value: object) -> str:
    return text(value, partial(InvalidEvent, field))


def _unfit_partition(reason: str) -> InvalidEvent:
    return InvalidEvent("key", f"would be the partition that is written, which {reason} Pass emit(..., key=...).")


def _utc(time: object) -> datetime:
    if type(time) is datetime and time.tzinfo is timezone.utc:
        return time
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidEvent("time", f"is {time!r}; a datetime with a time zone is needed: datetime.now(timezone.utc).")
    try:
        utc = time.astimezone(timezone.utc)
    except OverflowError:
        raise InvalidEvent("time", f"is {time!r}, which in UTC is outside the years 1 to 9999.") from None
    if type(utc) is datetime:
        return utc
    # A subclass may write itself in another way, with more digits.
    return datetime(
        utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=timezone.utc
    )


def _attributes(attributes: object) -> dict[str, str]:
    checked = {}
    for name, value in mapping(attributes, partial(InvalidEvent, "attributes")).items():
        if (fault := attribute_fault(name, value)) is not None:
            raise InvalidEvent("attributes", fault)
        checked[str.__str__(name)] = _text(f"attributes[{name!r}]", value)
    return checked
