"""Writers, table, stream and event source together, with a function that only notes what it is handed."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Literal

import pytest
from stream_world import LAYOUT, Recorder, World, world

from dynamodb_outbox.testing.simulation import facts
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.faults import PARTS, PlannedFault
from dynamodb_outbox.testing.simulation.history import Terms, history
from dynamodb_outbox.testing.simulation.invariants.commits import (
    commands_commit_once,
    committed_as_intended,
    writers_know_the_truth,
)
from dynamodb_outbox.testing.simulation.writers import Write

KINDS = (
    *(*PARTS["source"], *PARTS["writer"], *PARTS["clock"]),
    *("shard_split", "late_visibility", "slow", "outage", "operator_delete"),
)
TOLD = {"committed", "failed", "unknown", "died"}
CHANGES: tuple[Literal["create", "count", "overwrite"], ...] = ("create", "count", "overwrite")
ENDS_MS = 2_000_000


def some_writes(seed: int, count: int = 30) -> list[Write]:
    """Return writes of all kinds, by three writers on five keys."""
    chance = Chance(seed).of("writes")
    made = []
    for n in range(count):
        keys = tuple(f"K{chance.whole(0, 4, n, 'key', i)}" for i in range(chance.whole(1, 4, n, "events")))
        command = chance.unit(n, "command") < 0.5
        kind = CHANGES[chance.whole(0, 2, n, "kind")]
        at_ms, writer = chance.whole(0, 60_000, n, "at"), f"w{chance.whole(1, 3, n, 'writer')}"
        repeated = command and chance.unit(n, "repeated") < 0.5
        made.append(Write(at_ms, writer, f"c{n}", keys, kind, command=command, repeated=repeated))
    return made


def some_faults(seed: int, count: int = 25) -> list[PlannedFault]:
    """Return faults of every kind that has a place in this world."""
    chance = Chance(seed).of("faults")
    made = []
    for n in range(count):
        kind = KINDS[chance.whole(0, len(KINDS) - 1, n, "kind")]
        amount_ms = chance.whole(100, 9_000, n, "amount") if chance.unit(n, "any") < 0.7 else 0
        made.append(
            PlannedFault(
                kind,
                chance.whole(0, 60_000, n, "at"),
                amount_ms=amount_ms,
                nth=chance.whole(0, 3, n, "nth"),
                times=chance.whole(1, 4, n, "times"),
            )
        )
    return made


@cache
def a_bad_day(seed: int, *, order: str = "partition", lanes: int = 1) -> tuple[World, Recorder]:
    """Run everything."""
    chance = Chance(seed)
    shards = chance.whole(1, 3, "shards")
    settings = {"shards": shards, "order": order, "spread_ms": 300, "lag_ms": (0, 400), "listed_ms": 800}
    with world(seed, some_faults(seed), **settings) as here:
        function = Recorder(here, took_ms=chance.whole(10, 1_500, "took"))
        here.source(function, parallelization_factor=lanes, batch_size=chance.whole(1, 12, "batch"))
        here.writers(some_writes(seed))
        here.kernel.run(ENDS_MS)
    return here, function


def records_of(here: World) -> dict[str, list[str]]:
    """Return the committed records of each key, in the order of their commits, by name."""
    found: dict[str, list[str]] = {}
    for fact in here.noted(facts.Committed):
        for (partition, sort_key), _ in fact.records:
            found.setdefault(partition, []).append(f"{partition}/{sort_key}:INSERT")
    return found


@pytest.mark.parametrize("seed", range(40))
def test_each_committed_record_is_delivered_in_order(seed: int) -> None:
    """With faults of every kind: each record at least once, first deliveries of a partition in commit order."""
    here, function = a_bad_day(seed)
    inserted = [name for name in dict.fromkeys(function.names) if name.endswith(":INSERT")]
    for partition, records in records_of(here).items():
        assert [name for name in inserted if name.startswith(f"{partition}/OUTBOX#")] == records


@pytest.mark.parametrize("seed", range(40, 60))
def test_each_committed_record_is_delivered_whatever_the_order(seed: int) -> None:
    """In several lanes, and with order per item alone: each record at least once, changes of an item in order."""
    here, function = a_bad_day(seed, order="item-only", lanes=3)
    first = list(dict.fromkeys((shard, number, name) for shard, number, name in function.delivered))
    delivered = Counter(name for _, _, name in first)
    committed = [name for records in records_of(here).values() for name in records]
    assert all(delivered[name] == 1 for name in committed)
    changes: dict[facts.RecordKey, list[tuple[str, str]]] = {}
    for fact in here.noted(facts.Written):
        changes.setdefault(fact.item, []).append((fact.shard, fact.number))
    for (partition, sort_key), places in changes.items():
        seen = [(shard, number) for shard, number, name in first if name.startswith(f"{partition}/{sort_key}:")]
        assert seen == places


@pytest.mark.parametrize("seed", range(40))
def test_writers_are_told_the_truth(seed: int) -> None:
    """What is told to be committed is, as it was meant; what is told to have failed is not; and nothing is twice."""
    here, _ = a_bad_day(seed)
    read = history(here.ledger.facts, Terms())
    assert list(committed_as_intended(read)) == []
    assert list(writers_know_the_truth(read)) == []
    assert list(commands_commit_once(read)) == []
    assert {fact.change for fact in here.noted(facts.Told)} == {write.change for write in some_writes(seed)}


def test_the_bad_days_are_bad() -> None:
    """Every kind of fault strikes, every outcome is told, and numbers compared as text go wrong in nearly every run."""
    struck: Counter[str] = Counter()
    told: Counter[str] = Counter()
    out_of_order = again = 0
    for seed in range(40):
        here, function = a_bad_day(seed)
        struck.update(fact.kind for fact in here.noted(facts.Faulted))
        told.update(fact.outcome for fact in here.noted(facts.Told))
        out_of_order += any(list(numbers) != sorted(numbers) for _, _, numbers in function.batches)
        again += len(function.delivered) > len(set(function.delivered))
    assert set(struck) == set(KINDS)
    assert min(struck.values()) >= 5
    assert set(told) == TOLD
    assert out_of_order >= 30
    assert again >= 30


def test_a_run_can_be_repeated() -> None:
    """The same seed gives the same ledger, to the last fact; another one gives another."""
    first, again, other = (a_bad_day.__wrapped__(seed)[0].ledger.facts for seed in (5, 5, 6))
    assert first == again
    assert first != other


def one_write(*faults: PlannedFault, **write: Any) -> World:
    """Run one write, and return the world."""
    with world(1, faults) as here:
        here.write("B")
        here.writers([Write(1_000, "w", "c", **{"keys": ("A",), **write})])
        here.kernel.run(ENDS_MS)
    return here


def outcomes(here: World) -> list[str]:
    """Return what the writer was told."""
    return [fact.outcome for fact in here.noted(facts.Told)]


def test_a_commit_is_noted_with_its_events_before_its_records() -> None:
    """One fact for the transaction: who, which change, and the events of each record; the stream comes after it."""
    here = one_write(keys=("A", "B", "A"), poison=(1,))
    (committed,) = here.noted(facts.Committed)
    assert (committed.writer, committed.change) == ("w", "c")
    events = {record[0]: [event.data for event in events] for record, events in committed.records}
    assert events == {
        "A": [{"change": "c", "n": 0}, {"change": "c", "n": 2}],
        "B": [{"change": "c", "n": 1, "poison": True}],
    }
    place = here.ledger.facts.index(committed)
    items = {fact.item: here.ledger.facts.index(fact) for fact in here.noted(facts.Written)}
    assert all(items[record] > place for record, _ in committed.records)
    assert {("A", "CHANGE#c"), ("B", "CHANGE#c")} <= set(items)
    assert {fact.by for fact in here.noted(facts.Written)} == {"test", "w"}
    assert outcomes(here) == ["committed"]


@pytest.mark.parametrize(("kind", "sort_key"), [("create", "CHANGE#c"), ("count", "META"), ("overwrite", "LAST")])
def test_what_is_meant_is_noted_beforehand(kind: str, sort_key: str) -> None:
    """The keys and items of each attempt; the table's side says on its own which items were written, less guards."""
    here = one_write(keys=("A", "C", "A"), kind=kind, command=True, repeated=True)
    items = frozenset({("A", sort_key), ("C", sort_key)})
    first, second = here.noted(facts.Intended)
    (committed,) = here.noted(facts.Committed)
    assert (first.writer, first.change, first.attempt, first.keys, first.items) == ("w", "c", 1, ("A", "C", "A"), items)
    assert (second.attempt, second.keys, second.items) == (2, first.keys, items)
    assert (committed.attempt, committed.items) == (1, items)
    assert here.ledger.facts.index(first) < here.ledger.facts.index(committed)
    ids = [event.id for _, events in committed.records for event in events]
    told = here.noted(facts.Told)
    assert [fact.attempt for fact in told] == [1, 2]
    assert all(sorted(fact.events) == sorted(ids) for fact in told)
    assert told[0].events == told[1].events


