"""Several lanes in one shard: what runs side by side, and where the checkpoint stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_records import ERROR, NOW, SUCCESS, WANTED, fail, failed_at, item_in, machine, numbers, record

from dynamodb_outbox.core.eventsource.answers import Answer, Throttled
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Condition, Discard, Invoke, Tried, WaitUntil
from dynamodb_outbox.core.eventsource.config import FOREVER, PAYLOAD_BYTES
from dynamodb_outbox.core.eventsource.lanes import lane_of

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.machine import ShardMachine
    from dynamodb_outbox.core.eventsource.records import StreamRecord

LEFT, RIGHT = item_in(0, 2), item_in(1, 2)


def invoked(commands: list[Command]) -> dict[int, list[int]]:
    """Return the numbers handed over, by lane."""
    return {command.lane: numbers(command) for command in commands if isinstance(command, Invoke)}


def two_lanes(**settings: Any) -> ShardMachine:
    """Return a machine with two lanes."""
    return machine(parallelization_factor=2, **settings)


def test_the_lane_depends_on_the_item_alone() -> None:
    """Every change of an item is in one lane; many items use all lanes; one lane takes all."""
    lanes = {lane_of(record(number, item=str(number)), 10) for number in range(200)}
    assert lanes == set(range(10))
    assert len({lane_of(record(number, item="x"), 10) for number in range(200)}) == 1
    assert {lane_of(record(number, item=str(number)), 1) for number in range(20)} == {0}
    keyless = record(1)
    keyless.body["dynamodb"].pop("Keys")
    assert 0 <= lane_of(keyless, 10) < 10


def test_items_of_different_lanes_run_side_by_side() -> None:
    """Each lane has its batch, in order; the checkpoint follows when the lowest is done."""
    shard = two_lanes()
    commands = shard.read(
        [record(1, item=LEFT), record(2, item=RIGHT), record(3, item=LEFT), record(4, item=RIGHT)], NOW
    )
    assert invoked(commands) == {0: [1, 3], 1: [2, 4]}
    assert shard.answered(SUCCESS, NOW, 0, 1) == []
    assert shard.answered(SUCCESS, NOW, 0, 0) == [Checkpoint("4")]


def test_a_lane_that_fails_holds_the_checkpoint_and_no_other_lane() -> None:
    """The rest of the shard goes on; the checkpoint stays below the record that is not done."""
    shard = two_lanes()
    shard.read([record(1, item=LEFT), record(2, item=RIGHT), record(3, item=LEFT)], NOW)
    wait, *_ = shard.answered(failed_at(3), NOW, 1.0, 0)
    assert wait == Checkpoint("1")
    assert shard.answered(SUCCESS, NOW, 0, 1)[0] == Checkpoint("2")
    assert invoked(shard.read([record(4, item=RIGHT)], NOW)) == {1: [4]}
    assert shard.answered(SUCCESS, NOW, 0, 1) == [WaitUntil(NOW + 100)]
    assert shard.checkpoint == "2"
    assert invoked(shard.tick(NOW + 100)) == {0: [3]}
    assert shard.answered(SUCCESS, NOW + 100, 0, 0) == [Checkpoint("4")]


def test_an_answer_to_a_lane_without_invocation_is_a_mistake_of_the_shell() -> None:
    """Answers name their lane."""
    shard = two_lanes()
    shard.read([record(1, item=LEFT)], NOW)
    with pytest.raises(ValueError, match="lane 1"):
        shard.answered(SUCCESS, NOW, 0, 1)


def test_the_first_of_several_waits_is_reported() -> None:
    """The shell is told of the earliest point in time."""
    shard = two_lanes()
    shard.read([record(1, item=LEFT), record(2, item=RIGHT)], NOW)
    shard.answered(ERROR, NOW, 1.0, 0)
    assert shard.answered(ERROR, NOW + 50, 1.0, 1) == [WaitUntil(NOW + 100)]


def test_reading_stops_while_all_lanes_have_enough() -> None:
    """What waits is bounded by records and by bytes, for all lanes together."""
    shard = two_lanes(batch_size=1)
    shard.read([record(1, item=LEFT)], NOW)
    shard.read([record(number, item=LEFT) for number in range(2, 5)], NOW)
    assert shard.wants_records
    shard.read([record(5, item=LEFT)], NOW)
    assert not shard.wants_records
    big = two_lanes()
    big.read([record(number, item=LEFT, size=PAYLOAD_BYTES) for number in (1, 2, 3)], NOW)
    assert not big.wants_records


def test_what_was_tried_is_known_to_the_next_machine() -> None:
    """Retries are counted on after a restart: three invocations in all, not six."""
    shard = machine(maximum_retry_attempts=2)
    shard.read([record(1), record(2)], NOW)
    fail(shard, ERROR)
    fail(shard, ERROR)
    assert shard.tried == (Tried("1", "2", 2, 2),)
    again = machine(maximum_retry_attempts=2, tried=shard.tried)
    assert again.tried == shard.tried
    [invoke] = again.read([record(1), record(2), record(3)], NOW)
    assert isinstance(invoke, Invoke)
    assert (numbers(invoke), invoke.attempt) == ([1, 2], 3)
    discard, checkpoint, rest = again.answered(ERROR, NOW, 1.0)
    assert isinstance(discard, Discard)
    assert (discard.condition, numbers(discard), discard.invocations) == (Condition.RETRIES_EXHAUSTED, [1, 2], 3)
    assert (checkpoint, numbers(rest)) == (Checkpoint("2"), [3])
    assert not again.tried


def test_halves_are_halves_after_a_restart() -> None:
    """A batch that was split is not put together again, and the records that come piecemeal keep their counts."""
    shard = machine(bisect_on_error=True, maximum_retry_attempts=1)
    shard.read([record(number) for number in (1, 2, 3, 4)], NOW)
    fail(shard, ERROR)
    assert shard.tried == (Tried("1", "2", 1, 0), Tried("3", "4", 1, 0))
    again = machine(tried=shard.tried)
    [first] = again.read([record(1)], NOW)
    assert isinstance(first, Invoke)
    assert (numbers(first), first.attempt) == ([1], 2)
    assert again.tried == (Tried("1", "1", 1, 0), Tried("2", "2", 1, 0), Tried("3", "4", 1, 0))
    again.read([record(2), record(3), record(4)], NOW)
    _, second = again.answered(SUCCESS, NOW, 0)
    _, third = again.answered(SUCCESS, NOW, 0)
    assert [numbers(second), numbers(third)] == [[2], [3, 4]]
    assert again.answered(SUCCESS, NOW, 0) == [Checkpoint("4")]
    assert not again.tried


def test_what_was_tried_and_is_gone_is_forgotten() -> None:
    """Counts of records that were trimmed are given to no other record."""
    shard = machine(tried=(Tried("1", "3", 5, 5), Tried("4", "6", 1, 1)))
    [invoke] = shard.read([record(7)], NOW)
    assert isinstance(invoke, Invoke)
    assert invoke.attempt == 1
    assert not shard.tried


def test_a_lane_has_only_its_own_counts() -> None:
    """Ranges of two lanes overlap; a record's own lane decides."""
    shard = two_lanes()
    shard.read([record(1, item=LEFT), record(2, item=RIGHT), record(3, item=LEFT)], NOW)
    shard.answered(ERROR, NOW, 1.0, 0)
    assert shard.tried == (Tried("1", "3", 1, 1, 0, 2),)
    again = machine(parallelization_factor=2, tried=shard.tried)
    commands = again.read([record(1, item=LEFT), record(2, item=RIGHT), record(3, item=LEFT)], NOW)
    assert {one.lane: one.attempt for one in commands if isinstance(one, Invoke)} == {0: 2, 1: 1}


