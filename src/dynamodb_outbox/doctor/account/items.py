"""What is asked of the items of a table: how many of them are of a kind. DynamoDB counts, and sends none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.schema import GUARD, PENDING_INDEX, SCHEMA, STATE_BY_HAND

if TYPE_CHECKING:
    from dynamodb_outbox.layout import Layout

__all__ = ["written_by_hand"]


def written_by_hand(layout: Layout) -> dict[str, Any]:
    """Return the arguments of a Scan that counts records of a layout which no sweeper sees.

    They have none of the marks that this library gives a record: no schema, no place in the index, no state.
    """
    wanted = {layout.carrier: {"prefix": layout.prefix}} if layout.select is None else layout.select
    names = {
        f"#m{place}": name for place, name in enumerate((SCHEMA, GUARD, PENDING_INDEX, layout.column(STATE_BY_HAND)))
    }
    clauses = [f"attribute_not_exists({each})" for each in names]
    values: dict[str, Any] = {}
    for place, (name, value) in enumerate(wanted.items()):
        names[f"#w{place}"] = name
        values[f":w{place}"] = {"S": value if isinstance(value, str) else value["prefix"]}
        clauses.append(f"#w{place} = :w{place}" if isinstance(value, str) else f"begins_with(#w{place}, :w{place})")
    return {
        "Select": "COUNT",
        "FilterExpression": " AND ".join(clauses),
        "ExpressionAttributeNames": names,
        **({"ExpressionAttributeValues": values} if values else {}),
    }
