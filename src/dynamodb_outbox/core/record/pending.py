"""The sparse index of pending records and the partitions that it leads to, as the arguments of DynamoDB calls.

The index (`Layout(index=)`) has a record for as long as it is pending or parked, under `ob_pending`, oldest first. It
follows the table at some distance, most often below a second. So it tells where to look, and no more: what is published
is read from the table, consistently, with all that is pending of its key.

All records of an ordering key are in one partition of the table, among items that are none, and records that were
published and are kept for some days. What has to be read of it begins ten minutes before the oldest record that the
index named: a pending record that is older would be in the index by now. Record ids are UUIDs of version 7, which begin
with the time, and so do the sort keys of records; where ids are none, the partition is read from the first record on.

A table without a sort key has no such partitions. There the records that the index names are read one by one, and a
record that the index does not name yet is not seen.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import carried_id, keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = [
    "BEHIND_MS",
    "Entry",
    "entry_of",
    "is_in_index",
    "items",
    "listing",
    "newest",
    "parked_of",
    "partition",
    "range_of",
    "shards_of",
    "tally",
]

BEHIND_MS = 10 * 60 * 1000
"""How far the index may be behind the table, for what is read to be complete."""

_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_LAST = "\U0010ffff"
"""Sorts behind whatever may follow a prefix: DynamoDB compares the bytes of UTF-8."""


class Entry(NamedTuple):
    """A record as the index has it: its key attributes in the table, when it was written, its ordering key.

    `at_ms` is epoch milliseconds by its writer's clock; `key` is None where a record has none.
    """

    item: WireItem
    at_ms: int
    key: str | None


def shards_of(layout: Layout) -> tuple[str, ...]:
    """Return the partitions of the index that hold pending records."""
    return tuple(f"{number:02d}" for number in range(layout.index_shards))


def listing(
    table: str,
    shard: str,
    layout: Layout,
    *,
    most: int,
    after: WireItem | None = None,
    later_than_ms: int | None = None,
) -> dict[str, Any]:
    """Return the arguments of Query for up to `most` entries of a partition of the index, the oldest first.

    `after` is where the answer before ended (LastEvaluatedKey).
    """
    request = _of_shard(table, shard, layout) | {"Limit": most}
    if later_than_ms is not None:
        request["KeyConditionExpression"] += " AND #at > :at"
        request["ExpressionAttributeNames"] = {**request["ExpressionAttributeNames"], "#at": layout.column(schema.AT)}
        request["ExpressionAttributeValues"] = {
            **request["ExpressionAttributeValues"],
            ":at": {"N": str(later_than_ms)},
        }
    return request if after is None else {**request, "ExclusiveStartKey": after}


def tally(table: str, shard: str, layout: Layout, *, after: WireItem | None = None) -> dict[str, Any]:
    """Return the arguments of Query that count a partition of the index."""
    request = _of_shard(table, shard, layout) | {"Select": "COUNT"}
    return request if after is None else {**request, "ExclusiveStartKey": after}


def entry_of(found: WireItem, layout: Layout) -> Entry:
    """Return what the index says of a record."""
    at = schema.value(found, layout, schema.AT)["N"]  # the index's own sort key: a number
    key = schema.value(found, layout, schema.KEY).get("S")
    return Entry(keys_of(found, layout.keys), int(Decimal(at)), key)


def range_of(entries: Sequence[Entry], layout: Layout) -> tuple[str, str] | None:
    """Return between which sort keys the pending records of a key are, of which the index named some.

    None: the partition has to be read as a whole, for its records are not told by the sort key.
    """
    ids = [carried_id(entry.item, layout) for entry in entries]
    if layout.sk is None or any(each is None for each in ids):
        return None
    since = min((_since(str(each)) for each in ids), default="")
    return layout.prefix + since, layout.prefix + _LAST


def partition(
    table: str,
    value: AttributeValue,
    layout: Layout,
    between: tuple[str, str] | None,
    *,
    after: WireItem | None = None,
) -> dict[str, Any]:
    """Return the arguments of Query, consistent, for the pending records of a partition of the table."""
    names = {"#pk": layout.pk, "#pending": schema.PENDING_INDEX}
    values: dict[str, AttributeValue] = {":pk": value, ":parked": {"S": schema.PARKED}}
    condition = "#pk = :pk"
    if between is not None and layout.sk is not None:
        condition += " AND #sk BETWEEN :first AND :last"
        names["#sk"] = layout.sk
        values |= {":first": {"S": between[0]}, ":last": {"S": between[1]}}
    request = {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": condition,
        "FilterExpression": "attribute_exists(#pending) AND #pending <> :parked",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
    return request if after is None else {**request, "ExclusiveStartKey": after}


def parked_of(table: str, value: AttributeValue, layout: Layout, *, after: WireItem | None = None) -> dict[str, Any]:
    """Return the arguments of Query, consistent, for the key attributes of what is parked in a partition of the table.

    For a table with a sort key.
    """
    request = _records(table, value, layout) | {
        "ConsistentRead": True,
        "FilterExpression": "#pending = :parked",
        "ProjectionExpression": ", ".join(f"#k{place}" for place in range(len(layout.keys.types))),
    }
    request["ExpressionAttributeNames"] |= {"#pending": schema.PENDING_INDEX}
    request["ExpressionAttributeNames"] |= {f"#k{place}": name for place, name in enumerate(layout.keys.types)}
    request["ExpressionAttributeValues"] |= {":parked": {"S": schema.PARKED}}
    return request if after is None else {**request, "ExclusiveStartKey": after}


def newest(table: str, value: AttributeValue, layout: Layout, *, most: int) -> dict[str, Any]:
    """Return the arguments of Query for the last records, by sort key, of a partition of a table that has one."""
    return _records(table, value, layout) | {"ScanIndexForward": False, "Limit": most}


def _records(table: str, value: AttributeValue, layout: Layout) -> dict[str, Any]:
    names, values = {"#pk": layout.pk}, {":pk": value}
    condition = "#pk = :pk"
    if layout.select is None and layout.sk is not None:
        condition += " AND #sk BETWEEN :first AND :last"
        names["#sk"] = layout.sk
        values |= {":first": {"S": layout.prefix}, ":last": {"S": layout.prefix + _LAST}}
    return {
        "TableName": table,
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def is_in_index(item: WireItem) -> bool:
    """Whether an item is in the index as a record that is pending."""
    return item.get(schema.PENDING_INDEX) not in (None, {"S": schema.PARKED})


def items(table: str, keys: Sequence[WireItem]) -> dict[str, Any]:
    """Return the arguments of BatchGetItem, consistent, for up to 100 items by their key attributes."""
    return {"RequestItems": {table: {"Keys": list(keys), "ConsistentRead": True}}}


def _of_shard(table: str, shard: str, layout: Layout) -> dict[str, Any]:
    return {
        "TableName": table,
        "IndexName": layout.index,
        "KeyConditionExpression": "#pending = :shard",
        "ExpressionAttributeNames": {"#pending": schema.PENDING_INDEX},
        "ExpressionAttributeValues": {":shard": {"S": shard}},
    }


def _since(record_id: str) -> str:
    """Return what the ids begin with, or come after, that were made BEHIND_MS before an id, or later; "": any."""
    found = _UUID7.fullmatch(record_id)
    if found is None:
        return ""
    digits = f"{max(0, int(found[1] + found[2], 16) - BEHIND_MS):012x}"
    return f"{digits[:8]}-{digits[8:]}"
