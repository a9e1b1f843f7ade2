"""Reading the tables of a demo, straight from the engine."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer

from dynamodb_outbox.core.record.schema import PARKED, PENDING_INDEX

if TYPE_CHECKING:
    from dynamodb_outbox.layout import Layout

__all__ = ["count_pending", "scan"]


def scan(client: Any, table: str) -> tuple[dict[str, Any], ...]:
    """Return all items of a table in JSON's types: numbers as int when they are whole, else as text."""
    read = TypeDeserializer().deserialize
    return tuple(
        {name: _plain(read(value)) for name, value in item.items()}
        for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        for item in page["Items"]
    )


def count_pending(client: Any, table: str, layout: Layout) -> int:
    """Return how many records wait for the relay: those in the sparse index that are not parked."""
    pages = client.get_paginator("scan").paginate(
        TableName=table,
        IndexName=layout.index,
        Select="COUNT",
        FilterExpression="#pending <> :parked",
        ExpressionAttributeNames={"#pending": PENDING_INDEX},
        ExpressionAttributeValues={":parked": {"S": PARKED}},
    )
    return sum(page["Count"] for page in pages)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
