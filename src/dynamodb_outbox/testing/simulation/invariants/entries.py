"""P3: all publications of an event are one entry, and that says what was committed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import parse_rfc3339
from dynamodb_outbox.testing.simulation.facts import Accepted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.history import Found, History

__all__ = ["entries_carry_their_event", "one_id_one_entry"]

_OF_CLOUDEVENTS = "specversion"
"""The attribute by which a Detail is known as a CloudEvent."""


def one_id_one_entry(of: History) -> Iterator[Found]:
    """P3. Every publication of one event says the same: the id it was committed with, and the same content."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for index, fact in of.each(Accepted):
        entry, at = first.setdefault((fact.destination, fact.event_id), (fact.entry, index))
        if entry != fact.entry:
            yield f"{of.name(fact.event_id)} was published in two forms", (at, index)


def entries_carry_their_event(of: History) -> Iterator[Found]:
    """P3. What a bus accepted says of its event what was committed: type and source, the data, all of the envelope."""
    for (destination, event_id), index in of.accepted.items():
        fact, one = of.facts[index], of.born.get(event_id)
        if one is None or one.event is None or not isinstance(fact, Accepted):
            continue
        if (wrong := _wrong_in(json.loads(fact.entry), one.event)) is not None:
            yield f"{destination} accepted {one.name} with {wrong} than it was given", (one.index, index)


def _wrong_in(entry: Mapping[str, Any], event: Event) -> str | None:
    """Say what of an entry is not its event's."""
    detail = json.loads(entry["Detail"])
    if detail.get("data", detail) != json.loads(event.payload):
        return "other data"
    said = {"DetailType": event.type, "Source": event.source}
    for name, value in said.items():
        if entry.get(name) != value:
            return f"another {name}"
    if "Time" in entry and not _is_time(entry["Time"], event.time):
        return "another Time"
    return _wrong_in_envelope(detail, event) if _OF_CLOUDEVENTS in detail else None


def _wrong_in_envelope(detail: Mapping[str, Any], event: Event) -> str | None:
    attributes = {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "partitionkey": event.key,
        "subject": event.subject,
        "sequence": event.sequence,
        **event.attributes,
    }
    for name, value in attributes.items():
        if detail.get(name) != value:
            return f"another {name}"
    return None if _is_time(detail.get("time"), event.time) else "another time"


def _is_time(said: object, time: datetime) -> bool:
    """Whether a text is a time: as an envelope has it, or as the ledger shows one."""
    text = str(said)
    try:
        return (parse_rfc3339(text) if "T" in text else datetime.fromisoformat(text)) == time
    except (TypeError, ValueError):
        return False
