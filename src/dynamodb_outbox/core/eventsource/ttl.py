"""Time to live: which items DynamoDB would delete, and what it says of it in the stream [DDG].

An item has expired when its TTL attribute is a Number of epoch seconds before now. Text is ignored, whatever it says,
and so is a time more than five years ago. The deletion comes when it comes, within days; its stream record is a REMOVE
like another one, but for its `userIdentity`. Local engines delete such items without a record, or not at all.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import TTL_OLDEST_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import WireItem

__all__ = ["SERVICE", "expired", "is_ttl_delete", "ttl_delete"]

SERVICE: Mapping[str, str] = {"principalId": "dynamodb.amazonaws.com", "type": "Service"}
"""`userIdentity` of a record that TTL made, in the order of Lambda's JSON form."""


def expired(item: WireItem, attribute: str, now_ms: int) -> bool:
    """Whether an item would be deleted by TTL on `attribute`. `now_ms` is wall-clock time, epoch milliseconds."""
    value = item.get(attribute, {}).get("N")
    if not isinstance(value, str):
        return False
    now_s = now_ms // 1000
    try:
        return now_s - TTL_OLDEST_S <= Decimal(value) < now_s
    except InvalidOperation:  # no number
        return False


def ttl_delete(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a REMOVE record, in Lambda's JSON form, as one that TTL made. Raises ValueError for another record."""
    if body.get("eventName") != "REMOVE":
        raise ValueError(f"TTL makes REMOVE records alone, not {body.get('eventName')!r}")
    return {**body, "userIdentity": dict(SERVICE)}


def is_ttl_delete(body: Mapping[str, Any]) -> bool:
    """Whether a record was made by TTL, in the Region where the item was deleted; a replica's looks ordinary."""
    return body.get("eventName") == "REMOVE" and body.get("userIdentity") == SERVICE
