"""What CommitUnknown tells its reader, how sure an absence is, and where the machine's times end to the millisecond."""

from __future__ import annotations

from datetime import timedelta

import pytest
from write_world import START_MS, some_guard, some_plan

from dynamodb_outbox.core.commit.answers import (
    Answer,
    Cancelled,
    Committed,
    Held,
    ItemRead,
    Lost,
    ReadFailed,
    Reason,
    Refused,
)
from dynamodb_outbox.core.commit.commands import Command, Done, Fail, Read, Send, Wait
from dynamodb_outbox.core.commit.machine import CommitMachine, State
from dynamodb_outbox.errors import CommitFailed, CommitUnknown, ConditionFailed, OutboxError
from dynamodb_outbox.layout import Layout

NONE = Reason("None")
FAILED = Reason("ConditionalCheckFailed", "The conditional request failed")
BUDGET = 10_000
MINUTE = 60_000
GONE = "and the transaction's own item is not in the table"


def error_of(command: Command) -> OutboxError:
    """Return the error of a Fail."""
    assert isinstance(command, Fail)
    return command.error


def reason_of(command: Command) -> str:
    """Return the reason of a CommitUnknown."""
    error = error_of(command)
    assert isinstance(error, CommitUnknown)
    return error.reason


def begun(*, events: int = 1, guarded: bool = False, layout: Layout | None = None) -> CommitMachine:
    """Return a machine that has sent its request."""
    plan = some_plan(events=events, guard=some_guard() if guarded else None, layout=layout or Layout())
    machine = CommitMachine(plan, BUDGET)
    assert machine.begin(START_MS) == Send(plan.request)
    return machine


# --- reasons ----------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_the_reason() -> None:
    """With nothing to look for, the words of the loss; with something, that it is not there."""
    assert reason_of(begun(events=0).answered(Lost("ReadTimeoutError: 5 s"), START_MS + BUDGET, 0.5)) == (
        "ReadTimeoutError: 5 s"
    )
    machine = begun()
    assert isinstance(machine.answered(Lost("ReadTimeoutError: 5 s"), START_MS + BUDGET, 0.5), Read)
    assert reason_of(machine.read(ItemRead(None), START_MS + BUDGET, 0.5)) == f"ReadTimeoutError: 5 s, {GONE}"


def test_an_interruption_is_the_reason() -> None:
    """The shell was stopped between the request and its answer."""
    machine = begun(events=0)
    machine.begin(START_MS + 1)
    refused = machine.answered(Refused("AccessDeniedException"), START_MS + 2, 0.5)
    assert reason_of(refused) == "the call was interrupted before its answer came; then AccessDeniedException"


def test_an_unknown_outcome_is_never_told_as_nothing_written() -> None:
    """What the last answer says is repeated without its advice, which holds for that attempt alone."""
    machine = begun(events=0)
    machine.answered(Lost("gone"), START_MS + 1, 0.5)
    machine.waited(START_MS + 100)
    error = error_of(machine.answered(Cancelled((FAILED,)), START_MS + 9 * MINUTE, 0.5))
    assert isinstance(error, CommitUnknown)
    assert error.reason.startswith("gone; then put shop ")
    assert error.reason.endswith(": ConditionalCheckFailed: The conditional request failed")
    assert "Nothing was written" not in str(error)


def test_a_repetition_by_the_client_is_the_reason() -> None:
    """Unless an answer was lost before, which tells more."""
    machine = begun(events=0)
    refused = machine.answered(Refused("AccessDeniedException", repeated=True), START_MS + 1, 0.5)
    assert reason_of(refused) == "the client repeated the request by itself; then AccessDeniedException"
    machine = begun(events=0)
    machine.answered(Lost("gone"), START_MS + 1, 0.5)
    machine.waited(START_MS + 50)
    refused = machine.answered(Refused("AccessDeniedException", repeated=True), START_MS + 60, 0.5)
    assert reason_of(refused) == "gone; then AccessDeniedException"


