"""Rows of the table: lanes, the lineage of shards, starting positions."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from shard_records import ERROR, NOW, SUCCESS, item_in, machine, record
from source_runs import Recorder, SetClock, source
from table_answers import handed_over
from table_rows import row

from dynamodb_outbox.adapters.streams import DynamoDbStream, Gap
from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Responded
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Invoke
from dynamodb_outbox.core.eventsource.lanes import lane_of
from dynamodb_outbox.core.eventsource.lineage import Latest, StartingPosition, childless, from_latest, readable
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.facts import Ledger
from dynamodb_outbox.testing.simulation.kernel import Kernel
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from fake_streams import ARN, FakeStreams, page, refusal, shards

if TYPE_CHECKING:
    from pathlib import Path

    from dynamodb_outbox.local.source import EventSource

LEFT, RIGHT = item_in(0, 2), item_in(1, 2)
LATEST = StartingPosition.LATEST


# --- lanes ---


@row("lane-item")
def test_lane_item() -> None:
    """All lanes are used, each item has one, and the sort key counts."""
    assert {lane_of(record(1, item=str(item)), 10) for item in range(200)} == set(range(10))
    assert len({lane_of(record(number, item="x"), 10) for number in range(100)}) == 1
    changes = [record(number) for number in range(100)]
    for one in changes:
        one.body["dynamodb"]["Keys"]["sk"] = {"S": str(one.number)}
    assert len({lane_of(one, 10) for one in changes}) > 1


@row("lane-choice")
def test_lane_choice() -> None:
    """Known values: another process, or another order of the key's attributes, makes no difference."""
    one, other = record(1), record(1)
    one.body["dynamodb"]["Keys"] = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    other.body["dynamodb"]["Keys"] = {"sk": {"S": "b"}, "pk": {"S": "a"}}
    assert lane_of(one, 10) == lane_of(other, 10) == 4


@row("lane-side-by-side")
def test_lane_side_by_side() -> None:
    """Two invocations at once; a third waits for its lane."""
    shard = machine(parallelization_factor=2)
    commands = shard.read([record(1, item=LEFT), record(2, item=RIGHT)], NOW)
    assert [one.lane for one in commands if isinstance(one, Invoke)] == [0, 1]
    assert shard.read([record(3, item=LEFT)], NOW) == []
    assert handed_over(shard.answered(SUCCESS, NOW, 0, 0)) == [[3]]


@row("lane-failure")
def test_lane_failure() -> None:
    """Lane 0 fails for ever."""
    shard = machine(parallelization_factor=2)
    shard.read([record(1, item=LEFT)], NOW)
    shard.answered(ERROR, NOW, 1.0, 0)
    for number in (2, 3):
        assert handed_over(shard.read([record(number, item=RIGHT)], NOW)) == [[number]]
        shard.answered(SUCCESS, NOW, 0, 1)


@row("lane-checkpoint")
def test_lane_checkpoint() -> None:
    """Three is done, two is not."""
    shard = machine(parallelization_factor=2)
    shard.read([record(1, item=RIGHT), record(2, item=LEFT), record(3, item=RIGHT)], NOW)
    assert shard.answered(SUCCESS, NOW, 0, 1) == [Checkpoint("1")]
    restarted = machine(parallelization_factor=2, checkpoint=shard.checkpoint)
    assert handed_over(restarted.read([record(2, item=LEFT), record(3, item=RIGHT)], NOW)) == [[2], [3]]
    assert shard.answered(SUCCESS, NOW, 0, 0) == [Checkpoint("3")]


@row("lane-read-ahead")
def test_lane_read_ahead() -> None:
    """Two batches of one record, for each of two lanes; and 6 MB for each, in records of 4 MB."""
    big = machine(parallelization_factor=2)
    big.read([record(number, item=LEFT, size=4 << 20) for number in range(1, 4)], NOW)
    assert big.wants_records  # the first is handed over, two wait
    big.read([record(4, item=LEFT, size=4 << 20)], NOW)
    assert not big.wants_records
    shard = machine(parallelization_factor=2, batch_size=1)
    shard.read([record(number, item=LEFT) for number in range(1, 5)], NOW)
    assert shard.wants_records
    shard.read([record(5, item=LEFT)], NOW)
    assert not shard.wants_records


# --- lineage ---


