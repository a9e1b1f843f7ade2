"""The local event source over shards that split, come late, are trimmed or cannot be listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.eventsource.answers import FunctionFailed
from dynamodb_outbox.errors import StreamUnavailable
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.source import EventSource
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.process.stop import StopFlag
from fake_streams import ARN, FakeStreams, page, refusal, shards
from source_steps import READ_ANSWERS, Recorder, SteadyClock, events, run_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    """Return a flag that nobody has set."""
    flag = StopFlag()
    yield flag
    flag.close()


@dataclass
class Splitting:
    """A streams client whose list of shards changes with the time; a shard has one page of records."""

    clock: SteadyClock
    appears_ms: dict[str, int]
    parents: dict[str, str]
    pages: dict[str, list[int]]
    closed: frozenset[str] = frozenset()
    unlisted_from_ms: int | None = None
    listed_ms: list[int] = field(default_factory=list)

    def describe_stream(self, **_request: Any) -> Any:
        """Answer with the shards that are there by now."""
        self.listed_ms.append(self.clock.steady_ms)
        if self.unlisted_from_ms is not None and self.clock.steady_ms >= self.unlisted_from_ms:
            raise refusal("LimitExceededException")
        there = [shard for shard, at_ms in self.appears_ms.items() if at_ms <= self.clock.steady_ms]
        return shards(*((shard, self.parents.get(shard)) for shard in there))

    def get_shard_iterator(self, **request: Any) -> Any:
        """Start at the beginning of a shard."""
        return {"ShardIterator": request["ShardId"]}

    def get_records(self, **request: Any) -> Any:
        """Answer the shard's records, once; a closed shard ends there."""
        shard = request["ShardIterator"]
        return page(*self.pages.pop(shard, []), following=None if shard in self.closed else shard)


def step_for(source: EventSource, clock: SteadyClock, duration_ms: int, *, every_ms: int = 100) -> None:
    """Step as `run` does when nothing is new."""
    for _ in range(duration_ms // every_ms):
        source.step()
        clock.sleep_ms(every_ms)


def test_a_child_that_is_listed_late_is_read_while_another_shard_is_open(tmp_path: Path, stop: StopFlag) -> None:
    """The list is looked at again until the child of the shard that ended is in it, and not too often."""
    clock = SteadyClock()
    client = Splitting(
        clock,
        appears_ms={"a": 0, "b": 0, "child": 3_000},
        parents={"child": "a"},
        pages={"a": [1], "b": [2], "child": [30]},
        closed=frozenset({"a"}),
    )
    function = Recorder()
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, clock=clock)
    step_for(source, clock, 3_600)
    assert function.batches == [["1"], ["2"], ["30"]]
    gaps = [later - earlier for earlier, later in zip(client.listed_ms, client.listed_ms[1:], strict=False)]
    assert gaps[0] == 100  # the end of a shard is a reason to look, but not more often than allowed
    assert set(gaps[1:]) == {500}
    step_for(source, clock, 20_000)
    assert len(client.listed_ms) <= len(gaps) + 1 + 5


def test_a_restart_with_a_child_missing_looks_for_it_as_well(tmp_path: Path, stop: StopFlag) -> None:
    """That a shard ended is in the checkpoint, not only in the process that read its end."""
    CheckpointFile(tmp_path / "cp", ARN).keep("a", Position("1", finished=True))
    clock = SteadyClock()
    client = Splitting(clock, {"a": 0, "b": 0, "child": 1_000}, {"child": "a"}, {"b": [2], "child": [30]})
    function = Recorder()
    source = EventSource(DynamoDbStream(client, ARN), function, CheckpointFile(tmp_path / "cp", ARN), stop, clock=clock)
    step_for(source, clock, 1_600)
    assert function.batches == [["2"], ["30"]]


def test_a_shard_that_nothing_announced_is_found(tmp_path: Path, stop: StopFlag) -> None:
    """The list is looked at now and then though nothing is missing: a second child may come after the first."""
    clock = SteadyClock()
    client = Splitting(clock, {"a": 0, "new": 2_000}, {}, {"a": [1], "new": [9]})
    function = Recorder()
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, clock=clock)
    step_for(source, clock, 60_000)
    assert function.batches == [["1"], ["9"]]
    assert client.listed_ms == list(range(0, 60_000, 5_000))


def test_without_any_shard_the_list_is_looked_at_twice_a_second(tmp_path: Path, stop: StopFlag) -> None:
    """DescribeStream is not called at every poll."""
    clock = SteadyClock()
    client = Splitting(clock, {}, {}, {})
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), Recorder(), checkpoint, stop, clock=clock)
    step_for(source, clock, 5_000)
    assert client.listed_ms == list(range(0, 5_000, 500))


