"""From DynamoDB's reasons to typed errors, and from a guard that was found to what it means. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.commit.conditions import is_stale, unmet
from dynamodb_outbox.core.commit.reasons import class_of, weightiest
from dynamodb_outbox.core.commit.receipt import Receipt
from dynamodb_outbox.core.record.guards import guard_content, newer_version
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
    from collections.abc import Mapping

    from dynamodb_outbox.core.commit.answers import Cancelled, Held, Reason
    from dynamodb_outbox.core.commit.plan import CommitPlan
    from dynamodb_outbox.core.commit.reasons import ReasonClass
    from dynamodb_outbox.core.values import WireItem

__all__ = ["cancellation", "guard_verdict", "held", "own_item_stood", "retryable"]

_ERRORS: Mapping[ReasonClass | Literal["unreached"], type[CommitFailed]] = {
    "condition": ConditionFailed,
    "conflict": CommitConflict,
    "throttle": CommitThrottled,
    "permanent": CommitFailed,
    "unreached": CommitUnreached,
}


def cancellation(answer: Cancelled, plan: CommitPlan) -> CommitFailed:
    """Return the error for a cancelled transaction: its class by the weightiest reason, every failure named."""
    at_fault = [(index, reason) for index, reason in enumerate(answer.reasons) if reason.code != "None"]
    failures = [_failure(index, reason, plan) for index, reason in at_fault]
    return _ERRORS[weightiest(reason.code for _, reason in at_fault)](failures)


def _failure(index: int, reason: Reason, plan: CommitPlan) -> ActionFailure:
    named = index < len(plan.labels)
    # Without a message the answer was not read as data, and that no item came with it does not mean that none is there.
    condition = named and class_of(reason.code) == "condition"
    told = condition and bool(reason.message)
    return ActionFailure(
        index=index,
        action=plan.labels[index] if named else f"action {index}",
        code=reason.code,
        message=reason.message,
        item=None if reason.item is None else deserialize_item(reason.item),
        unmet=unmet(plan.requirements[index], plan.version, reason.item) if told else "",
        stale=condition and is_stale(plan.requirements[index], plan.version, reason.item),
    )


def held(answer: Held) -> CommitFailed:
    """Return the error for a request that was turned away, or could not leave, until the time was up."""
    return _ERRORS[answer.kind]((), detail=answer.detail)


def retryable(answer: Cancelled) -> bool:
    """Whether the same request may be sent again: conflicts and throttles alone are at fault."""
    return weightiest(r.code for r in answer.reasons if r.code != "None") in {"conflict", "throttle"}


def own_item_stood(answer: Cancelled, plan: CommitPlan) -> bool:
    """Whether a record or the guard of this very transaction was in its own way."""
    return any(class_of(reason.code) == "condition" for reason in answer.reasons[plan.own_from :])


def guard_verdict(item: WireItem, plan: CommitPlan, table: str) -> Receipt | IdempotencyMismatch | NoGuard:
    """Return what the item in the guard's place, in `table`, means for this transaction.

    Its own guard: committed. An earlier run's with the same content: that run's receipt; with other content a mismatch.
    What is no guard, or not a whole one, says nothing about the command, neither that it ran nor that it did not.
    """
    guard = guard_content(item)
    if guard is None:
        return NoGuard(plan.command, table, newer_version(item))
    if guard.tx == plan.tx:
        return replace(plan.receipt, resolved_by="guard")
    if guard.fingerprint != plan.fingerprint:
        return IdempotencyMismatch(plan.command)
    return Receipt(guard.event_ids, guard.versions, replayed=True, resolved_by="guard")