def test_what_was_done_can_be_delivered_again() -> None:
    """The same batch, before all that follows; the checkpoint never goes back, and waits."""
    shard = machine(batch_size=2)
    shard.read([record(1), record(2)], NOW)
    assert shard.redeliver(NOW) == []  # nothing was done, and an invocation is in flight
    shard.answered(SUCCESS, NOW, 0)
    [again] = shard.redeliver(NOW)
    assert isinstance(again, Invoke)
    assert (numbers(again), again.attempt) == ([1, 2], 2)
    assert not shard.drained
    assert shard.redeliver(NOW) == []
    assert shard.read([record(3)], NOW) == []
    shard.answered(ERROR, NOW, 1.0)
    assert shard.redeliver(NOW) == []  # it waits to be delivered as it is
    [retry] = shard.tick(NOW + 100)
    assert numbers(retry) == [1, 2]
    [rest] = fail(shard, failed_at(2), NOW + 100)
    assert numbers(rest) == [2]
    [following] = shard.answered(SUCCESS, NOW + 1_000, 0)
    assert (numbers(following), shard.checkpoint) == ([3], "2")
    assert shard.answered(SUCCESS, NOW + 1_000, 0) == [Checkpoint("3")]
    assert shard.drained


answers = st.sampled_from(["success", "error", "throttle", "partial", "nonsense", "again"])


