"""Why DynamoDB cancels a transaction, as data: each code and the class that decides what happens next.

    condition   a condition did not hold: never retried, whatever stands beside it. The caller must read and decide anew
    conflict    another request holds the item: the same request may be sent again
    throttle    capacity: the same request may be sent again, later
    permanent   the same request can never succeed

Codes that DynamoDB may add one day are permanent: nothing was written, and a retry is a guess.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.core.error_codes import CONFLICTS, THROTTLING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["CANCELLATION", "REQUEST", "ReasonClass", "class_of", "weightiest"]

ReasonClass = Literal["condition", "conflict", "throttle", "permanent"]

CANCELLATION: Mapping[str, ReasonClass] = MappingProxyType(
    {
        "ConditionalCheckFailed": "condition",
        "TransactionConflict": "conflict",
        "ProvisionedThroughputExceeded": "throttle",
        "ThrottlingError": "throttle",
        "ItemCollectionSizeLimitExceeded": "permanent",
        "ValidationError": "permanent",
    }
)
"""Codes in CancellationReasons [BC]. `None` stands at actions that are not at fault."""

REQUEST: Mapping[str, ReasonClass] = MappingProxyType(
    {**dict.fromkeys(THROTTLING, "throttle"), **dict.fromkeys(CONFLICTS, "conflict")}
)
"""Error codes of a whole request that refuse it without a doubt and may pass later."""

_WEIGHT: tuple[ReasonClass, ...] = ("condition", "permanent", "conflict", "throttle")


def class_of(code: str) -> ReasonClass:
    """Return the class of a cancellation code."""
    return CANCELLATION.get(code, "permanent")


def weightiest(codes: Iterable[str]) -> ReasonClass:
    """Return the class that decides for a cancelled transaction with these codes (those at fault only)."""
    present = {class_of(code) for code in codes}
    return next((each for each in _WEIGHT if each in present), "permanent")
