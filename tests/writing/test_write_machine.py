"""The commit machine, case by case."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from write_world import START_MS, other_guard, some_guard, some_plan

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
from dynamodb_outbox.core.commit.reasons import weightiest
from dynamodb_outbox.errors import (
    CommitConflict,
    CommitFailed,
    CommitThrottled,
    CommitUnknown,
    CommitUnreached,
    ConditionFailed,
    IdempotencyMismatch,
    NoGuard,
    OutboxError,
)
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.core.commit.plan import CommitPlan
    from dynamodb_outbox.core.values import WireItem

NONE = Reason("None")
FAILED = Reason("ConditionalCheckFailed", "The conditional request failed", {"pk": {"S": "ORDER#1"}, "n": {"N": "2"}})
CONFLICT = Reason("TransactionConflict")
MINUTE = 60_000
BUDGET = 10_000
SHORT = Layout(published_for=timedelta(minutes=20))


class Shell:
    """Plays the shell: a clock, and the commands that the machine gave."""

    def __init__(self, plan: CommitPlan, budget_ms: int = BUDGET) -> None:
        self.plan = plan
        self.machine = CommitMachine(plan, budget_ms)
        self.now_ms = START_MS
        self.unit = 0.5
        self.command: Command = self.machine.begin(self.now_ms)

    def answer(self, answer: Answer, after_ms: int = 10) -> Command:
        """Answer a Send, after some time, and go through the wait that may follow."""
        assert isinstance(self.command, Send)
        assert self.command.request is self.plan.request
        self.now_ms += after_ms
        self.command = self.machine.answered(answer, self.now_ms, self.unit)
        return self._waited()

    def found(self, item: WireItem | None, after_ms: int = 10) -> Command:
        """Answer a Read."""
        assert isinstance(self.command, Read)
        self.now_ms += after_ms
        self.command = self.machine.read(ItemRead(item), self.now_ms, self.unit)
        return self.command

    def unreadable(self, *, retryable: bool) -> Command:
        """Fail a Read."""
        assert isinstance(self.command, Read)
        self.command = self.machine.read(ReadFailed("ClientError: no", retryable), self.now_ms, self.unit)
        return self._waited()

    def again(self, after_ms: int = 10) -> Command:
        """Call commit() again."""
        self.now_ms += after_ms
        self.command = self.machine.begin(self.now_ms)
        return self.command

    def _waited(self) -> Command:
        if isinstance(self.command, Wait):
            self.now_ms += self.command.duration_ms
            self.command = self.machine.waited(self.now_ms)
        return self.command


def error_of(command: Command) -> OutboxError:
    """Return the error of a Fail."""
    assert isinstance(command, Fail)
    return command.error


def done(command: Command) -> tuple[str, bool]:
    """Return what a Done says: resolved by what, replayed or not."""
    assert isinstance(command, Done)
    return command.receipt.resolved_by, command.receipt.replayed


def guard_item(plan: CommitPlan, **other: Any) -> WireItem:
    """Return the guard that the plan would write, with some attributes of another run."""
    item: dict[str, Any] = plan.request["TransactItems"][-1]["Put"]["Item"]
    return other_guard(item, **other)


# --- answers that leave no doubt --------------------------------------------------------------------------------------


def test_an_answer_is_the_end() -> None:
    """A success is a receipt, and the machine is closed."""
    shell = Shell(some_plan())
    assert done(shell.answer(Committed())) == ("answer", False)
    assert shell.machine.state is State.CLOSED
    with pytest.raises(RuntimeError, match="ended"):
        shell.again()


def test_conflicts_are_retried_with_the_same_request() -> None:
    """A conflict passes; the request is the same object each time, and the answer alone resolves it."""
    shell = Shell(some_plan())
    for _ in range(5):
        assert isinstance(shell.answer(Cancelled((CONFLICT, NONE))), Send)
    assert done(shell.answer(Committed())) == ("answer", False)


def test_pauses_grow_to_a_second_and_jitter_is_full() -> None:
    """A pause is a random part of a span that doubles from 25 ms to 1 s."""
    machine = CommitMachine(some_plan(), 10**9)
    machine.begin(START_MS)
    spans = []
    for _ in range(9):
        command = machine.answered(Held("throttle", "slow"), START_MS, 0.999999)
        assert isinstance(command, Wait)
        spans.append(command.duration_ms)
        machine.waited(START_MS)
    assert spans == [24, 49, 99, 199, 399, 799, 999, 999, 999]
    command = machine.answered(Held("throttle", "slow"), START_MS, 0.0)
    assert command == Wait(0)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Cancelled((CONFLICT, NONE)), CommitConflict),
        (Cancelled((NONE, Reason("ThrottlingError"))), CommitThrottled),
        (Cancelled((CONFLICT, Reason("ProvisionedThroughputExceeded"))), CommitConflict),
        (Held("conflict", "ReplicatedWriteConflictException"), CommitConflict),
        (Held("throttle", "ThrottlingException"), CommitThrottled),
        (Held("unreached", "EndpointConnectionError"), CommitUnreached),
    ],
)
def test_when_the_time_is_up_nothing_was_written(answer: Answer, error: type[CommitFailed]) -> None:
    """Conflicts and throttles to the end of the budget are an error from which commit() may be called again."""
    shell = Shell(some_plan())
    for _ in range(1000):
        if not isinstance(shell.answer(answer), Send):
            break
    caught = error_of(shell.command)
    assert type(caught) is error
    assert caught.retryable
    assert shell.now_ms <= START_MS + BUDGET + 1_000
    assert isinstance(shell.again(), Send)
    assert done(shell.answer(Committed())) == ("answer", False)


def test_a_condition_is_never_retried_whatever_stands_beside_it() -> None:
    """Conflict and condition together are the condition's error, with both failures, their actions and the old item."""
    shell = Shell(some_plan(events=0))
    caught = error_of(shell.answer(Cancelled((FAILED,))))
    assert isinstance(caught, ConditionFailed)
    (failure,) = caught.failures
    assert failure.action == "put shop {'pk': 'ORDER#1', 'sk': 'META'}"
    assert failure.item == {"pk": "ORDER#1", "n": 2}
    mixed = error_of(Shell(some_plan()).answer(Cancelled((FAILED, CONFLICT))))
    assert isinstance(mixed, ConditionFailed)
    assert [failure.index for failure in mixed.failures] == [0, 1]


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded", "SomethingNew"])
def test_permanent_reasons_are_not_retried(code: str) -> None:
    """What cannot succeed is raised at once, as a failure of its action; so is a code that nobody knows."""
    caught = error_of(Shell(some_plan()).answer(Cancelled((Reason(code, "why"), CONFLICT))))
    assert type(caught) is CommitFailed
    assert caught.failures[0].code == code


