"""The local event source: a stream, a function, a checkpoint, and what must hold when any of them fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded
from dynamodb_outbox.core.eventsource.commands import Tried
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.errors import StreamMissing, StreamRefused, StreamUnavailable
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.source import EventSource
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.process.stop import StopFlag
from fake_streams import ARN, FakeStreams, page, raw, refusal, shards
from source_steps import READ_ANSWERS, Recorder, SteadyClock, events, run_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    """Return a flag that nobody has set."""
    flag = StopFlag()
    yield flag
    flag.close()


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


def test_a_table_that_is_made_again_is_noticed_once(
    tmp_path: Path, stop: StopFlag, caplog: pytest.LogCaptureFixture
) -> None:
    """The source goes on with its stream, and says that there is another one, or none."""

    def gone() -> str:
        raise StreamMissing("shop", "no such table")

    for number, (now, said) in enumerate(((lambda: "arn:new", "arn:new"), (gone, "none (shop: no such table"))):
        clock = SteadyClock()
        client = FakeStreams(shards(("s", None)), page(), *[page(), shards(("s", None))] * 4)
        checkpoint = CheckpointFile(tmp_path / f"cp{number}", ARN)
        with Journal(tmp_path / f"log{number}") as journal:
            source = EventSource(
                DynamoDbStream(client, ARN), Recorder(), checkpoint, stop, journal=journal, clock=clock, current_arn=now
            )
            source.step()
            for _ in range(4):
                clock.sleep_ms(10_000)
                source.step()
        told = events(tmp_path / f"log{number}", "replaced")
        assert [(one["stream"], one["now"].startswith(said)) for one in told] == [(ARN, True)]
    assert caplog.text.count("Restart the source") == 2


def test_an_answer_without_its_key_is_a_success_that_is_doubted_once(
    tmp_path: Path, stop: StopFlag, caplog: pytest.LogCaptureFixture
) -> None:
    """Lambda takes the batch as done, and so does this; but it says what the answer has instead."""
    client = FakeStreams(shards(("s", None)), page(1), page(2))
    function = Recorder(*[Responded({"batchItemsFailures": [{"itemIdentifier": "1"}]})] * 2)
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    source = EventSource(DynamoDbStream(client, ARN), function, checkpoint, stop, READ_ANSWERS)
    run_until(source, lambda: len(function.batches) == 2)
    assert checkpoint.position("s") == Position("2")
    assert caplog.text.count("has no batchItemFailures, so all of its batch is done; it has 'batchItemsFailures'") == 1