def test_an_own_item_in_the_way_that_is_gone_is_the_reason() -> None:
    """It was there when the conditions were checked, and is not there when it is read."""
    machine = begun()
    assert isinstance(machine.answered(Cancelled((NONE, FAILED)), START_MS + 1, 0.5), Read)
    expected = f"an item of the transaction's own was in its way, {GONE}"
    assert reason_of(machine.read(ItemRead(None), START_MS + 2, 0.5)) == expected


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Lost("ReadTimeoutError"), "ReadTimeoutError"),
        (Cancelled((NONE, FAILED)), "an item of the transaction's own was in its way"),
    ],
)
def test_a_look_that_fails_is_told_beside_the_reason_for_it(answer: Answer, said: str) -> None:
    """Both are needed to find out what happened."""
    machine = begun()
    command = machine.answered(answer, START_MS + BUDGET, 0.5)
    assert isinstance(command, Read)
    failed = machine.read(ReadFailed("AccessDeniedException: GetItem", retryable=False), START_MS + BUDGET, 0.5)
    assert reason_of(failed) == f"{said}, and looking for it failed: AccessDeniedException: GetItem"


def test_the_token_is_told() -> None:
    """It is what an operator searches for."""
    plan = some_plan(events=0)
    machine = CommitMachine(plan, BUDGET)
    machine.begin(START_MS)
    error = error_of(machine.answered(Lost("x"), START_MS + BUDGET, 0.5))
    assert isinstance(error, CommitUnknown)
    assert error.token == plan.token == plan.request["ClientRequestToken"]


# --- how sure an absence is -------------------------------------------------------------------------------------------


def test_a_first_answer_leaves_no_doubt_however_late_it_is() -> None:
    """One request, one answer, no guard in the table: the condition's error, though token and evidence are long dead.

    Neither is needed, for no attempt is unaccounted for.
    """
    late = START_MS + 60 * 24 * 60 * MINUTE
    machine = begun(events=0, guarded=True)
    assert isinstance(machine.answered(Cancelled((FAILED, NONE)), late, 0.5), Read)
    assert isinstance(error_of(machine.read(ItemRead(None), late, 0.5)), ConditionFailed)


def test_the_token_speaks_at_the_time_of_the_answer() -> None:
    """A read that takes its time changes nothing about a cancellation that came within the token's life."""
    short = Layout(published_for=timedelta(minutes=6))  # with five minutes off for the clocks: a minute of evidence
    for after_ms, sure in ((9 * MINUTE - 1, True), (9 * MINUTE, False)):
        machine = begun(layout=short)
        machine.answered(Lost("gone"), START_MS + 1, 0.5)
        machine.waited(START_MS + 100)
        assert isinstance(machine.answered(Cancelled((FAILED, NONE)), START_MS + after_ms, 0.5), Read)
        error = error_of(machine.read(ItemRead(None), START_MS + 60 * MINUTE, 0.5))
        assert isinstance(error, ConditionFailed if sure else CommitUnknown)


def test_evidence_lasts_to_its_end_less_what_clocks_may_differ() -> None:
    """Five minutes before the first moment at which TTL may remove it."""
    short = Layout(published_for=timedelta(minutes=20))
    for last_ms, sure in ((15 * MINUTE - 1, True), (15 * MINUTE, False)):
        machine = begun(layout=short)
        machine.answered(Lost("gone"), START_MS + 1, 0.5)
        machine.waited(START_MS + 100)
        assert isinstance(machine.answered(Cancelled((FAILED, NONE)), START_MS + 10 * MINUTE, 0.5), Read)
        error = error_of(machine.read(ItemRead(None), START_MS + last_ms, 0.5))
        assert isinstance(error, ConditionFailed if sure else CommitUnknown)


def test_a_token_is_sent_again_for_nine_minutes_and_no_longer() -> None:
    """From the first request on, when an answer is missing and nothing else keeps a second commit away."""
    for after_ms, sent in ((9 * MINUTE - 1, True), (9 * MINUTE, False)):
        machine = begun(events=0)
        machine.answered(Lost("gone"), START_MS + BUDGET, 0.5)
        command = machine.begin(START_MS + after_ms)
        assert isinstance(command, Send if sent else Fail)


def test_an_error_that_was_pending_once_is_not_raised_later() -> None:
    """A look after the time is up confirms nothing, also when an earlier one was about to confirm an error."""
    short = Layout(published_for=timedelta(minutes=6))
    machine = begun(layout=short)
    machine.answered(Lost("gone"), START_MS + 1, 0.5)
    machine.waited(START_MS + 100)
    assert isinstance(machine.answered(Cancelled((FAILED, NONE)), START_MS + 200, 0.5), Read)
    machine.read(ReadFailed("denied", retryable=False), START_MS + 300, 0.5)
    assert isinstance(machine.begin(START_MS + 60 * MINUTE), Read)
    assert reason_of(machine.read(ItemRead(None), START_MS + 60 * MINUTE, 0.5)) == f"gone, {GONE}"