def test_open_shards_are_read_though_the_shards_cannot_be_listed(tmp_path: Path, stop: StopFlag) -> None:
    """A refused DescribeStream is an outage to be logged, not a reason to deliver nothing."""
    clock = SteadyClock()
    client = Splitting(clock, {"a": 0}, {}, {"a": [1]}, unlisted_from_ms=1)
    function = Recorder()
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, clock=clock)
    source.step()
    clock.sleep_ms(6_000)
    for number in (2, 3):
        client.pages["a"] = [number]
        with pytest.raises(StreamUnavailable):
            source.step()
    assert function.batches == [["1"], ["2"], ["3"]]


def test_a_shard_that_ended_is_left_only_when_its_last_record_is_done(tmp_path: Path, stop: StopFlag) -> None:
    """While the parent's last batch still fails, its children wait."""
    listed = shards(("parent", None), ("child", "parent"))
    client = FakeStreams(listed, page(1, following=None), listed, page(2))
    function = Recorder(*[FunctionFailed("ValueError", "no")] * 3)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, config=READ_ANSWERS)
    run_until(source, lambda: len(function.batches) == 5)
    assert function.batches == [["1"]] * 4 + [["2"]]
    assert checkpoint.finished() == {"parent"}


def test_a_shard_that_is_trimmed_while_its_last_batch_fails_holds_its_children_back(
    tmp_path: Path, stop: StopFlag
) -> None:
    """That it is no longer listed is no reason to let later changes of the same item go first."""
    clock = SteadyClock()
    client = Splitting(
        clock,
        appears_ms={"parent": 0, "child": 0},
        parents={"child": "parent"},
        pages={"parent": [1], "child": [2]},
        closed=frozenset({"parent"}),
    )
    failing = [FunctionFailed("ValueError", "no")] * 70
    function = Recorder(*failing)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    log = tmp_path / "log"
    with Journal(log) as journal:
        source = EventSource(
            DynamoDbStream(client, ARN), function, checkpoint, stop, READ_ANSWERS, clock=clock, journal=journal
        )
        source.step()
        del client.appears_ms["parent"]
        step_for(source, clock, 10_000)
    assert function.batches == [["1"]] * 71 + [["2"]]
    assert events(log, "gap") == []
    assert CheckpointFile(tmp_path / "cp", ARN).position("child") == Position("2")


def test_a_shard_that_is_trimmed_while_its_last_batch_fails_holds_back_what_comes_after_its_children(
    tmp_path: Path, stop: StopFlag
) -> None:
    """Its child is trimmed too, unread: the child's own children are later still."""
    clock = SteadyClock()
    client = Splitting(
        clock,
        appears_ms={"parent": 0, "child": 0},
        parents={"child": "parent", "grandchild": "child"},
        pages={"parent": [1], "grandchild": [2]},
        closed=frozenset({"parent", "child"}),
    )
    function = Recorder(*[FunctionFailed("ValueError", "no")] * 70)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, READ_ANSWERS, clock=clock)
    source.step()
    client.appears_ms = {"grandchild": 0}
    step_for(source, clock, 10_000)
    assert function.batches == [["1"]] * 71 + [["2"]]


def test_after_a_gap_nothing_that_was_done_is_delivered_again(tmp_path: Path, stop: StopFlag) -> None:
    """Reading starts anew at the oldest record that is left; what the checkpoint covers is passed over."""
    CheckpointFile(tmp_path / "cp", ARN).keep("s", Position("7"))
    client = FakeStreams(shards(("s", None)), (refusal("TrimmedDataAccessException"),), page(5, 7, 10))
    function = Recorder()
    EventSource(DynamoDbStream(client, ARN), function, CheckpointFile(tmp_path / "cp", ARN), stop).step()
    assert function.batches == [["10"]]


def test_a_gap_is_logged(tmp_path: Path, stop: StopFlag, caplog: pytest.LogCaptureFixture) -> None:
    """Records that were trimmed unread are not passed over in silence."""
    CheckpointFile(tmp_path / "cp", ARN).keep("s", Position("7"))
    client = FakeStreams(shards(("s", None)), (refusal("TrimmedDataAccessException"),), page(50))
    with Journal(tmp_path / "log") as journal:
        checkpoint = CheckpointFile(tmp_path / "cp", ARN)
        EventSource(DynamoDbStream(client, ARN), Recorder(), checkpoint, stop, journal=journal).step()
    assert [entry["after"] for entry in events(tmp_path / "log", "gap")] == ["7"]
    assert "records after 7 may have been missed" in caplog.text