def test_a_refusal_is_final() -> None:
    """An error of the whole request is raised with its text."""
    caught = error_of(Shell(some_plan()).answer(Refused("AccessDeniedException: no")))
    assert type(caught) is CommitFailed
    assert "AccessDeniedException" in str(caught)


def test_reasons_without_a_reason_are_permanent() -> None:
    """A cancellation that names nothing is not retried, and surplus reasons are named by their place."""
    assert weightiest([]) == "permanent"
    caught = error_of(Shell(some_plan(events=0)).answer(Cancelled((NONE, FAILED))))
    assert isinstance(caught, ConditionFailed)
    assert caught.failures[0].action == "action 1"


# --- lost answers -----------------------------------------------------------------------------------------------------


def test_a_retry_with_the_token_resolves_a_lost_answer() -> None:
    """Success after a lost answer is the token's word."""
    shell = Shell(some_plan())
    assert isinstance(shell.answer(Lost("ReadTimeoutError")), Send)
    assert done(shell.answer(Committed())) == ("token", False)


def test_own_record_in_the_way_is_a_commit() -> None:
    """The record of this transaction, found by its own condition, is proof."""
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"))
    command = shell.answer(Cancelled((FAILED, FAILED)))
    assert isinstance(command, Read)
    assert command.key["sk"]["S"].startswith("OUTBOX#")
    assert done(shell.found({"pk": {"S": "ORDER#1"}})) == ("record", False)


