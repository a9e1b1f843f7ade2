"""What a commit leaves in the caller's hands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Receipt", "ResolvedBy"]

ResolvedBy = Literal["answer", "token", "record", "guard"]


@dataclass(frozen=True)
class Receipt:
    """A committed transaction.

    event_ids    ids of its events, in the order of emit
    versions     the version each versioned put or update wrote, by (table, partition key, sort key). The table is named
                 by its name, also where its ARN was given. Keys are text: numbers in plain digits, bytes in base64, and
                 no text in place of a sort key where there is none
    replayed     the command had been committed before, and this is what it did then; nothing was written now
    resolved_by  what told that it was committed: the `answer` itself; the `token`, another attempt after an answer was
                 lost; the transaction's own `record`, or the command's `guard`, found in the table
    """

    event_ids: tuple[str, ...]
    versions: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    replayed: bool = False
    resolved_by: ResolvedBy = "answer"
