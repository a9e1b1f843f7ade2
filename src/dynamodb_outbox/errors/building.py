"""Errors of a transaction while it is being built, before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.errors.root import OutboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AmbiguousKey",
    "DuplicateAction",
    "EmptyTransaction",
    "EventTooLarge",
    "InvalidAction",
    "InvalidEvent",
    "InvalidValue",
    "ItemTooLarge",
    "LimitExceeded",
    "MissingKey",
    "NestedTransaction",
    "NotCommitted",
    "ReservedName",
    "TransactionClosed",
    "TransactionTooLarge",
    "UnconditionalPut",
]


class InvalidAction(OutboxError):
    """An action cannot be built from these arguments: `action` names it, `reason` says why."""

    def __init__(self, action: str, reason: str) -> None:
        self.action = action
        self.reason = reason
        super().__init__(f"{action}: {reason}")


class UnconditionalPut(InvalidAction):
    """A put without a condition would replace whatever is there; say which of the two is meant."""

    def __init__(self, action: str) -> None:
        super().__init__(
            action,
            "a put without a condition replaces whatever is there. Say what must hold (if_absent=True, if_exists=True, "
            "if_version=n or condition=), or overwrite=True to replace it on purpose.",
        )


class DuplicateAction(InvalidAction):
    """Two actions of one transaction touch the same item; DynamoDB takes one action per item."""

    def __init__(self, action: str, first: str) -> None:
        self.first = first
        super().__init__(action, f"this transaction already touches the item ({first}). Merge the two into one action.")


class ReservedName(InvalidAction):
    """An item's key lies in the name space of the library's own records (`prefix`)."""

    def __init__(self, action: str, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(
            action,
            f"keys that start with {prefix!r} belong to the outbox's own records. Use another key, or another "
            "Layout(prefix=...).",
        )


class InvalidValue(OutboxError):
    """A value cannot be stored or published unchanged: `path` says where it sits, `reason` why not."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class InvalidEvent(OutboxError):
    """An event cannot be emitted, or recorded, as given: `field` names what is wrong with it, `reason` says why."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"event: {field} {reason}")


class AmbiguousKey(OutboxError):
    """Several partitions are written and the event does not say which of them orders it.

    `partitions` are their keys as text, `types` the types of these: "S", "N" or "B".
    """

    def __init__(self, event_type: str, partitions: Sequence[str], types: Sequence[str]) -> None:
        self.event_type = event_type
        self.partitions = tuple(partitions)
        self.types = tuple(types)
        several = len(set(types)) > 1
        said = [f"{key!r} ({kind})" if several else repr(key) for key, kind in zip(partitions, types, strict=True)]
        super().__init__(
            f"event {event_type!r}: the transaction writes {len(self.partitions)} partitions "
            f"({', '.join(said)}). Pass emit(..., key=...) to say which one orders the event."
        )


class MissingKey(OutboxError):
    """An event has no key to be ordered by, and nothing is written that could give it one. `advice` says what to do."""

    def __init__(self, event_type: str, advice: str = "Pass emit(..., key=...).") -> None:
        self.event_type = event_type
        self.advice = advice
        super().__init__(f"event {event_type!r}: nothing is written that could give the event its key. {advice}")


class EmptyTransaction(OutboxError):
    """The transaction has neither an action nor an event."""

    def __init__(self) -> None:
        super().__init__("the transaction is empty: put, update, delete, check or emit something before it ends.")


class TransactionClosed(OutboxError):
    """The transaction was committed or left already: `operation` came too late."""

    def __init__(self, operation: str, state: str) -> None:
        self.operation = operation
        self.state = state
        super().__init__(f"{operation}: this transaction is {state}. Open a new one with outbox.transaction().")


class NotCommitted(OutboxError):
    """The receipt of a transaction was asked for before there was one."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"there is no receipt: this transaction is {state}. It has one after a commit that succeeded.")


class NestedTransaction(OutboxError):
    """A transaction was entered a second time, or inside of another one of the same outbox."""

    def __init__(self) -> None:
        super().__init__(
            "a transaction is entered once and does not nest: what an inner one writes would stay when the outer one "
            "fails. Pass the outer one (tx) to the code that adds to it; what is to be committed by itself goes "
            "before or after it, or into a transaction that is committed with commit() and without `with`."
        )


class LimitExceeded(OutboxError):
    """Something is larger than AWS takes: `what` it is, its `size` and the `limit`, in `unit`."""

    def __init__(self, what: str, size: int, limit: int, unit: str, advice: str) -> None:
        self.what = what
        self.size = size
        self.limit = limit
        self.unit = unit
        super().__init__(f"{what}: {size:,} {unit}, {size - limit:,} over the limit of {limit:,}. {advice}")


class EventTooLarge(LimitExceeded):
    """The published form of an event is larger than `max_event_bytes`."""


class ItemTooLarge(LimitExceeded):
    """An item is larger than DynamoDB stores."""


class TransactionTooLarge(LimitExceeded):
    """A transaction has more actions, or more bytes, than DynamoDB takes."""