def test_own_record_is_looked_for_without_any_lost_answer_too() -> None:
    """The SDK may have repeated the request without a word: the record in the way is reason enough to look."""
    shell = Shell(some_plan())
    assert isinstance(shell.answer(Cancelled((NONE, FAILED))), Read)
    assert done(shell.found({"pk": {"S": "ORDER#1"}})) == ("record", False)


def test_a_condition_after_a_lost_answer_may_be_our_own_doing() -> None:
    """The caller's own condition fails because the lost attempt was committed: the record tells."""
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"))
    assert isinstance(shell.answer(Cancelled((FAILED, NONE))), Read)
    assert done(shell.found({"pk": {"S": "ORDER#1"}})) == ("record", False)


def test_a_condition_after_a_lost_answer_may_be_someone_elses() -> None:
    """No record, within the token's life: nothing was committed, and the condition's error stands."""
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"))
    shell.answer(Cancelled((FAILED, NONE)))
    assert isinstance(error_of(shell.found(None)), ConditionFailed)


def test_a_repeated_request_is_looked_after() -> None:
    """An answer that the SDK got on a second attempt leaves the first in doubt."""
    shell = Shell(some_plan())
    assert isinstance(shell.answer(Cancelled((FAILED, NONE), repeated=True)), Read)
    assert isinstance(error_of(shell.found(None)), ConditionFailed)


def test_without_anything_to_look_at_the_token_decides_within_its_life() -> None:
    """No events, no guard: a condition that fails within the token's life says that nothing was committed."""
    shell = Shell(some_plan(events=0))
    shell.answer(Lost("ReadTimeoutError"))
    assert isinstance(error_of(shell.answer(Cancelled((FAILED,)))), ConditionFailed)


def test_without_anything_to_look_at_a_late_answer_decides_nothing() -> None:
    """No events, no guard, and the answer took longer than the token lives: unknown, and not sent again."""
    shell = Shell(some_plan(events=0))
    shell.answer(Lost("ReadTimeoutError"))
    caught = error_of(shell.answer(Cancelled((FAILED,)), after_ms=9 * MINUTE))
    assert isinstance(caught, CommitUnknown)
    assert caught.token == shell.plan.token
    assert isinstance(error_of(shell.again()), CommitUnknown)


def test_a_refusal_after_a_lost_answer_proves_nothing() -> None:
    """Rights taken away between two attempts: the first may still be under way, whether its record is there or not."""
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"))
    shell.answer(Refused("AccessDeniedException"))
    assert isinstance(error_of(shell.found(None)), CommitUnknown)
    bare = Shell(some_plan(events=0))
    bare.answer(Lost("ReadTimeoutError"))
    caught = error_of(bare.answer(Refused("AccessDeniedException")))
    assert isinstance(caught, CommitUnknown)
    assert "ReadTimeoutError" in caught.reason
    assert "AccessDeniedException" in caught.reason


def test_when_the_time_is_up_in_doubt_the_record_is_looked_for() -> None:
    """Lost answers to the end: found is committed, absent is unknown, and commit() goes on."""
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    assert done(shell.found({"pk": {"S": "ORDER#1"}})) == ("record", False)
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    assert isinstance(error_of(shell.found(None)), CommitUnknown)
    assert isinstance(shell.again(), Send)
    assert done(shell.answer(Committed())) == ("token", False)


def test_a_conflict_after_a_lost_answer_is_no_proof() -> None:
    """The conflict may be with our own first attempt: at the end of the time it is unknown, not a conflict."""
    shell = Shell(some_plan(events=0))
    shell.answer(Lost("ReadTimeoutError"))
    assert isinstance(error_of(shell.answer(Cancelled((CONFLICT,)), after_ms=BUDGET)), CommitUnknown)


