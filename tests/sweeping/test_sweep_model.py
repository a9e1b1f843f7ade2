"""Two sweeps, a relay and writers on one table, in any order of their steps: nothing is lost, and no key reordered.

Each actor is a generator that yields between any two things that others could see, and half a second passes with each.
Sweeps die, get no answers, have wrong clocks and read an index that is behind; the relay misses some keys. In the last
part of a day the writer and the relay are gone, and what is left is for the sweeps.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from sweep_world import LEAST, MINUTE, NOW_MS, SHARD, THROTTLED, UNTOLD, World, number_of, record, sweep

from dynamodb_outbox.core.record import pending
from dynamodb_outbox.core.sweeping import ages
from dynamodb_outbox.core.sweeping import machine as machine_module
from dynamodb_outbox.core.sweeping.choice import Choice, choose
from dynamodb_outbox.core.sweeping.commands import (
    Command,
    Done,
    Fact,
    List,
    Publish,
    Published,
    ReadLease,
    Tick,
    WriteLease,
)
from dynamodb_outbox.core.sweeping.leases import Now
from dynamodb_outbox.core.sweeping.phases import TRANSITIONS
from dynamodb_outbox.core.sweeping.tenure import Tenure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.core.values import WireItem

KEYS = "ABCD"
SEEDS = range(250)
STEP_MS = 500
STEPS = 2_000
BEHIND_MS = 8_000
"""How far the index is behind, at most."""


class Bad(Exception):
    """What must never happen has."""


class Day:
    """One world and its actors, with chance from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 -- the same in each run
        self.world = World()
        self.written: defaultdict[str, list[int]] = defaultdict(list)
        self.accepted: list[int] = []
        self.clock_faults = seed % 4 == 3
        self.has_leases = seed % 5 != 4
        self.missed = set(self.chance.sample(KEYS, self.chance.randint(1, 3)))
        self.history: list[tuple[int, list[WireItem]]] = [(-BEHIND_MS, [])]

    # --- actors ---

    def writer(self) -> Iterator[None]:
        """Commit records, in the order of their dates, now and then."""
        for number in range(self.chance.randint(6, 14)):
            key = self.chance.choice(KEYS)
            item = record(number, key=key, age_ms=NOW_MS - self.world.wall_ms)
            self.world.put(item)
            self.written[key].append(number)
            self.remember()
            for _ in range(self.chance.randint(1, 60)):
                yield

    def relay(self) -> Iterator[None]:
        """Publish each key's records in order, but those of keys that the stream has missed."""
        position: defaultdict[str, int] = defaultdict(int)
        while True:
            yield
            key = self.chance.choice(KEYS)
            if key in self.missed or position[key] == len(self.written[key]) or self.chance.random() < 0.9:
                continue
            number = self.written[key][position[key]]
            self.accept(number)
            yield
            self.settle(number)
            position[key] += 1

    def sweeper(self, name: str) -> Iterator[None]:
        """Sweep again and again; some sweeps die on their way."""
        life = 0
        while True:
            life += 1
            machine = sweep(
                self.world,
                owner=f"{name}{life}",
                min_age_ms=2 * MINUTE,
                lease_ms=20_000 if self.has_leases else None,
                dry_run=self.chance.random() < 0.05,
                least_ms=LEAST,
                attempts=2,
                page=self.chance.choice([1, 2, 5]),
                round_keys=self.chance.choice([1, 2, 5]),
                round_records=self.chance.choice([1, 3, 9]),
            )
            skew = self.chance.choice([-3_600_000, -60_000, 60_000]) if self.clock_faults else 0
            fact: Fact = Tick()
            while True:
                if self.chance.random() < 0.02:
                    break  # dies
                now = Now(self.world.wall_ms + skew, self.world.steady_ms)
                command = machine.step(fact, now, self.chance.random())
                if isinstance(command, Done):
                    break
                yield
                if isinstance(command, Publish):
                    done: set[int] = set()
                    yield from self.publish(f"{name}{life}", command, done)
                    fact = Published(frozenset(done), accepted=len(done))
                else:
                    fact = self.do(command)
                yield
            for _ in range(self.chance.randint(1, 100)):
                yield

    def do(self, command: Command) -> Fact:
        """Do a command, or fail, or lose the answer; the index may be as it was a while ago."""
        if isinstance(command, (List, ReadLease, WriteLease)) and self.chance.random() < 0.1:
            return THROTTLED
        if isinstance(command, WriteLease) and self.chance.random() < 0.05:
            if self.chance.random() < 0.5:
                self.world.write(command)
            return UNTOLD
        if isinstance(command, List):
            behind_ms = self.world.steady_ms - self.chance.randint(0, BEHIND_MS)
            self.world.stale = next(items for at_ms, items in reversed(self.history) if at_ms <= behind_ms)
        return self.world.do(command)

    def publish(self, owner: str, command: Publish, done: set[int]) -> Iterator[None]:
        """Send records one after the other, each within the time; the sink refuses some for now."""
        held: set[str] = set()
        for position, item in enumerate(command.records):
            key = str(item["key"]["S"])
            for _ in range(60 if self.chance.random() < 0.1 else 0):
                yield  # frozen
            if key in held or self.world.steady_ms > command.until_ms - LEAST or self.chance.random() < 0.05:
                held.add(key)
                continue
            if self.has_leases and not self.clock_faults and self.world.leases[SHARD].owner != owner:
                raise Bad("another has the lease")
            self.accept(number_of(item))
            done.add(position)
            yield
            self.settle(number_of(item))

    # --- what they do ---

    def accept(self, number: int) -> None:
        """Note that the bus has taken a record."""
        self.accepted.append(number)

    def settle(self, number: int) -> None:
        """Make a record published, if it is pending."""
        for item in list(self.world.items.values()):
            if number_of(item) == number and pending.is_in_index(item):
                self.world.settle(item)
                self.remember()

    def remember(self) -> None:
        """Keep what the index is by now."""
        self.history.append((self.world.steady_ms, list(self.world.items.values())))

    # --- the day ---

    def happen(self) -> None:
        """Let all of it happen, and then judge it."""
        sweepers = [self.sweeper("s"), self.sweeper("t")]
        self.go_on([self.writer(), self.relay(), *sweepers])
        self.go_on(sweepers)
        self.judge()

    def go_on(self, actors: Sequence[Iterator[None]]) -> None:
        """Let actors take turns, some more often than others."""
        weights = [self.chance.random() + 0.1 for _ in actors]
        for actor in self.chance.choices(actors, weights, k=STEPS):
            next(actor, None)
            self.world.steady_ms += STEP_MS
            self.world.wall_ms += STEP_MS

    def judge(self) -> None:
        """First acceptances of a key come in the order of its commits, and all of them come."""
        for key, numbers in self.written.items():
            firsts = list(dict.fromkeys(number for number in self.accepted if number in set(numbers)))
            if firsts != numbers[: len(firsts)]:
                raise Bad(f"key {key}: {firsts} of {numbers}")
            if firsts != numbers:
                raise Bad(f"never published: {numbers[len(firsts) :]} of key {key}")


