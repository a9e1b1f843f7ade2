"""One shard, read as Lambda reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shard_records import ERROR, NOW, SUCCESS, WANTED, fail, failed_at, machine, numbers, record, records

from dynamodb_outbox.core.eventsource.answers import Answer, Responded, Throttled
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Condition, Discard, Invoke, WaitUntil
from dynamodb_outbox.core.eventsource.config import FOREVER, PAYLOAD_BYTES, MappingConfig, retry_pause_ms
from dynamodb_outbox.core.eventsource.lineage import childless, readable
from dynamodb_outbox.core.eventsource.records import stream_record
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.machine import ShardMachine
    from dynamodb_outbox.core.eventsource.records import StreamRecord


def test_records_are_handed_over_at_once_and_the_checkpoint_follows_the_answer() -> None:
    """Without a window a batch is what was read; nothing is checkpointed before the answer."""
    shard = machine()
    commands = shard.read(records(1, 2, 3), NOW)
    assert [numbers(command) for command in commands] == [[1, 2, 3]]
    assert shard.checkpoint is None
    assert shard.answered(SUCCESS, NOW, 0) == [Checkpoint("3")]
    assert shard.drained


def test_one_invocation_at_a_time() -> None:
    """What is read during an invocation waits for its answer."""
    shard = machine()
    shard.read(records(1), NOW)
    assert shard.read(records(2, 3), NOW) == []
    assert shard.tick(NOW + 60_000) == []
    after = shard.answered(SUCCESS, NOW, 0)
    assert after[0] == Checkpoint("1")
    assert numbers(after[1]) == [2, 3]


def test_an_answer_to_nothing_is_a_mistake_of_the_shell() -> None:
    """Only an invocation can be answered."""
    with pytest.raises(ValueError, match="no invocation is in flight"):
        machine().answered(SUCCESS, NOW, 0)


def test_sequence_numbers_are_numbers() -> None:
    """A record is new when its number is greater: 10 follows 9, and 9 does not follow 10."""
    shard = machine(checkpoint="9")
    [first] = shard.read(records(8, 9, 10, 100), NOW)
    assert numbers(first) == [10, 100]
    assert shard.answered(SUCCESS, NOW, 0) == [Checkpoint("100")]
    assert shard.read(records(99, 100), NOW) == []


def test_batches_are_bounded_by_count_and_by_bytes() -> None:
    """A batch has at most batch_size records and 6 MB, and at least one record whatever its size."""
    by_count = machine(batch_size=2)
    [first] = by_count.read(records(1, 2, 3), NOW)
    assert numbers(first) == [1, 2]
    by_bytes = machine()
    big = [record(number, size=PAYLOAD_BYTES // 2 + 1) for number in (1, 2)]
    [first] = by_bytes.read([*big, record(3, size=2 * PAYLOAD_BYTES)], NOW)
    assert numbers(first) == [1]
    assert not by_bytes.wants_records
    assert numbers(by_bytes.answered(SUCCESS, NOW, 0)[1]) == [2]
    assert numbers(by_bytes.answered(SUCCESS, NOW, 0)[1]) == [3]


def test_a_window_gathers_until_the_batch_is_full_or_the_time_is_up() -> None:
    """With a window, a batch goes out when it is full, when the window ends, or when the shard does."""
    window: dict[str, Any] = {"batching_window_ms": 1000, "batch_size": 3}
    shard = machine(**window)
    assert shard.read(records(1), NOW) == [WaitUntil(NOW + 1000)]
    assert shard.read(records(2), NOW + 400) == [WaitUntil(NOW + 1000)]
    assert numbers(shard.tick(NOW + 1000)[0]) == [1, 2]
    full = machine(**window)
    assert numbers(full.read(records(1, 2, 3, 4), NOW)[0]) == [1, 2, 3]
    assert full.answered(SUCCESS, NOW + 5, 0) == [Checkpoint("3"), WaitUntil(NOW + 1000)]
    closing = machine(**window)
    closing.read(records(1), NOW)
    assert numbers(closing.close(NOW)[0]) == [1]


def test_a_clock_that_jumps_back_prolongs_no_wait() -> None:
    """After a jump back the window and the pause last their own length at most."""
    shard = machine(batching_window_ms=1000)
    shard.read(records(1), NOW)
    earlier = NOW - 86_400_000
    assert shard.tick(earlier) == [WaitUntil(earlier + 1000)]
    assert numbers(shard.tick(earlier + 1000)[0]) == [1]
    shard.answered(ERROR, NOW, 1.0)
    [wait] = shard.tick(earlier)
    assert wait == WaitUntil(earlier + 10_000)


def test_filtered_records_move_the_checkpoint() -> None:
    """Records that no filter wants are passed over and never seen again, alone, before, and after others."""
    shard = machine(filters=WANTED)
    assert shard.read([record(1, wanted=False), record(2, wanted=False)], NOW) == [Checkpoint("2")]
    [batch] = shard.read([record(3, wanted=False), record(4), record(5, wanted=False)], NOW)
    assert numbers(batch) == [4]
    assert shard.answered(SUCCESS, NOW, 0) == [Checkpoint("5")]


def test_a_filtered_record_does_not_move_the_checkpoint_past_one_that_failed() -> None:
    """While an earlier record waits for its retry, later ones that are passed over change nothing."""
    shard = machine(filters=WANTED)
    shard.read([record(1)], NOW)
    shard.answered(ERROR, NOW, 1.0)
    assert shard.read([record(2, wanted=False)], NOW) == [WaitUntil(NOW + 100)]
    assert shard.checkpoint is None


def test_a_partial_answer_goes_on_at_the_lowest_number() -> None:
    """What precedes the lowest failed record is done; it and all that follow are delivered again."""
    shard = machine()
    shard.read(records(1, 2, 3, 4), NOW)
    checkpoint, again = fail(shard, failed_at(4, 3))
    assert checkpoint == Checkpoint("2")
    assert numbers(again) == [3, 4]
    assert isinstance(again, Invoke)
    assert again.attempt == 2
    assert shard.answered(SUCCESS, NOW, 0) == [Checkpoint("4")]


@pytest.mark.parametrize("answer", [ERROR, failed_at(1), failed_at(7), Responded("text")])
def test_a_failed_batch_is_tried_again_whole(answer: Answer) -> None:
    """An error, a failed first record and a useless identifier all leave the checkpoint where it was."""
    shard = machine()
    shard.read(records(1, 2), NOW)
    [again] = fail(shard, answer)
    assert numbers(again) == [1, 2]
    assert shard.checkpoint is None


def test_pauses_double_up_to_the_cap_and_progress_starts_them_anew() -> None:
    """The pause depends on failures in a row; a checkpoint that moved breaks the row."""
    shard = machine(retry_cap_ms=350)
    shard.read(records(1, 2), NOW)
    pauses = []
    for _ in range(4):
        [wait] = shard.answered(ERROR, NOW, 1.0)
        assert isinstance(wait, WaitUntil)
        pauses.append(wait.at_ms - NOW)
        shard.tick(wait.at_ms)
    assert pauses == [100, 200, 350, 350]
    assert shard.answered(failed_at(2), NOW, 1.0) == [Checkpoint("1"), WaitUntil(NOW + 100)]


@given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1))
def test_a_pause_is_bounded(failures: int, jitter: float) -> None:
    """No number of failures and no jitter leads outside half the first pause and the cap."""
    config = MappingConfig()
    assert config.retry_base_ms // 2 <= retry_pause_ms(config, failures, jitter) <= config.retry_cap_ms


def test_n_retries_are_n_plus_one_invocations() -> None:
    """When the retries are used up the batch is discarded, reported with its range, and passed over."""
    shard = machine(maximum_retry_attempts=2)
    shard.read(records(1, 2), NOW)
    for _ in range(2):
        [again] = fail(shard, ERROR)
        assert numbers(again) == [1, 2]
    discard, checkpoint = shard.answered(ERROR, NOW, 1.0)
    assert isinstance(discard, Discard)
    assert (discard.condition, discard.start, discard.end) == (Condition.RETRIES_EXHAUSTED, "1", "2")
    assert discard.invocations == 3
    assert checkpoint == Checkpoint("2")
    assert numbers(shard.read(records(3), NOW)[0]) == [3]


def test_no_retries_is_one_invocation() -> None:
    """0 is a number of retries, not "no limit"."""
    shard = machine(maximum_retry_attempts=0)
    shard.read(records(1), NOW)
    discard, checkpoint = shard.answered(ERROR, NOW, 1.0)
    assert (numbers(discard), checkpoint) == ([1], Checkpoint("1"))


def test_partial_answers_use_up_retries_without_bisect() -> None:
    """A partial answer is a retry; when they are used up, all that remains of the batch is discarded."""
    shard = machine(maximum_retry_attempts=1)
    shard.read(records(1, 2, 3), NOW)
    fail(shard, failed_at(2))
    discard, passed = shard.answered(failed_at(3), NOW, 1.0)
    assert (numbers(discard), passed) == ([3], Checkpoint("3"))


def test_throttles_are_not_counted() -> None:
    """The function was not run, so no retry is used up; the pause still grows."""
    shard = machine(maximum_retry_attempts=0)
    shard.read(records(1), NOW)
    for _ in range(20):
        [again] = fail(shard, Throttled())
        assert numbers(again) == [1]
    assert numbers(shard.answered(ERROR, NOW, 1.0)[0]) == [1]


def test_bisect_isolates_one_poison_record_and_loses_no_other() -> None:
    """Halves are tried in order, splits use up no retries, and only the poison record is discarded."""
    shard = machine(maximum_retry_attempts=1, bisect_on_error=True)
    commands = shard.read(records(*range(1, 9)), NOW)
    done: list[int] = []
    discarded: list[int] = []
    invocations = 0
    while commands:
        command = commands.pop(0)
        if isinstance(command, Discard):
            discarded += numbers(command)
        elif isinstance(command, Invoke):
            invocations += 1
            batch = numbers(command)
            poisoned = 6 in batch
            done += [] if poisoned else batch
            commands += fail(shard, ERROR if poisoned else SUCCESS)
    assert done == [1, 2, 3, 4, 5, 7, 8]
    assert discarded == [6]
    assert shard.checkpoint == "8"
    assert invocations == 8  # 8 | 1-4 | 5-8 | 5-6 | 5 | 6 | 6 again | 7-8


def test_bisect_with_a_partial_answer_splits_at_the_number() -> None:
    """With bisect a partial answer is no retry, as long as it makes the batch smaller."""
    shard = machine(maximum_retry_attempts=0, bisect_on_error=True)
    shard.read(records(1, 2, 3), NOW)
    checkpoint, rest = fail(shard, failed_at(2))
    assert (checkpoint, numbers(rest)) == (Checkpoint("1"), [2, 3])
    discard, passed = shard.answered(failed_at(2), NOW, 1.0)
    assert (numbers(discard), passed) == ([2, 3], Checkpoint("3"))


def test_records_over_age_are_discarded_before_they_are_tried() -> None:
    """The head of a batch that is too old is given up; the rest is handed over."""
    shard = machine(maximum_record_age_s=60)
    old = NOW - 61_000
    discard, checkpoint, invoke = shard.read([record(1, at_ms=old), record(2, at_ms=old), record(3)], NOW)
    assert isinstance(discard, Discard)
    assert (discard.condition, numbers(discard), discard.invocations) == (Condition.AGE_EXCEEDED, [1, 2], 0)
    assert (checkpoint, numbers(invoke)) == (Checkpoint("2"), [3])


def test_age_ends_retries_for_ever_and_throttles() -> None:
    """A batch whose records all grew too old is discarded with the number of its invocations."""
    shard = machine(maximum_record_age_s=60)
    shard.read(records(1, 2), NOW)
    fail(shard, Throttled())
    shard.answered(ERROR, NOW, 1.0)
    discard, checkpoint = shard.tick(NOW + 120_000)
    assert isinstance(discard, Discard)
    assert (numbers(discard), discard.invocations, checkpoint) == ([1, 2], 2, Checkpoint("2"))


def test_reading_stops_while_enough_waits() -> None:
    """The shell is told not to read when two batches wait already."""
    shard = machine(batch_size=2)
    assert shard.wants_records
    shard.read(records(1, 2, 3, 4, 5, 6), NOW)
    assert not shard.wants_records


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 0},
        {"batch_size": 10_001},
        {"batching_window_ms": 300_001},
        {"parallelization_factor": 0},
        {"parallelization_factor": 11},
        {"maximum_retry_attempts": -2},
        {"maximum_record_age_s": 0},
        {"maximum_record_age_s": 59},
        {"maximum_record_age_s": 604_801},
        {"retry_base_ms": 20_000},
    ],
)
def test_settings_outside_lambdas_ranges_are_refused(settings: dict[str, Any]) -> None:
    """What AWS would not take is an error that names the setting."""
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        MappingConfig(**settings)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"eventID": "1"}, "no 'dynamodb' part"),
        ({"dynamodb": {"ApproximateCreationDateTime": 1}}, "SequenceNumber is None"),
        ({"dynamodb": {"SequenceNumber": "1a", "ApproximateCreationDateTime": 1}}, "not a decimal string"),
        ({"dynamodb": {"SequenceNumber": "1", "ApproximateCreationDateTime": "now"}}, "not a number"),
    ],
)
def test_a_record_without_number_or_time_is_refused(body: dict[str, Any], reason: str) -> None:
    """A record that cannot be placed in the shard is an error with its reason, not a KeyError."""
    with pytest.raises(InvalidRecord, match=reason):
        stream_record(body)


def test_parents_are_read_before_their_children() -> None:
    """A child waits for its parent; a parent that is gone, or done, holds nothing back."""
    parents = {"old": "trimmed", "root": None, "left": "root", "right": "root", "leaf": "left"}
    assert readable(parents, set()) == ["old", "root"]
    assert readable(parents, {"old", "root"}) == ["left", "right"]
    assert readable(parents, {"old", "root", "left", "right", "leaf"}) == []


def test_what_ended_and_has_no_child_yet_is_named() -> None:
    """Only shards that are listed and were read to their end: what is still open will get its children later."""
    parents = {"root": None, "other": None, "left": "root"}
    assert childless(parents, set()) == frozenset()
    assert childless(parents, {"root"}) == frozenset()
    assert childless(parents, {"root", "left", "trimmed"}) == {"left"}


answers = st.one_of(
    st.just("success"),
    st.just("error"),
    st.just("throttle"),
    st.just("nonsense"),
    st.integers(0, 20),  # a partial answer that names this place of the batch, as far as it has one
)


class Model:
    """A shard, a function that answers as scripted (then always well), and what must hold for every command."""

    def __init__(self, shard: ShardMachine, read: list[StreamRecord], script: list[Any]) -> None:
        self.shard = shard
        self.all = read
        self.script = script
        self.now_ms = NOW
        self.done: set[int] = set()
        self.checkpoint = 0
        self.invocations = 0

    def obey(self, commands: list[Command]) -> None:
        """Carry out commands until there is nothing more to do now."""
        while commands:
            command = commands.pop(0)
            if isinstance(command, Checkpoint):
                reached = int(command.sequence_number)
                assert reached > self.checkpoint
                wanted = {one.number for one in self.all if one.body["eventName"] == "INSERT"}
                assert {number for number in wanted if number <= reached} <= self.done
                self.checkpoint = reached
            elif isinstance(command, Discard):
                self.done |= set(numbers(command))
            elif isinstance(command, Invoke):
                assert not commands, "an invocation is the last thing a machine asks for"
                commands = self.invoke(command)
            else:
                assert command.at_ms > self.now_ms
                self.now_ms = command.at_ms
                commands += self.shard.tick(self.now_ms)

    def invoke(self, command: Invoke) -> list[Command]:
        """Answer, and note what is done by that answer."""
        self.invocations += 1
        batch = numbers(command)
        assert batch == sorted(batch)
        assert batch[0] > self.checkpoint
        said: Any = self.script.pop(0) if self.script else "success"
        answer: Answer = SUCCESS
        if said == "success":
            self.done |= set(batch)
        elif said in ("error", "throttle"):
            answer = ERROR if said == "error" else Throttled()
        elif said == "nonsense":
            answer = failed_at(0)
        else:
            place: int = min(said, len(batch) - 1)
            answer = failed_at(batch[place])
            self.done |= set(batch[:place])
        return self.shard.answered(answer, self.now_ms, 0.5)


@given(
    wanted=st.lists(st.booleans(), max_size=25),
    cuts=st.lists(st.integers(1, 6), max_size=8),
    script=st.lists(answers, max_size=30),
    batch_size=st.integers(1, 6),
    window_ms=st.sampled_from([0, 500]),
    retries=st.sampled_from([FOREVER, 0, 1, 3]),
    bisect=st.booleans(),
)
def test_the_checkpoint_never_passes_a_record_that_is_not_done(
    *,
    wanted: list[bool],
    cuts: list[int],
    script: list[Any],
    batch_size: int,
    window_ms: int,
    retries: int,
    bisect: bool,
) -> None:
    """Whatever the answers and however records arrive: nothing is skipped, and everything is done in the end."""
    # Numbers of one to several digits, so that comparing them as text would be wrong.
    everything = [record(place * 7 + 5, wanted=flag) for place, flag in enumerate(wanted)]
    shard = machine(
        filters=WANTED,
        batch_size=batch_size,
        batching_window_ms=window_ms,
        maximum_retry_attempts=retries,
        bisect_on_error=bisect,
    )
    model = Model(shard, everything, script)
    rest = list(everything)
    for cut in [*cuts, len(everything)]:
        page, rest = rest[:cut], rest[cut:]
        model.obey(shard.read(page, model.now_ms))
    model.obey(shard.close(model.now_ms))
    assert shard.drained
    assert {one.number for one in everything if one.body["eventName"] == "INSERT"} == model.done
    assert model.checkpoint == (everything[-1].number if everything else 0)


@given(count=st.integers(1, 20), retries=st.integers(0, 3), bisect=st.booleans(), first=st.booleans())
def test_a_function_that_always_fails_is_given_up_in_bounded_time(
    count: int, retries: int, bisect: bool, first: bool
) -> None:
    """With finite retries every record is given up: at most its retries on top of one invocation for each split."""
    everything = records(*range(1, count + 1))
    shard = machine(maximum_retry_attempts=retries, bisect_on_error=bisect)
    model = Model(shard, everything, [0 if first else "error"] * 10_000)
    model.obey(shard.read(everything, NOW))
    assert model.done == set(range(1, count + 1))
    splits = count - 1 if bisect and not first else 0
    batches = splits + 1
    assert model.invocations == splits + batches * (retries + 1)
