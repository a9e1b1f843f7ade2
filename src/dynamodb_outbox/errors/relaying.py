"""Errors of a relay that was set up for something else, or is asked for more than to relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.errors.root import ConfigurationError, OutboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KeyNotReleased", "TableMismatch"]


class TableMismatch(ConfigurationError):
    """A relay for `table` was given records from the streams of others, `streamed`. Nothing was done with any of them.

    To settle and park in the wrong table would leave them pending, and put what is parked where nobody looks for it.
    """

    def __init__(self, table: str, streamed: Sequence[str]) -> None:
        self.table = table
        self.streamed = tuple(streamed)
        super().__init__(
            f"the relay is for the table {table!r} (table=, OUTBOX_TABLE), and the records come from the stream of "
            f"{', '.join(map(repr, self.streamed))} (eventSourceARN). None of them was published, settled or parked; "
            "they stay in the stream. Leave the name out, since the stream tells it, or map the function to the stream "
            f"of {table!r}."
        )


class KeyNotReleased(OutboxError):
    """Whether the ordering key `key` is parked in `table` could not be changed; `reason` is what DynamoDB said.

    `retryable` says whether the same call may succeed later. It may have been done all the same, where the answer was
    lost: the next call tells that the key is not parked.
    """

    def __init__(self, key: str, table: str, reason: str, *, retryable: bool) -> None:
        self.key = key
        self.table = table
        self.reason = reason
        self.retryable = retryable
        advice = "Try again." if retryable else "It takes dynamodb:DeleteItem on that table."
        super().__init__(f"the key {key!r} may still be parked in {table!r}: {reason}. {advice}")