@pytest.mark.parametrize("kind", ["commit_lost_before", "commit_lost_after", "commit_conflict", "commit_throttled"])
def test_a_commit_that_meets_trouble_is_sent_again(kind: str) -> None:
    """Once is enough to be told the truth: the change is committed exactly once."""
    here = one_write(PlannedFault(kind, 0))
    assert [fact.kind for fact in here.noted(facts.Faulted)] == [kind]
    assert len(here.noted(facts.Committed)) == 1
    assert outcomes(here) == ["committed"]


def test_a_writer_gives_up() -> None:
    """When the table is throttled for long, commit() is called a few times more, and the change has failed then."""
    here = one_write(PlannedFault("commit_throttled", 0, times=10_000))
    assert here.noted(facts.Committed) == []
    assert outcomes(here) == ["failed"]


def test_a_writer_that_never_hears_does_not_know() -> None:
    """When every answer is lost, the outcome is unknown, whether it was committed or not."""
    here = one_write(PlannedFault("commit_lost_before", 0, times=10_000))
    assert outcomes(here) == ["unknown"]


def test_a_command_is_repeated_until_it_is_known_how_it_ended() -> None:
    """Its answers are lost for a while; it is committed once, and its writer is told so in the end."""
    here = one_write(PlannedFault("commit_lost_before", 0, times=150), command=True, kind="count")
    assert outcomes(here)[0] == "unknown"
    assert outcomes(here)[-1] == "committed"
    assert len(here.noted(facts.Committed)) == 1