def test_an_expired_token_is_not_sent_again_without_evidence() -> None:
    """Nine minutes after the first send, in doubt and with nothing in the way of a second commit: unknown."""
    shell = Shell(some_plan(events=0))
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    assert isinstance(shell.again(after_ms=8 * MINUTE), Send)
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    assert isinstance(error_of(shell.again(after_ms=MINUTE)), CommitUnknown)


def test_evidence_makes_a_late_retry_safe() -> None:
    """While the record cannot have been removed its condition stops a second commit, so the request is sent again."""
    shell = Shell(some_plan(layout=SHORT))
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    shell.found(None)
    assert isinstance(shell.again(after_ms=12 * MINUTE), Send)
    shell.answer(Cancelled((FAILED, NONE)))
    assert isinstance(error_of(shell.found(None)), ConditionFailed)


def test_evidence_that_may_have_been_removed_proves_nothing() -> None:
    """After the record may be gone the request is not sent; found is committed, absent is unknown."""
    shell = Shell(some_plan(layout=SHORT))
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    shell.found(None)
    assert isinstance(shell.again(after_ms=16 * MINUTE), Read)
    assert isinstance(error_of(shell.found(None)), CommitUnknown)
    shell.again()
    assert done(shell.found({"pk": {"S": "ORDER#1"}})) == ("record", False)


def test_an_answer_that_outlasts_the_evidence_proves_nothing() -> None:
    """The cancellation took so long that token and record may both be gone: unknown."""
    shell = Shell(some_plan(layout=SHORT))
    shell.answer(Lost("ReadTimeoutError"))
    shell.answer(Cancelled((FAILED, NONE)), after_ms=16 * MINUTE)
    assert isinstance(error_of(shell.found(None)), CommitUnknown)


def test_own_record_that_was_in_the_way_and_is_gone_is_unknown() -> None:
    """Its condition failed, so it was there; now it is not. commit() may be called again."""
    shell = Shell(some_plan())
    shell.answer(Cancelled((NONE, FAILED)))
    caught = error_of(shell.found(None))
    assert isinstance(caught, CommitUnknown)
    assert "in its way" in caught.reason


def test_conflicts_alone_may_be_retried_at_any_time() -> None:
    """Without a lost answer nothing is in doubt, so the token's age does not matter."""
    shell = Shell(some_plan(events=0))
    shell.answer(Cancelled((CONFLICT,)), after_ms=BUDGET)
    assert isinstance(shell.again(after_ms=60 * MINUTE), Send)


# --- looking that fails -----------------------------------------------------------------------------------------------


def test_a_look_is_repeated_within_the_time() -> None:
    """A throttled read is made again."""
    shell = Shell(some_plan())
    shell.answer(Lost("ReadTimeoutError"))
    shell.answer(Cancelled((FAILED, NONE)))
    assert isinstance(shell.unreadable(retryable=True), Read)
    assert isinstance(error_of(shell.found(None)), ConditionFailed)


def test_a_look_that_is_refused_leaves_it_unknown() -> None:
    """No right to read, or no time left: unknown, with the reason; commit() then sends again."""
    shell = Shell(some_plan())
    shell.answer(Cancelled((NONE, FAILED)))
    caught = error_of(shell.unreadable(retryable=False))
    assert isinstance(caught, CommitUnknown)
    assert "ClientError: no" in caught.reason
    assert isinstance(shell.again(), Send)
    shell.answer(Lost("ReadTimeoutError"), after_ms=BUDGET)
    assert isinstance(error_of(shell.unreadable(retryable=True)), CommitUnknown)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reasons", [(FAILED, NONE, NONE), (NONE, NONE, FAILED), (FAILED, FAILED, FAILED)])
def test_any_condition_failure_of_a_command_reads_its_guard(reasons: tuple[Reason, ...]) -> None:
    """A guard with the same fingerprint gives the first run's receipt, whichever condition failed."""
    plan = some_plan(guard=some_guard())
    shell = Shell(plan)
    assert isinstance(shell.answer(Cancelled(reasons)), Read)
    versions = {"L": [{"M": {"table": {"S": "t"}, "pk": {"S": "p"}, "sk": {"S": "s"}, "version": {"N": "3"}}}]}
    command = shell.found(guard_item(plan, tx={"S": "other"}, event_ids={"L": [{"S": "e"}]}, versions=versions))
    assert isinstance(command, Done)
    assert command.receipt.replayed
    assert command.receipt.resolved_by == "guard"
    assert command.receipt.event_ids == ("e",)
    assert command.receipt.versions == {("t", "p", "s"): 3}


