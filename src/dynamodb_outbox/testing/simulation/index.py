"""The sparse index of pending and parked records, in virtual time: it follows its table at a distance.

Each change of a record comes to the index a while after it was made, those of one record in their order, those of
several in any. So it names records that have been settled by now, and not yet those that were just written. What it has
of a record are its keys, and what the library's infrastructure projects into it.
"""

from __future__ import annotations

from decimal import Decimal
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.facts import RecordKey
    from dynamodb_outbox.testing.simulation.kernel import Kernel
    from dynamodb_outbox.testing.simulation.table import Table

__all__ = ["Index", "Rank"]

Rank = tuple[Decimal, str, str]
"""Where an entry is in its partition of the index: its date, and the keys that it has in the table."""


class Index:
    """The index of `table` whose entries come up to `lag_ms` after the changes that they tell of."""

    def __init__(self, kernel: Kernel, table: Table, chance: Chance, lag_ms: int) -> None:
        self._kernel = kernel
        self._layout = table.layout
        self._chance = chance.of("index")
        self._lag_ms = lag_ms
        self._entries: dict[RecordKey, WireItem] = {}
        self._coming: list[tuple[int, int, RecordKey, WireItem | None]] = []
        self._last: dict[RecordKey, tuple[WireItem | None, int]] = {}
        """What the index will have of a record, and when."""
        self._changes = 0
        table.watch(self._changed)

    def partition(self, name: str) -> list[tuple[Rank, WireItem]]:
        """Return what a partition has now, in order."""
        self._catch_up()
        found = [
            (self.rank(entry), entry) for entry in self._entries.values() if entry[schema.PENDING_INDEX] == {"S": name}
        ]
        found.sort(key=_rank)
        return found

    def rank(self, entry: Mapping[str, Mapping[str, str]]) -> Rank:
        """Return where an entry is in its partition, from it or from where a page ended."""
        at = entry[self._layout.column(schema.AT)]["N"]
        return Decimal(at), entry[self._layout.pk]["S"], entry[str(self._layout.sk)]["S"]

    def _changed(self, key: RecordKey, item: WireItem | None) -> None:
        entry = None if item is None else self._entry(item)
        before, due_ms = self._last.get(key, (None, 0))
        if entry == before:
            return
        self._changes += 1
        lag_ms = self._chance.whole(0, self._lag_ms, *key, self._kernel.now_ms)
        due_ms = max(due_ms, self._kernel.now_ms + lag_ms)
        self._last[key] = entry, due_ms
        heappush(self._coming, (due_ms, self._changes, key, entry))

    def _entry(self, item: WireItem) -> WireItem | None:
        """Return what the index has of an item; None of one without both of its keys."""
        layout = self._layout
        at = layout.column(schema.AT)
        if schema.PENDING_INDEX not in item or "N" not in item.get(at, {}):
            return None
        names = (
            layout.pk,
            str(layout.sk),
            schema.PENDING_INDEX,
            at,
            layout.column(schema.ID),
            layout.column(schema.KEY),
        )
        return {name: item[name] for name in names if name in item}

    def _catch_up(self) -> None:
        now_ms = self._kernel.now_ms
        while self._coming and self._coming[0][0] <= now_ms:
            _, _, key, entry = heappop(self._coming)
            if entry is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = entry


def _rank(found: tuple[Rank, WireItem]) -> Rank:
    return found[0]
