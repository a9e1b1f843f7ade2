"""Rows of the table: batches, filters, answers, retries, splits, age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shard_records import ERROR, NOW, SUCCESS, WANTED, fail, failed_at, machine, numbers, record, records
from source_runs import Recorder, source
from table_rows import row

from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Outcome, Responded, Throttled, judge
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Condition, Discard, Invoke, Tried, WaitUntil
from dynamodb_outbox.core.eventsource.config import PAYLOAD_BYTES, MappingConfig
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.errors import InvalidFilter
from dynamodb_outbox.local.checkpoint import CheckpointFile
from fake_streams import ARN, FakeStreams, page, shards

if TYPE_CHECKING:
    from pathlib import Path


def handed_over(commands: list[Command]) -> list[list[int]]:
    """Return the batches among commands."""
    return [numbers(command) for command in commands if isinstance(command, Invoke)]


def given_up(commands: list[Command]) -> list[tuple[Condition, list[int], int]]:
    """Return what is given up among commands: why, which, and after how many invocations."""
    return [(one.condition, numbers(one), one.invocations) for one in commands if isinstance(one, Discard)]


def outcome(answer: Any, *, report: bool = True) -> tuple[Outcome, int]:
    """Return what an answer means for the batch of 9, 10 and 100."""
    judged = judge(answer, ["9", "10", "100"], report_failures=report)
    return judged.outcome, judged.first_failed


# --- batches ---


@row("batch-at-once")
def test_batch_at_once() -> None:
    """No window, no wait."""
    assert handed_over(machine().read(records(1, 2), NOW)) == [[1, 2]]


@row("batch-size")
def test_batch_size() -> None:
    """Three records, two at a time."""
    shard = machine(batch_size=2)
    assert handed_over(shard.read(records(1, 2, 3), NOW)) == [[1, 2]]
    assert handed_over(shard.answered(SUCCESS, NOW, 0)) == [[3]]


@row("batch-bytes")
def test_batch_bytes() -> None:
    """Two records of more than half the limit, and one beyond it."""
    shard = machine()
    big = [record(number, size=PAYLOAD_BYTES // 2 + 1) for number in (1, 2)]
    assert handed_over(shard.read([*big, record(3, size=2 * PAYLOAD_BYTES)], NOW)) == [[1]]
    assert [handed_over(shard.answered(SUCCESS, NOW, 0)) for _ in range(2)] == [[[2]], [[3]]]


@row("batch-window")
def test_batch_window() -> None:
    """The three ends of a window."""
    shard, full, closing = (machine(batching_window_ms=1_000, batch_size=2) for _ in range(3))
    assert shard.read(records(1), NOW) == [WaitUntil(NOW + 1_000)]
    assert handed_over(shard.tick(NOW + 999)) == []
    assert handed_over(shard.tick(NOW + 1_000)) == [[1]]
    assert handed_over(full.read(records(1, 2), NOW)) == [[1, 2]]
    closing.read(records(1), NOW)
    assert handed_over(closing.close(NOW)) == [[1]]


@row("batch-one-at-a-time")
def test_batch_one_at_a_time() -> None:
    """What arrives during an invocation is in the next."""
    shard = machine()
    shard.read(records(1), NOW)
    assert shard.read(records(2, 3), NOW) == []
    assert handed_over(shard.answered(SUCCESS, NOW, 0)) == [[2, 3]]


@row("batch-numbers")
def test_batch_numbers() -> None:
    """Compared as text, 10 would come before the checkpoint 9, and 8 after it would not."""
    shard = machine(checkpoint="9")
    assert handed_over(shard.read(records(8, 9, 10, 100), NOW)) == [[10, 100]]
    assert shard.answered(SUCCESS, NOW, 0) == [Checkpoint("100")]


# --- filters ---


@row("filter-or")
def test_filter_or() -> None:
    """OR between patterns and between rules, AND between fields."""
    filters = compile_filters({"a": ["1", "2"], "b": ["1"]}, {"c": ["1"]})
    assert all(map(filters.match, ({"a": "2", "b": "1"}, {"a": "1", "b": "1"}, {"c": "1"})))
    assert not any(map(filters.match, ({"a": "1"}, {"b": "1"}, {"a": "3", "b": "1"})))


@row("filter-passes")
def test_filter_passes() -> None:
    """Alone, before and after others; but never past one that failed."""
    shard = machine(filters=WANTED)
    assert shard.read([record(1, wanted=False)], NOW) == [Checkpoint("1")]
    assert handed_over(shard.read([record(2, wanted=False), record(3), record(4, wanted=False)], NOW)) == [[3]]
    assert not any(isinstance(command, Checkpoint) and command != Checkpoint("2") for command in fail(shard, ERROR))
    assert shard.answered(SUCCESS, NOW + 100, 0) == [Checkpoint("4")]


@row("filter-number")
def test_filter_number() -> None:
    """An attribute of type N."""
    body = {"n": {"N": "5"}}
    assert compile_filters({"n": {"N": ["5"]}}).match(body)
    assert not compile_filters({"n": {"N": [5]}}, {"n": {"N": [{"numeric": ["=", 5]}]}}).match(body)


@row("filter-spelling")
def test_filter_spelling() -> None:
    """Fields of the record itself, like SizeBytes, are numbers."""
    assert compile_filters({"n": [300]}).match({"n": 300})
    assert not compile_filters({"n": [300]}).match({"n": 300.0})
    assert not compile_filters('{"n": [300.0]}').match({"n": 300})
    assert compile_filters('{"n": [300.0]}').match({"n": 300.0})
    assert not any(compile_filters('{"n": [3.0e2]}').match({"n": number}) for number in (300, 300.0))
    assert compile_filters({"n": [{"numeric": ["=", 300]}]}).match({"n": 300.0})


@row("filter-exists")
def test_filter_exists() -> None:
    """`{"S": ...}` is an object."""
    body = {"sk": {"S": "x"}}
    assert not compile_filters({"sk": [{"exists": True}]}).match(body)
    assert compile_filters({"sk": [{"exists": False}]}).match(body)
    assert compile_filters({"sk": {"S": [{"exists": True}]}}).match(body)


@row("filter-event-name")
def test_filter_event_name() -> None:
    """The pattern that an outbox wants."""
    filters = compile_filters({"eventName": ["INSERT"]})
    assert filters.match({"eventName": "INSERT", "dynamodb": {}})
    assert not filters.match({"eventName": "REMOVE", "dynamodb": {}})


@row("filter-limits")
def test_filter_limits() -> None:
    """At the limit and one beyond it."""
    compile_filters(*[{}] * 5)
    longest = '{"a":["' + "x" * (4096 - 10) + '"]}'
    assert len(longest) == 4096
    compile_filters(longest)
    with pytest.raises(InvalidFilter):
        compile_filters(*[{}] * 6)
    with pytest.raises(InvalidFilter):
        compile_filters(longest.replace("xx", "xxx", 1))


@row("filter-unknown")
def test_filter_unknown() -> None:
    """EventBridge has it, Lambda does not list it."""
    for operator in ("wildcard", "cidr"):
        with pytest.raises(InvalidFilter) as caught:
            compile_filters({"a": [{operator: "x*"}]})
        assert (caught.value.path, caught.value.operator) == ("1.a", operator)


# --- answers ---


@row("answer-success")
def test_answer_success() -> None:
    """Every way of saying nothing."""
    payloads: list[Any] = [None, "", [], {}, {"batchItemFailures": []}, {"batchItemFailures": None}]
    for payload in payloads:
        assert outcome(Responded(payload)) == (Outcome.SUCCEEDED, 0)


@row("answer-misspelt")
def test_answer_misspelt() -> None:
    """The classic: one letter, and everything counts as done."""
    assert outcome(Responded({"batchItemFailure": [{"itemIdentifier": "9"}]})) == (Outcome.SUCCEEDED, 0)


@row("answer-lowest")
def test_answer_lowest() -> None:
    """As a number: of 10 and 100 it is 10; and from there on all are delivered again."""
    assert outcome(failed_at(100, 10)) == (Outcome.PARTIAL, 1)
    shard = machine()
    shard.read(records(9, 10, 100), NOW)
    checkpoint, again = fail(shard, failed_at(10))
    assert (checkpoint, numbers(again)) == (Checkpoint("9"), [10, 100])


@row("answer-stranger")
def test_answer_stranger() -> None:
    """One is enough."""
    for identifier in ("event-9", "", None, 9):
        failures = [{"itemIdentifier": "100"}, {"itemIdentifier": identifier}]
        assert outcome(Responded({"batchItemFailures": failures}))[0] is Outcome.FAILED
    assert outcome(Responded({"batchItemFailures": [{}]}))[0] is Outcome.FAILED


@row("answer-unreadable")
def test_answer_unreadable() -> None:
    """Other JSON."""
    for payload in ("done", 7, True, ["9"], {"batchItemFailures": "9"}, {"batchItemFailures": ["9"]}):
        assert outcome(Responded(payload))[0] is Outcome.FAILED


@row("answer-ignored")
def test_answer_ignored() -> None:
    """Also one that would fail the batch."""
    for payload in (failed_at(9).payload, "done"):
        assert outcome(Responded(payload), report=False) == (Outcome.SUCCEEDED, 0)


@row("answer-error")
def test_answer_error() -> None:
    """Whatever the mapping reads."""
    for kind in ("ValueError", "Runtime.ExitError", "Sandbox.Timedout"):
        for report in (True, False):
            assert outcome(FunctionFailed(kind, ""), report=report)[0] is Outcome.FAILED


# --- retries ---


@row("retry-for-ever")
def test_retry_for_ever() -> None:
    """A hundred failures, and what is behind waits."""
    shard = machine()
    shard.read(records(1), NOW)
    shard.read(records(2), NOW)
    for attempt in range(100):
        assert handed_over(fail(shard, ERROR, NOW + attempt * 20_000)) == [[1]]
    assert shard.checkpoint is None


@row("retry-count")
def test_retry_count() -> None:
    """Two retries are three invocations."""
    shard = machine(maximum_retry_attempts=2)
    shard.read(records(1, 2), NOW)
    shard.read(records(3), NOW)
    assert [handed_over(fail(shard, ERROR)) for _ in range(2)] == [[[1, 2]]] * 2
    commands = fail(shard, ERROR)
    assert given_up(commands) == [(Condition.RETRIES_EXHAUSTED, [1, 2], 3)]
    assert commands[1] == Checkpoint("2")
    assert handed_over(commands) == [[3]]


@row("retry-partial")
def test_retry_partial() -> None:
    """One retry, and the second partial answer is one too many."""
    shard = machine(maximum_retry_attempts=1)
    shard.read(records(1, 2, 3), NOW)
    assert handed_over(fail(shard, failed_at(2))) == [[2, 3]]
    assert given_up(fail(shard, failed_at(3))) == [(Condition.RETRIES_EXHAUSTED, [3], 2)]


@row("retry-throttled")
def test_retry_throttled() -> None:
    """No retry is allowed, and none is used; the age alone bounds it."""
    shard = machine(maximum_retry_attempts=0, maximum_record_age_s=60)
    shard.read(records(1), NOW)
    assert [handed_over(fail(shard, Throttled())) for _ in range(20)] == [[[1]]] * 20
    assert given_up(shard.answered(Throttled(), NOW, 1.0)) == []
    assert given_up(shard.tick(NOW + 61_000)) == [(Condition.AGE_EXCEEDED, [1], 21)]
    failing = machine(maximum_retry_attempts=0)
    failing.read(records(1), NOW)
    fail(failing, Throttled())
    assert given_up(fail(failing, ERROR)) == [(Condition.RETRIES_EXHAUSTED, [1], 2)]


@row("retry-pause")
def test_retry_pause() -> None:
    """Doubling to the cap; with jitter 0 half of it; anew after progress."""
    shard = machine()
    shard.read(records(1, 2), NOW)
    waits = []
    for _turn in range(9):
        waits += shard.answered(ERROR, NOW, 1.0)
        shard.tick(NOW + 10_000)
    assert waits == [WaitUntil(NOW + pause) for pause in (100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000)]
    assert shard.answered(failed_at(2), NOW, 0.0) == [Checkpoint("1"), WaitUntil(NOW + 50)]


@row("retry-restart")
def test_retry_restart(tmp_path: Path) -> None:
    """One retry of two was used, and the process died in the next invocation; of two halves one was tried."""
    shard = machine(maximum_retry_attempts=2)
    shard.read(records(1, 2), NOW)
    fail(shard, ERROR)
    assert shard.tried == (Tried("1", "2", 1, 1),)
    again = machine(maximum_retry_attempts=2, tried=shard.tried)
    again.read(records(1, 2), NOW)
    fail(again, ERROR)
    assert given_up(fail(again, ERROR)) == [(Condition.RETRIES_EXHAUSTED, [1, 2], 3)]

    for lanes in ((1, 2), (2, 1)):
        first = machine(maximum_retry_attempts=1, parallelization_factor=lanes[0])
        [handed] = [one for one in first.read(records(1, 2), NOW) if isinstance(one, Invoke)]
        fail(first, ERROR, lane=handed.lane)
        other = machine(maximum_retry_attempts=1, parallelization_factor=lanes[1], tried=first.tried)
        [handed] = [one for one in other.read(records(1, 2), NOW) if isinstance(one, Invoke)]
        assert given_up(fail(other, ERROR, lane=handed.lane)) == []

    halving = MappingConfig(maximum_retry_attempts=1, bisect_on_error=True, retry_base_ms=1, retry_cap_ms=1)
    batches = []
    for unread, answers in ((page(1, 2, 3, 4), [ERROR, SUCCESS, ERROR, ERROR]), (page(3, 4), [ERROR, ERROR])):
        client = FakeStreams(shards(("s", None)), unread, *[page()] * 1_000)
        function = Recorder(*answers)
        with source(client, function, tmp_path / "cp", config=halving) as running:
            while len(function.batches) < len(answers) and client.answers:
                running.step()
        batches.append(function.batches)
    assert batches == [[["1", "2", "3", "4"], ["1", "2"], ["3", "4"], ["3"]], [["3"], ["4"]]]
    # The halves and their retries were kept: one failure more gave up the one, and is the first of the other.
    position = CheckpointFile(tmp_path / "cp", ARN).position("s")
    assert (position.after, position.tried) == ("3", (Tried("4", "4", 3, 1),))


# --- splits ---


@row("bisect-error")
def test_bisect_error() -> None:
    """With no retry at all, only the poison record is given up."""
    shard = machine(maximum_retry_attempts=0, bisect_on_error=True)
    batches = handed_over(shard.read(records(1, 2, 3, 4), NOW))
    discarded = []
    for batch in batches:  # it grows
        commands = fail(shard, ERROR if 3 in batch else SUCCESS)
        batches += handed_over(commands)
        discarded += given_up(commands)
    assert batches == [[1, 2, 3, 4], [1, 2], [3, 4], [3], [4]]
    assert discarded == [(Condition.RETRIES_EXHAUSTED, [3], 3)]


@row("bisect-partial")
def test_bisect_partial() -> None:
    """With no retry at all, what follows the number is tried again."""
    shard = machine(maximum_retry_attempts=0, bisect_on_error=True)
    shard.read(records(1, 2, 3), NOW)
    commands = fail(shard, failed_at(2))
    assert (commands[0], handed_over(commands)) == (Checkpoint("1"), [[2, 3]])


@row("bisect-single")
def test_bisect_single() -> None:
    """What makes the batch no smaller is a retry."""
    for size_, answer in ((1, ERROR), (2, failed_at(1))):
        shard = machine(maximum_retry_attempts=1, bisect_on_error=True)
        whole = list(range(1, size_ + 1))
        shard.read(records(*whole), NOW)
        assert handed_over(fail(shard, answer)) == [whole]
        assert given_up(fail(shard, answer)) == [(Condition.RETRIES_EXHAUSTED, whole, 2)]


# --- age ---


@row("age-before")
def test_age_before() -> None:
    """A minute and a second."""
    shard = machine(maximum_record_age_s=60)
    commands = shard.read([record(1, at_ms=NOW - 61_000), record(2)], NOW)
    assert given_up(commands) == [(Condition.AGE_EXCEEDED, [1], 0)]
    assert handed_over(commands) == [[2]]


@row("age-while-retried")
def test_age_while_retried() -> None:
    """After an error, and after a throttle."""
    for answer in (ERROR, Throttled()):
        shard = machine(maximum_record_age_s=60)
        shard.read(records(1), NOW)
        shard.answered(answer, NOW, 1.0)
        assert given_up(shard.tick(NOW + 61_000)) == [(Condition.AGE_EXCEEDED, [1], 1)]
