"""What the commit machine asks of its shell, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.commit.receipt import Receipt
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.errors import OutboxError

__all__ = ["Command", "Done", "Fail", "Read", "Send", "Wait"]


@dataclass(frozen=True)
class Send:
    """Call transact_write_items with these keyword arguments, then `answered`."""

    request: Mapping[str, Any]


@dataclass(frozen=True)
class Wait:
    """Let this many milliseconds pass, then `waited`."""

    duration_ms: int


@dataclass(frozen=True)
class Read:
    """Read this item consistently, then `read`."""

    table: str
    key: WireItem


@dataclass(frozen=True)
class Done:
    """The transaction is committed."""

    receipt: Receipt


@dataclass(frozen=True)
class Fail:
    """Raise this error. `begin` may be called again exactly if the error is retryable."""

    error: OutboxError


Command = Send | Wait | Read | Done | Fail
