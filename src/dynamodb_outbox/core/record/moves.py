"""Requests that move a record along an edge of `core.record.states`, as the arguments of DynamoDB calls.

Settling many records is a batch of PartiQL statements, each with its own condition: DynamoDB has no other call that is
both conditional per item and batched without being a transaction. Neither UPDATE nor DELETE of PartiQL creates an item.
To delete one that is gone succeeds, so the same call twice does not tell that it was the second; an update does.

Each condition names the state and what tells the record from others under its keys: `core.record.same`.

Parking writes a record of ours as a whole, whether it is still there or not. A hand-written one is written as a whole
only when it is gone; one that is there gets our attributes added, for its other columns are its writer's to change. So
does a record of ours whose state is not that of the image, and none of the later ones: somebody wrote into it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.by_hand import written_ms
from dynamodb_outbox.core.record.decode import ordering_key, record_id
from dynamodb_outbox.core.record.place import key_text, keys_of, native
from dynamodb_outbox.core.record.same import SETTLE_TEXT, conditions
from dynamodb_outbox.core.record.states import (
    DISCARDED,
    DISCARDED_AT,
    DISCARDED_REASON,
    PARKED,
    PARKED_AT,
    PARKED_ATTEMPTS,
    PARKED_CODE,
    PARKED_EVENTS,
    PARKED_REASON,
    PUBLISHED,
    expected,
    mark_name,
    move_of,
    way_of,
)
from dynamodb_outbox.layout import PUBLISHED_FOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.record.states import Move
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = [
    "Parked",
    "Parking",
    "Settled",
    "discard",
    "is_parked_by",
    "keep_s",
    "out_of_index",
    "park",
    "park_apart",
    "park_copy",
    "park_more",
    "park_there",
    "read",
    "refuse_again",
    "restore",
    "settle",
    "stands_alone",
    "without_ttl",
]

_REASON_LENGTH = 256  # characters, at most 4 bytes each: within the head-room that a writer leaves in a record
_CODE_LENGTH = 64
_EVENTS_NAMED = 100
_SECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)


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

    `done` are settled, by this call or since there is nothing to write; `changed` were no longer as expected (settled
    before, parked, deleted, another record by now) and are left alone; `again` may succeed when tried again; `failed`
    will not, for the reasons given (reason -> how many).
    A reason is logged, and so holds no value of a record.
    """

    done: int = 0
    changed: int = 0
    again: tuple[int, ...] = ()
    failed: Mapping[str, int] = field(default_factory=dict)