def test_a_guard_of_this_very_transaction_is_a_commit() -> None:
    """The guard carries the transaction's id: its own is no repetition."""
    plan = some_plan(guard=some_guard())
    shell = Shell(plan)
    shell.answer(Lost("ReadTimeoutError"))
    shell.answer(Cancelled((FAILED, FAILED, FAILED)))
    assert done(shell.found(guard_item(plan))) == ("guard", False)


def test_a_guard_with_another_fingerprint_is_a_mismatch() -> None:
    """The key was used for something else, or for the same with values made anew, which the error says."""
    plan = some_plan(guard=some_guard())
    shell = Shell(plan)
    shell.answer(Cancelled((NONE, NONE, FAILED)))
    caught = error_of(shell.found(guard_item(plan, tx={"S": "o"}, fingerprint={"S": "o"})))
    assert isinstance(caught, IdempotencyMismatch)
    assert caught.idempotency_key == "command-1"
    assert "pass fingerprint=" in str(caught)
    assert shell.machine.state is State.CLOSED


@pytest.mark.parametrize("first", [Cancelled((NONE, NONE, FAILED)), Lost("ReadTimeoutError")])
def test_an_item_that_is_no_guard_says_nothing_about_the_command(first: Answer) -> None:
    """Not that it had other content, and not that it ran: whatever the item has of what a guard has."""
    plan = some_plan(guard=some_guard())
    own = guard_item(plan)
    for item in (
        {"pk": {"S": "IDEMP#x"}, "sk": {"S": "GUARD"}},
        {**own, "ob_guard": {"S": "x"}},
        {**own, "ob_v": {"N": "2"}},
        guard_item(plan, versions={"L": [{"M": {"table": {"S": "t"}}}]}),
        guard_item(plan, tx={"S": "other"}, event_ids={"SS": ["e"]}),
    ):
        shell = Shell(plan)
        shell.answer(first)
        if isinstance(first, Lost):
            shell.answer(Cancelled((NONE, NONE, FAILED)))
        caught = error_of(shell.found(item))
        assert isinstance(caught, NoGuard)
        assert (caught.command, caught.table, caught.retryable) == ("command-1", "shop", False)
        assert shell.machine.state is State.CLOSED


def test_a_first_run_that_loses_its_condition_says_so() -> None:
    """No guard: the command never committed, and the condition's error stands."""
    shell = Shell(some_plan(guard=some_guard()))
    shell.answer(Cancelled((FAILED, NONE, NONE)))
    assert isinstance(error_of(shell.found(None)), ConditionFailed)


def test_a_permanent_error_of_a_command_is_raised_without_a_look() -> None:
    """Nothing hints at an earlier run."""
    shell = Shell(some_plan(guard=some_guard()))
    assert type(error_of(shell.answer(Cancelled((Reason("ValidationError"), NONE, NONE))))) is CommitFailed


# --- interruptions ----------------------------------------------------------------------------------------------------


def test_an_interrupted_call_is_a_lost_answer() -> None:
    """The shell never brought the answer; the next commit() goes on in doubt, with the same request."""
    shell = Shell(some_plan())
    assert isinstance(shell.again(), Send)
    assert done(shell.answer(Committed())) == ("token", False)


def test_input_out_of_turn_is_a_mistake_of_the_shell() -> None:
    """The machine says what it waits for."""
    shell = Shell(some_plan())
    with pytest.raises(RuntimeError, match="answered"):
        shell.machine.waited(START_MS)
    with pytest.raises(RuntimeError, match="answered"):
        shell.machine.read(ItemRead(None), START_MS, 0.5)