@pytest.fixture(autouse=True)
def _short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lag count for a minute: these days are short."""
    monkeypatch.setattr(ages, "LAG_COUNTS_MS", MINUTE)


def days() -> None:
    """Let all days happen."""
    for seed in SEEDS:
        Day(seed).happen()


class Recorded(dict[Any, Any]):
    """A table that remembers what it was asked for."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.asked: set[Any] = set()

    def __getitem__(self, name: Any) -> Any:
        """Return what the table has."""
        self.asked.add(name)
        return super().__getitem__(name)


def test_nothing_is_lost_and_no_key_reordered_whatever_happens_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 250 days, with each move of the table.

    On some of them clocks are wrong, or there are no leases: several sweeps publish the same then, which costs
    duplicates and no more. On the others nobody publishes whose lease another has by then.
    """
    table = Recorded(TRANSITIONS)
    monkeypatch.setattr(machine_module, "TRANSITIONS", table)
    duplicates = 0
    for seed in SEEDS:
        day = Day(seed)
        day.happen()
        duplicates += len(day.accepted) - len(set(day.accepted))
    assert duplicates > 100  # the days are bad enough
    assert table.keys() - table.asked == set()


def _by_id(found: list[WireItem], *_: Any, **__: Any) -> Choice:
    return Choice(tuple(sorted(found, key=lambda item: -number_of(item))))


def _whatever_its_age(found: list[WireItem], layout: Any, here: Any, ages: Any, **more: Any) -> Choice:
    return choose(found[-1:], layout, here, ages, **more)


@pytest.mark.parametrize("wrong", [_by_id, _whatever_its_age])
def test_sweeps_that_choose_otherwise_are_found(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another order than that of the dates; the last record of a key without those before it."""
    monkeypatch.setattr("dynamodb_outbox.core.sweeping.rounds.choose", wrong)
    with pytest.raises(Bad, match="key"):
        days()


def test_a_sweep_that_does_not_mind_its_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on publishing when another has it."""
    monkeypatch.setattr(Tenure, "left_ms", lambda *_: 3_600_000)
    with pytest.raises(Bad, match="has the lease"):
        days()
