"""The simulated stream: what AWS promises of the order of records, and every freedom that it keeps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from stream_world import World, world

from dynamodb_outbox.core.eventsource.lineage import readable
from dynamodb_outbox.testing.simulation import facts
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.stream import IteratorExpired, ShardGone, TrimmedAway

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.records import StreamRecord
    from dynamodb_outbox.testing.simulation.stream import Iterator

FIRST = "shardId-00000000"
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def everything(here: World) -> dict[str, list[StreamRecord]]:
    """Read all that can be read now of the shards that are listed."""
    found: dict[str, list[StreamRecord]] = {}
    for shard in here.stream.shards():
        following: Iterator | None = here.stream.iterator(shard)
        found[shard] = []
        while following is not None:
            page = here.stream.read(following, 3)
            found[shard] += page.records
            if not page.records:
                break
            following = page.following
    return found


def names(records: list[StreamRecord]) -> list[str]:
    """Return the items of records and the numbers written into them, in order."""
    images = [record.body["dynamodb"]["NewImage"] for record in records]
    return [f"{image['pk']['S']}/{image['sk']['S']}={image['n']['N']}" for image in images]


def test_a_record_is_what_lambda_hands_on() -> None:
    """Lambda's JSON form, with both images, binary as base64, and a creation time in whole seconds."""
    with world() as here:
        here.kernel.run(1_500)
        here.table.write(("A", "x"), {"pk": {"S": "A"}, "sk": {"S": "x"}, "b": {"B": b"\x00"}}, by="test")
        here.table.write(("A", "x"), {"pk": {"S": "A"}, "sk": {"S": "x"}}, by="test")
        inserted, modified = everything(here)[FIRST]
        body = inserted.body
        assert (body["eventName"], body["eventSource"], body["awsRegion"]) == ("INSERT", "aws:dynamodb", "eu-west-1")
        assert body["eventSourceARN"] == here.stream.arn
        change = body["dynamodb"]
        assert change["ApproximateCreationDateTime"] == 1_769_860_801
        assert change["Keys"] == {"pk": {"S": "A"}, "sk": {"S": "x"}}
        assert change["NewImage"]["b"] == {"B": "AA=="}
        assert "OldImage" not in change
        assert change["SequenceNumber"] == inserted.sequence_number
        assert change["SizeBytes"] == 6 + 6 + 2
        assert modified.body["dynamodb"]["OldImage"] == change["NewImage"]
        assert modified.body["dynamodb"]["SizeBytes"] == 6 + 8 + 6


def test_numbers_rise_and_are_out_of_order_as_text() -> None:
    """Each number is greater than the one before and belongs to one record; sorted as text they are in disorder."""
    with world(shards=3) as here:
        for n in range(300):
            here.write(f"K{n}")
        shards = everything(here)
        every = [record.sequence_number for records in shards.values() for record in records]
        assert len(set(every)) == len(every) == 300
        for records in shards.values():
            assert len(records) > 50
            ordered = [record.sequence_number for record in records]
            assert ordered == sorted(ordered, key=int) != sorted(ordered)


def test_a_partition_is_in_one_shard() -> None:
    """All items of a partition are in the same shard, and the partitions are spread over all of them."""
    with world(shards=3) as here:
        for n in range(60):
            here.write(f"K{n % 30}/{n}")
        homes: dict[str, set[str]] = {}
        for fact in here.noted(facts.Written):
            homes.setdefault(fact.item[0], set()).add(fact.shard)
        assert all(len(shards) == 1 for shards in homes.values())
        assert len(set().union(*homes.values())) == 3


def scattered(seed: int, order: str) -> list[str]:
    """Write to two items of one partition and to another partition, in turn; return what the stream makes of it."""
    with world(seed, order=order, spread_ms=500) as here:
        for n in range(10):
            here.at(n * 50, partial(here.write, "A/x", "A/y", "B/x", n=n + 1))
        here.kernel.run(MINUTE_MS)
        return names(everything(here)[FIRST])


@pytest.mark.parametrize("seed", range(5))
def test_order_by_partition(seed: int) -> None:
    """Changes of one partition keep the order of their commits; those of another come anywhere between them."""
    found = scattered(seed, "partition")
    assert len(found) == 30
    for partition in "AB":
        numbers = [int(name.split("=")[1]) for name in found if name.startswith(partition)]
        assert numbers == sorted(numbers)
    assert [int(name.split("=")[1]) for name in found] != sorted(int(name.split("=")[1]) for name in found)


@pytest.mark.parametrize("seed", range(5))
def test_order_by_item_only(seed: int) -> None:
    """Changes of one item keep their order; those of two items of one partition do not."""
    found = scattered(seed, "item-only")
    for item in ("A/x", "A/y", "B/x"):
        numbers = [int(name.split("=")[1]) for name in found if name.startswith(item)]
        assert numbers == sorted(numbers) == list(range(1, 11))
    numbers = [int(name.split("=")[1]) for name in found if name.startswith("A")]
    assert numbers != sorted(numbers)


