"""The local event source: a stream, a function, a checkpoint, and what must hold when any of them fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dynamodb_outbox
from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded
from dynamodb_outbox.core.eventsource.commands import Tried
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.errors import StreamRefused, StreamUnavailable
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.local.source import EventSource, main
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.process.stop import StopFlag
from fake_streams import ARN, FakeStreams, page, raw, refusal, shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from conftest import Account

READ_ANSWERS = MappingConfig(report_batch_item_failures=True, retry_base_ms=1, retry_cap_ms=1)


class Recorder:
    """A function that notes the batches it gets and answers from a script, then with success."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = list(answers)
        self.batches: list[list[str]] = []

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Note the batch and answer."""
        self.batches.append([record["dynamodb"]["SequenceNumber"] for record in event["Records"]])
        answer = self.answers.pop(0) if self.answers else Responded(None)
        return answer() if callable(answer) else answer


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    """Return a flag that nobody has set."""
    flag = StopFlag()
    yield flag
    flag.close()


def run_until(source: EventSource, done: Callable[[], bool]) -> None:
    """Step until the condition holds, for at most 10 s."""
    deadline = time.monotonic() + 10
    while not done() and time.monotonic() < deadline:
        source.step()
    assert done()


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the entries of a log of one kind."""
    return [entry for line in path.read_text().splitlines() if (entry := json.loads(line))["event"] == kind]


def test_the_checkpoint_is_kept_after_the_answer_and_not_before(tmp_path: Path, stop: StopFlag) -> None:
    """While the function runs the file still has the old position: dying there delivers the batch again."""
    path = tmp_path / "cp"
    seen: list[Position] = []

    def look() -> Answer:
        seen.append(CheckpointFile(path, ARN).position("s"))
        return Responded(None)

    stream = DynamoDbStream(FakeStreams(shards(("s", None)), page(1, 2), page(3)), ARN)
    source = EventSource(stream, Recorder(look, look), CheckpointFile(path, ARN), stop)
    source.step()
    source.step()
    assert seen == [Position(None), Position("2")]
    assert CheckpointFile(path, ARN).position("s") == Position("3")


def test_a_new_process_goes_on_at_the_checkpoint(tmp_path: Path, stop: StopFlag) -> None:
    """What was answered is not delivered again; what was not, is."""
    path = tmp_path / "cp"
    CheckpointFile(path, ARN).keep("s", Position("7"))
    client = FakeStreams(shards(("s", None)), page(8))
    function = Recorder()
    EventSource(DynamoDbStream(client, ARN), function, CheckpointFile(path, ARN), stop).step()
    assert client.sought == ["7"]
    assert function.batches == [["8"]]


def test_a_partial_answer_is_delivered_again_from_the_lowest_number(tmp_path: Path, stop: StopFlag) -> None:
    """The part that is done is checkpointed at once, the rest is tried again."""
    failed = Responded({"batchItemFailures": [{"itemIdentifier": "3"}, {"itemIdentifier": "2"}]})
    stream = DynamoDbStream(FakeStreams(shards(("s", None)), page(1, 2, 3), *[page()] * 1000), ARN)
    function = Recorder(failed)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    log = tmp_path / "log"
    with Journal(log) as journal:
        source = EventSource(stream, function, checkpoint, stop, config=READ_ANSWERS, journal=journal)
        run_until(source, lambda: len(function.batches) == 2)
    assert function.batches == [["1", "2", "3"], ["2", "3"]]
    assert [entry["sequence_number"] for entry in events(log, "checkpoint")] == ["1", "3"]
    assert [(entry["outcome"], entry["attempt"]) for entry in events(log, "answered")] == [
        ("partial", 1),
        ("succeeded", 2),
    ]


def test_retries_are_counted_on_by_the_next_process(tmp_path: Path, stop: StopFlag) -> None:
    """A source that dies between two attempts does not begin to count anew: three invocations in all."""
    config = MappingConfig(maximum_retry_attempts=2, retry_base_ms=1, retry_cap_ms=1)
    no = FunctionFailed("ValueError", "no")
    functions = [Recorder(no) for _ in range(3)]
    with Journal(tmp_path / "log") as journal:
        for function in functions:
            stream = DynamoDbStream(FakeStreams(shards(("s", None)), page(1, 2), page(3), page()), ARN)
            checkpoint = CheckpointFile(tmp_path / "cp", ARN)
            source = EventSource(stream, function, checkpoint, stop, config=config, journal=journal)
            source.step()
    assert [function.batches[0] for function in functions] == [["1", "2"]] * 3
    assert [entry["attempt"] for entry in events(tmp_path / "log", "invoking")][:3] == [1, 2, 3]
    [discarded] = events(tmp_path / "log", "discarded")
    assert (discarded["end"], discarded["invocations"]) == ("2", 3)
    assert CheckpointFile(tmp_path / "cp", ARN).position("s").tried == ()


