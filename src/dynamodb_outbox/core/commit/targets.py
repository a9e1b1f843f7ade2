"""The tables of an outbox, and the items in them that actions touch.

Records and guards are in one table, whose keys are the layout's. Actions may touch items of any table, and each table
has keys of its own: those that `schemas` names, the layout's otherwise.

Two keys are one when DynamoDB takes them for one: 1, Decimal("1.0") and Decimal("1E0") are. So what is compared, and
what events and receipts carry, are the texts of keys (`core.record.place.key_text`), never their wire form. So do a
table's name and its ARN mean one table, for a transaction stays within one account and Region: tables are compared, and
named in receipts and subjects, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.codec.size import text_bytes
from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.limits import PARTITION_KEY_BYTES, SORT_KEY_BYTES
from dynamodb_outbox.core.record.place import key_text, reserved_prefix
from dynamodb_outbox.errors import InvalidAction, LimitExceeded, ReservedName
from dynamodb_outbox.keys import table_name

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.keys import Keys, KeyType
    from dynamodb_outbox.layout import Layout

__all__ = ["Tables", "Target", "own_target", "target_of"]

_NEEDED = {"S": "text that is not empty", "N": "a number (int or Decimal)", "B": "bytes that are not empty"}
_SHORT = 200
"""Characters of a key that need no measuring."""
_SHOWN = 200
"""Characters of a label that an error about its key shows."""


@dataclass(frozen=True)
class Tables:
    """Which tables there are.

    records   the table of records and guards, with the keys of `layout`
    default   where actions go that name no table; None: each has to name one
    schemas   the keys of tables, by name; a table that is not named has the layout's

    Where a table is asked for, its ARN will do.
    """

    records: str
    default: str | None
    layout: Layout
    schemas: Mapping[str, Keys] = field(default_factory=dict)
    keys: Keys = field(init=False)
    """Those of the records' table."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", self.layout.keys)

    def keys_of(self, table: str) -> Keys:
        """Return the key schema of a table."""
        return self.schemas.get(table_name(table), self.keys)


@dataclass(frozen=True)
class Target:
    """The item an action touches.

    table, name   its table as the request says it, and the table's name where that is an ARN
    key           its key attributes in wire form
    pk, sk        their texts, by which items are told apart; `sk` is empty in a table without a sort key
    keys          the key schema of its table
    with_records  whether that table is the one that holds the records
    label         names the action in errors: `put orders {'pk': 'ORDER#1', 'sk': 'META'}`
    """

    table: str
    name: str
    key: WireItem
    pk: str
    sk: str
    keys: Keys
    with_records: bool
    label: str

    @property
    def place(self) -> tuple[str, str, str]:
        """What no other item has: table, partition key and sort key."""
        return self.name, self.pk, self.sk

    @property
    def partition(self) -> tuple[str, KeyType]:
        """Its partition key, as text and type: the number 5 and the text "5" are two."""
        return self.pk, self.keys.pk_type


def target_of(verb: str, table: str | None, key: Mapping[str, Any], tables: Tables, *, exactly: bool = False) -> Target:
    """Return where an action goes; `key` holds the key attributes of the table, and nothing else when `exactly`.

    `table` is None for the default one. Raises InvalidAction for a key attribute that is missing, empty or of another
    type than the table's, InvalidValue for one that cannot be stored, ReservedName, LimitExceeded.
    """
    if table is None and (table := tables.default) is None:
        raise InvalidAction(
            verb,
            f"table= is needed: {tables.records!r} holds the records, and Layout(placement='table') keeps other items "
            "out of there. Name the table, or give both: Outbox(table, outbox_table=...).",
        )
    keys = tables.keys_of(table)
    names = keys.types
    if not isinstance(key, Mapping):
        raise InvalidAction(f"{verb} {table}", f"a dict with {_listed(keys)} is needed, not {shown(key)}.")
    said = ", ".join(f"{name!r}: {shown(key[name])}" for name in names if name in key)
    label = f"{verb} {table} {{{said}}}"
    wire = _wire_key(label, key, keys, table, tables)
    if exactly and (extra := sorted(map(_plainly, key.keys() - names.keys()))):
        belongs = "belongs" if keys.sk is None else "belong"
        reason = f"the key has {', '.join(extra)} too; only {_listed(keys)} {belongs} there."
        raise InvalidAction(label, reason + _schema_advice(table, tables))
    with_records = table_name(table) == table_name(tables.records)
    if with_records and (prefix := reserved_prefix(wire, tables.layout)) is not None:
        raise ReservedName(label, prefix)
    return _target(table, wire, keys, label, with_records=with_records)


