"""The marker that says that an ordering key is parked: where it lives, what it holds, how it is written and read.

A key is parked when one of its events was (`Relay(on_poison="park_key")`): whatever follows of it is parked too, in any
invocation and any instance, until somebody takes the marker away. It is an item of its own and no record: its partition
key is the layout's guard_prefix, `PARKED#`, and the SHA-256 (hex) of the key's UTF-8; its sort key is that of guards.
So it is kept apart from records and from other items as guards are, and where keys are no text, there is none.

    ob_parked    M     key    S   the ordering key
                       since  N   epoch MILLISECONDS at which its first event was parked
                       code   S   what refused that event
    ob_v         N     1

It has no TTL. It is written in one transaction with the parked record, and read consistently before anything of its key
is published; a second park of the key leaves it as it is.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import guard_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dynamodb_outbox.core.record.moves import Parking
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["MARKER", "KeysFound", "Released", "can_park_keys", "mark", "marked", "read_marks", "release", "unread"]

MARKER = "ob_parked"
_PREFIX = "PARKED#"
_CODE_LENGTH = 64


class KeysFound(NamedTuple):
    """What a read of markers came to: keys that are `parked`, keys `unread`, and the `failure` that left these."""

    parked: frozenset[str]
    unread: frozenset[str]
    failure: str | None = None


class Released(NamedTuple):
    """What letting a key go came to: whether it was parked; the `failure`, and whether that may pass (`retryable`)."""

    was_parked: bool = False
    failure: str | None = None
    retryable: bool = False


def can_park_keys(layout: Layout) -> bool:
    """Whether the records' table has a place for markers: key attributes that are text."""
    return layout.keys.are_text


def mark(table: str, key: str, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of an Update that parks a key, unless it is parked already."""
    content: dict[str, AttributeValue] = {
        "key": {"S": key},
        "since": {"N": str(parking.at_ms)},
        "code": {"S": parking.code[:_CODE_LENGTH]},
    }
    return {
        "TableName": table,
        "Key": _keys(key, layout),
        "UpdateExpression": "SET #marker = if_not_exists(#marker, :marker), #schema = :schema",
        "ExpressionAttributeNames": {"#marker": MARKER, "#schema": schema.SCHEMA},
        "ExpressionAttributeValues": {":marker": {"M": content}, ":schema": {"N": str(schema.SCHEMA_VERSION)}},
    }


def read_marks(table: str, keys: Sequence[str], layout: Layout) -> dict[str, Any]:
    """Return the arguments of BatchGetItem, consistent, for the markers of up to 100 different keys."""
    names = {f"#{place}": name for place, name in enumerate(layout.keys.types)}
    return {
        "RequestItems": {
            table: {
                "Keys": [_keys(key, layout) for key in keys],
                "ConsistentRead": True,
                "ProjectionExpression": ", ".join(names),
                "ExpressionAttributeNames": names,
            }
        }
    }


def marked(keys: Sequence[str], items: Iterable[WireItem], layout: Layout) -> frozenset[str]:
    """Return those of `keys` whose marker is among the items that were read."""
    found = {item[layout.pk].get("S") for item in items}
    return frozenset(key for key in keys if _partition(key, layout) in found)


def unread(keys: Sequence[str], unprocessed: Mapping[str, Any], layout: Layout) -> frozenset[str]:
    """Return those of `keys` that an answer names as unprocessed (`UnprocessedKeys`)."""
    left = {item[layout.pk].get("S") for request in unprocessed.values() for item in request.get("Keys", ())}
    return frozenset(key for key in keys if _partition(key, layout) in left)


def release(table: str, key: str, layout: Layout) -> dict[str, Any]:
    """Return the arguments of DeleteItem that take a key's marker away; the answer tells whether there was one."""
    return {"TableName": table, "Key": _keys(key, layout), "ReturnValues": "ALL_OLD"}


def _keys(key: str, layout: Layout) -> dict[str, AttributeValue]:
    return guard_keys(layout, _partition(key, layout))


def _partition(key: str, layout: Layout) -> str:
    return f"{layout.guard_prefix}{_PREFIX}{hashlib.sha256(key.encode('utf-8')).hexdigest()}"