# --- pauses and states ------------------------------------------------------------------------------------------------


def test_a_pause_ends_before_the_time_does() -> None:
    """One that would end with the time is not begun."""
    pause_ms = 12  # half of 25
    for after_ms, waits in ((BUDGET - pause_ms - 1, True), (BUDGET - pause_ms, False)):
        command = begun(events=0).answered(Held("throttle", "slow"), START_MS + after_ms, 0.5)
        assert command == Wait(pause_ms) if waits else isinstance(command, Fail)


def test_a_new_call_has_new_time_and_short_pauses() -> None:
    """The budget counts from `begin`, and so do the pauses."""
    machine = begun(events=0)
    assert machine.answered(Held("throttle", "slow"), START_MS, 0.99) == Wait(24)
    machine.waited(START_MS + 24)
    assert machine.answered(Held("throttle", "slow"), START_MS + 24, 0.99) == Wait(49)
    machine.waited(START_MS + 73)
    assert isinstance(machine.answered(Held("throttle", "slow"), START_MS + BUDGET, 0.99), Fail)
    again = START_MS + BUDGET + MINUTE
    machine.begin(again)
    assert machine.answered(Held("throttle", "slow"), again + BUDGET - 25, 0.99) == Wait(24)


def test_a_look_is_paused_like_an_attempt_and_repeated_at_the_same_place() -> None:
    """A read that may succeed later is made again, of the same item of the same table."""
    plan = some_plan()
    evidence = plan.evidence
    assert evidence is not None
    machine = CommitMachine(plan, BUDGET)
    machine.begin(START_MS)
    first = machine.answered(Cancelled((NONE, FAILED)), START_MS + 1, 0.99)
    assert first == Read(evidence.table, evidence.key)
    assert (evidence.table, evidence.key["pk"]) == ("shop", {"S": "ORDER#1"})
    assert machine.read(ReadFailed("throttled", retryable=True), START_MS + 2, 0.99) == Wait(24)
    assert machine.state is State.WAITING
    assert machine.waited(START_MS + 26) == first
    assert isinstance(machine.read(ItemRead({}), START_MS + 30, 0.99), Done)


def test_a_call_after_a_look_that_failed_sends_again() -> None:
    """`begin` starts with the request, not with the read that the call before was at."""
    machine = begun()
    machine.answered(Lost("gone"), START_MS + BUDGET, 0.5)
    machine.read(ReadFailed("denied", retryable=False), START_MS + BUDGET, 0.5)
    assert isinstance(machine.begin(START_MS + MINUTE), Send)
    assert isinstance(machine.answered(Held("throttle", "slow"), START_MS + MINUTE, 0.5), Wait)
    assert isinstance(machine.waited(START_MS + MINUTE + 12), Send)


def test_the_state_says_what_is_waited_for() -> None:
    """From the beginning to the end; a call out of turn is told it."""
    machine = CommitMachine(some_plan(events=0), BUDGET)
    assert machine.state.value == "begin"
    with pytest.raises(RuntimeError, match=r"^the machine waits for begin$"):
        machine.answered(Committed(), START_MS, 0.5)
    machine.begin(START_MS)
    machine.answered(Held("conflict", "in use"), START_MS, 0.5)
    with pytest.raises(RuntimeError, match=r"^the machine waits for waited$"):
        machine.answered(Committed(), START_MS, 0.5)
    machine.waited(START_MS)
    command = machine.answered(Held("conflict", "in use"), START_MS + BUDGET, 0.5)
    assert error_of(command).retryable
    with pytest.raises(RuntimeError, match=r"^the machine waits for begin again$"):
        machine.waited(START_MS)
    machine.begin(START_MS)
    error = error_of(machine.answered(Cancelled((FAILED,)), START_MS, 0.5))
    assert isinstance(error, CommitFailed)
    with pytest.raises(RuntimeError, match=r"^this commit has ended$"):
        machine.begin(START_MS)
    with pytest.raises(RuntimeError, match=r"^the machine waits for nothing$"):
        machine.read(ItemRead(None), START_MS, 0.5)