@row("shard-parent-first")
def test_shard_parent_first(tmp_path: Path) -> None:
    """By the decision, and as it is read."""
    assert readable({"parent": None, "child": "parent"}, set()) == ["parent"]
    assert readable({"parent": None, "child": "parent"}, {"parent"}) == ["child"]
    listed = shards(("parent", None), ("child", "parent"))
    client = FakeStreams(listed, page(1, following=None), listed, page(2))
    function = Recorder()
    with source(client, function, tmp_path / "cp") as running:
        step_until(running, lambda: len(function.batches) == 2)
    assert function.batches == [["1"], ["2"]]


def step_until(running: EventSource, done: object, seconds: float = 10) -> None:
    """Step until something holds."""
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        running.step()
    assert done()


@row("shard-last-batch")
def test_shard_last_batch(tmp_path: Path) -> None:
    """The last batch of the parent fails twice."""
    listed = shards(("parent", None), ("child", "parent"))
    client = FakeStreams(listed, page(1, following=None), listed, page(2))
    function = Recorder(*[FunctionFailed("ValueError", "no")] * 2)
    with source(client, function, tmp_path / "cp") as running:
        step_until(running, lambda: len(function.batches) == 4)
    assert function.batches == [["1"]] * 3 + [["2"]]


@row("shard-trimmed-parent")
def test_shard_trimmed_parent() -> None:
    """Only the child is in the list."""
    assert readable({"child": "gone"}, set()) == ["child"]


@row("shard-trimmed-while-read")
def test_shard_trimmed_while_read() -> None:
    """The parent is in no list any more, and its last batch is not done."""
    assert readable({"child": "parent", "other": "gone"}, set(), {"parent"}) == ["other"]
    assert readable({"child": "parent"}, {"parent"}, {"parent"}) == ["child"]
    trimmed = {"parent": "eldest", "eldest": None}
    assert readable({"child": "parent"}, (), {"eldest"}, trimmed) == []
    assert readable({"child": "parent"}, {"parent"}, {"eldest"}, trimmed) == []  # it went by unread
    assert readable({"child": "parent"}, {"parent", "eldest"}, (), trimmed) == ["child"]


@row("shard-gone")
def test_shard_gone(tmp_path: Path) -> None:
    """Of two shards that are gone, one had been read to its end."""
    checkpoint = CheckpointFile(tmp_path / "cp", ARN)
    checkpoint.keep("done", Position("7", finished=True))
    checkpoint.keep("half", Position("8"))
    client = FakeStreams(shards(("child", "half")), page(9))
    function = Recorder()
    with (
        Journal(tmp_path / "log") as journal,
        source(client, function, tmp_path / "cp", journal=journal) as running,
    ):
        running.step()
    assert (gaps(tmp_path / "log"), function.batches) == (["8"], [["9"]])


@row("shard-late-child")
def test_shard_late_child(tmp_path: Path) -> None:
    """What ended and has no child is named, so that the shell looks again: after half a second, and not before."""
    assert childless({"a": None, "b": None}, {"a"}) == {"a"}
    assert childless({"a": None, "b": "a"}, {"a"}) == frozenset()
    alone, both = shards(("a", None)), shards(("a", None), ("b", "a"))
    client = FakeStreams(alone, page(1, following=None), alone, both, page(2))
    clock, function = SetClock(), Recorder()
    with source(client, function, tmp_path / "cp", clock=clock) as running:
        running.step()
        clock.at_ms = 100  # the end of a shard: the list is looked at
        running.step()
        clock.at_ms = 599
        running.step()
        assert len(client.described) == 2
        clock.at_ms = 600
        running.step()
    assert (len(client.described), function.batches) == (3, [["1"], ["2"]])


@row("shard-listed-first")
def test_shard_listed_first() -> None:
    """A shard that is not listed yet splits: in no list is a child without its parent."""
    kernel = Kernel(random.Random(1))  # noqa: S311 -- the same in each run
    stream = Stream(kernel, Ledger(), Chance(1), StreamSettings(listed_ms=1_000))
    listings: list[dict[str, str | None]] = []
    for place in range(6):
        stream.split(place)
    for at_ms in range(0, 7_000, 10):
        kernel.call_at(at_ms, lambda: listings.append(stream.shards()))
    kernel.run(7_000)
    assert len(listings[-1]) == 13
    assert all(parent is None or parent in listed for listed in listings for parent in listed.values())


BEGINNING = (("a", None),)
EARLY = (("a", None), ("other", "a"), ("c", "b"))
WHOLE = (*EARLY, ("b", "a"))


