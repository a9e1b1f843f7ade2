"""The simulated event source: at least once, in order, from its checkpoint, whatever happens to it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from stream_world import Recorder, World, world

from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded, Throttled
from dynamodb_outbox.core.eventsource.machine import ShardMachine
from dynamodb_outbox.testing.simulation import facts, stream
from dynamodb_outbox.testing.simulation.faults import PlannedFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dynamodb_outbox.core.eventsource.commands import Command
    from dynamodb_outbox.core.eventsource.records import StreamRecord

FIRST = "shardId-00000000"
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def write_often(
    here: World, count: int = 40, *, from_ms: int = 6_000, every_ms: int = 100, partitions: int = 4
) -> None:
    """Write items, one after the other, to several partitions in turn."""
    for n in range(count):
        here.at(from_ms + n * every_ms, partial(here.write, f"K{n % partitions}/{n:03d}"))


def per_partition(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the first delivery of each item, by partition, in order."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(name.partition("/")[0], []).append(name)
    return found


def written(here: World) -> dict[str, list[str]]:
    """Return what was written, by partition, in the order of the stream."""
    return per_partition([f"{fact.item[0]}/{fact.item[1]}:{fact.kind}" for fact in here.noted(facts.Written)])


def test_everything_is_delivered_once_in_order_on_a_good_day() -> None:
    """Without faults each record is handed over exactly once, in batches of the size that was set."""
    with world(shards=2) as here:
        function = Recorder(here)
        here.source(function, batch_size=3)
        write_often(here)
        here.kernel.run(MINUTE_MS)
        assert per_partition(function.names) == written(here)
        assert len(function.names) == 40
        assert max(len(numbers) for _, _, numbers in function.batches) <= 3
        last = {fact.shard: fact.number for fact in here.noted(facts.Checkpointed)}
        assert last == {fact.shard: fact.number for fact in here.noted(facts.Written)}


def test_an_idle_day_costs_nothing() -> None:
    """Where nothing is written nothing happens: no poll is simulated that would find nothing."""
    with world(shards=3) as here:
        here.source(Recorder(here))
        here.kernel.run(DAY_MS)
        assert here.kernel._count < 20


def test_a_day_of_silence_expires_no_iterator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping polls all the time, so its iterators are fresh when something is written after hours."""
    with world() as here:
        seeks: list[str | None] = []
        real = here.stream.iterator

        def iterator(shard: str, *, after: str | None = None) -> Any:
            seeks.append(after)
            return real(shard, after=after)

        monkeypatch.setattr(here.stream, "iterator", iterator)
        function = Recorder(here)
        here.source(function)
        here.at(10_000, lambda: here.write("A"))
        here.at(DAY_MS // 2, lambda: here.write("B"))
        here.kernel.run(DAY_MS)
        assert function.names == ["A/META:INSERT", "B/META:INSERT"]
        assert seeks == [None]


def test_lanes_run_side_by_side_each_item_in_one() -> None:
    """With a parallelization factor invocations of a shard overlap, and the changes of an item stay in order."""
    with world() as here:
        under_way: list[int] = []

        class Overlapping(Recorder):
            busy = 0

            def invoke(
                self, batch: Sequence[StreamRecord], answered: Callable[[Answer], object], *, shard: str, lane: int
            ) -> None:
                def over(answer: Answer) -> None:
                    self.busy -= 1
                    answered(answer)

                self.busy += 1
                under_way.append(self.busy)
                super().invoke(batch, over, shard=shard, lane=lane)

        function = Overlapping(here, took_ms=700)
        here.source(function, parallelization_factor=4, batch_size=2)
        for n in range(60):
            here.at(6_000 + n * 20, partial(here.write, f"A/{n % 6}", n=n + 1))
        here.kernel.run(MINUTE_MS)
        assert max(under_way) == 4
        assert {lane for _, lane, _ in function.batches} == {0, 1, 2, 3}
        for item in range(6):
            numbers = [int(number) for _, number, name in function.delivered if name.startswith(f"A/{item}:")]
            assert len(numbers) == 10
            assert numbers == sorted(numbers)


def test_parents_before_children() -> None:
    """No record of a child is handed over before all of its parent's are done, through several splits."""
    splits = [PlannedFault("shard_split", at_ms) for at_ms in (7_000, 7_500, 8_000)]
    with world(1, splits, lag_ms=(0, 900), listed_ms=2_000) as here:
        function = Recorder(here, took_ms=150)
        here.source(function, batch_size=2)
        write_often(here, partitions=8, every_ms=50)
        here.kernel.run(MINUTE_MS)
        assert per_partition(function.names) == written(here)
        places = {shard: place for place, (shard, _, _) in enumerate(function.batches)}
        first = {shard: place for place, (shard, _, _) in reversed(list(enumerate(function.batches)))}
        parents = {shard: parent for shard, parent in here.stream.shards().items() if parent is not None}
        assert len(parents) == 6
        assert all(places[parent] < first[child] for child, parent in parents.items() if {parent, child} <= set(first))


def failing_at_first(times: int) -> Any:
    """Return an answer that calls the last record failed, `times` times, and then none."""
    left = [times]

    def answer(records: Sequence[Mapping[str, Any]]) -> Answer:
        left[0] -= 1
        failed = records[-1]["dynamodb"]["SequenceNumber"]
        return Responded({"batchItemFailures": [{"itemIdentifier": failed}]} if left[0] >= 0 else None)

    return answer


def test_more_than_a_page_is_read_page_by_page() -> None:
    """GetRecords gives at most 1,000 records; the rest is read without anybody writing something new."""
    with world() as here:
        function = Recorder(here)
        here.source(function, batch_size=800)
        here.write(*(f"K{n}" for n in range(2_100)))
        here.kernel.run(MINUTE_MS)
        assert per_partition(function.names) == written(here)


def test_what_can_be_read_right_after_a_poll_is_read_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same millisecond, when nothing that is written later would wake the source up."""
    with world() as here:
        read = here.stream.read

        def reading(iterator: stream.Iterator) -> stream.Page:
            page = read(iterator)
            if page.records and here.stream.latest(FIRST) == page.records[-1].sequence_number and not again:
                again.append(here.kernel.now_ms)
                here.at(here.kernel.now_ms, lambda: here.write("B"))
            return page

        again: list[int] = []
        monkeypatch.setattr(here.stream, "read", reading)
        function = Recorder(here)
        here.source(function)
        here.at(10_000, lambda: here.write("A"))
        here.kernel.run(MINUTE_MS)
        assert function.names == ["A/META:INSERT", "B/META:INSERT"]


def test_what_failed_is_delivered_again() -> None:
    """From the lowest failed record on, until it is done; the checkpoint waits for it."""
    with world() as here:
        function = Recorder(here, answer=failing_at_first(3))
        here.source(function)
        here.at(10_000, lambda: here.write("A/1", "A/2", "A/3"))
        here.kernel.run(MINUTE_MS)
        assert function.names == [f"A/{n}:INSERT" for n in (1, 2, 3, 3, 3, 3)]
        assert len(here.noted(facts.Checkpointed)) == 2


def test_what_is_given_up_is_noted() -> None:
    """With retries that end the records go to the on-failure destination, and the checkpoint past them."""
    with world() as here:
        function = Recorder(here, answer=lambda _: FunctionFailed("Runtime.ExitError", ""))
        here.source(function, maximum_retry_attempts=2)
        here.at(10_000, lambda: here.write("A"))
        here.kernel.run(MINUTE_MS)
        (given_up,) = here.noted(facts.Discarded)
        assert (given_up.destination, given_up.shard, given_up.condition) == ("orders", FIRST, "RetryAttemptsExhausted")
        assert given_up.numbers == tuple(fact.number for fact in here.noted(facts.Written))
        assert len(function.names) == 3


def test_throttles_use_up_nothing() -> None:
    """A function that is not run is tried again for as long as it takes."""
    answers: Iterator[Answer] = iter([*[Throttled()] * 20, Responded(None)])
    with world() as here:
        function = Recorder(here, answer=lambda _: next(answers))
        here.source(function, maximum_retry_attempts=0)
        here.at(10_000, lambda: here.write("A"))
        here.kernel.run(10 * MINUTE_MS)
        assert len(function.names) == 21
        assert here.noted(facts.Discarded) == []


def test_a_window_gathers_a_batch() -> None:
    """Records that come within the window are handed over together."""
    with world() as here:
        function = Recorder(here)
        here.source(function, batching_window_ms=3_000)
        write_often(here, 10)
        here.kernel.run(MINUTE_MS)
        assert [len(numbers) for _, _, numbers in function.batches] == [10]


def test_a_source_that_dies_goes_on_from_its_checkpoint() -> None:
    """It dies between an answer and its checkpoint: that batch is delivered again, and nothing is skipped."""
    deaths = [PlannedFault("source_restart", at_ms, where="orders") for at_ms in (6_000, 8_000, 9_000)]
    with world(1, deaths) as here:
        function = Recorder(here)
        here.source(function, batch_size=4)
        write_often(here)
        here.kernel.run(MINUTE_MS)
        assert per_partition(function.names) == written(here)
        assert len(function.names) > 40
        assert len(here.noted(facts.Faulted)) == 3


def test_a_source_may_die_at_any_time() -> None:
    """At the time that the fault says, also with an invocation under way; one that is dead does not die again."""
    planned = [PlannedFault("source_killed", at_ms, where="orders") for at_ms in (1, 8_000, 8_001)]
    with world(1, planned) as here:
        function = Recorder(here, took_ms=5_000)
        here.source(function)
        here.source(Recorder(here), destination="audit")
        here.at(6_000, lambda: here.write("A"))
        here.kernel.run(MINUTE_MS)
        assert function.names == ["A/META:INSERT"] * 2
        assert here.noted(facts.Faulted) == [facts.Faulted(8_000, "source_killed", "orders")]


def test_a_shard_that_went_while_it_was_retried_is_a_gap_once_its_source_died() -> None:
    """Closed, trimmed to its last record, and in the hands of a process that is no more: that record is lost."""
    with world() as here:
        function = Recorder(here, answer=lambda _: FunctionFailed("Runtime.ExitError", ""))
        source = here.source(function)
        here.at(6_000, lambda: here.write("A"))
        here.at(9_000, lambda: here.stream.split(0))
        here.at(12_000, lambda: here.stream.trim(11_000))
        here.kernel.run(14_000)
        assert here.stream.gone == {"shardId-00000000": None}
        assert here.noted(facts.Gap) == []
        tried = len(function.batches)
        source.kill()
        here.kernel.run(MINUTE_MS)
        (gap,) = here.noted(facts.Gap)
        assert (gap.destination, gap.shard, gap.after) == ("orders", "shardId-00000000", None)
        assert len(function.batches) == tried


def test_invocations_go_on_when_their_source_dies() -> None:
    """The function ends what it was at; nobody hears of it, and its batch is delivered again beside it."""
    with world() as here:
        function = Recorder(here, took_ms=5_000)
        source = here.source(function)
        here.at(6_000, lambda: here.write("A"))
        here.at(8_000, source.kill)
        here.at(8_000, source.kill)
        here.kernel.run(MINUTE_MS)
        assert function.names == ["A/META:INSERT"] * 2
        assert len(here.noted(facts.Checkpointed)) == 1


def test_retries_survive_a_death() -> None:
    """How often a batch was tried is kept with the checkpoint: a source that dies does not begin to count anew."""
    with world() as here:
        function = Recorder(here, answer=lambda _: FunctionFailed("Runtime.ExitError", ""))
        source = here.source(function, maximum_retry_attempts=5, retry_cap_ms=1_000)
        here.at(6_000, lambda: here.write("A"))
        here.at(7_500, source.kill)
        here.kernel.run(2 * MINUTE_MS)
        assert len(function.names) == 6


def test_a_batch_that_was_done_is_delivered_again() -> None:
    """The fault redelivered hands it over once more; the checkpoint does not go back."""
    with world(1, [PlannedFault("redelivered", 0, where="orders")]) as here:
        function = Recorder(here)
        here.source(function)
        here.at(6_000, lambda: here.write("A"))
        here.at(8_000, lambda: here.write("B"))
        here.kernel.run(MINUTE_MS)
        assert function.names == ["A/META:INSERT", "A/META:INSERT", "B/META:INSERT"]
        assert len(here.noted(facts.Checkpointed)) == 2


def test_an_iterator_that_expires_loses_nothing() -> None:
    """The fault iterator_expired makes the source look for its place anew: after the last record that it read."""
    faults = [PlannedFault("iterator_expired", 0, where="orders", times=10)]
    with world(1, faults) as here:
        function = Recorder(here)
        here.source(function)
        write_often(here)
        here.kernel.run(MINUTE_MS)
        assert per_partition(function.names) == written(here)
        assert len(function.names) == 40
        assert len(here.noted(facts.Faulted)) == 10


def test_the_place_that_was_lost_is_looked_for_after_the_last_record_that_was_read() -> None:
    """Not after the checkpoint, which may be far behind: no record goes through the shard's machine twice."""
    taken: list[str] = []

    class Watched(ShardMachine):
        def read(self, records: Iterable[StreamRecord], now_ms: int) -> list[Command]:
            given = list(records)
            taken.extend(record.sequence_number for record in given)
            return super().read(given, now_ms)

    faults = [PlannedFault("iterator_expired", 0, where="orders", times=10)]
    with world(1, faults) as here:
        here.source(Recorder(here, took_ms=3_000), machine=Watched)
        write_often(here)
        here.kernel.run(MINUTE_MS)
        assert taken == [fact.number for fact in here.noted(facts.Written)]


def test_a_source_that_dies_far_behind_skips_nothing() -> None:
    """What was read and not handed over when it died is read again: the checkpoint is what was done, not read."""
    with world() as here:
        function = Recorder(here, took_ms=900)
        source = here.source(function, batch_size=3)
        write_often(here, every_ms=10)
        for at_ms in (8_500, 11_000, 13_500):
            here.at(at_ms, source.kill)
        here.kernel.run(MINUTE_MS)
        assert per_partition(function.names) == written(here)


def test_an_iterator_expires_when_a_shard_is_blocked_for_long() -> None:
    """While nothing more is wanted nobody polls; after more than 15 minutes the place is looked for anew."""
    answers = iter([FunctionFailed("Runtime.ExitError", "")] * 150)
    expired: list[str] = []
    with world() as here, pytest.MonkeyPatch.context() as patch:
        read = here.stream.read

        def watched(iterator: stream.Iterator) -> stream.Page:
            try:
                return read(iterator)
            except stream.IteratorExpired as error:
                expired.append(str(error))
                raise

        patch.setattr(here.stream, "read", watched)
        function = Recorder(here, answer=lambda _: next(answers, Responded(None)))
        here.source(function, batch_size=1)
        write_often(here, 12)
        here.kernel.run(60 * MINUTE_MS)
        assert per_partition(function.names) == written(here)
        assert len(expired) == 1


@pytest.mark.parametrize("dies", [True, False])
def test_what_is_trimmed_unread_is_lost_and_the_rest_is_delivered(*, dies: bool) -> None:
    """A source that is a day late loses what is gone, which the ledger says, and goes on with what is left."""
    with world() as here:

        def answer(_: Sequence[Mapping[str, Any]]) -> Answer:
            early = 20_000 < here.kernel.now_ms < DAY_MS + 2 * MINUTE_MS
            return FunctionFailed("Runtime.ExitError", "") if early else Responded(None)

        function = Recorder(here, answer=answer)
        source = here.source(function, batch_size=1, retry_cap_ms=300_000)
        here.at(6_000, lambda: here.write("DONE"))
        here.at(20_000, lambda: here.write("BLOCKED"))
        write_often(here, 4, from_ms=30_000, every_ms=1_000)
        here.at(DAY_MS - MINUTE_MS, lambda: here.write("LATE"))
        if dies:
            here.at(DAY_MS + MINUTE_MS, source.kill)
        here.kernel.run(DAY_MS + 60 * MINUTE_MS)
        (trimmed,) = here.noted(facts.Trimmed)
        assert len(trimmed.numbers) == 6
        waiting = [] if dies else ["K0/000:INSERT", "K1/001:INSERT"]  # had been read before they were trimmed
        expected = ["DONE/META:INSERT", "BLOCKED/META:INSERT", *waiting, "LATE/META:INSERT"]
        assert list(dict.fromkeys(function.names)) == expected


def test_a_shard_that_is_gone_counts_as_read() -> None:
    """When a closed shard was trimmed as a whole, its children are read."""
    with world() as here:
        function = Recorder(here, answer=lambda _: FunctionFailed("Runtime.ExitError", ""))
        here.source(function, batch_size=1, maximum_record_age_s=60)
        here.write("A", "B", "C")
        here.at(7_000, lambda: here.stream.split(0))
        here.at(7_500, lambda: here.stream.trim(7_500))
        here.at(9_000, lambda: here.write("D"))
        here.kernel.run(10 * MINUTE_MS)
        assert "D/META:INSERT" in function.names


def starting(position: str) -> tuple[list[str], list[str]]:
    """Write before, around and after the start of a mapping; return what was delivered, and what was written."""
    with world(3, shards=2) as here:
        function = Recorder(here)
        write_often(here, 10, from_ms=0)
        here.at(2_000, lambda: here.source(function, starting=position))
        write_often(here, 100, from_ms=2_000, partitions=9)
        here.at(20_000, lambda: here.write("LAST"))
        here.kernel.run(MINUTE_MS)
        return function.names, [f"{fact.item[0]}/{fact.item[1]}:INSERT" for fact in here.noted(facts.Written)]


def test_trim_horizon_misses_nothing() -> None:
    """From the oldest record on: what was written before the mapping was created is delivered too."""
    delivered, everything = starting("TRIM_HORIZON")
    assert sorted(delivered) == sorted(everything)


def test_latest_misses_what_was_written_around_its_start() -> None:
    """Records written after the mapping was created and before it began to read are never seen."""
    delivered, everything = starting("LATEST")
    missed = [name for name in everything if name not in delivered]
    assert missed == everything[: len(missed)]
    assert len(missed) > 10
    assert delivered[-1] == "LAST/META:INSERT"


def test_latest_passes_over_shards_that_have_ended() -> None:
    """A shard with children is not read at all, its children from their end on, later shards from the start."""
    with world() as here:
        function = Recorder(here)
        here.write("A", "B")
        here.stream.split(0)
        here.at(10, lambda: here.write("A", "B", n=2))
        here.at(100, lambda: here.source(function, starting="LATEST"))
        here.at(7_000, lambda: here.stream.split(0))
        here.at(7_001, lambda: here.stream.split(0))
        here.at(7_002, lambda: here.write("A", "B", n=3))
        here.kernel.run(MINUTE_MS)
        assert sorted(function.names) == ["A/META:MODIFY", "B/META:MODIFY"]


def test_latest_stays_where_it_began() -> None:
    """A source that dies before it read anything does not begin at the end once more."""
    with world() as here:
        function = Recorder(here)
        here.write("BEFORE")
        source = here.source(function, starting="LATEST")
        here.at(6_000, source.kill)
        here.at(6_001, lambda: here.write("A"))
        here.kernel.run(MINUTE_MS)
        assert function.names == ["A/META:INSERT"]


def test_two_destinations_do_not_know_of_each_other() -> None:
    """Each has a checkpoint of its own; one that is blocked does not hold the other up."""
    with world() as here:
        blocked = Recorder(here, answer=lambda _: FunctionFailed("Runtime.ExitError", ""))
        free = Recorder(here)
        here.source(blocked, destination="audit")
        here.source(free, destination="orders")
        write_often(here, 10)
        here.kernel.run(MINUTE_MS)
        assert len(free.names) == 10
        assert {fact.destination for fact in here.noted(facts.Checkpointed)} == {"orders"}


@pytest.mark.parametrize("seed", range(3))
def test_a_run_can_be_repeated(seed: int) -> None:
    """The same seed gives the same ledger, to the last fact."""

    def run() -> list[facts.Fact]:
        faults = [PlannedFault(kind, 6_000, times=2) for kind in ("source_restart", "redelivered", "shard_split")]
        with world(seed, faults, shards=2, spread_ms=300, lag_ms=(0, 300)) as here:
            here.source(Recorder(here), batch_size=4, parallelization_factor=3)
            write_often(here)
            here.kernel.run(MINUTE_MS)
            return here.ledger.facts

    assert run() == run()
