"""A bus, a table and a clock around the relay machine, which know the truth and check each command against it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import (
    Command,
    Done,
    Entry,
    Fact,
    Park,
    ParkDone,
    Publish,
    PublishDone,
    Settings,
    Settle,
    SettleDone,
    Tick,
    WaitUntil,
)
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Outcome, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.states import Cause, State

CONTENT = Fault(Kind.CONTENT, "Content")
TARGET = Fault(Kind.TARGET, "Target")
TRANSIENT = Fault(Kind.TRANSIENT, "Transient")
UNKNOWN = Fault(Kind.UNKNOWN, "Unknown")


class Watched(Machine):
    """The machine, with a report of the moves it made."""

    hits: Counter[tuple[State, Cause]]

    def _move(self, number: int, cause: Cause) -> None:
        self.hits[self._state[number], cause] += 1
        super()._move(number, cause)


class Simulation:
    """Feeds facts to a machine and checks what comes out. `done` is its answer, once it has given it."""

    def __init__(
        self,
        entries: Sequence[Entry],
        settings: Settings,
        *,
        publish_until_ms: int = 10_000,
        table_until_ms: int = 12_000,
        recent_parks: Sequence[int] = (),
        hits: Counter[tuple[State, Cause]] | None = None,
    ) -> None:
        self.entries = entries
        self.settings = settings
        self.publish_until_ms = publish_until_ms
        self.table_until_ms = table_until_ms
        self.machine = Watched(
            entries,
            settings,
            publish_until_ms=publish_until_ms,
            table_until_ms=table_until_ms,
            recent_parks=recent_parks,
        )
        self.machine.hits = Counter() if hits is None else hits
        self.now_ms = 0
        self.u = 0.5
        self.publishes: list[Publish] = []
        self.parks: list[Park] = []
        self.settles: list[Settle] = []
        self.accepted: list[int] = []
        self.parked: set[int] = set()
        self.poison = {
            i for i, entry in enumerate(entries) if entry.fault is not None and entry.fault.kind is Kind.CONTENT
        }
        self.frozen: set[int] = set()
        self.halted = False
        self.settled: Counter[int] = Counter()
        self.park_times = list(recent_parks)
        self.charged: dict[int, int | None] = {}  # record -> when it was counted, None when that is decided
        self.sent: Counter[int] = Counter()
        self.wake_ms: int | None = None
        self.done: Done | None = None

    # --- facts ---

    def feed(self, fact: Fact) -> list[Command]:
        """Give one fact to the machine and check what it says."""
        self.wake_ms = None
        commands = self.machine.step(fact, self.now_ms, self.u)
        for command in commands:
            assert self.done is None, "nothing comes after Done"
            self._check(command)
        return commands

    def start(self) -> list[Command]:
        """Begin the invocation."""
        self.halted = any(  # the head of a key that is a fault of the target stops everything at once
            entry.fault is not None and entry.fault.kind is Kind.TARGET
            for i, entry in enumerate(self.entries)
            if self.first(i)
        )
        return self.feed(Tick())

    def finish_publish(self, publish: Publish, outcome: Outcome) -> list[Command]:
        """Let a request come to `outcome`, and remember what that means."""
        self.publishes.remove(publish)
        if isinstance(outcome, Answered) and len(outcome.results) == len(publish.entries):
            for number, fault in zip(publish.entries, outcome.results, strict=True):
                self._remember(number, fault)
        elif isinstance(outcome, RequestFailed) and (outcome.fault.kind is Kind.TARGET or len(publish.entries) == 1):
            for number in publish.entries:
                self._remember(number, outcome.fault)
        return self.feed(PublishDone(publish.batch, outcome))

    def finish_park(self, park: Park, *, parked: bool, new: bool = True, lost: bool = False) -> list[Command]:
        """Let a park succeed, find the record parked already, be turned away, or lose its answer."""
        self.parks.remove(park)
        if parked:
            self.parked |= set(park.refused) - self.frozen
        else:
            self.frozen |= set(park.refused) - self.parked
        at = self.charged[park.record]
        if at is not None:
            self.charged[park.record] = None
            if not parked and not lost:
                del self.charged[park.record]
            if (parked and not new) or (not parked and not lost):
                self.park_times.remove(at)
        return self.feed(ParkDone(park.entry, parked, new, lost))

    def finish_settle(self, settle: Settle, again: tuple[int, ...] = ()) -> list[Command]:
        """Let a settle call end."""
        self.settles.remove(settle)
        self.settled.update(set(settle.records) - set(again))
        return self.feed(SettleDone(settle.records, again))

    def pass_time(self, ms: int) -> list[Command]:
        """Let time go by."""
        self.now_ms += ms
        return self.feed(Tick())

    def drain(self) -> Done:
        """Let everything succeed from here on, and return the answer."""
        for _ in range(100 + 20 * len(self.entries)):
            if self.done is not None:
                return self.done
            if self.publishes:
                publish = self.publishes[0]
                self.finish_publish(publish, Answered((None,) * len(publish.entries)))
            elif self.parks:
                self.finish_park(self.parks[0], parked=True)
            elif self.settles:
                self.finish_settle(self.settles[0])
            else:
                assert self.wake_ms is not None, "nothing under way, nothing to wait for, and not done"
                assert self.wake_ms > self.now_ms
                self.pass_time(self.wake_ms - self.now_ms)
        raise AssertionError("the machine does not come to an end")

    # --- the truth ---

    def key(self, number: int) -> object:
        """Return what an entry is ordered by."""
        return self.entries[number].key if self.settings.ordered else number

    def first(self, number: int) -> bool:
        """Whether no earlier entry has the same key."""
        return all(self.key(other) != self.key(number) for other in range(number))

    def _remember(self, number: int, fault: Fault | None) -> None:
        if fault is None:
            self.accepted.append(number)
        elif fault.kind is Kind.CONTENT:
            self.poison.add(number)
        elif fault.kind is Kind.TARGET:
            self.halted = True
            self.frozen.add(number)

    def is_done(self, number: int) -> bool:
        """Whether an entry is accepted or parked."""
        return number in self.parked or number in self.accepted

    def lowest(self) -> int | None:
        """Return the first record with an entry that is not done."""
        return next((e.record for i, e in enumerate(self.entries) if not self.is_done(i)), None)

    def _check(self, command: Command) -> None:
        if isinstance(command, Publish):
            self._check_publish(command)
        elif isinstance(command, Park):
            self._check_park(command)
        elif isinstance(command, Settle):
            self._check_settle(command)
        elif isinstance(command, WaitUntil):
            assert command.at_ms > self.now_ms
            self.wake_ms = command.at_ms
        else:
            assert isinstance(command, Done)
            under_way = [*self.publishes, *self.parks, *self.settles]
            assert not under_way
            assert command.lowest == self.lowest()
            self.done = command

    def _check_head(self, number: int) -> None:
        """Check the gate: what is before it in its key is accepted or parked, and nothing of the key is under way."""
        busy = {self.key(other) for publish in self.publishes for other in publish.entries}
        busy |= {self.key(park.entry) for park in self.parks}
        assert self.key(number) not in busy
        assert not self.is_done(number)
        assert number not in self.frozen
        for other in range(number):
            assert self.key(other) != self.key(number) or self.is_done(other)

    def _check_publish(self, command: Publish) -> None:
        limits = self.settings.limits
        assert self.now_ms < self.publish_until_ms
        assert not self.halted
        assert 1 <= len(command.entries) <= limits.entries
        size = sum(self.entries[number].size for number in command.entries)
        assert size <= limits.request_bytes or len(command.entries) == 1
        assert len({self.key(number) for number in command.entries}) == len(command.entries)
        for number in command.entries:
            assert number not in self.poison
            assert self.entries[number].fault is None
            self._check_head(number)
        self.publishes.append(command)
        self.sent.update(command.entries)
        assert len(self.publishes) <= self.settings.max_in_flight

    def _check_park(self, command: Park) -> None:
        assert self.now_ms < self.table_until_ms
        assert not self.halted
        assert command.entry in self.poison, "parked without a content error of its own"
        assert command.fault.kind is Kind.CONTENT
        assert command.entry in command.refused
        assert set(command.refused) <= self.poison
        assert {self.entries[number].record for number in command.refused} == {command.record}
        self._check_head(command.entry)
        assert command.record not in {park.record for park in self.parks}
        if command.record not in self.charged:
            window = [at for at in self.park_times if at > self.now_ms - self.settings.park_window_ms]
            assert len(window) < self.settings.park_limit
            assert len(window) < self.settings.park_limit - 1 or command.record == self.lowest()
            self.charged[command.record] = self.now_ms
            self.park_times.append(self.now_ms)
        self.parks.append(command)
        assert len(self.parks) + len(self.settles) <= self.settings.max_table_calls

    def _check_settle(self, command: Settle) -> None:
        assert self.now_ms < self.table_until_ms
        assert 1 <= len(command.records) <= self.settings.settle_batch
        assert len(set(command.records)) == len(command.records)
        under_way = {record for settle in self.settles for record in settle.records}
        for record in command.records:
            assert record not in under_way
            assert not self.settled[record], "settled twice"
            for number, entry in enumerate(self.entries):
                assert entry.record != record or number in self.accepted, "settled before it was accepted"
        self.settles.append(command)
        assert len(self.parks) + len(self.settles) <= self.settings.max_table_calls