@row("shard-late-parent")
def test_shard_late_parent(tmp_path: Path) -> None:
    """A grandchild is listed before its parent: in time, also for another process that comes meanwhile, and never."""
    in_order: tuple[list[list[str]], list[str | None]] = ([["1"], ["4"], ["2"], ["3"]], [])
    assert listed_early(tmp_path / "in time", [BEGINNING, EARLY, WHOLE], 1_000) == in_order
    assert listed_early(tmp_path / "another", [BEGINNING], 600) == ([["1"]], [])
    assert listed_early(tmp_path / "another", [EARLY], 600) == ([["4"]], [])
    assert listed_early(tmp_path / "another", [EARLY, WHOLE], 1_000) == ([["2"], ["3"]], [])
    assert listed_early(tmp_path / "never", [BEGINNING, EARLY], 9_900) == ([["1"], ["4"]], [])
    assert listed_early(tmp_path / "gone", [BEGINNING, EARLY], 11_000) == ([["1"], ["4"], ["3"]], [None])


def listed_early(
    directory: Path, lists: list[tuple[tuple[str, str | None], ...]], each_ms: int
) -> tuple[list[list[str]], list[str | None]]:
    """Run a source over lists of shards; return what it delivered, and the gaps."""
    directory.mkdir(exist_ok=True)
    clock, function, client = SetClock(), Recorder(), Lineage({"a": 1, "b": 2, "c": 3, "other": 4})
    with (
        Journal(directory / "log") as journal,
        source(client, function, directory / "cp", clock=clock, journal=journal) as running,
    ):
        for client.listed in lists:
            for _ in range(0, each_ms, 100):
                running.step()
                clock.at_ms += 100
    return function.batches, gaps(directory / "log")


class Lineage(FakeStreams):
    """Shards that have one record each, and are closed but for `other`; the list of them is what the test says."""

    def __init__(self, numbers: dict[str, int]) -> None:
        super().__init__()
        self.numbers = numbers
        self.listed: tuple[tuple[str, str | None], ...] = ()

    def describe_stream(self, **_request: Any) -> Any:
        """Answer with the list."""
        return shards(*self.listed)

    def get_shard_iterator(self, **request: Any) -> Any:
        """Start at the beginning of a shard."""
        return {"ShardIterator": request["ShardId"]}

    def get_records(self, **request: Any) -> Any:
        """Answer with the record of a shard, and its end."""
        shard = request["ShardIterator"]
        return page(self.numbers[shard], following="other" if shard == "other" else None)


@row("shard-list-pages")
def test_shard_list_pages(tmp_path: Path) -> None:
    """Three pages take 200 ms at least."""
    clock = SetClock()
    pages = [shards(("a", None)), shards(("b", None)), shards(("c", None))]
    for name, one in zip("ab", pages, strict=False):
        one["StreamDescription"]["LastEvaluatedShardId"] = name
    client = FakeStreams(*pages, page(1), page(2), page(3))
    function = Recorder()
    with source(client, function, tmp_path / "cp", clock=clock) as running:
        running.step()
    assert (clock.at_ms, function.batches) == (200, [["1"], ["2"], ["3"]])


@row("shard-iterator-expired")
def test_shard_iterator_expired() -> None:
    """The next iterator is made after what was read last, with no gap."""
    client = FakeStreams(page(1, 2), refusal("ExpiredIteratorException"), page(3))
    reader = DynamoDbStream(client, ARN).open("s")
    reader.read()
    again = reader.read()
    assert ([one["dynamodb"]["SequenceNumber"] for one in again.records], again.gap) == (["3"], None)
    assert client.sought == ["TRIM_HORIZON", "2"]


@row("shard-trimmed-records")
def test_shard_trimmed_records(tmp_path: Path) -> None:
    """What the checkpoint covers is not delivered again, and the gap is in the log."""
    CheckpointFile(tmp_path / "cp", ARN).keep("s", Position("7"))
    client = FakeStreams(shards(("s", None)), (refusal("TrimmedDataAccessException"),), page(5, 50))
    function = Recorder()
    with (
        Journal(tmp_path / "log") as journal,
        source(client, function, tmp_path / "cp", journal=journal) as running,
    ):
        running.step()
    assert function.batches == [["50"]]
    assert gaps(tmp_path / "log") == ["7"]


