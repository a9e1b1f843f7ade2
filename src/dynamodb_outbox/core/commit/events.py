"""The events of a transaction: made by `emit`, given their keys at the commit, gathered into one record a key."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
    _check_text("type", type)
    if len(type) > EVENT_TYPE_LENGTH:
        raise InvalidEvent("type", f"has {len(type)} characters; EventBridge takes {EVENT_TYPE_LENGTH} at most.")
    if subject is not None:
        _check_text("subject", subject)
    if key is not None:
        _check_key(key, layout)
    return Event(
        id=id,
        type=type,
        source=source,
        payload=dump_payload(data),
        time=_utc(time),
        key=key,
        subject=subject,
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


def _check_key(key: str, layout: Layout) -> None:
    _check_text("key", key)
    if text_bytes(key) > PARTITION_KEY_BYTES:
        raise InvalidEvent("key", f"has {text_bytes(key)} bytes; a partition key takes {PARTITION_KEY_BYTES} at most.")
    for prefix in (layout.guard_prefix, layout.inbox_prefix):
        if key.startswith(prefix):
            raise InvalidEvent("key", f"starts with {prefix!r}, which belongs to the library's own items.")


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidEvent(field, f"is {value!r}; text that is not empty is needed.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidEvent(field, f"is {value!r}, which has a lone surrogate: no form in UTF-8.")


def _utc(time: object) -> datetime:
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidEvent("time", f"is {time!r}; a datetime with a time zone is needed: datetime.now(timezone.utc).")
    return time.astimezone(timezone.utc)


def _attributes(attributes: Mapping[str, str] | None) -> Mapping[str, str]:
    for name, value in (attributes or {}).items():
        if (fault := attribute_fault(name, value)) is not None:
            raise InvalidEvent("attributes", fault)
        _check_text(f"attributes[{name!r}]", value)
    return MappingProxyType(dict(attributes or {}))
