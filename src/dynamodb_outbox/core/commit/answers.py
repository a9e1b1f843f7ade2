"""What came back from DynamoDB, as values: the inputs of the commit machine. No botocore exception gets this far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem

__all__ = [
    "Answer",
    "Cancelled",
    "Committed",
    "Held",
    "ItemRead",
    "Lost",
    "ReadAnswer",
    "ReadFailed",
    "Reason",
    "Refused",
]


@dataclass(frozen=True)
class Committed:
    """The transaction is committed: by this attempt, or by an earlier one with the same token."""


@dataclass(frozen=True)
class Reason:
    """Why one action stopped the transaction (`None` as the code: it did not); `item` is what was there."""

    code: str
    message: str = ""
    item: WireItem | None = None


@dataclass(frozen=True)
class Cancelled:
    """The transaction was evaluated and cancelled; nothing of this attempt is written. One reason per action.

    `repeated`: the SDK sent the request more than once by itself, and what became of the others is not known.
    """

    reasons: tuple[Reason, ...]
    repeated: bool = False


@dataclass(frozen=True)
class Held:
    """The request was turned away for now, or could not leave (`unreached`), and nothing of this attempt is written."""

    kind: Literal["conflict", "throttle", "unreached"]
    detail: str
    repeated: bool = False


@dataclass(frozen=True)
class Refused:
    """The request was turned away for good (rights, validation, credentials); nothing of this attempt is written."""

    detail: str
    repeated: bool = False


@dataclass(frozen=True)
class Lost:
    """Nobody knows: a time-out, a broken connection, a server error, an attempt that is still in progress."""

    detail: str


Answer = Committed | Cancelled | Held | Refused | Lost


@dataclass(frozen=True)
class ItemRead:
    """A consistent read: the item, or None when there is none."""

    item: WireItem | None


@dataclass(frozen=True)
class ReadFailed:
    """A read that gave no answer; `retryable` says whether the next one may."""

    detail: str
    retryable: bool


ReadAnswer = ItemRead | ReadFailed