@row("shard-numbers-anew")
def test_shard_numbers_anew(tmp_path: Path) -> None:
    """The shard has 1 to 4, and was read to 1,000: an error at its end, open or closed; with 1,000 in it, none."""
    lost = (refusal("TrimmedDataAccessException"),)
    for number, pages in enumerate(
        (
            (page(1, 2), page(3, 4), page()),
            (page(1, 2), page(3, 4, following=None)),
            (page(1, 2), page(3, 1_000), page()),
        )
    ):
        path = tmp_path / f"cp{number}"
        CheckpointFile(path, ARN).keep("s", Position("1000"))
        client = FakeStreams(shards(("s", None)), lost, *pages)
        function = Recorder()
        with source(client, function, path) as running:
            for _ in pages[1:]:
                running.step()
            if number < 2:
                with pytest.raises(InvalidRecord, match=r"e4: it is the last of shard s, .* after 1000, .* began anew"):
                    step_until(running, lambda: False)
            else:
                running.step()
        assert function.batches == []
        assert CheckpointFile(path, ARN).position("s") == Position("1000")


def gaps(log: Path) -> list[str | None]:
    """Return the gaps in a log."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [entry["after"] for entry in entries if entry["event"] == "gap"]


# --- starting positions ---


@row("start-trim-horizon")
def test_start_trim_horizon(tmp_path: Path) -> None:
    """All shards, parents too."""
    client = FakeStreams(shards(("s", None)), page(1))
    function = Recorder()
    with source(client, function, tmp_path / "cp") as running:
        running.step()
    assert (client.sought_how, function.batches) == (["TRIM_HORIZON"], [["1"]])


@row("start-latest")
def test_start_latest(tmp_path: Path) -> None:
    """A parent that ended, an open child, and a grandchild that comes later."""
    parents = {"parent": None, "child": "parent", "other": None}
    assert from_latest(parents) == Latest(frozenset({"parent"}), frozenset({"child", "other"}))
    client = FakeStreams(
        shards(("parent", None), ("child", "parent")),
        page(following=None),
        shards(("parent", None), ("child", "parent"), ("grandchild", "child")),
        page(9),
    )
    function = Recorder()
    with source(client, function, tmp_path / "cp", start=LATEST) as running:
        step_until(running, lambda: function.batches)
    assert (client.sought_how, function.batches) == (["LATEST", "TRIM_HORIZON"], [["9"]])


@row("start-latest-gap")
def test_start_latest_gap(tmp_path: Path) -> None:
    """A restart before the first record, and an iterator that expires before it."""
    with source(FakeStreams(shards(("s", None)), page()), Recorder(), tmp_path / "cp", start=LATEST) as running:
        running.step()
    client = FakeStreams(shards(("s", None)), page(), refusal("ExpiredIteratorException"), page())
    with (
        Journal(tmp_path / "log") as journal,
        source(client, Recorder(), tmp_path / "cp", start=LATEST, journal=journal) as running,
    ):
        running.step()
        assert gaps(tmp_path / "log") == [None]
        running.step()
    assert gaps(tmp_path / "log") == [None, None]
    assert client.sought_how == ["LATEST", "LATEST"]
    lost = DynamoDbStream(FakeStreams(refusal("ExpiredIteratorException"), page(2)), ARN).open("s", latest=True)
    assert lost.read().gap == Gap(None)


@row("start-latest-position")
def test_start_latest_position(tmp_path: Path) -> None:
    """The first record failed, and the source was restarted: without LATEST being asked for again."""
    client = FakeStreams(shards(("s", None)), page(5, 6))
    with source(client, Recorder(FunctionFailed("ValueError", "no")), tmp_path / "cp", start=LATEST) as running:
        running.step()
    assert client.sought_how == ["LATEST"]
    again = FakeStreams(shards(("s", None)), page(5, 6))
    function = Recorder(Responded(None))
    with source(again, function, tmp_path / "cp") as running:
        running.step()
    assert (again.sought_how, again.sought) == (["AT_SEQUENCE_NUMBER"], ["5"])
    assert function.batches == [["5", "6"]]


@row("start-other-stream")
def test_start_other_stream(tmp_path: Path) -> None:
    """LATEST is asked for, and what the new table's stream has is delivered."""
    CheckpointFile(tmp_path / "cp", "arn:another").keep("old", Position("900"))
    client = FakeStreams(shards(("s", None)), page(1))
    function = Recorder()
    with source(client, function, tmp_path / "cp", start=LATEST) as running:
        running.step()
    assert (client.sought_how, function.batches) == (["TRIM_HORIZON"], [["1"]])