def test_a_command_that_is_repeated_needlessly_commits_once() -> None:
    """Its second run is told that it is committed, which it was by the first."""
    here = one_write(command=True, repeated=True)
    assert outcomes(here) == ["committed", "committed"]
    assert len(here.noted(facts.Committed)) == 1


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (PlannedFault("commit_throttled", 1_100, times=10_000), "unknown"),
        (PlannedFault("outage", 1_100, amount_ms=ENDS_MS), "unknown"),
        (PlannedFault("commit_lost_before", 1_100), "committed"),
    ],
)
def test_what_the_table_never_looked_at_says_nothing_of_the_attempt_before(fault: PlannedFault, told: str) -> None:
    """A command whose writer died is repeated; only what reaches the table settles it."""
    here = one_write(PlannedFault("writer_crash", 0, nth=1), fault, command=True)
    assert set(outcomes(here)[1:]) == {told}
    assert len(here.noted(facts.Committed)) == 1


def test_a_command_that_counts_is_the_same_command_when_it_reads_again() -> None:
    """It finds its own change then; its fingerprint says that it is the one that was made."""
    here = one_write(PlannedFault("writer_crash", 0, nth=3), command=True, kind="count")
    assert outcomes(here) == ["died", "committed"]
    (committed,) = here.noted(facts.Committed)
    assert here.noted(facts.Told)[-1].events == tuple(event.id for event in committed.records[0][1])


@pytest.mark.parametrize(("command", "told"), [(False, ["died"]), (True, ["died", "committed"])])
def test_a_writer_that_dies_is_started_again(*, command: bool, told: list[str]) -> None:
    """It repeats a command; of everything else nobody knows. What it had sent may be committed all the same."""
    here = one_write(PlannedFault("writer_crash", 0, nth=1), command=command)
    assert outcomes(here) == told
    assert len(here.noted(facts.Committed)) == 1


def test_a_writer_that_dies_goes_on_with_its_next_write() -> None:
    """A crash costs one write its answer, and later ones nothing."""
    with world(1, [PlannedFault("writer_crash", 0)]) as here:
        here.writers([Write(1_000 * n, "w", f"c{n}", ("A",)) for n in range(3)])
        here.kernel.run(ENDS_MS)
        assert [(fact.change, fact.outcome) for fact in here.noted(facts.Told)] == [
            ("c0", "died"), ("c1", "committed"), ("c2", "committed"),
        ]  # fmt: skip


def test_of_two_that_count_one_item_one_may_fail() -> None:
    """Two writers read the same version; the second to come is refused, and is told that it failed."""
    failed = 0
    for seed in range(20):
        with world(seed) as here:
            here.writers([Write(1_000, f"w{n}", f"c{n}", ("A",), "count") for n in range(2)])
            here.kernel.run(ENDS_MS)
            told = sorted(outcomes(here))
            assert told in (["committed", "committed"], ["committed", "failed"])
            assert len(here.noted(facts.Committed)) == told.count("committed")
            assert here.table.items["A", "META"]["version"] == {"N": str(told.count("committed"))}
            failed += told.count("failed")
    assert failed


def test_a_write_whose_item_cannot_be_read_has_failed() -> None:
    """Nothing was sent; with an earlier run of the command that may have been committed, nobody knows."""
    outage = PlannedFault("outage", 0, amount_ms=100_000)
    assert outcomes(one_write(outage, kind="count")) == ["failed"]
    lost = PlannedFault("commit_lost_before", 0, times=10_000)
    later = PlannedFault("outage", 30_000, amount_ms=ENDS_MS)
    assert set(outcomes(one_write(lost, later, kind="count", command=True))) == {"unknown"}


def test_a_wrong_wall_clock_is_the_writers_own() -> None:
    """With skew the record says when the writer thought it was; the stream has the time of the table."""
    here = one_write(PlannedFault("clock_skew", 0, where="w", amount_ms=-3_600_000))
    (record,) = [item for key, item in here.table.items.items() if key[1].startswith(LAYOUT.prefix)]
    assert int(record["at"]["N"]) < 1_769_860_800_000 - 3_000_000
