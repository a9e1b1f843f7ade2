"""The events of a transaction: made by `emit`, given their keys at the commit, gathered into one record a key."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import mapping, text
from dynamodb_outbox.core.codec.envelope import attribute_fault, cloudevent
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.size import text_bytes
from dynamodb_outbox.core.limits import EVENT_TYPE_LENGTH, PARTITION_KEY_BYTES
from dynamodb_outbox.core.record.encode import RecordDraft
from dynamodb_outbox.errors import AmbiguousKey, EventTooLarge, InvalidEvent, MissingKey
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.layout import Layout

__all__ = ["check_event_size", "gather", "new_event", "with_keys"]


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
    kind = _text("type", type)
    if len(kind) > EVENT_TYPE_LENGTH:
        raise InvalidEvent("type", f"has {len(kind)} characters; EventBridge takes {EVENT_TYPE_LENGTH} at most.")
    return Event(
        id=id,
        type=kind,
        source=source,
        payload=dump_payload(data),
        time=_utc(time),
        key=None if key is None else _key(key, layout),
        subject=None if subject is None else _text("subject", subject),
        attributes=_attributes(attributes),
    )


def with_keys(events: Sequence[Event], partitions: Sequence[str]) -> tuple[Event, ...]:
    """Return the events with every key resolved; `partitions` are those that the transaction writes, each once.

    An event without a key of its own gets the one partition written. Raises AmbiguousKey when there are several,
    MissingKey when there is none.
    """
    resolved = []
    for event in events:
        if event.key is not None:
            resolved.append(event)
        elif len(partitions) == 1:
            resolved.append(replace(event, key=partitions[0]))
        elif partitions:
            raise AmbiguousKey(event.type, partitions)
        else:
            raise MissingKey(event.type)
    return tuple(resolved)


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


def check_event_size(event: Event, limit: int) -> None:
    """Raise EventTooLarge when the published form of the event, a CloudEvents envelope, has more than `limit` bytes."""
    size = text_bytes(cloudevent(event))
    if size > limit:
        advice = (
            "Publish a reference to the content instead of the content, or raise max_event_bytes if the bus takes it."
        )
        raise EventTooLarge(f"event {event.type!r} ({event.id})", size, limit, "bytes", advice)


def _text(field: str, value: object) -> str:
    return text(value, partial(InvalidEvent, field))


def _key(key: object, layout: Layout) -> str:
    checked = text(key, partial(InvalidEvent, "key"), most_bytes=PARTITION_KEY_BYTES)
    for prefix in (layout.guard_prefix, layout.inbox_prefix):
        if checked.startswith(prefix):
            raise InvalidEvent("key", f"starts with {prefix!r}, which belongs to the library's own items.")
    return checked


def _utc(time: object) -> datetime:
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
