"""Parking, and its limit: what is refused for good waits here until its record is stored as parked.

Poison never stops a stream for good. What counts against the park limit of a destination is a record that becomes
parked: not a second event of it, and not a record that turns out to be parked already or whose park is turned away (the
table is throttled, say): its unit is given back. A park whose answer was lost keeps its unit, for it may be stored. The
last unit is kept for the lowest record that is not done, because that one holds the checkpoint; whatever the later
records use up, it has its turn in each window. A record that finds no unit left waits for what is under way, and is
held only at the end. So each window moves the checkpoint beyond one poisoned record at least, also when every
invocation is a new process. Events that are parked because their key is (`KEY_PARKED`) take no unit: nothing is wrong
with them, and so nothing with their destination.

A record of several events of which one cannot pass: that one is parked (the record is stored as parked and names it),
the others of the record are published, in order, and so is what follows of the key. The parked record is the only
place where the refused event exists from then on, so the record is never settled. With `park_key` the park names the
refused event and all that follow it in the record, and the key is parked by the same transaction: whoever dies then,
and whoever reads the key next, knows.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import NOWHERE, Park
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.core.relay.states import Cause, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.relay.commands import Entry, ParkDone, Settings
    from dynamodb_outbox.core.relay.progress import Progress

__all__ = ["KEY_PARKED", "ParkQueue"]

KEY_PARKED = Fault(Kind.CONTENT, "KeyParked", "an event before it in its key is parked, and the key with it")


class ParkQueue:
    """`recent` are the times of parks, each with its destination; `stored` the entries that a stored park names."""

    def __init__(
        self, entries: Sequence[Entry], progress: Progress, settings: Settings, recent: Sequence[tuple[int, int]]
    ) -> None:
        self.recent = tuple(recent)
        self.stored: set[int] = set()
        self._entries = entries
        self._progress = progress
        self._settings = settings
        self._waiting: dict[int, list[tuple[bool, int]]] = {}  # destination -> (needs a unit, entry), the next first
        self._refused: dict[int, set[int]] = {}  # record -> entries that cannot pass
        self._under_way: dict[int, frozenset[int]] = {}  # record -> entries that the park names
        self._charged: dict[int, tuple[int, int] | None] = {}  # record -> its unit, None when that is decided
        for number, entry in enumerate(entries):
            if entry.fault is not None and entry.fault.kind is Kind.CONTENT:
                self._refused.setdefault(entry.record, set()).add(number)

    def refuse(self, number: int) -> None:
        """Take an entry that can never pass; `Progress.faults` has the reason."""
        record = self._entries[number].record
        self._refused.setdefault(record, set()).add(number)
        if record not in self._under_way:  # else the end of that park sees to it
            self._wait(number)

    @property
    def is_under_way(self) -> bool:
        """Whether a park is under way, after which more may be published."""
        return bool(self._under_way)

    def under_way(self) -> list[int]:
        """Return the entries that are named by parks under way."""
        return [number for named in self._under_way.values() for number in named]

    def waits_for(self, destination: int) -> bool:
        """Whether an event of a destination waits to be parked."""
        return bool(self._waiting.get(destination))

    # --- commands ---

    def calls(self, now_ms: int, free: int, may_park: Callable[[int], bool]) -> list[Park]:
        """Return the parks to begin, at most `free`, for the destinations that `may_park`."""
        calls: list[Park] = []
        for destination, waiting in sorted(self._waiting.items()):
            if waiting and may_park(destination):
                calls += self._calls_of(waiting, now_ms, free - len(calls), may_park)
        return calls

    def _calls_of(
        self, waiting: list[tuple[bool, int]], now_ms: int, free: int, may_park: Callable[[int], bool]
    ) -> list[Park]:
        calls: list[Park] = []
        while waiting and len(calls) < free:
            number = waiting[0][1]
            record = self._entries[number].record
            if self._progress.is_at(number, State.PARKING) and record not in self._under_way:
                if not self._charge(number, now_ms):
                    break  # what is under way may give a unit back, or make this one the lowest
                calls.append(self._park(number, record, may_park))
            heappop(waiting)  # a park of its record names it, or has ended
        return calls

    def _park(self, number: int, record: int, may_park: Callable[[int], bool]) -> Park:
        fault = self._progress.faults[number]
        key = None
        if self._settings.on_poison == "park_key":
            refused = self._rest_of_record(number, record)
            key = None if fault is KEY_PARKED else self._entries[number].key
        else:
            refused = [n for n in sorted(self._refused[record]) if n == number or may_park(self._group(n))]
        self._under_way[record] = frozenset(refused)
        return Park(number, record, tuple(refused), fault, key)

    def _rest_of_record(self, number: int, record: int) -> list[int]:
        rest = []
        while number < len(self._entries) and self._entries[number].record == record:
            if not self._entries[number].accepted:
                rest.append(number)
            number += 1
        return rest

    def freeze(self, destination: int | None = None) -> None:
        """Park nothing more of a destination, or (None) of any."""
        for one in list(self._waiting) if destination is None else [destination]:
            for _, number in self._waiting.pop(one, ()):
                if self._progress.is_at(number, State.PARKING) and self._entries[number].record not in self._under_way:
                    self._progress.move(number, Cause.FROZEN)

    # --- what came of it ---

    def ended(self, fact: ParkDone) -> list[int]:
        """Take in the end of a park; return the entries that are parked by it and whose turn it was."""
        record = self._entries[fact.entry].record
        named = self._under_way.pop(record)
        if fact.parked:
            self.stored |= named
        self._decide_charge(record, fact)
        parked = []
        for number in sorted(self._refused[record]):
            if not self._progress.is_at(number, State.PARKING):
                continue
            if number not in named:
                self._wait(number)
            elif fact.parked:
                self._progress.move(number, Cause.PARKED)
                parked.append(number)
            else:
                self._progress.move(number, Cause.FROZEN)
        return parked

    def _wait(self, number: int) -> None:
        heappush(self._waiting.setdefault(self._group(number), []), (self._needs_unit(number), number))

    def _group(self, number: int) -> int:
        """Return the destination that has a say in whether an entry is parked now."""
        parked_by_key = self._progress.faults.get(number) is KEY_PARKED
        return NOWHERE if parked_by_key else self._entries[number].destination

    def _needs_unit(self, number: int) -> bool:
        return self._progress.faults[number] is not KEY_PARKED and self._entries[number].record not in self._charged

    # --- the limit ---

    def _charge(self, number: int, now_ms: int) -> bool:
        """Take a unit of the park limit for a record that needs one; return whether it may be parked."""
        if not self._needs_unit(number):
            return True
        destination, record = self._entries[number].destination, self._entries[number].record
        since = now_ms - self._settings.park_window_ms
        self.recent = tuple(unit for unit in self.recent if unit[1] > since)
        left = self._settings.park_limit - sum(unit[0] == destination for unit in self.recent)
        if left < 1 or (left == 1 and record != self._progress.lowest()):
            return False
        unit = (destination, now_ms)
        self._charged[record] = unit
        self.recent += (unit,)
        return True

    def _decide_charge(self, record: int, fact: ParkDone) -> None:
        """Keep or return the unit of a record: the first park that is not turned away decides; a lost answer keeps it.

        One that is turned away parked nothing: another park of the record takes a unit anew.
        """
        unit = self._charged.get(record)
        if unit is None:
            return
        if fact.parked or fact.lost:
            self._charged[record] = None
        else:
            del self._charged[record]
        if not (fact.new if fact.parked else fact.lost) and unit in self.recent:
            first = self.recent.index(unit)
            self.recent = self.recent[:first] + self.recent[first + 1 :]