def test_what_was_committed_together_arrives_apart_and_in_any_order() -> None:
    """The records of one transaction are not in its order, and others stand between them."""
    orders = set()
    for seed in range(10):
        with world(seed) as here:
            items = [{"pk": {"S": name}, "sk": {"S": "x"}, "n": {"N": "1"}} for name in "ABC"]
            members = [{"Put": {"TableName": "shop", "Item": item}} for item in items]
            here.table.transact_write_items({"TransactItems": members}, by="test")
            orders.add(tuple(names(everything(here)[FIRST])))
    assert len(orders) > 1


def test_records_become_readable_after_a_lag_in_the_order_of_the_shard() -> None:
    """Each at the time that readers are told, within the lag of it or of one before it, and none before those."""
    with world(lag_ms=(100, 1_000)) as here:
        told: list[int] = []
        seen: list[tuple[int, int]] = []
        here.stream.watch(lambda _, at_ms: told.append(at_ms))
        for n in range(20):
            here.at(n * 100, partial(here.write, f"K{n}"))
        for at_ms in range(5, 4_000, 10):
            here.at(at_ms, lambda: seen.append((here.kernel.now_ms, len(everything(here)[FIRST]))))
        here.kernel.run(4_000)
        assert told == sorted(told)
        assert all(n * 100 + 100 <= at_ms <= n * 100 + 1_000 for n, at_ms in enumerate(told))
        assert all(count == sum(at_ms <= now_ms for at_ms in told) for now_ms, count in seen)
        assert len({count for _, count in seen}) > 5


def test_a_stream_can_be_late() -> None:
    """The fault late_visibility keeps new records from being read for its time, and what was readable stays so."""
    with world(1, [PlannedFault("late_visibility", 1_000, amount_ms=9_000)]) as here:
        here.write("A")
        here.at(2_000, lambda: here.write("B"))
        here.kernel.run(9_999)
        assert names(everything(here)[FIRST]) == ["A/META=1"]
        here.kernel.run(10_000)
        assert names(everything(here)[FIRST]) == ["A/META=1", "B/META=1"]


def test_a_shard_that_splits_goes_on_in_two_children() -> None:
    """The parent is closed; later changes of a partition are in one child; its numbers are beyond the parent's."""
    with world(listed_ms=1_000) as here:
        for n in range(20):
            here.write(f"K{n}")
        parent = here.stream.split(0)
        listed = [here.stream.shards()]
        for n in range(20):
            here.write(f"K{n}", n=2)
        here.kernel.run(1_000)
        listed.append(here.stream.shards())
        assert listed == [{parent: None}, {parent: None, "shardId-00000001": parent, "shardId-00000002": parent}]
        shards = everything(here)
        assert len(shards[parent]) == 20
        last = shards[parent][-1].number
        assert all(record.number > last for name in listed[1] if name != parent for record in shards[name])
        assert all(shards.values())
        assert readable(listed[1], {parent}) == ["shardId-00000001", "shardId-00000002"]


@pytest.mark.parametrize("seed", range(20))
def test_a_shard_is_listed_no_later_than_its_children(seed: int) -> None:
    """Also when it splits before it is listed itself."""
    with world(seed, listed_ms=1_000) as here:
        listings: list[dict[str, str | None]] = []
        for _ in range(3):
            here.stream.split(0)
        for at_ms in range(0, 3_000, 10):
            here.at(at_ms, lambda: listings.append(here.stream.shards()))
        here.kernel.run(3_000)
        assert len(listings[-1]) == 7
        assert all(parent is None or parent in listed for listed in listings for parent in listed.values())


def test_the_end_of_a_shard_comes_after_its_last_record() -> None:
    """A closed shard has no next position, but only once the last of its records can be read."""
    with world(lag_ms=(500, 500)) as here:
        here.write("A")
        here.stream.split(0)
        start = here.stream.iterator(FIRST)
        page = here.stream.read(start)
        assert (page.records, page.following is None) == ((), False)
        here.kernel.run(500)
        page = here.stream.read(start)
        assert (len(page.records), page.following) == (1, None)


def test_readers_are_told_when_there_is_something_to_read() -> None:
    """A record, the end of a shard and the listing of its children are told, with their times."""
    told: list[tuple[str, int]] = []
    with world(lag_ms=(100, 100)) as here:
        here.stream.watch(lambda shard, at_ms: told.append((shard, at_ms)))
        here.write("A")
        here.stream.split(0)
    assert told == [(FIRST, 100), (FIRST, 100), ("shardId-00000001", 0), ("shardId-00000002", 0)]


def test_positions() -> None:
    """A position is the oldest record, or after a number; the last number that can be read now is known."""
    with world() as here:
        assert here.stream.latest(FIRST) is None
        here.write("A", "B", "C")
        numbers = [record.sequence_number for record in everything(here)[FIRST]]
        assert here.stream.latest(FIRST) == numbers[-1]
        after = here.stream.iterator(FIRST, after=numbers[0])
        assert [record.sequence_number for record in here.stream.read(after).records] == numbers[1:]
        with pytest.raises(TrimmedAway):
            here.stream.iterator(FIRST, after="1")


