"""Requests that move a record along an edge of `core.record.states`, as the arguments of DynamoDB calls.

Settling many records is a batch of PartiQL statements, each with its own condition: DynamoDB has no other call that is
both conditional per item and batched without being a transaction. An UPDATE of PartiQL never creates an item.

Parking writes a record of ours as a whole, whether it is still there or not. A hand-written one is written as a whole
only when it is gone; one that is there gets our attributes added, for its other columns are its writer's to change. So
does a record of ours whose state is not that of the image, and none of the later ones: somebody wrote into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import PARTITION_KEY_BYTES, SORT_KEY_BYTES
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.by_hand import written_ms
from dynamodb_outbox.core.record.decode import ordering_key, record_id
from dynamodb_outbox.core.record.place import carrier, key_text, keys_of, native
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

__all__ = [
    "Parked",
    "Parking",
    "Settled",
    "apart_keys",
    "park",
    "park_apart",
    "park_more",
    "park_there",
    "read",
    "restore",
    "settle",
    "stands_for",
    "without_ttl",
]

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
class Parked:
    """What a park came to: `new` when this call parked the record, `failure` when it is perhaps not parked, and why.

    Neither: it was parked already, or published or discarded meanwhile. `lost` goes with a failure: no answer says
    that this call did not park the record.
    """

    new: bool = False
    failure: str | None = None
    lost: bool = False


@dataclass(frozen=True)
class Settled:
    """What a settle call came to, by positions in it.

    `done` were made published; `changed` were no longer as expected (settled before, parked, deleted) and are left
    alone; `again` may succeed when tried again; `failed` will not, for the reasons given (reason -> how many).
    A reason is logged, and so holds no value of a record.
    """

    done: int = 0
    changed: int = 0
    again: tuple[int, ...] = ()
    failed: Mapping[str, int] = field(default_factory=dict)


def settle(table: str, image: WireItem, layout: Layout, *, now_ms: int) -> dict[str, Any]:
    """Return the statement of BatchExecuteStatement that makes a record published, if it is still as `image` says.

    `now_ms` is wall-clock time, from which the TTL counts. Raises ValueError for an image in a state without that move.
    """
    after = moved(image, PUBLISHED, layout)
    expires_s = now_ms // 1000 + int(layout.published_for.total_seconds())
    state = schema.state_name(image, layout)
    was = image.get(state)
    key = keys_of(image, layout.keys)
    statement = (  # of quoted names; each value is a parameter
        f"UPDATE {_quoted(table)} SET {_quoted(state)}=? SET {_quoted(layout.ttl)}=? "  # noqa: S608 -- as said above
        f"REMOVE {_quoted(schema.PENDING_INDEX)} "
        f"WHERE {' AND '.join(f'{_quoted(name)}=?' for name in key)} "
        f"AND {_quoted(state)}{' IS MISSING' if was is None else '=?'}"
    )
    parameters = [after, {"N": str(expires_s)}, *key.values()]
    return {"Statement": statement, "Parameters": [*parameters, *([] if was is None else [native(was)])]}


def park(table: str, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of PutItem that write a pending record as parked, whether it is still there or not.

    A hand-written one only if it is gone: see `park_there`.
    """
    moved(image, PARKED, layout)
    item = {name: native(value) for name, value in image.items() if name != layout.ttl}
    item |= _marks(image, layout, parking)
    state = schema.state_name(image, layout)
    was = image.get(state) if schema.SCHEMA in image else None
    request = _put_if_absent(table, item, layout)
    if was is None:
        return request
    return request | {
        "ConditionExpression": "attribute_not_exists(#pk) OR #state = :was",
        "ExpressionAttributeNames": {"#pk": layout.pk, "#state": state},
        "ExpressionAttributeValues": {":was": native(was)},
    }