@given(
    plan=st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=30),
    cuts=st.lists(st.integers(1, 8), max_size=6),
    script=st.lists(st.tuples(answers, st.integers(0, 10)), max_size=60),
    order=st.randoms(use_true_random=False),
    factor=st.integers(1, 10),
    settings=st.fixed_dictionaries(
        {
            "batch_size": st.integers(1, 5),
            "maximum_retry_attempts": st.sampled_from([FOREVER, 0, 2]),
            "bisect_on_error": st.booleans(),
        }
    ),
)
def test_in_any_order_of_answers_nothing_is_skipped_and_items_stay_in_order(
    *,
    plan: list[tuple[str, bool]],
    cuts: list[int],
    script: list[tuple[str, int]],
    order: Any,
    factor: int,
    settings: dict[str, Any],
) -> None:
    """The checkpoint is never past a record that is not done; first deliveries of an item are in order; all is done."""
    everything = [record(3 * n + 7, item=item, wanted=wanted) for n, (item, wanted) in enumerate(plan)]
    world = _World(machine(parallelization_factor=factor, filters=WANTED, **settings), everything, script, order)
    rest = list(everything)
    for cut in [*cuts, len(everything)]:
        world.take(world.shard.read(rest[:cut], world.now_ms))
        rest = rest[cut:]
        world.answer_one()
    world.take(world.shard.close(world.now_ms))
    while world.answer_one():
        pass
    assert world.shard.drained
    assert world.done == world.wanted
    assert world.reached == (everything[-1].number if everything else 0)
    assert world.shard.tried == ()
    assert not world.shard._before  # nothing is kept of what is done


def _item(one: StreamRecord) -> str:
    return str(one.body["dynamodb"]["Keys"]["pk"]["S"])


class _World:
    """Answers invocations of lanes in any order, and checks what must hold."""

    def __init__(
        self, shard: ShardMachine, everything: list[StreamRecord], script: list[tuple[str, int]], order: Any
    ) -> None:
        self.shard = shard
        self.wanted = {one.number for one in everything if one.body["eventName"] == "INSERT"}
        self.of_item: dict[str, list[int]] = {_item(one): [] for one in everything}
        for one in everything:
            if one.number in self.wanted:
                self.of_item[_item(one)].append(one.number)
        self.script = script
        self.order = order
        self.now_ms = NOW
        self.done: set[int] = set()
        self.reached = 0
        self.running: dict[int, list[StreamRecord]] = {}
        self.latest: dict[str, int] = {}
        self.wait: int | None = None

    def take(self, commands: list[Command]) -> None:
        """Note what is asked."""
        for command in commands:
            if isinstance(command, Discard):
                self.done |= set(numbers(command))
            elif isinstance(command, Checkpoint):
                assert int(command.sequence_number) > self.reached
                self.reached = int(command.sequence_number)
                assert {number for number in self.wanted if number <= self.reached} <= self.done
            elif isinstance(command, WaitUntil):
                self.wait = command.at_ms
            else:
                assert command.lane not in self.running
                self.running[command.lane] = list(command.records)
                self._in_order(command)

    def _in_order(self, command: Invoke) -> None:
        for one in command.records:
            item = _item(one)
            left = [number for number in self.of_item[item] if self.latest.get(item, 0) < number < one.number]
            assert not left, "a later record of an item came first"
            self.latest[item] = max(self.latest.get(item, 0), one.number)

    def answer_one(self) -> bool:
        """Answer one of the running invocations, or let time go by; return whether there was anything to do."""
        if not self.running:
            if self.wait is None:
                return False
            self.now_ms, self.wait = self.wait, None
            self.take(self.shard.tick(self.now_ms))
            return True
        lane = self.order.choice(sorted(self.running))
        batch = self.running.pop(lane)
        said, place = self.script.pop(0) if self.script else ("success", 0)
        answer: Answer = SUCCESS
        good = batch
        if said == "partial":
            place = min(place, len(batch) - 1)
            answer, good = failed_at(batch[place].number), batch[:place]
        elif said in ("error", "throttle", "nonsense"):
            bad: dict[str, Answer] = {"error": ERROR, "throttle": Throttled(), "nonsense": failed_at(0)}
            answer = bad[said]
            good = []
        self.done |= {one.number for one in good}
        self.take(self.shard.answered(answer, self.now_ms, 0.5, lane))
        if said == "again" and lane not in self.running:
            self.take(self.shard.redeliver(self.now_ms, lane))
        return True