def test_an_iterator_is_good_for_15_minutes() -> None:
    """After that it has expired; a position after a number can be had again."""
    with world() as here:
        start = here.stream.iterator(FIRST)
        here.kernel.run(15 * MINUTE_MS)
        here.stream.read(start)
        here.kernel.run(15 * MINUTE_MS + 1)
        with pytest.raises(IteratorExpired):
            here.stream.read(start)


def test_records_are_trimmed_after_24_hours() -> None:
    """What is older is gone, and noted; who stands before it is told so; a closed shard goes with its last record."""
    with world() as here:
        here.write("A")
        here.at(2 * MINUTE_MS, lambda: here.write("B"))
        here.at(3 * MINUTE_MS, lambda: here.stream.split(0))
        here.kernel.run(4 * MINUTE_MS)
        first, second = everything(here)[FIRST]
        here.kernel.run(DAY_MS + MINUTE_MS)
        start = here.stream.iterator(FIRST)
        assert here.stream.read(start).records == (second,)
        assert here.noted(facts.Trimmed) == [facts.Trimmed(DAY_MS + MINUTE_MS, FIRST, (first.sequence_number,))]
        with pytest.raises(TrimmedAway):
            here.stream.iterator(FIRST, after=first.sequence_number)
        here.kernel.run(DAY_MS + 2 * MINUTE_MS + 1_001)
        assert FIRST in here.stream.shards()
        with pytest.raises(TrimmedAway):
            here.stream.read(start)
        here.kernel.run(DAY_MS + 4 * MINUTE_MS)
        assert list(here.stream.shards()) == ["shardId-00000001", "shardId-00000002"]
        with pytest.raises(ShardGone):
            here.stream.iterator(FIRST)


def test_a_reader_that_is_overtaken_by_the_trimming_is_told() -> None:
    """The fault trim takes what is older than its amount; an iterator that stands before it is of no use."""
    with world(1, [PlannedFault("trim", 10_000, amount_ms=5_000)]) as here:
        here.write("A")
        here.at(8_000, lambda: here.write("B"))
        start = here.stream.iterator(FIRST)
        here.kernel.run(10_000)
        with pytest.raises(TrimmedAway):
            here.stream.read(start)
        assert names(everything(here)[FIRST]) == ["B/META=1"]


def test_faults_of_the_stream_are_noted() -> None:
    """A split, a delay when a record is held back, a trimming before what it takes; with the shard if there is one."""
    planned = [
        PlannedFault("shard_split", 3),
        PlannedFault("late_visibility", 1, amount_ms=50),
        PlannedFault("trim", 100),
        PlannedFault("trim", 200),
    ]
    with world(1, planned) as here:
        here.at(2, lambda: here.write("A"))
        here.at(2, lambda: here.write("B"))
        here.kernel.run(300)
        noted = [fact for fact in here.ledger.facts if isinstance(fact, (facts.Faulted, facts.Trimmed, facts.Written))]
        seen = [(fact.at_ms, getattr(fact, "kind", "trimmed"), getattr(fact, "shard", "")) for fact in noted]
        assert seen == [
            (2, "late_visibility", FIRST),
            (2, "INSERT", FIRST),
            (2, "INSERT", FIRST),
            (3, "shard_split", FIRST),
            (100, "trim", ""),
            (100, "trimmed", FIRST),
        ]


def test_faults_of_the_stream_that_meet_nothing_are_no_faults() -> None:
    """A delay in which nothing is written, and a trimming of a stream with nothing in it."""
    with world(1, [PlannedFault("late_visibility", 1, amount_ms=50), PlannedFault("trim", 100)]) as here:
        here.at(80, lambda: here.write("A"))
        here.at(200, lambda: here.write("B"))
        here.kernel.run(300)
        assert [fact.kind for fact in here.noted(facts.Faulted)] == ["trim"]
    with world(1, [PlannedFault("trim", 10_000, amount_ms=5_000)]) as here:
        here.at(8_000, lambda: here.write("A"))
        here.kernel.run(20_000)
        assert here.noted(facts.Faulted) == []


def test_leaving_a_write_out_leaves_other_partitions_alone() -> None:
    """What chance decides of a partition does not depend on what is written to others."""

    def times_of_b(*, with_a: bool) -> list[int]:
        with world(7, spread_ms=500, lag_ms=(0, 500)) as here:
            for n in range(10):
                if with_a:
                    here.at(n * 10, partial(here.write, f"A/{n}"))
                here.at(n * 10, partial(here.write, f"B/{n}"))
            here.kernel.run(MINUTE_MS)
            return [fact.at_ms for fact in here.noted(facts.Written) if fact.item[0] == "B"]

    assert times_of_b(with_a=True) == times_of_b(with_a=False)
