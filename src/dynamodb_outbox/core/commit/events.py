"""The events of a transaction: made by `emit`, given their keys at the commit, gathered into one record a key."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import mapping, shown, text
from dynamodb_outbox.core.codec.envelope import attribute_fault
from dynamodb_outbox.core.codec.maps import to_map
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.commit.keying import checked_key
from dynamodb_outbox.core.commit.numbering import Ties, check_dense
from dynamodb_outbox.core.limits import EVENT_TYPE_LENGTH
from dynamodb_outbox.core.record.encode import RecordDraft
from dynamodb_outbox.errors import AmbiguousKey, InvalidEvent, MissingKey
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.commit.actions import Action
    from dynamodb_outbox.core.commit.targets import Tables
    from dynamodb_outbox.keys import KeyType
    from dynamodb_outbox.layout import Layout

__all__ = ["check_storable", "checked_fields", "gather", "new_event", "settled"]


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
    payload = dump_payload(data)
    check_storable(payload, layout)
    return Event(id=id, source=source, payload=payload, **fields)


def check_storable(payload: str, layout: Layout) -> None:
    """Refuse data that a map cannot hold, where the layout stores payloads as maps: whether this one will be or not.

    An event that has a record for itself is stored as a map, several of a key are text, and large data is elsewhere.
    Which it is shows at the commit alone, so one rule holds for all. Raises InvalidEvent, InvalidValue with the path.
    """
    if layout.payload_format == "map":
        to_map(payload)


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

    An event without a key of its own gets the one partition that the actions write; partitions of different types are
    two, even with one text. Raises AmbiguousKey when there are several, MissingKey when there is none, InvalidEvent
    when it cannot be that of a record, InvalidAction for a version without an event under dense_versions.
    """
    layout = tables.layout
    partitions = list(dict.fromkeys(action.target.partition for action in actions if action.writes))
    ties = Ties(actions if layout.version is not None else (), tables.default)
    done = tuple(_settled(event, _key_of(event, partitions, layout), ties) for event in events)
    if layout.dense_versions:
        check_dense(actions, ties)
    return done


def _key_of(event: Event, partitions: Sequence[tuple[str, KeyType]], layout: Layout) -> str:
    if event.key is not None:
        return event.key
    if len(partitions) == 1:
        return checked_key(partitions[0][0], layout, _unfit_partition)
    if partitions:
        raise AmbiguousKey(event.type, [text for text, _ in partitions], [kind for _, kind in partitions])
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
        raise InvalidEvent(
            "time", f"is {shown(time)}; a datetime with a time zone is needed: datetime.now(timezone.utc)."
        )
    try:
        utc = time.astimezone(timezone.utc)
    except OverflowError:
        raise InvalidEvent("time", f"is {shown(time)}, which in UTC is outside the years 1 to 9999.") from None
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
        checked[str.__str__(name)] = _text(f"attributes[{shown(name)}]", value)
    return checked
