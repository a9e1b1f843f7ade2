"""Ledgers written by hand: a run in which everything goes well, and places to let something go wrong."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from dynamodb_outbox.event import Event
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Answered,
    Checkpointed,
    Committed,
    Fact,
    Intended,
    Invoked,
    Moved,
    Told,
    Written,
)

if TYPE_CHECKING:
    from dynamodb_outbox.testing.simulation.facts import RecordKey

_TIME = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def event(name: str, key: str = "A", change: str = "", n: int = 0) -> Event:
    """Return an event whose id is its name, the `n`-th of a change; of the change of its name unless given."""
    return Event(name, "order.placed", "shop", json.dumps({"change": change or name, "n": n}), _TIME, key=key)


def record(name: str, key: str = "A") -> RecordKey:
    """Return the record of that name."""
    return key, f"OUTBOX#{name}"


def committed(name: str, *events: str, at_ms: int = 0, key: str = "A") -> list[Fact]:
    """Return the facts of a change with one record: its commit, what its writer was told, and what it had meant."""
    ids = events or (name,)
    carried = tuple(event(one, key, name, n) for n, one in enumerate(ids))
    items = frozenset({(key, "META")})
    return [
        Committed(at_ms, f"tx-{name}", "w", name, ((record(name, key), carried),), items),
        Told(at_ms + 1, "w", name, "committed", 1, ids),
        Intended(at_ms, "w", name, 1, (key,) * len(ids), items),
    ]


def written(name: str, number: str, *, kind: str = "INSERT", at_ms: int = 2, key: str = "A") -> Written:
    """Return a stream record of a record."""
    return Written(at_ms, kind, record(name, key), "shard-1", number, "w")


def invoked(number: int, records: dict[str, str], *, at_ms: int = 10, destination: str = "orders") -> Invoked:
    """Return the start of an invocation; `records` are names by sequence number, all INSERTs."""
    inserted = frozenset(record(name) for name in records.values())
    return Invoked(at_ms, destination, number, "shard-1", 0, "i-1", tuple(records), inserted, at_ms + 10_000)


def accepted(
    name: str, invocation: int = 1, *, at_ms: int = 20, destination: str = "orders", change: str = "", n: int = 0
) -> Accepted:
    """Return an acceptance of the `n`-th event of a change, of that of its name unless given."""
    data = {"change": change or name, "n": n}
    entry = {"Source": "shop", "DetailType": "order.placed", "Detail": json.dumps({"data": data})}
    return Accepted(at_ms, destination, invocation, name, json.dumps(entry))


def good_run() -> list[Fact]:
    """Return a run of two events of one key, relayed one after the other, settled and checkpointed.

    What was meant comes last, where it is in the way of none that count places; it may be noted anywhere.
    """
    *first, first_meant = committed("a1", at_ms=0)
    *second, second_meant = committed("a2", at_ms=5)
    return [
        *first,
        written("a1", "9"),
        *second,
        written("a2", "10", at_ms=7),
        invoked(1, {"9": "a1", "10": "a2"}),
        accepted("a1", at_ms=20),
        accepted("a2", at_ms=30),
        Moved(40, record("a1"), "published", 1),
        Moved(40, record("a2"), "published", 1),
        Answered(50, 1, '{"batchItemFailures": []}', ()),
        Checkpointed(51, "orders", "shard-1", "10"),
        first_meant,
        second_meant,
    ]
