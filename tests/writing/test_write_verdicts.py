"""From DynamoDB's words to the errors that a caller sees: class, place, text; and what a guard says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from write_world import other_guard, some_guard, some_plan

from dynamodb_outbox.core.commit.answers import Cancelled, Held, Reason
from dynamodb_outbox.core.commit.conditions import Requirement, is_stale
from dynamodb_outbox.core.commit.reasons import CANCELLATION, REQUEST, class_of, weightiest
from dynamodb_outbox.core.commit.receipt import Receipt
from dynamodb_outbox.core.commit.verdicts import cancellation, guard_verdict, held, own_item_stood, retryable
from dynamodb_outbox.errors import (
    ActionFailure,
    CommitConflict,
    CommitFailed,
    CommitThrottled,
    CommitUnreached,
    ConditionFailed,
    IdempotencyMismatch,
    NoGuard,
)

if TYPE_CHECKING:
    from dynamodb_outbox.core.commit.plan import CommitPlan

NONE = Reason("None")
CONDITION = Reason("ConditionalCheckFailed", "The conditional request failed", {"n": {"N": "2"}})
CONFLICT = Reason("TransactionConflict", "in use")
THROTTLES = [Reason("ThrottlingError", "slow"), Reason("ProvisionedThroughputExceeded", "slow")]
PERMANENT = Reason("ValidationError", "no")


@pytest.mark.parametrize("throttle", THROTTLES)
def test_a_cancellation_for_throttling_may_be_tried_again(throttle: Reason) -> None:
    """As for a conflict, and for both together; `None` beside them means nothing."""
    assert retryable(Cancelled((throttle,)))
    assert retryable(Cancelled((NONE, throttle)))
    assert retryable(Cancelled((CONFLICT, throttle, NONE)))
    assert retryable(Cancelled((NONE, CONFLICT)))


@pytest.mark.parametrize("other", [CONDITION, PERMANENT, Reason("SomethingNew")])
def test_one_reason_that_lasts_is_enough(other: Reason) -> None:
    """Whatever stands beside a condition, or beside what can never succeed, is not tried again."""
    assert not retryable(Cancelled((other,)))
    assert not retryable(Cancelled((CONFLICT, other, THROTTLES[0])))


def test_no_reason_is_no_reason_to_try_again() -> None:
    """A cancellation that names nothing is final."""
    assert not retryable(Cancelled(()))
    assert not retryable(Cancelled((NONE, NONE)))


def test_each_class_outweighs_those_below_it() -> None:
    """A condition, then what is permanent, then a conflict, then throttling."""
    codes = ["ConditionalCheckFailed", "ValidationError", "TransactionConflict", "ThrottlingError"]
    classes = ["condition", "permanent", "conflict", "throttle"]
    for i in range(4):
        assert weightiest(codes[i:]) == weightiest(reversed(codes[i:])) == class_of(codes[i]) == classes[i]
    assert class_of("None") == "permanent"
    assert set(CANCELLATION.values()) == set(classes)
    assert set(REQUEST.values()) == {"conflict", "throttle"}


@pytest.mark.parametrize(
    ("reasons", "kind", "at_fault"),
    [
        ((NONE, CONDITION), ConditionFailed, [1]),
        ((THROTTLES[0], CONDITION), ConditionFailed, [0, 1]),
        ((CONFLICT, THROTTLES[1]), CommitConflict, [0, 1]),
        ((NONE, THROTTLES[1]), CommitThrottled, [1]),
        ((PERMANENT, CONFLICT), CommitFailed, [0, 1]),
        ((NONE, NONE), CommitFailed, []),
    ],
)
def test_a_cancellation_names_every_action_at_fault(
    reasons: tuple[Reason, ...], kind: type[CommitFailed], at_fault: list[int]
) -> None:
    """Its place in the request, its name, DynamoDB's code and message, what was there, and what it did not meet."""
    plan = some_plan()
    error = cancellation(Cancelled(reasons), plan)
    assert type(error) is kind
    found = reasons[1] is CONDITION
    items, unmet = {0: None, 1: {"n": 2} if found else None}, {0: "", 1: "it exists already" if found else ""}
    assert error.failures == tuple(
        ActionFailure(i, plan.labels[i], reasons[i].code, reasons[i].message, items[i], unmet[i]) for i in at_fault
    )


@pytest.mark.parametrize(
    ("requirement", "version", "item", "stale"),
    [
        (Requirement(if_version=1), "v", {"v": {"N": "2"}}, True),
        (Requirement(if_version=1), "v", {"n": {"N": "1"}}, True),
        (Requirement(if_version=1), "v", None, True),
        (Requirement(if_version=2), "v", {"v": {"N": "2"}}, False),
        (Requirement(if_version=1), None, {"v": {"N": "2"}}, False),
        (Requirement(if_absent=True), "v", {"v": {"N": "2"}}, False),
        (Requirement(), "v", None, False),
    ],
)
def test_an_action_is_stale_where_it_asked_for_another_version(
    requirement: Requirement, version: str | None, item: Any, stale: bool
) -> None:
    """What it was made from is no longer so; no other requirement says that."""
    assert is_stale(requirement, version, item) is stale


