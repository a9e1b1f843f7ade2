"""Errors of a commit: what is known of it, and whether it may be tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors.root import OutboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "ActionFailure",
    "ClientRetriesWarning",
    "CommitConflict",
    "CommitFailed",
    "CommitThrottled",
    "CommitUnknown",
    "CommitUnreached",
    "ConditionFailed",
    "IdempotencyMismatch",
    "NoGuard",
]


@dataclass(frozen=True)
class ActionFailure:
    """Why one action of a cancelled transaction stopped it.

    `index` is its place in the request; `action` names it (`put orders {'pk': 'ORDER#1', 'sk': 'META'}`); `code` and
    `message` are DynamoDB's; `item` is the item as it was, in Python values, or None when there was none. `unmet` says
    which of the action's conditions did not hold (`version is 2, if_version=1`); it is empty where that is not known.
    `stale`: an `if_version=` did not hold, so what the action was made from is no longer so, and reading anew may help.
    """

    index: int
    action: str
    code: str
    message: str = ""
    item: Mapping[str, Any] | None = None
    unmet: str = ""
    stale: bool = False

    def __str__(self) -> str:
        # Without the item: errors are logged, and a log is no place for data.
        said = self.unmet or self.message
        return f"{self.action}: {self.code}{': ' + said if said else ''}"


class CommitFailed(OutboxError):
    """DynamoDB refused the transaction, and nothing of it was written. `failures` names the actions at fault."""

    advice = "Nothing was written."

    def __init__(self, failures: Sequence[ActionFailure], *, detail: str = "") -> None:
        self.failures = tuple(failures)
        said = "; ".join(map(str, self.failures)) or detail or "no reason was given"
        super().__init__(f"{said}. {self.advice}")


class ConditionFailed(CommitFailed):
    """A condition did not hold, so nothing was written.

    `failures[i].action` and `.unmet` say which, `.item` what was there.
    """

    advice = "Nothing was written: read the item again and decide anew."


class CommitConflict(CommitFailed):
    """Another transaction kept holding the same items for the whole time budget. Nothing was written."""

    retryable = True
    advice = "Nothing was written: commit() may be called again."


class CommitThrottled(CommitFailed):
    """DynamoDB kept throttling for the whole time budget. Nothing was written."""

    retryable = True
    advice = "Nothing was written: commit() may be called again; look at the table's capacity."


class CommitUnreached(CommitFailed):
    """No connection to DynamoDB came about for the whole time budget: nothing was sent, so nothing was written."""

    retryable = True
    advice = "Nothing was sent: commit() may be called again; look at the endpoint and the network."


class CommitUnknown(OutboxError):
    """No answer said whether the transaction was committed, within the time budget.

    `token` is the ClientRequestToken of every attempt, `reason` the last error. Calling `commit()` on the same
    transaction goes on with the same request and never commits twice; so does running the command again with the same
    idempotency_key.
    """

    retryable = True

    def __init__(self, token: str, reason: str) -> None:
        self.token = token
        self.reason = reason
        super().__init__(
            f"whether the transaction was committed is unknown ({reason}; token {token}). Call commit() again on the "
            "same transaction, or run the command again with the same idempotency_key: neither commits twice."
        )


class ClientRetriesWarning(UserWarning):
    """A client that was passed in may repeat a request for longer than DynamoDB remembers its token."""


class IdempotencyMismatch(OutboxError):
    """This idempotency_key was used for a command with other content."""

    def __init__(self, idempotency_key: str) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(
            f"idempotency_key {idempotency_key!r} was used before for a command with other content. Nothing was "
            "written. If this is the same command, its content holds values made anew on each run (an id, a time): "
            "pass fingerprint=. For a different command use a new key."
        )


class NoGuard(OutboxError):
    """An item that is no guard this version knows stands where that of a command, or an inbox record, belongs.

    It does not say whether the command ran before. `command` is its idempotency_key, or the partition key of the inbox
    record; `table` is where the item stands. `newer` is the schema's version (`ob_v`) of a guard that a newer version
    of this library wrote, else None: that one has to be read by such a version, and not to be removed.
    """

    def __init__(self, command: str, table: str, newer: int | None = None) -> None:
        self.command = command
        self.table = table
        self.newer = newer
        what, advice = "an item that is no guard", "Find out what wrote it; when it is removed, the command can run."
        if newer is not None:
            what = f"a guard of a newer version of this library (ob_v {newer})"
            advice = "Upgrade dynamodb-outbox here, and leave the guard: without it the command could run twice."
        super().__init__(
            f"{what} stands in {table} where the guard of {command!r} belongs, so it cannot be told whether the "
            f"command was committed. {advice}"
        )
