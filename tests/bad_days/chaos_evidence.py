"""What a day of chaos has left, read for its account: the table, the stream, the journals."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from chaos_account import Evidence, Gap, Line, Stored
from chaos_orders import META
from chaos_writer import SOURCE, entries
from days import SOURCE_LOG, TABLE

from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.commit.fingerprint import guard_hash
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.guards import guard_content
from dynamodb_outbox.core.record.leases import lease_of
from dynamodb_outbox.core.record.pending import shards_of, tally
from dynamodb_outbox.core.record.place import guard_partition, is_record
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.errors import OutboxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from chaos_crew import Crew
    from chaos_gate import Retention
    from chaos_plan import Plan

    from dynamodb_outbox import Layout

__all__ = ["evidence", "pending"]


def evidence(
    tables: Any, plan: Plan, accepted: Iterable[str], *, crew: Crew, retention: Retention, directory: Path
) -> Evidence:
    """Read what is left."""
    layout, wanted = plan.layout, [command for share in plan.commands() for command in share]
    lines: dict[str, Line] = {}
    versions: dict[str, int] = {}
    found: dict[str, tuple[str, ...]] = {}
    stored: list[Stored] = []
    strange: list[str] = []
    for item in _scan(tables):
        value = deserialize_item(item)
        if is_record(item, layout):
            stored.append(_stored(item, layout))
        elif "events" in value:
            lines[value["command"]] = Line(value["pk"], int(value["after"]), tuple(value["events"]))
        elif value["sk"] == META:
            if "version" in value:
                versions[value["pk"]] = int(value["version"])
        elif (guard := guard_content(item)) is not None:
            found[value["pk"]] = guard.event_ids
        elif lease_of(item) is None:
            strange.append(str(item))
    retention.read()
    guards = {one.name: found.get(guard_partition(layout, guard_hash(SOURCE, one.name)), ()) for one in wanted}
    if len(found) != len(lines):
        strange.append(f"{len(found)} guards of {len(lines)} commands")
    return Evidence(
        commands=wanted,
        lines=lines,
        guards=guards,
        versions=versions,
        receipts=_receipts(crew, directory),
        accepted=tuple(accepted),
        stored=stored,
        pending=pending(tables, layout),
        strange=strange,
        places=dict(_places(retention, layout)),
        gaps=_ended(crew.gaps, directory),
        died=[
            *crew.died,
            *(f"{name}'s gate: {defect!r}" for name, gate in crew.gates.items() for defect in gate.defects),
        ],
    )


def pending(tables: Any, layout: Layout) -> int:
    """Return how many records the index has that are neither published nor parked."""
    return sum(int(tables.query(**tally(TABLE, shard, layout))["Count"]) for shard in shards_of(layout))


def _receipts(crew: Crew, directory: Path) -> dict[str, list[tuple[str, ...]]]:
    receipts: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in (entry for name in crew.writers for entry in entries(directory / f"{name}.jsonl")):
        if "committed" in entry:
            receipts[entry["committed"]].append(tuple(entry["events"]))
    return receipts


def _scan(tables: Any) -> Iterator[Any]:
    for page in tables.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True):
        yield from page["Items"]


def _stored(item: Any, layout: Layout) -> Stored:
    try:
        return Stored(tuple(event.id for event in decode(item, layout, source=SOURCE).events), state_of(item, layout))
    except OutboxError as error:
        return Stored((), f"a ghost: {error}")


def _places(retention: Retention, layout: Layout) -> Iterator[tuple[str, tuple[str, int]]]:
    for shard, record in retention.records:
        change = record["dynamodb"]
        if record["eventName"] == "INSERT" and is_record(change["NewImage"], layout):
            for event in decode(change["NewImage"], layout, source=SOURCE).events:
                yield event.id, (shard, int(change["SequenceNumber"]))


def _ended(gaps: Iterable[Gap], directory: Path) -> list[Gap]:
    """Return gaps with their ends: where the first batch after them begins, for those that have none."""
    log = [json.loads(line) for line in (directory / SOURCE_LOG).read_text().splitlines()]
    began = [(entry["at_ms"], entry["shard"], int(entry["start"])) for entry in log if entry["event"] == "invoking"]
    ended = []
    for gap in gaps:
        after = (start for at, shard, start in began if at >= (gap.since_ms or 0) and shard == gap.shard)
        ended.append(gap if gap.until is not None else _until(gap, next(after, None)))
    return ended


def _until(gap: Gap, start: int | None) -> Gap:
    """Return a gap that ends before the number `start`."""
    return gap._replace(until=None if start is None else start - 1)