def test_lanes_of_a_shard_take_turns(tmp_path: Path, stop: StopFlag) -> None:
    """Two items in two lanes: one that fails does not hold the other, but the checkpoint."""
    config = MappingConfig(parallelization_factor=10, batch_size=1, retry_base_ms=1, retry_cap_ms=1)

    def made(number: int, item: str) -> dict[str, Any]:
        change = raw(number)
        change["dynamodb"]["Keys"] = {"pk": {"S": item}}
        return change

    records = [made(1, "a"), made(2, "b"), made(3, "b"), made(4, "b")]
    client = FakeStreams(shards(("s", None)), {"Records": records, "NextShardIterator": "next"})

    class Picky(Recorder):
        def invoke(self, event: Mapping[str, Any]) -> Answer:
            super().invoke(event)
            first = self.batches[-1] == ["1"] and self.batches.count(["1"]) == 1
            return FunctionFailed("ValueError", "no") if first else Responded(None)

    function = Picky()
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    with Journal(tmp_path / "log") as journal:
        source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, config=config, journal=journal)
        client.answers.extend([page()] * 1000)
        run_until(source, lambda: CheckpointFile(tmp_path / "cp", ARN).position("s").after == "4")
    order = [batch[0] for batch in function.batches]
    assert (set(order[:2]), order.count("1")) == ({"1", "2"}, 2)
    assert [number for number in order if number != "1"] == ["2", "3", "4"]
    assert len({entry["lane"] for entry in events(tmp_path / "log", "invoking")}) == 2


def test_what_one_lane_gave_up_is_kept_before_another_lane_is_invoked(tmp_path: Path, stop: StopFlag) -> None:
    """The function may take long, or the process die in it: what is settled is settled first."""
    config = MappingConfig(parallelization_factor=10, maximum_retry_attempts=0)
    changes = [raw(number) for number in range(1, 5)]
    for change, item in zip(changes, "abcd", strict=True):
        change["dynamodb"]["Keys"] = {"pk": {"S": item}}
    client = FakeStreams(shards(("s", None)), {"Records": changes, "NextShardIterator": "next"})
    function = Recorder(*[FunctionFailed("ValueError", "no")] * 4)
    with Journal(tmp_path / "log") as journal:
        checkpoint = CheckpointFile(tmp_path / "cp", ARN)
        EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, config=config, journal=journal).step()
    kinds = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    told = [kind for kind in kinds if kind != "checkpoint"]
    assert len(function.batches) > 1
    assert told == ["invoking", "answered", "discarded"] * len(function.batches)


def test_a_partial_answer_keeps_the_counts_of_what_remains(tmp_path: Path, stop: StopFlag) -> None:
    """The checkpoint and what was tried beyond it are one write."""
    failed = Responded({"batchItemFailures": [{"itemIdentifier": "2"}]})
    seen: list[Position] = []

    def look() -> Answer:
        seen.append(CheckpointFile(tmp_path / "cp", ARN).position("s"))
        return Responded(None)

    client = FakeStreams(shards(("s", None)), page(1, 2, 3), *[page()] * 1000)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), Recorder(failed, look), checkpoint, stop, config=READ_ANSWERS)
    run_until(source, lambda: bool(seen))
    assert seen == [Position("1", tried=(Tried("2", "3", 1, 1),))]
    assert CheckpointFile(tmp_path / "cp", ARN).position("s") == Position("3")