def test_only_a_condition_that_failed_is_stale() -> None:
    """A conflict beside an `if_version=` says nothing of the version."""
    plan = some_plan(events=0)
    plan = replace(plan, requirements=(Requirement(if_version=1),) * len(plan.labels), version="n")
    for reason, stale in ((CONDITION, True), (CONFLICT, False), (PERMANENT, False)):
        assert [failure.stale for failure in cancellation(Cancelled((reason,)), plan).failures] == [stale]


def test_an_answer_with_more_reasons_than_actions_is_told_all_the_same() -> None:
    """By their place."""
    error = cancellation(Cancelled((NONE, CONFLICT, CONFLICT)), some_plan(events=0))
    assert [failure.action for failure in error.failures] == ["action 1", "action 2"]
    assert [failure.index for failure in error.failures] == [1, 2]


@pytest.mark.parametrize(
    ("kind", "error"),
    [("conflict", CommitConflict), ("throttle", CommitThrottled), ("unreached", CommitUnreached)],
)
def test_a_request_that_was_held_says_why(kind: Any, error: type[CommitFailed]) -> None:
    """There is no action at fault; the text is DynamoDB's."""
    made = held(Held(kind, "Exception: in DynamoDB's words"))
    assert type(made) is error
    assert made.failures == ()
    assert str(made).startswith("Exception: in DynamoDB's words. Nothing was ")


def test_only_a_condition_of_an_own_item_says_that_it_stood() -> None:
    """Not one of the caller's action, and no conflict or throttle of the own item."""
    plan = some_plan(guard=some_guard())  # one action, the record, the guard
    assert plan.own_from == 1
    assert own_item_stood(Cancelled((NONE, CONDITION, NONE)), plan)
    assert own_item_stood(Cancelled((NONE, NONE, CONDITION)), plan)
    assert not own_item_stood(Cancelled((CONDITION, NONE, NONE)), plan)
    assert not own_item_stood(Cancelled((CONDITION, CONFLICT, THROTTLES[0])), plan)


def stored_guard(plan: CommitPlan) -> dict[str, Any]:
    """Return the guard that a plan would store."""
    puts = [member["Put"]["Item"] for member in plan.request["TransactItems"]]
    (found,) = (item for item in puts if "ob_guard" in item)
    return dict(found)


def test_a_guard_of_another_run_is_that_runs_receipt() -> None:
    """Its ids and versions, not those that this run would have had; it may have none of either."""
    plan = some_plan(guard=some_guard())
    item = other_guard(stored_guard(plan), tx={"S": "another's"}, event_ids={"L": [{"S": "first"}]})
    assert guard_verdict(item, plan, "shop") == Receipt(
        ("first",), plan.receipt.versions, replayed=True, resolved_by="guard"
    )
    empty = other_guard(item, event_ids={"L": []}, versions={"L": []})
    assert guard_verdict(empty, plan, "shop") == Receipt((), {}, replayed=True, resolved_by="guard")


def test_a_guard_of_ones_own_is_the_plans_receipt() -> None:
    """Whatever else it says: the transaction's id decides."""
    plan = some_plan(guard=some_guard())
    item = other_guard(stored_guard(plan), fingerprint={"S": "other"}, event_ids={"L": []})
    verdict = guard_verdict(item, plan, "shop")
    assert verdict == Receipt(plan.receipt.event_ids, plan.receipt.versions, resolved_by="guard")
    other = guard_verdict(other_guard(item, tx={"S": "another's"}), plan, "shop")
    assert isinstance(other, IdempotencyMismatch)
    assert other.idempotency_key == "command-1"


def test_what_is_no_guard_says_so_with_the_command_and_the_table() -> None:
    """Also when it has the id of this transaction, in another place or without the rest."""
    plan = some_plan(guard=some_guard())
    items: list[dict[str, Any]] = [
        {"tx": {"S": plan.tx}},
        {"ob_v": {"N": "1"}, "ob_guard": {"M": {"tx": {"S": plan.tx}}}},
    ]
    for item in items:
        verdict = guard_verdict(item, plan, "shop")
        assert isinstance(verdict, NoGuard)
        assert (verdict.command, verdict.table, verdict.newer) == ("command-1", "shop", None)
        assert "when it is removed, the command can run" in str(verdict)


def test_a_guard_of_a_newer_version_is_not_to_be_removed() -> None:
    """What it says cannot be read here, and it is a guard all the same; what is no version is none."""
    plan = some_plan(guard=some_guard())
    for said, newer in (("2", 2), ("10", 10), ("1", None), ("0", None), ("2.5", None), ("9" * 5_000, None)):
        item: dict[str, Any] = {"ob_v": {"N": said}, "ob_guard": {"L": []}}
        verdict = guard_verdict(item, plan, "shop")
        assert isinstance(verdict, NoGuard)
        assert verdict.newer == newer
        advice = "Upgrade dynamodb-outbox here, and leave the guard" if newer else "when it is removed"
        assert advice in str(verdict)
    others: list[dict[str, Any]] = [
        {"ob_v": {"N": "2"}},
        {"ob_v": {"S": "2"}, "ob_guard": {"M": {}}},
        {"ob_guard": {"M": {}}},
    ]
    for item in others:
        verdict = guard_verdict(item, plan, "shop")
        assert isinstance(verdict, NoGuard)
        assert verdict.newer is None
