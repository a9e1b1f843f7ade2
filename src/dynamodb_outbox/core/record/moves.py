"""Requests that move a record along an edge of `core.record.states`, as the arguments of DynamoDB calls.

Settling many records is a batch of PartiQL statements, each with its own condition: DynamoDB has no other call that is
both conditional per item and batched without being a transaction. An UPDATE of PartiQL never creates an item.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.decode import ordering_key
from dynamodb_outbox.core.record.states import (
    PARKED,
    PARKED_AT,
    PARKED_CODE,
    PARKED_EVENTS,
    PARKED_REASON,
    PUBLISHED,
    moved,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Parking", "Settled", "park", "park_more", "settle"]

_REASON_LENGTH = 256  # characters, at most 4 bytes each: within the head-room that a writer leaves in a record
_CODE_LENGTH = 64
_EVENTS_NAMED = 100


@dataclass(frozen=True)
class Parking:
    """Why and when a record is parked, and which of its events (positions from 0); None is all of them."""

    code: str
    reason: str
    at_ms: int
    events: tuple[int, ...] | None = None

    @property
    def positions(self) -> frozenset[str] | None:
        """The positions as they are stored. Too many to name in the head-room of a record become all."""
        if self.events is None or len(self.events) > _EVENTS_NAMED:
            return None
        return frozenset(map(str, self.events))


@dataclass(frozen=True)
class Settled:
    """What a settle call came to, by positions in it.

    `done` were made published; `changed` were no longer as expected (settled before, parked, deleted) and are left
    alone; `again` may succeed when tried again; `failed` will not, for the reasons given (code -> how many).
    """

    done: int = 0
    changed: int = 0
    again: tuple[int, ...] = ()
    failed: Mapping[str, int] = field(default_factory=dict)


def settle(table: str, image: WireItem, layout: Layout, *, now_ms: int) -> dict[str, Any]:
    """Return the statement of BatchExecuteStatement that makes a record published, if it is still as `image` says.

    `now_ms` is wall-clock time, from which the TTL counts. Raises ValueError for an image in a state without that move.
    """
    after = moved(image, PUBLISHED)
    expires_s = now_ms // 1000 + int(layout.published_for.total_seconds())
    was = image.get(schema.STATE)
    statement = (  # of quoted names; each value is a parameter
        f"UPDATE {_quoted(table)} SET {_quoted(schema.STATE)}=? SET {_quoted(layout.ttl)}=? "  # noqa: S608 -- as said above
        f"REMOVE {_quoted(schema.PENDING_INDEX)} "
        f"WHERE {_quoted(layout.pk)}=? AND {_quoted(layout.sk)}=? "
        f"AND {_quoted(schema.STATE)}{' IS MISSING' if was is None else '=?'}"
    )
    parameters = [after, {"N": str(expires_s)}, image[layout.pk], image[layout.sk]]
    return {"Statement": statement, "Parameters": [*parameters, *([] if was is None else [_native(was)])]}


def park(table: str, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of PutItem that write a pending record as parked, whether it is still there or not."""
    after = moved(image, PARKED)
    item = {name: _native(value) for name, value in image.items() if name != layout.ttl}
    item.setdefault(schema.ID, {"S": str(image[layout.sk]["S"])[len(layout.prefix) :]})
    item.setdefault(schema.KEY, {"S": ordering_key(image, layout)})
    if "N" not in item.get(schema.AT, {}):
        item[schema.AT] = {"N": str(parking.at_ms)}  # the sort key of the index: without it nobody would see the record
    item |= {schema.STATE: after, schema.PENDING_INDEX: {"S": PARKED}, **_why(parking)}
    if parking.positions is not None:
        item[PARKED_EVENTS] = {"NS": sorted(parking.positions, key=int)}
    was = image.get(schema.STATE)
    request: dict[str, Any] = {
        "TableName": table,
        "Item": item,
        "ExpressionAttributeNames": {"#state": schema.STATE},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if was is None:
        # True for a record that is not there, too.
        return request | {"ConditionExpression": "attribute_not_exists(#state)"}
    return request | {
        "ConditionExpression": "attribute_not_exists(#pk) OR #state = :was",
        "ExpressionAttributeNames": {"#pk": layout.pk, "#state": schema.STATE},
        "ExpressionAttributeValues": {":was": _native(was)},
    }


def park_more(table: str, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of UpdateItem that add events to those for which a record is parked already."""
    why = _why(parking)
    names = {f"#{i}": name for i, name in enumerate(why)} | {"#state": schema.STATE, "#events": PARKED_EVENTS}
    values: dict[str, AttributeValue] = {f":{i}": value for i, value in enumerate(why.values())}
    values[":parked"] = {"S": PARKED}
    changes = "SET " + ", ".join(f"#{i} = :{i}" for i in range(len(why)))
    if parking.positions is None:
        changes += " REMOVE #events"
    else:
        changes += " ADD #events :events"
        values[":events"] = {"NS": sorted(parking.positions, key=int)}
    return {
        "TableName": table,
        "Key": {layout.pk: image[layout.pk], layout.sk: image[layout.sk]},
        "UpdateExpression": changes,
        "ConditionExpression": "#state = :parked",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _why(parking: Parking) -> Mapping[str, AttributeValue]:
    return {
        PARKED_AT: {"N": str(parking.at_ms)},
        PARKED_CODE: {"S": parking.code[:_CODE_LENGTH]},
        PARKED_REASON: {"S": parking.reason[:_REASON_LENGTH]},
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _native(value: AttributeValue) -> AttributeValue:
    """Return a value as the API takes it: a stream record in JSON carries binary as base64 text."""
    ((kind, content),) = value.items()
    if kind == "B":
        return {kind: _bytes(content)}
    if kind == "BS":
        return {kind: [_bytes(member) for member in content]}
    if kind == "L":
        return {kind: [_native(member) for member in content]}
    if kind == "M":
        return {kind: {name: _native(member) for name, member in content.items()}}
    return value


def _bytes(content: str | bytes) -> bytes:
    return base64.b64decode(content) if isinstance(content, str) else content