def park_there(table: str, found: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of UpdateItem that park a record found pending, if its state is still what was found.

    Anything but one of the later states counts as pending, and so may be there as the state.
    """
    moved(found, PARKED, layout)
    marks = _marks(found, layout, parking)
    condition, names, values = _as_found(found, layout)
    return {
        "TableName": table,
        "Key": keys_of(found, layout.keys),
        "UpdateExpression": "SET " + ", ".join(f"#{i} = :{i}" for i in range(len(marks))) + " REMOVE #ttl",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names | {"#ttl": layout.ttl} | {f"#{i}": name for i, name in enumerate(marks)},
        "ExpressionAttributeValues": values | {f":{i}": value for i, value in enumerate(marks.values())},
    }


def _as_found(found: WireItem, layout: Layout) -> tuple[str, dict[str, str], dict[str, AttributeValue]]:
    """Return the condition that an item is there in the state found, the names and the values of it."""
    name = schema.state_name(found, layout)
    names = {"#pk": layout.pk, "#state": name}
    if name not in found:
        return "attribute_exists(#pk) AND attribute_not_exists(#state)", names, {}
    return "attribute_exists(#pk) AND #state = :found", names, {":found": found[name]}


# --- a record to which nothing can be added ---


def apart_keys(image: WireItem, layout: Layout) -> tuple[WireItem, ...]:
    """Return the keys, first choice first, of the item that stands for a record which is parked apart.

    The first may be the key of somebody's own item: `stands_for` tells. There is none where the table's keys have no
    place for text: such a record cannot be parked apart.
    """
    key, types, name = keys_of(image, layout.keys), layout.keys.types, carrier(layout)
    if types[name] == "S":
        most = SORT_KEY_BYTES if name == layout.sk else PARTITION_KEY_BYTES
        texts = schema.apart_texts(str(key[name]["S"]), layout.prefix, most)
    elif types[layout.pk] == "S":
        name, texts = layout.pk, (schema.hashed_apart(key_text(key[layout.pk]), layout.prefix),)
    else:
        return ()
    return tuple({**key, name: {"S": text}} for text in texts)


def stands_for(found: WireItem, image: WireItem, layout: Layout) -> bool:
    """Whether the item found under one of the `apart_keys` of a record is the one that stands for it."""
    if schema.SCHEMA not in found:
        return False
    said = schema.canonical(found, layout)
    parked_pk, parked_sk = said.get(schema.PARKED_PK, found[layout.pk]), said.get(schema.PARKED_SK)
    key = keys_of(image, layout.keys)
    return parked_pk == key[layout.pk] and parked_sk == (None if layout.sk is None else key[layout.sk])


def read(table: str, key: WireItem, layout: Layout) -> dict[str, Any]:
    """Return the arguments of GetItem, consistent, for the item under the key attributes of `key`."""
    return {"TableName": table, "Key": keys_of(key, layout.keys), "ConsistentRead": True}


def park_apart(table: str, key: WireItem, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of PutItem that write, under `key`, what stands for a parked record, if nothing is there."""
    record = keys_of(image, layout.keys)
    item: dict[str, AttributeValue] = {
        schema.SCHEMA: {"N": str(schema.SCHEMA_VERSION)},
        schema.ID: {"S": _id(image, layout)},
        schema.KEY: {"S": ordering_key(image, layout)},
        schema.AT: _at(image, layout, parking),
        schema.STATE: {"S": PARKED},
        **_index_and_reason(parking),
    }
    if key[layout.pk] != record[layout.pk]:
        item[schema.PARKED_PK] = record[layout.pk]
    if layout.sk is not None:
        item[schema.PARKED_SK] = record[layout.sk]
    return _put_if_absent(table, {**key, **schema.renamed(item, layout)}, layout)


def without_ttl(table: str, found: WireItem, layout: Layout) -> dict[str, Any]:
    """Return the arguments of UpdateItem that take the TTL from a record, if its state is still what was found."""
    condition, names, values = _as_found(found, layout)
    request = {
        "TableName": table,
        "Key": keys_of(found, layout.keys),
        "UpdateExpression": "REMOVE #ttl",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names | {"#ttl": layout.ttl},
    }
    return request | ({"ExpressionAttributeValues": values} if values else {})  # an empty one is refused


def restore(table: str, image: WireItem, layout: Layout) -> dict[str, Any]:
    """Return the arguments of PutItem that write a record as it was, less its TTL, if it is gone."""
    item = {name: native(value) for name, value in image.items() if name != layout.ttl}
    return _put_if_absent(table, item, layout)


def _put_if_absent(table: str, item: Mapping[str, AttributeValue], layout: Layout) -> dict[str, Any]:
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": "attribute_not_exists(#pk)",
        "ExpressionAttributeNames": {"#pk": layout.pk},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _marks(image: WireItem, layout: Layout, parking: Parking) -> dict[str, AttributeValue]:
    """Return what parking adds to a record; its own id, key and time stay where it has them."""
    at = layout.column(schema.AT)
    marks = {
        layout.column(schema.ID): {"S": _id(image, layout)},
        layout.column(schema.KEY): {"S": ordering_key(image, layout)},
        at: _at(image, layout, parking),
    }
    added: dict[str, AttributeValue] = {name: value for name, value in marks.items() if name not in image}
    if "N" not in image.get(at, _NOTHING):
        added[at] = marks[at]
    added |= schema.renamed(_index_and_reason(parking), layout)
    return added | {schema.state_name(image, layout): {"S": PARKED}}


def _id(image: WireItem, layout: Layout) -> str:
    """Return the id of a record; of one that has none, the text of the key that should have it."""
    return record_id(image, layout) or key_text(image[carrier(layout)])


def _at(image: WireItem, layout: Layout, parking: Parking) -> AttributeValue:
    """Return the sort key of the index: without it nobody would see the record.

    Where a hand-written row may have its time there, a row without it gets the time that it has elsewhere: whoever
    reads it again must not take another one for its own.
    """
    at = image.get(layout.column(schema.AT), _NOTHING)
    if "N" in at:
        return at
    written = written_ms(image, layout) if schema.AT in layout.columns and schema.SCHEMA not in image else None
    return {"N": str(parking.at_ms if written is None else written)}


def _index_and_reason(parking: Parking) -> dict[str, AttributeValue]:
    added: dict[str, AttributeValue] = {schema.PENDING_INDEX: {"S": PARKED}, **_why(parking)}
    if parking.positions is not None:
        added[PARKED_EVENTS] = {"NS": sorted(parking.positions, key=int)}
    return added


def park_more(table: str, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of UpdateItem that add events to those for which `image`, or its stand-in, is parked."""
    why = schema.renamed(_why(parking), layout)
    names = {f"#{i}": name for i, name in enumerate(why)} | {
        "#state": schema.state_name(image, layout),
        "#events": layout.column(PARKED_EVENTS),
    }
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
        "Key": keys_of(image, layout.keys),
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


_NOTHING: AttributeValue = {}
