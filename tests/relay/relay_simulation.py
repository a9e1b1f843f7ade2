"""Buses, a table and a clock around the relay machine, which know the truth and check each command against it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.commands import (
    NOWHERE,
    Command,
    Done,
    Entry,
    Fact,
    KeysRead,
    Park,
    ParkDone,
    Publish,
    PublishDone,
    ReadKeys,
    Settings,
    Settle,
    SettleDone,
    Tick,
    Verify,
    VerifyDone,
    WaitUntil,
)
from dynamodb_outbox.core.relay.health import Carried, Health
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.core.relay.outcome import (
    Answered,
    Fault,
    Kind,
    Outcome,
    Presence,
    RequestFailed,
    Verified,
)
from dynamodb_outbox.core.relay.parking import KEY_PARKED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dynamodb_outbox.core.relay.states import Cause, State

CONTENT = Fault(Kind.CONTENT, "Content")
TARGET = Fault(Kind.TARGET, "Target")
TRANSIENT = Fault(Kind.TRANSIENT, "Transient")
UNKNOWN = Fault(Kind.UNKNOWN, "Unknown")
THROTTLED = Fault(Kind.TRANSIENT, "Throttled", throttled=True)

OK = Verified(Presence.OK)
MISSING = Verified(Presence.MISSING, "gone")
UNSURE = Verified(Presence.UNSURE, "who knows")
SILENT = Verified(Presence.UNSURE, "no answer", passing=True)

LIMITS = SinkLimits(entries=10, request_bytes=1000, entry_bytes=1000)
FOUND = Health(presence=Presence.OK, verified_until_ms=1_000_000)
"""A destination that was found, and does not have to be asked for in a test of something else."""


class Simulation:
    """Feeds facts to a machine and checks what comes out. `done` is its answer, once it has given it.

    Destinations that are not among `health` were found long before. `parked_keys` is what the table says.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        settings: Settings,
        limits: Sequence[SinkLimits] = (LIMITS,),
        *,
        publish_until_ms: int = 10_000,
        table_until_ms: int = 12_000,
        recent_parks: Sequence[tuple[int, int]] = (),
        health: Mapping[int, Health] | None = None,
        parked_keys: Collection[str] = (),
        idle: Collection[int] = (),
        now_ms: int = 0,
        hits: Counter[tuple[State, Cause]] | None = None,
    ) -> None:
        self.entries = entries
        self.settings = settings
        self.limits = limits
        self.publish_until_ms = publish_until_ms
        self.table_until_ms = table_until_ms
        carried = tuple((health or {}).get(place, FOUND) for place in range(len(limits)))
        self.machine = Machine(
            entries,
            limits,
            settings,
            publish_until_ms=publish_until_ms,
            table_until_ms=table_until_ms,
            carried=Carried(carried, tuple(recent_parks)),
            idle=idle,
        )
        self.hits: Counter[tuple[State, Cause]] = Counter() if hits is None else hits
        self._watch()
        self.now_ms = now_ms
        self.u = 0.5
        self.wake_ms: int | None = None
        self.done: Done | None = None
        self.idle = frozenset(idle)
        self.parked_keys = set(parked_keys)
        self.park_times = list(recent_parks)
        self.good_until_ms = {place: one.verified_until_ms or 0 for place, one in enumerate(carried)}
        self.missing = {place for place, one in enumerate(carried) if one.presence is Presence.MISSING}
        self._nothing_is_under_way()
        self._nothing_has_happened()

    def _nothing_is_under_way(self) -> None:
        """Begin with no request that waits for its answer."""
        self.publishes: list[Publish] = []
        self.verifies: list[Verify] = []
        self.asked_ms: dict[int, int] = {}  # destination -> when the question under way was asked
        self.parks: list[Park] = []
        self.reads: list[ReadKeys] = []
        self.settles: list[Settle] = []

    def _nothing_has_happened(self) -> None:
        """Begin the records of what came of the entries, beside those that the machine keeps."""
        faults = {number: entry.fault for number, entry in enumerate(self.entries) if entry.fault is not None}
        self.poison = {number for number, fault in faults.items() if fault.kind is Kind.CONTENT}
        self.remembered = [number for number, entry in enumerate(self.entries) if entry.accepted]
        self.accepted: list[int] = []
        self.parked: set[int] = set()
        self.known_keys: set[str] = set()
        self.frozen: set[int] = set()
        self.halted: set[int] = set()
        self.settled: Counter[int] = Counter()
        self.settle_calls = 0
        self.retried: Counter[int] = Counter()
        self.charged: dict[int, tuple[int, int] | None] = {}  # record -> what was counted, None when that is decided
        self.sent: Counter[int] = Counter()

    def _watch(self) -> None:
        """Report the moves that the machine makes."""
        progress = self.machine.progress
        move = progress.move

        def watched(number: int, cause: Cause) -> None:
            self.hits[progress._states[number], cause] += 1
            move(number, cause)

        def all_watched(numbers: Iterable[int], cause: Cause) -> None:
            for number in numbers:
                watched(number, cause)

        # The parts share this one object.
        progress.move = watched  # type: ignore[method-assign]
        progress.move_all = all_watched  # type: ignore[method-assign]

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
        self.halted |= {  # the head of a key that is a fault of its target stops everything for that at once
            entry.destination
            for i, entry in enumerate(self.entries)
            if entry.fault is not None and entry.fault.kind is Kind.TARGET and self.first(i)
        }
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

    def finish_verify(self, verify: Verify, found: Verified = OK) -> list[Command]:
        """Say what is known of a destination."""
        self.verifies.remove(verify)
        place = verify.destination
        asked_ms = self.asked_ms.pop(place)
        if found.passing:
            return self.feed(VerifyDone(place, found))
        if found.presence is Presence.OK or (found.presence is Presence.UNSURE and place not in self.missing):
            self.missing.discard(place)
            self.good_until_ms[place] = asked_ms + self.settings.verified_ms
        else:
            self.missing.add(place)
            self.halted.add(place)
            self.good_until_ms[place] = 0
        return self.feed(VerifyDone(place, found))

    def finish_read(self, read: ReadKeys, unread: Collection[str] = ()) -> list[Command]:
        """Say which keys are parked."""
        self.reads.remove(read)
        told = frozenset(read.keys) - frozenset(unread)
        self.known_keys |= told
        return self.feed(KeysRead(read.keys, told & self.parked_keys, frozenset(unread)))

    def finish_park(
        self, park: Park, *, parked: bool, new: bool = True, lost: bool = False, key_parked: bool | None = None
    ) -> list[Command]:
        """Let a park succeed, find the record parked already, be turned away, or lose its answer."""
        self.parks.remove(park)
        if park.key is not None and parked and key_parked is not False:
            self.parked_keys.add(park.key)
        if parked:
            self.parked |= set(park.refused) - self.frozen
        else:
            self.frozen |= set(park.refused) - self.parked
        at = self.charged.get(park.record)
        if at is not None:
            self.charged[park.record] = None
            if not parked and not lost:
                del self.charged[park.record]
            if (parked and not new) or (not parked and not lost):
                self.park_times.remove(at)
        key_parked = parked and park.key in self.parked_keys
        return self.feed(ParkDone(park.entry, parked, new, lost, key_parked))

    def finish_settle(self, settle: Settle, again: tuple[int, ...] = ()) -> list[Command]:
        """Let a settle call end."""
        self.settles.remove(settle)
        settled = tuple(record for record in settle.records if record not in again)
        self.settled.update(settled)
        self.retried.update(again)
        commands = self.feed(SettleDone(settle.records, again, settled))
        assert set(self.machine.settled) == set(self.settled)
        return commands

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
            elif self.verifies:
                self.finish_verify(self.verifies[0])
            elif self.reads:
                self.finish_read(self.reads[0])
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
            self.halted.add(self.entries[number].destination)
            self.good_until_ms[self.entries[number].destination] = 0
            self.frozen.add(number)

    def is_done(self, number: int) -> bool:
        """Whether an entry is accepted or parked."""
        return number in self.parked or number in self.accepted or self.entries[number].accepted

    def remembered_in_turn(self) -> set[int]:
        """Return the remembered entries whose turn it was: nothing that is not done stands before them."""
        return {
            number
            for number in self.remembered
            if all(self.is_done(other) for other in range(number) if self.key(other) == self.key(number))
            and (self.settings.on_poison != "park_key" or self.entries[number].key in self.known_keys)
        }

    def lowest(self) -> int | None:
        """Return the first record with an entry that is not done."""
        turned = self.remembered_in_turn()
        return next(
            (e.record for i, e in enumerate(self.entries) if not (i in turned if e.accepted else self.is_done(i))),
            None,
        )

    def _check(self, command: Command) -> None:
        if isinstance(command, Publish):
            self._check_publish(command)
        elif isinstance(command, Verify):
            self._check_verify(command)
        elif isinstance(command, Park):
            self._check_park(command)
        elif isinstance(command, ReadKeys):
            self._check_read(command)
        elif isinstance(command, Settle):
            self._check_settle(command)
        elif isinstance(command, WaitUntil):
            assert command.at_ms > self.now_ms
            self.wake_ms = command.at_ms
        else:
            assert isinstance(command, Done)
            under_way = [*self.publishes, *self.verifies, *self.parks, *self.reads, *self.settles]
            assert not under_way
            assert command.lowest == self.lowest()
            self.done = command

    def _check_head(self, number: int) -> None:
        """Check the gate: what is before it in its key is accepted or parked, and nothing of the key is under way."""
        busy = {self.key(other) for publish in self.publishes for other in publish.entries}
        busy |= {self.key(park.entry) for park in self.parks}
        assert self.settings.on_poison != "park_key" or self.entries[number].key in self.known_keys
        assert self.key(number) not in busy
        assert not self.is_done(number)
        assert number not in self.frozen
        for other in range(number):
            assert self.key(other) != self.key(number) or self.is_done(other)

    def _check_publish(self, command: Publish) -> None:
        place, settings = command.destination, self.settings
        limits, health = self.limits[place], self.machine.destinations[place].health
        assert self.now_ms < self.publish_until_ms
        assert place not in self.halted
        assert self.now_ms < self.good_until_ms[place], "published to a destination that was not asked for"
        assert not health.is_open(self.now_ms)
        assert 1 <= len(command.entries) <= limits.entries
        size = sum(self.entries[number].size for number in command.entries)
        assert size <= limits.request_bytes or len(command.entries) == 1
        assert len({self.key(number) for number in command.entries}) == len(command.entries)
        for number in command.entries:
            entry = self.entries[number]
            assert entry.destination == place
            assert number not in self.poison
            assert entry.fault is None
            assert not entry.accepted, "published, and it had been accepted"
            assert settings.on_poison != "park_key" or entry.key in self.known_keys - self.parked_keys
            self._check_head(number)
        self.publishes.append(command)
        self.sent.update(command.entries)
        of_this = sum(one.destination == place for one in self.publishes)
        assert of_this <= health.most_at_once(settings)
        assert len(self.publishes) + len(self.verifies) <= settings.max_in_flight

    def _check_verify(self, command: Verify) -> None:
        place = command.destination
        assert self.now_ms < self.publish_until_ms
        assert place not in self.halted
        assert place not in self.asked_ms, "asked twice at a time"
        assert self.now_ms >= self.good_until_ms[place], "asked though it is known"
        self.asked_ms[place] = self.now_ms
        self.verifies.append(command)
        assert len(self.publishes) + len(self.verifies) <= self.settings.max_in_flight

    def _check_read(self, command: ReadKeys) -> None:
        assert self.settings.on_poison == "park_key"
        assert self.now_ms < self.publish_until_ms
        assert 1 <= len(command.keys) <= self.settings.read_batch
        assert len(set(command.keys)) == len(command.keys)
        assert not set(command.keys) & self.known_keys
        self.reads.append(command)
        self._check_table_calls()

    def _check_park(self, command: Park) -> None:
        by_key = command.fault is KEY_PARKED
        assert self.settings.on_poison != "block"
        assert self.now_ms < self.table_until_ms
        assert command.fault.kind is Kind.CONTENT
        assert command.entry in command.refused
        assert {self.entries[number].record for number in command.refused} == {command.record}
        entry = self.entries[command.entry]
        if self.settings.on_poison == "park_key":
            rest = [n for n in range(command.entry, len(self.entries)) if self.entries[n].record == command.record]
            assert command.refused == tuple(n for n in rest if not self.entries[n].accepted)
            assert by_key == (entry.key in self.parked_keys)
            assert command.key == (None if by_key else entry.key)
        else:
            assert set(command.refused) <= self.poison
            assert command.key is None
        if not by_key:
            assert command.entry in self.poison, "parked without a content error of its own"
            assert entry.destination not in self.halted
            assert entry.destination == NOWHERE or self.now_ms < self.good_until_ms[entry.destination]
            self._check_charge(command.record, entry.destination)
        self._check_head(command.entry)
        assert command.record not in {park.record for park in self.parks}
        self.parks.append(command)
        self._check_table_calls()

    def _check_charge(self, record: int, place: int) -> None:
        if record in self.charged:
            return
        since_ms = self.now_ms - self.settings.park_window_ms
        window = [one for one in self.park_times if one[0] == place and one[1] > since_ms]
        assert len(window) < self.settings.park_limit
        assert len(window) < self.settings.park_limit - 1 or record == self.lowest()
        self.charged[record] = (place, self.now_ms)
        self.park_times.append((place, self.now_ms))

    def _check_settle(self, command: Settle) -> None:
        assert self.now_ms < self.table_until_ms
        assert 1 <= len(command.records) <= self.settings.settle_batch
        assert len(set(command.records)) == len(command.records)
        under_way = {record for settle in self.settles for record in settle.records}
        for record in command.records:
            assert record not in under_way
            assert record not in self.idle
            assert not self.settled[record], "settled twice"
            for number, entry in enumerate(self.entries):
                assert entry.record != record or number in self.accepted or entry.accepted, "settled before accepted"
        self.settles.append(command)
        self.settle_calls += 1
        self._check_table_calls()

    def _check_table_calls(self) -> None:
        assert len(self.parks) + len(self.reads) + len(self.settles) <= self.settings.max_table_calls