def test_exhausted_retries_are_reported_and_passed_over(tmp_path: Path, stop: StopFlag) -> None:
    """The discarded range stands in the log, and the next records are delivered."""
    config = MappingConfig(maximum_retry_attempts=1, retry_base_ms=1, retry_cap_ms=1)
    stream = DynamoDbStream(FakeStreams(shards(("s", None)), page(1, 2), *[page()] * 1000), ARN)
    function = Recorder(*[FunctionFailed("ValueError", "no")] * 2)
    log = tmp_path / "log"
    with Journal(log) as journal:
        source = EventSource(
            stream, function, CheckpointFile(tmp_path / "cp", ARN), stop, config=config, journal=journal
        )
        run_until(source, lambda: source.checkpoint.position("s").after == "2")
    [discarded] = events(log, "discarded")
    assert (discarded["condition"], discarded["start"], discarded["end"]) == ("RetryAttemptsExhausted", "1", "2")
    assert discarded["invocations"] == len(function.batches) == 2


def test_a_stop_during_an_invocation_keeps_its_checkpoint_and_starts_no_other(tmp_path: Path, stop: StopFlag) -> None:
    """The answer that came is honoured; the records behind it wait for the next process."""

    def stopping() -> Answer:
        stop.set()
        return Responded(None)

    function = Recorder(stopping)
    stream = DynamoDbStream(FakeStreams(shards(("s", None)), page(1, 2, 3)), ARN)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    EventSource(stream, function, checkpoint, stop, config=MappingConfig(batch_size=2)).run()
    assert function.batches == [["1", "2"]]
    assert CheckpointFile(tmp_path / "cp", ARN).position("s") == Position("2")


def test_children_are_read_after_their_parent(tmp_path: Path, stop: StopFlag) -> None:
    """When a shard ends its children follow, each from its beginning, and the end is remembered."""
    listed = shards(("parent", None), ("left", "parent"), ("right", "parent"))
    client = FakeStreams(listed, page(1, 2, following=None), listed, page(3), page(4))
    function = Recorder()
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop)
    run_until(source, lambda: len(function.batches) == 3)
    assert function.batches == [["1", "2"], ["3"], ["4"]]
    again = CheckpointFile(tmp_path / "cp", ARN)
    assert again.position("parent") == Position("2", finished=True)
    assert (again.position("left"), again.position("right")) == (Position("3"), Position("4"))


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


@dataclass
class SteadyClock:
    """A clock under the test's hand."""

    steady_ms: int = 0

    def now_ms(self) -> int:
        """Return some time of the day."""
        return 1_800_000_000_000 + self.steady_ms

    def monotonic_ms(self) -> int:
        """Return the steady time."""
        return self.steady_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        self.steady_ms += duration_ms


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


def test_signs_of_life_tell_when_a_record_was_last_seen(tmp_path: Path, stop: StopFlag) -> None:
    """The log has a figure that stands still when the source has lost its place."""

    def stopping() -> Answer:
        stop.set()
        return Responded(None)

    client = FakeStreams(shards(("s", None)), page(), page(1))
    with Journal(tmp_path / "log") as journal:
        checkpoint = CheckpointFile(tmp_path / "cp", ARN)
        EventSource(DynamoDbStream(client, ARN), Recorder(stopping), checkpoint, stop, journal=journal).run()
    assert [entry["last_record_ms"] for entry in events(tmp_path / "log", "alive")] == [None]
    [stopped] = events(tmp_path / "log", "stopped")
    assert isinstance(stopped["last_record_ms"], int)