def settle(table: str, image: WireItem, layout: Layout, *, now_ms: int) -> dict[str, Any]:
    """Return the statement of BatchExecuteStatement that makes a record published, if it is still as `image` says.

    `now_ms` is wall-clock time, from which the TTL counts. Raises ValueError for an image in a state without that move,
    and for one of which `needs_no_settling` says that there is nothing to write.
    """
    move, way = move_of(image, PUBLISHED, layout), way_of(image, layout)
    if not way.writes:
        raise ValueError("nothing is written to settle this record")
    key, state = keys_of(image, layout.keys), expected(image, layout)
    demanded = {state.attribute: state.value, **conditions(image, layout, longest=SETTLE_TEXT)}
    where = _where(tuple(key), tuple((name, value is None) for name, value in demanded.items()))
    values = [*key.values(), *(native(value) for value in demanded.values() if value is not None)]
    if not way.stays:
        return {"Statement": f"DELETE FROM {_quoted(table)} {where}", "Parameters": values}  # noqa: S608 -- see `_where`
    changes = {state.attribute: move.state}
    if way.expires:
        changes[layout.ttl] = {"N": str(now_ms // 1000 + keep_s(image, layout))}
    return {
        "Statement": f"UPDATE {_quoted(table)} {_sets(tuple(changes))} {where}",
        "Parameters": [*changes.values(), *values],
    }


@lru_cache(maxsize=64)
def _sets(names: tuple[str, ...]) -> str:
    """Return the words of a statement that set attributes, and take the item out of the index."""
    return f"{' '.join(f'SET {_quoted(name)}=?' for name in names)} REMOVE {_quoted(schema.PENDING_INDEX)}"


@lru_cache(maxsize=64)
def _where(key: tuple[str, ...], demanded: tuple[tuple[str, bool], ...]) -> str:
    """Return the words of a statement for an item by its key, and by attributes that it has, or (True) has not.

    They hold quoted names alone, for each value is a parameter.
    """
    terms = [f"{_quoted(name)}=?" for name in key]
    terms += [f"{_quoted(name)}{' IS MISSING' if missing else '=?'}" for name, missing in demanded]
    return f"WHERE {' AND '.join(terms)}"


def keep_s(image: WireItem, layout: Layout) -> int:
    """Return for how many seconds a record is kept: a writer that lost its answer counts on what it said itself."""
    if schema.SCHEMA not in image:
        return math.ceil(layout.published_for.total_seconds())
    said = schema.value(image, layout, schema.KEEP).get("N")
    if isinstance(said, str) and _SECONDS.fullmatch(said):
        return int(said)
    return math.ceil(PUBLISHED_FOR.total_seconds())


def park(table: str, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of PutItem that write a pending record as parked, whether it is still there or not.

    A hand-written one only if it is gone: see `park_there`.
    """
    move = move_of(image, PARKED, layout)
    item = {name: native(value) for name, value in image.items() if name != layout.ttl}
    item |= _marks(image, layout, parking, move)
    state = expected(image, layout)
    request = _put_if_absent(table, item, layout)
    if state.value is None or schema.SCHEMA not in image:
        return request
    same, names, values = _as_seen(image, layout)
    return request | {
        "ConditionExpression": f"attribute_not_exists(#pk) OR #state = :was AND {same}",
        "ExpressionAttributeNames": names | {"#pk": layout.pk, "#state": state.attribute},
        "ExpressionAttributeValues": values | {":was": native(state.value)},
    }


def is_parked_by(found: WireItem, layout: Layout, parking: Parking) -> bool:
    """Whether an item has the very marks of this parking: an attempt before, whose answer was lost, has written it."""
    events = schema.value(found, layout, mark_name(found, PARKED_EVENTS)).get("NS")
    same_events = (None if events is None else frozenset(events)) == parking.positions
    return same_events and schema.renamed(_why(found, parking), layout).items() <= found.items()


def stands_alone(item: WireItem, layout: Layout) -> bool:
    """Whether a record cannot have the marks of a parked one, and is parked apart: `at` is another thing in it.

    In a record of ours an `at` of the wrong type is a fault, and mended.
    """
    at = schema.value(item, layout, schema.AT)
    return schema.SCHEMA not in item and bool(at) and "N" not in at


def park_there(table: str, found: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of UpdateItem that park a record found pending, if its state is still what was found.

    Anything but one of the later states counts as pending, and so may be there as the state.
    """
    marks = _marks(found, layout, parking, move_of(found, PARKED, layout))
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
    state = expected(found, layout)
    same, names, values = _as_seen(found, layout)
    names |= {"#pk": layout.pk, "#state": state.attribute}
    if state.value is None:
        return f"attribute_exists(#pk) AND attribute_not_exists(#state) AND {same}", names, values
    return f"attribute_exists(#pk) AND #state = :found AND {same}", names, values | {":found": state.value}


def _as_seen(seen: WireItem, layout: Layout) -> tuple[str, dict[str, str], dict[str, AttributeValue]]:
    """Return the condition that an item is the same record as was seen, the names and the values of it."""
    terms, names, values = [], {}, {}
    for place, (name, value) in enumerate(conditions(seen, layout).items()):
        names[f"#s{place}"] = name
        if value is None:
            terms.append(f"attribute_not_exists(#s{place})")
        else:
            terms.append(f"#s{place} = :s{place}")
            values[f":s{place}"] = native(value)
    return " AND ".join(terms), names, values


# --- a record to which nothing can be added: core/record/apart.py ---


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
    }
    item |= _index_and_reason(item, parking)
    if schema.AGAIN in image:
        item[schema.AGAIN] = image[schema.AGAIN]
    if (mark := schema.columns_mark(layout)) is not None:
        item[schema.COLUMNS] = mark
    if key[layout.pk] != record[layout.pk]:
        item[schema.PARKED_PK] = record[layout.pk]
    if layout.sk is not None:
        item[schema.PARKED_SK] = record[layout.sk]
    return _put_if_absent(table, {**key, **schema.renamed(item, layout)}, layout)


def park_copy(table: str, key: WireItem, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of PutItem that write a record as parked, as a whole, under `key`, if nothing is there.

    For a record under whose own keys another one is.
    """
    record = keys_of(image, layout.keys)
    item: dict[str, AttributeValue] = {name: native(value) for name, value in image.items() if name != layout.ttl}
    item |= _marks(image, layout, parking, move_of(image, PARKED, layout))
    if stands_alone(image, layout):  # then no index is there that needs it
        item[layout.column(schema.AT)] = native(image[layout.column(schema.AT)])
    item |= key
    if key[layout.pk] != record[layout.pk]:
        item[schema.COPY_PK] = record[layout.pk]
    if layout.sk is not None:
        item[schema.COPY_SK] = record[layout.sk]
    return _put_if_absent(table, item, layout)


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


def out_of_index(table: str, found: WireItem, layout: Layout) -> dict[str, Any]:
    """Return the arguments of UpdateItem that take a record out of the index, if its state is still what was found.

    It takes no room, as a record that is parked apart may have none.
    """
    request = without_ttl(table, found, layout)
    names = {**request["ExpressionAttributeNames"], "#ttl": schema.PENDING_INDEX}
    return {**request, "ExpressionAttributeNames": names}


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


def _marks(image: WireItem, layout: Layout, parking: Parking, move: Move) -> WireItem:
    """Return what parking adds to a record, by the table's names; its own id, key and time stay where it has them."""
    added = _index_and_reason(image, parking) | {schema.state_name(image): move.state}
    if not schema.value(image, layout, schema.ID):
        added[schema.ID] = {"S": _id(image, layout)}
    if not schema.value(image, layout, schema.KEY):
        added[schema.KEY] = {"S": ordering_key(image, layout)}
    if "N" not in schema.value(image, layout, schema.AT):
        added[schema.AT] = _at(image, layout, parking)
    return schema.renamed(added, layout)


def _id(image: WireItem, layout: Layout) -> str:
    """Return the id of a record; of one that has none, the text of the key that should have it."""
    return record_id(image, layout) or key_text(image[layout.carrier])


def _at(image: WireItem, layout: Layout, parking: Parking) -> AttributeValue:
    """Return the sort key of the index: without it nobody would see the record.

    Where a hand-written row may have its time there, a row without it gets the time that it has elsewhere: whoever
    reads it again must not take another one for its own.
    """
    at = schema.value(image, layout, schema.AT)
    if "N" in at:
        return at
    written = written_ms(image, layout) if schema.AT in layout.columns and schema.SCHEMA not in image else None
    return {"N": str(parking.at_ms if written is None else written)}


def _index_and_reason(item: WireItem, parking: Parking) -> dict[str, AttributeValue]:
    added: dict[str, AttributeValue] = {schema.PENDING_INDEX: {"S": PARKED}, **_why(item, parking)}
    if parking.positions is not None:
        added[mark_name(item, PARKED_EVENTS)] = {"NS": sorted(parking.positions, key=int)}
    return added


def park_more(table: str, image: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of UpdateItem that add events to those for which `image`, or its stand-in, is parked.

    `image` is the item as it was found.
    """
    why = _why(image, parking)
    names = {f"#{i}": name for i, name in enumerate(why)}
    names |= {"#state": schema.state_name(image), "#events": mark_name(image, PARKED_EVENTS)}
    values: dict[str, AttributeValue] = {f":{i}": value for i, value in enumerate(why.values())}
    values[":parked"] = {"S": PARKED}
    same, same_names, same_values = _as_seen(image, layout)
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
        "ConditionExpression": f"#state = :parked AND {same}",
        "ExpressionAttributeNames": same_names | {name: layout.column(named) for name, named in names.items()},
        "ExpressionAttributeValues": values | same_values,
    }


def refuse_again(table: str, found: WireItem, layout: Layout, parking: Parking) -> dict[str, Any]:
    """Return the arguments of UpdateItem that note, in a parked record, that its events were refused once more.

    For which of them it is parked stays as it was.
    """
    attempts = layout.column(mark_name(found, PARKED_ATTEMPTS))
    why = {layout.column(name): value for name, value in _why(found, parking).items()}
    condition, names, values = _as_found(found, layout)
    changes = ["#attempts = if_not_exists(#attempts, :one) + :one", *(f"#{i} = :{i}" for i in range(len(why)))]
    return {
        "TableName": table,
        "Key": keys_of(found, layout.keys),
        "UpdateExpression": "SET " + ", ".join(changes),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names | {"#attempts": attempts} | {f"#{i}": name for i, name in enumerate(why)},
        "ExpressionAttributeValues": values
        | {":one": {"N": "1"}}
        | {f":{i}": value for i, value in enumerate(why.values())},
    }


def discard(table: str, found: WireItem, layout: Layout, *, reason: str, now_ms: int) -> dict[str, Any]:
    """Return the arguments of UpdateItem that make a parked record a discarded one, if it is still as it was found.

    It leaves the index and stays, with the marks of parking, and without a TTL. Raises ValueError for a record in
    another state.
    """
    marks = {
        expected(found, layout).attribute: move_of(found, DISCARDED, layout).state,
        layout.column(mark_name(found, DISCARDED_AT)): {"N": str(now_ms)},
        layout.column(mark_name(found, DISCARDED_REASON)): {"S": reason[:_REASON_LENGTH]},
    }
    condition, names, values = _as_found(found, layout)
    changes = ", ".join(f"#{i} = :{i}" for i in range(len(marks)))
    return {
        "TableName": table,
        "Key": keys_of(found, layout.keys),
        "UpdateExpression": f"SET {changes} REMOVE #pending",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names
        | {"#pending": schema.PENDING_INDEX}
        | {f"#{i}": name for i, name in enumerate(marks)},
        "ExpressionAttributeValues": values | {f":{i}": value for i, value in enumerate(marks.values())},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _why(item: WireItem, parking: Parking) -> Mapping[str, AttributeValue]:
    return {
        mark_name(item, PARKED_AT): {"N": str(parking.at_ms)},
        mark_name(item, PARKED_CODE): {"S": parking.code[:_CODE_LENGTH]},
        mark_name(item, PARKED_REASON): {"S": parking.reason[:_REASON_LENGTH]},
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