def own_target(tables: Tables, item: WireItem, label: str) -> Target:
    """Return where an item of the library's own goes, which has its keys already."""
    key = {name: item[name] for name in tables.keys.types}
    return _target(tables.records, key, tables.keys, label, with_records=True)


def _target(table: str, key: WireItem, keys: Keys, label: str, *, with_records: bool) -> Target:
    sk = "" if keys.sk is None else key_text(key[keys.sk])
    return Target(table, table_name(table), key, key_text(key[keys.pk]), sk, keys, with_records, label)


def _wire_key(label: str, key: Mapping[str, Any], keys: Keys, table: str, tables: Tables) -> dict[str, AttributeValue]:
    """Return the key attributes in wire form. Raises InvalidAction, InvalidValue, LimitExceeded."""
    wire: dict[str, AttributeValue] = {}
    for name, kind in keys.types.items():
        if kind == "S" and type(plain := key.get(name)) is str and 0 < len(plain) <= _SHORT and plain.isascii():
            wire[name] = {"S": plain}  # as nearly all keys are
            continue
        if name not in key or (value := _key_attribute(name, key[name], kind)) is None:
            found = f"is {shown(key[name])}" if name in key else "is missing"
            reason = f"the key attribute {name!r} {found}; {_NEEDED[kind]} is needed."
            raise InvalidAction(label, reason + _value_advice(key, name, table, tables))
        _check_length(label, name, value, PARTITION_KEY_BYTES if name == keys.pk else SORT_KEY_BYTES)
        wire[name] = value
    return wire


def _key_attribute(name: str, value: Any, kind: str) -> AttributeValue | None:
    """Return the wire form of a key attribute, None when it is of another type or empty. Raises InvalidValue."""
    wire = serialize(value, name) if _is_of(value, kind) else {}
    return wire if wire.get(kind) else None


def _is_of(value: Any, kind: str) -> bool:
    """Whether a value is of the type of a key attribute, or is a float, for which there is other advice."""
    if kind == "S":
        return isinstance(value, str)
    if kind == "N":
        return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return isinstance(value, (bytes, bytearray, memoryview)) or type(value).__name__ == "Binary"


def _check_length(label: str, name: str, value: AttributeValue, limit: int) -> None:
    ((kind, content),) = value.items()
    if kind == "N":
        return
    size = text_bytes(content) if kind == "S" else len(content)
    if size > limit:
        raise LimitExceeded(f"{label[:_SHOWN]}: {name}", size, limit, "bytes", "Shorten the key.")


def _value_advice(key: Mapping[str, Any], name: str, table: str, tables: Tables) -> str:
    """Return what to do about a key attribute of another type than the schema's."""
    value = key.get(name)
    if isinstance(value, Mapping) and len(value) == 1 and not _NEEDED.keys().isdisjoint(value):
        return " Give Python values, not DynamoDB's wire form."
    if (advice := _schema_advice(table, tables)) or table_name(table) in tables.schemas:
        return advice
    if name not in key:
        return " For a table with other keys: Layout(pk=..., sk=...)."
    kind = next((each for each in ("N", "B") if _is_of(value, each)), None)
    if kind is None or tables.layout.placement == "table" or tables.keys.types[name] != "S":
        return ""
    called = "a number" if kind == "N" else "bytes"
    if name == tables.keys.pk and tables.keys.sk is not None:
        return f" For a table whose partition key is {called}: Layout(pk_type={kind!r})."
    return f" For a table where it is {called}: Layout(placement='table') and outbox_table=, and the table in tables=."


def _schema_advice(table: str, tables: Tables) -> str:
    """Return how to say that a table has other keys, where nobody has said which it has."""
    name = table_name(table)
    if name == table_name(tables.records) or name in tables.schemas:
        return ""
    return f" A table with other keys than the layout's is named: tables={{{name!r}: Keys(...)}}."


def _plainly(name: object) -> str:
    return name if isinstance(name, str) else shown(name)


def _listed(keys: Keys) -> str:
    return " and ".join(map(repr, keys.types))