def test_an_outage_is_waited_out_and_logged_once(
    tmp_path: Path, stop: StopFlag, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that cannot be read is tried again, without a line for every attempt, and nothing is skipped."""
    monkeypatch.setattr("dynamodb_outbox.local.source._UNAVAILABLE_PAUSE_MS", 1)
    outage = [refusal("InternalServerError", 500)] * 3

    def stopping() -> Answer:
        stop.set()
        return Responded(None)

    client = FakeStreams(*outage, shards(("s", None)), page(1), *outage, page(2))
    function = Recorder(Responded(None), stopping)
    with Journal(tmp_path / "log") as journal:
        checkpoint = CheckpointFile(tmp_path / "cp", ARN)
        source = EventSource(
            DynamoDbStream(client, ARN), function, checkpoint, stop, journal=journal, poll_interval_ms=1
        )
        source.run()
    assert function.batches == [["1"], ["2"]]
    assert len(events(tmp_path / "log", "unavailable")) == 2
    assert caplog.text.count("cannot be read") == 2
    assert source.last_record_ms is not None


def test_a_shard_that_cannot_be_read_holds_neither_the_others_nor_what_is_in_hand(
    tmp_path: Path, stop: StopFlag
) -> None:
    """The first of two shards is throttled from its second page on: its retry and the other shard go on."""
    listed = shards(("a", None), ("b", None))
    busy = refusal("LimitExceededException")
    client = FakeStreams(listed, page(1), page(2), busy, page(3), busy, page(4))
    function = Recorder(FunctionFailed("ValueError", "no"))
    clock = SteadyClock()
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, READ_ANSWERS, clock=clock)
    source.step()
    for _ in range(2):
        clock.sleep_ms(100)
        with pytest.raises(StreamUnavailable):
            source.step()
    assert function.batches == [["1"], ["2"], ["1"], ["3"], ["4"]]


def test_a_refusal_ends_the_run(tmp_path: Path, stop: StopFlag) -> None:
    """What trying again cannot mend is raised."""
    client = FakeStreams(refusal("AccessDeniedException"))
    with pytest.raises(StreamRefused):
        EventSource(DynamoDbStream(client, ARN), Recorder(), CheckpointFile(tmp_path / "cp", ARN), stop).run()


def test_a_source_that_sees_nothing_says_so(tmp_path: Path, stop: StopFlag) -> None:
    """The liveness figure is None until a record was seen."""
    client = FakeStreams(shards(("s", None)), page(), page(1))
    source = EventSource(DynamoDbStream(client, ARN), Recorder(), CheckpointFile(tmp_path / "cp", ARN), stop)
    assert not source.step()
    assert source.last_record_ms is None
    assert source.step()
    assert source.last_record_ms is not None


HANDLER = """
    import os, time

    def handler(event, context):
        with open(os.environ["SEEN"], "a") as seen:
            for record in event["Records"]:
                seen.write(record["dynamodb"]["Keys"]["sk"]["S"] + "\\n")
        wait = float(os.environ.get("WAIT", "0"))
        print("working", flush=True)
        time.sleep(wait)
        return {"batchItemFailures": []}
"""


PACKAGE = Path(dynamodb_outbox.__file__).parent.parent
"""Where the package that is tested lies: the program must not find another one that is installed."""


class Shop:
    """A table with a stream on the engine, and the source as a program beside it."""

    def __init__(self, account: Account, directory: Path) -> None:
        self.account = account
        self.directory = directory
        self.client = account.client("dynamodb")
        (directory / "shop.py").write_text(textwrap.dedent(HANDLER))
        create_table(self.client, "shop")

    def put(self, *names: str) -> None:
        """Write items; an item's sort key is its name."""
        for name in names:
            self.client.put_item(TableName="shop", Item={"pk": {"S": "a"}, "sk": {"S": name}})

    def arguments(self, *more: str) -> list[str]:
        """Return the program's arguments."""
        return [
            *("--endpoint", self.account.url, "--account", self.account.account, "--table", "shop"),
            *("--handler", "shop:handler", "--checkpoint", str(self.directory / "cp")),
            *("--log", str(self.directory / "log"), "--env", f"SEEN={self.directory / 'seen'}", *more),
        ]

    def start(self, *more: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the program, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "dynamodb_outbox.local.source", *self.arguments(*more)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.directory), str(PACKAGE)])},
            start_new_session=True,
            **options,
        )

    def seen(self) -> list[str]:
        """Return the names that the function was given, in order."""
        path = self.directory / "seen"
        return path.read_text().split() if path.exists() else []

    def wait_for(self, *names: str) -> None:
        """Wait until the function was given these, 20 s at most."""
        deadline = time.monotonic() + 20
        while not set(names) <= set(self.seen()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert set(names) <= set(self.seen())

    def wait_for_delivery(self) -> None:
        """Write items until one is delivered, 20 s at most: with LATEST, those before are missed."""
        deadline = time.monotonic() + 20
        while not self.seen() and time.monotonic() < deadline:
            self.put(f"new-{time.monotonic()}")
            time.sleep(0.05)
        assert self.seen()


@pytest.fixture
def shop(engine: Account, tmp_path: Path) -> Shop:
    """Return a table and the means to run the source on it."""
    return Shop(engine, tmp_path)


def test_as_a_program_it_delivers_and_ends_on_sigterm_with_status_0(shop: Shop) -> None:
    """Filtered records are passed over; a second run delivers only what is new."""
    pattern = json.dumps({"dynamodb": {"Keys": {"sk": {"S": [{"prefix": "OUTBOX#"}]}}}})
    shop.put("OUTBOX#1", "META", "OUTBOX#2")
    for wanted in ("OUTBOX#2", "OUTBOX#3"):
        with shop.start("--filter", pattern) as program:
            shop.wait_for(wanted)
            program.send_signal(signal.SIGTERM)
            assert program.wait(10) == 0
        shop.put("OUTBOX#3")
    assert shop.seen() == ["OUTBOX#1", "OUTBOX#2", "OUTBOX#3"]
    assert len(events(shop.directory / "log", "stopped")) == 2


def test_as_a_program_it_starts_at_latest_keeps_failures_and_deletes_what_expired(shop: Shop) -> None:
    """The three options together: nothing old is delivered, a failure is kept with its payload, TTL is played."""
    shop.put("old")
    (shop.directory / "shop.py").write_text(
        textwrap.dedent(HANDLER)
        + "\n\n"
        + textwrap.dedent(
            """
            def picky(event, context):
                handler(event, context)
                if any(one.get("userIdentity") for one in event["Records"]):
                    raise ValueError("an item expired")
            """
        )
    )
    options = ("--starting-position", "LATEST", "--on-failure", str(shop.directory / "failed"), "--ttl")
    more = ("--handler", "shop:picky", "--maximum-retry-attempts", "0")
    with shop.start(*options, *more) as program:
        shop.wait_for_delivery()
        expired = {"pk": {"S": "a"}, "sk": {"S": "expired"}, "expires_at": {"N": str(int(time.time()) - 60)}}
        shop.client.put_item(TableName="shop", Item=expired)
        deadline = time.monotonic() + 20
        while not list((shop.directory / "failed").rglob("*-*T*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
    assert "old" not in shop.seen()
    [kept] = [path for path in (shop.directory / "failed").rglob("*") if path.is_file()]
    payload = json.loads(json.loads(kept.read_text())["payload"])
    [removed] = [one for one in payload["Records"] if one["eventName"] == "REMOVE"]
    assert removed["userIdentity"] == {"principalId": "dynamodb.amazonaws.com", "type": "Service"}
    [discarded] = events(shop.directory / "log", "discarded")
    assert discarded["kept"] == str(kept)
    assert sum(entry["items"] for entry in events(shop.directory / "log", "expired")) == 1


def test_sigterm_lets_the_invocation_end_and_keeps_the_checkpoint(shop: Shop) -> None:
    """The function is not cut off; its answer counts."""
    shop.put("1")
    with shop.start("--env", "WAIT=0.8", stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"working\n"
        os.killpg(program.pid, signal.SIGTERM)
        assert program.wait(10) == 0
    assert len(events(shop.directory / "log", "checkpoint")) == 1


def test_a_source_that_is_killed_delivers_again(shop: Shop) -> None:
    """SIGKILL between the function's work and the checkpoint: the batch comes twice, and none is lost."""
    shop.put("1")
    with shop.start("--env", "WAIT=60", "--timeout-ms", "60000", stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"working\n"
        program.kill()
        program.wait()
    shop.put("2")
    with shop.start() as program:
        shop.wait_for("2")
        program.terminate()
        assert program.wait(10) == 0
    assert shop.seen() == ["1", "1", "2"]


def test_it_ends_with_its_parent_when_asked_to(shop: Shop) -> None:
    """With --exit-with-parent the end of standard input is its end."""
    with shop.start("--exit-with-parent", stdin=subprocess.PIPE) as program:
        shop.put("1")
        shop.wait_for("1")
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(10) != 0


def test_a_mistake_is_one_line_on_standard_error(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing table, a useless filter, a corrupt checkpoint: a sentence and status 1, no traceback."""
    assert main(shop.arguments("--table", "missing")) == 1
    assert "error: missing: " in capsys.readouterr().err
    assert main(shop.arguments("--filter", "[]")) == 1
    assert "error: filter 1: " in capsys.readouterr().err
    assert main(shop.arguments("--account", "7")) == 1
    assert "12 digits" in capsys.readouterr().err
    assert main(shop.arguments("--checkpoint", str(shop.directory / "missing" / "cp"))) == 1
    assert "missing/cp" in capsys.readouterr().err
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdin", None)
        assert main(shop.arguments("--exit-with-parent")) == 1
    assert "standard input is closed" in capsys.readouterr().err
    (shop.directory / "cp").write_text("nonsense")
    assert main(shop.arguments()) == 1
    assert "Remove it to start again" in capsys.readouterr().err
