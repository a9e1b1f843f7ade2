"""Events that did not come from `emit`: an `Event` is a plain value, and anyone can make one.

Its payload is spliced into records and envelopes as it is, so it must be exactly one JSON value, by the rule that holds
for the writer's own; the rest is checked as `emit` checks its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import shown, text
from dynamodb_outbox.core.codec.envelope import source_fault
from dynamodb_outbox.core.codec.payload import PAYLOAD_LEVELS
from dynamodb_outbox.core.codec.strict import JsonFault, examine
from dynamodb_outbox.core.commit.events import check_storable, checked_fields
from dynamodb_outbox.core.record.by_hand import is_uuid
from dynamodb_outbox.errors import InvalidEvent, MissingKey
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from dynamodb_outbox.layout import Layout

__all__ = ["checked_events"]


def checked_events(events: object, layout: Layout) -> list[Event]:
    """Return events that did not come from `emit`, each checked as `emit` checks its arguments, payload included.

    Raises InvalidEvent, which names the field at fault, MissingKey, and InvalidValue for a payload that a map cannot
    hold where the layout stores payloads as maps.
    """
    if isinstance(events, (str, bytes, Mapping)) or not isinstance(events, Iterable):
        raise InvalidEvent("events", f"is a value of type {type(events).__name__}; a list of Events is needed.")
    checked = {}
    for event in events:
        one = _checked(event, layout)
        if one.id in checked:
            raise InvalidEvent("id", f"{one.id!r} comes twice; two events have two ids.")
        checked[one.id] = one
    return list(checked.values())


def _checked(event: object, layout: Layout) -> Event:
    if not isinstance(event, Event):
        raise InvalidEvent("events", f"has a value of type {type(event).__name__}; make an Event with outbox.event().")
    fields = checked_fields(
        type=event.type,
        time=event.time,
        key=event.key,
        subject=event.subject,
        attributes=event.attributes,
        layout=layout,
    )
    if event.key is None:
        raise MissingKey(fields["type"], "Make it with outbox.event(..., key=...), or give Event(key=...).")
    if not isinstance(event.id, str) or not is_uuid(event.id) or event.id != event.id.lower():
        raise InvalidEvent("id", f"is {shown(event.id)}; a UUID in its usual form, in lower case, is needed.")
    if (fault := source_fault(event.source)) is not None:
        raise InvalidEvent("source", f"is {shown(event.source)}: {fault}")
    source = text(event.source, partial(InvalidEvent, "source"))
    payload = _payload(event.payload)
    check_storable(payload, layout)
    sequence = None if event.sequence is None else text(event.sequence, partial(InvalidEvent, "sequence"))
    return Event(id=event.id, source=source, payload=payload, sequence=sequence, **fields)


def _payload(payload: object) -> str:
    """Return a payload that is one JSON value by the writer's own rule: it is spliced into the envelope as it is."""
    json_text = text(payload, partial(InvalidEvent, "payload"))
    try:
        shape = examine(json_text)
    except JsonFault as fault:
        raise InvalidEvent("payload", f"is not one JSON value: {fault}.") from None
    if shape.depth > PAYLOAD_LEVELS:
        raise InvalidEvent("payload", f"is nested more than {PAYLOAD_LEVELS} levels deep.")
    if shape.wide_integer_at is not None:
        raise InvalidEvent("payload", f"has an integer outside int64, at character {shape.wide_integer_at:,}.")
    return json_text
