"""The evidence of a demo, as values: what buses accepted, what was delivered, what the tables hold, what went wrong.

Nothing here is a count that some part of the demo kept of itself. The account is drawn up from these values alone, so
it can be drawn up again from the files of a dump, by this program or by any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.place import carried_id, is_record
from dynamodb_outbox.local.demo.names import LAYOUT

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Lane, Schedule

__all__ = [
    "Acceptance",
    "Change",
    "Evidence",
    "HopEvidence",
    "Item",
    "LaneEvidence",
    "Stored",
    "acceptance",
    "changes",
    "event_id",
    "stored",
]

Item = Mapping[str, Any]
"""An item of a table in plain JSON values."""


@dataclass(frozen=True)
class Acceptance:
    """One acceptance of one event by a bus. `id` and `name` are None when the detail does not have them."""

    at_ms: int
    id: str | None
    name: str | None


@dataclass(frozen=True)
class Change:
    """One event that a row says was committed with it: the `n`-th commit of its key, `place` within that commit."""

    key: str
    name: str
    n: int
    place: int


@dataclass(frozen=True)
class Stored:
    """One event in an outbox record: its id and name, the record's state, when the record was first sent."""

    id: str
    name: str | None
    state: str | None
    at_ms: int


@dataclass(frozen=True)
class LaneEvidence:
    """One lane: what its bus accepted, in order, what its bus did wrong, and the scan of its table."""

    acceptances: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class HopEvidence:
    """The second hop: what its bus accepted and did wrong, what was delivered, and the scan of the ledger."""

    acceptances: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    deliveries: tuple[Mapping[str, Any], ...] = ()
    ledger: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All of it. `deliveries`, `consumer`, `kills` and `verdicts` belong to the outbox's lane.

    second     what became of the events that the consumer emitted in turn
    verdicts   what each caller was told in the end: {request, verdict: "committed" | "rejected" | "unknown"}
    run        what cannot be recounted: {seconds}
    logs       what the relays and the consumers printed, by name; nothing is counted from it
    """

    schedule: Schedule
    lanes: Mapping[Lane, LaneEvidence]
    deliveries: tuple[Mapping[str, Any], ...] = ()
    consumer: tuple[Item, ...] = ()
    kills: tuple[Mapping[str, Any], ...] = ()
    verdicts: tuple[Mapping[str, Any], ...] = ()
    second: HopEvidence = field(default_factory=HopEvidence)
    run: Mapping[str, Any] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)


def acceptance(row: Mapping[str, Any]) -> Acceptance:
    """Return a line of a bus's evidence as an acceptance. The detail is an envelope with `data`, or the data itself."""
    detail = _object(row.get("detail"))
    data = detail.get("data")
    name = (data if isinstance(data, dict) else detail).get("name")
    return Acceptance(int(row["at_ms"]), _text(detail.get("id")), _text(name))


def event_id(delivery: Mapping[str, Any]) -> str | None:
    """Return the id of the event in a delivered message: an EventBridge event with the envelope as its detail."""
    detail = _object(delivery.get("body")).get("detail")
    return _text(detail.get("id")) if isinstance(detail, dict) else None


def changes(items: Iterable[Item]) -> list[Change]:
    """Return every event that the rows of a table say was committed, those of a key in the order of their commits."""
    found = [
        Change(item[LAYOUT.pk], entry["name"], int(entry["n"]), place)
        for item in items
        for place, entry in enumerate(item.get("history", ()))
    ]
    return sorted(found, key=lambda change: (change.key, change.n, change.place))


def stored(items: Iterable[Item]) -> list[Stored]:
    """Return every event in the outbox records of a table, as schema 1 has them: the demo's layout has no `columns`."""
    found: list[Stored] = []
    for item in items:
        keys = {name: {"S": item[name]} for name in LAYOUT.keys.types}
        record_id = carried_id(keys, LAYOUT)
        if record_id is None or not is_record(keys, LAYOUT):
            continue
        if "events" in item:
            events = [(event["id"], event["data"]) for event in json.loads(item["events"])]
        else:
            events = [(record_id, _object(item.get("payload")))]
        for one, data in events:
            found.append(Stored(one, _text(data.get("name")), item.get("state"), int(item.get("at", 0))))
    return found


def _object(text: object) -> Mapping[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
