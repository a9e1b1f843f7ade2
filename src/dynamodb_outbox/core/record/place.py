"""Where a record lives, and how it is told from other items: what a layout says, as functions.

The rules are those of `core.record.schema`, under *Keys* and *Telling records*: one key attribute carries the prefix
and the id, and partitions of numbers or of bytes have the number or the bytes that an ordering key names.

Guards live in the records' table under partition keys of their own, with a sort key that is always the same.

Hand-written records may have other keys; then `Layout(select=)` tells them from other items.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import (
    NUMBER_DIGITS,
    NUMBER_LARGEST_EXPONENT,
    NUMBER_SMALLEST_EXPONENT,
    PARTITION_KEY_BYTES,
    SORT_KEY_BYTES,
)
from dynamodb_outbox.core.record import schema

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.keys import Keys, KeyType
    from dynamodb_outbox.layout import Layout

__all__ = [
    "Place",
    "carried_id",
    "guard_keys",
    "guard_partition",
    "inbox_partition",
    "is_of",
    "is_record",
    "is_wanted",
    "key_bytes",
    "key_fault",
    "key_of_partition",
    "key_text",
    "key_value",
    "keys_of",
    "native",
    "partition_of",
    "place_of",
    "position_partition",
    "quoted",
    "record_keys",
    "reserved_prefix",
    "stream_filter",
    "written_in",
]

Place = tuple[str, ...]
"""The key attributes of an item as text: what tells it from all others of its table."""


def record_keys(layout: Layout, key: str, record_id: str) -> dict[str, AttributeValue]:
    """Return the key attributes of a record. Raises ValueError for a key that the partition key's type cannot hold."""
    marked: AttributeValue = {"S": layout.prefix + record_id}
    if layout.sk is None:
        return {layout.pk: marked}
    return {layout.pk: partition_of(layout, key), layout.sk: marked}


def partition_of(layout: Layout, key: str) -> AttributeValue:
    """Return the partition key of the records of an ordering key, in a table with a sort key. Raises ValueError."""
    if layout.own_partition:
        return {"S": layout.prefix + key}
    return key_value(key, layout.pk_type)


def key_of_partition(layout: Layout, partition: AttributeValue) -> str:
    """Return the ordering key that a partition key tells, in a table with a sort key: the inverse of `partition_of`.

    A partition key of another writer's that is not the prefix and a key counts as it is. Raises ValueError for what is
    no key.
    """
    text = key_text(partition)
    return (text.removeprefix(layout.prefix) if layout.own_partition else text) or text


def key_bytes(layout: Layout) -> int:
    """Return how many bytes of UTF-8 an ordering key may have, so that the partition key of its records holds it."""
    if layout.sk is None:
        return PARTITION_KEY_BYTES
    if layout.pk_type == "B":
        return -(-PARTITION_KEY_BYTES // 3) * 4  # in base64
    return PARTITION_KEY_BYTES - (len(layout.prefix.encode("utf-8")) if layout.own_partition else 0)


def guard_partition(layout: Layout, command: str) -> str:
    """Return the partition key of a command's guard, by the hash that names the command."""
    return layout.guard_prefix + command


def inbox_partition(layout: Layout, consumer: str, source: str, event_id: str) -> str:
    """Return the partition key of a consumer's inbox record of an event; `consumer` has no `#`.

    Without a `#` in any part but the last, two events can never share a key.
    """
    return f"{layout.inbox_prefix}{consumer}#{quoted(source)}#{event_id}"


def position_partition(layout: Layout, consumer: str, source: str, subject: str) -> str:
    """Return the partition key of how far a consumer is with a subject: no consumer has the empty name."""
    return f"{layout.inbox_prefix}#{consumer}#{quoted(source)}#{subject}"


def quoted(text: str) -> str:
    """Return a text without `#`, so that others can follow it after one: `%` is `%25` then, and `#` is `%23`."""
    return text.replace("%", "%25").replace("#", "%23")


def guard_keys(layout: Layout, partition: str) -> dict[str, AttributeValue]:
    """Return the key attributes of a guard or an inbox record under a partition key of its own."""
    keys: dict[str, AttributeValue] = {layout.pk: {"S": partition}}
    return keys if layout.sk is None else {**keys, layout.sk: {"S": schema.GUARD_SORT_KEY}}


def keys_of(item: WireItem, keys: Keys) -> dict[str, AttributeValue]:
    """Return the key attributes of an item, as the API takes them: bytes, where Lambda's stream records have base64."""
    return {name: native(item[name]) for name in keys.types}


def native(value: AttributeValue) -> AttributeValue:
    """Return a value as the API takes it: a stream record in JSON carries binary as base64 text."""
    if "S" in value or "N" in value:  # as nearly all
        return value
    ((kind, content),) = value.items()
    if kind == "B":
        return {kind: _bytes(content)}
    if kind == "BS":
        return {kind: [_bytes(member) for member in content]}
    if kind == "L":
        return {kind: [native(member) for member in content]}
    if kind == "M":
        return {kind: {name: native(member) for name, member in content.items()}}
    return value


def key_text(value: AttributeValue) -> str:
    """Return the value of a key attribute as text: a number in plain digits, bytes in base64.

    Equal values have equal texts, however their numbers are written. Raises ValueError for what is no key.
    """
    text = value.get("S")
    if isinstance(text, str):
        return text
    ((kind, content),) = value.items()
    if kind == "N":
        return _digits(content)
    if kind == "B":
        return content if isinstance(content, str) else base64.b64encode(content).decode("ascii")
    raise ValueError(f"a value of type {kind} is no key")


def key_fault(keys: Any, layout: Layout) -> str | None:
    """Return why no item can have these key attributes, in Lambda's form; None where one can, and for another table's.

    No request may carry such keys: one of them has all others of the request refused, too.
    """
    if not isinstance(keys, Mapping) or keys.keys() != layout.keys.types.keys():
        return None
    for name, kind in layout.keys.types.items():
        most = SORT_KEY_BYTES if name == layout.sk else PARTITION_KEY_BYTES
        value = keys[name]
        if not isinstance(value, Mapping) or list(value) != [kind] or not isinstance(value[kind], str):
            return f"the key attribute {name!r} is no value of type {kind}"
        if not _fits_key(value[kind], kind, most):
            return f"the key attribute {name!r} is no key: none is empty, or has more than {most:,} bytes"
    return None


def _fits_key(text: str, kind: KeyType, most_bytes: int) -> bool:
    """Whether a value, as text, can be that of a key attribute."""
    try:
        if kind == "N":
            return bool(_digits(text))
        return 0 < len(text.encode("utf-8") if kind == "S" else base64.b64decode(text, validate=True)) <= most_bytes
    except ValueError:  # of what is neither number nor base64, and of a surrogate without its other half
        return False


def key_value(text: str, kind: KeyType) -> AttributeValue:
    """Return the key that `key_text` names. Raises ValueError, with what is wrong, for a text that names none."""
    if kind == "S":
        return {"S": text}
    if kind == "N":
        if (plain := _digits(text)) != text:
            raise ValueError(f"the number is written {plain!r} in plain digits")
        return {"N": text}
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None
    if not content or base64.b64encode(content).decode("ascii") != text:
        raise ValueError("it is not the base64 of any bytes")
    return {"B": content}


def is_record(item: WireItem, layout: Layout) -> bool:
    """Whether an item, or its key attributes where no `select` says otherwise, is that of a record; a guard is none."""
    if schema.GUARD in item:
        return False
    if layout.select is None:
        return _begins(item.get(layout.carrier), layout.prefix)
    if schema.SCHEMA in item and _is_guards(item, layout):
        return False
    return all(is_wanted(item.get(name), wanted) for name, wanted in layout.select.items())


def is_of(item: WireItem, layout: Layout) -> bool:
    """Whether an item is a record, and one of this layout: no other outbox's in the same table."""
    if not is_record(item, layout):
        return False
    if schema.SCHEMA not in item:
        return True
    carried, said = carried_id(item, layout), schema.value(item, layout, schema.ID).get("S")
    return item.get(schema.COLUMNS) == schema.columns_mark(layout) and (carried is None or said in (None, carried))


def written_in(item: WireItem, layout: Layout) -> str | None:
    """Return the Region that a record says it was written in; a hand-written one may mean anything by it."""
    return schema.value(item, layout, schema.REGION).get("S") if schema.SCHEMA in item else None


def place_of(item: WireItem, layout: Layout) -> Place:
    """Return the key attributes of an item as text."""
    return tuple(key_text(item[name]) for name in layout.keys.types)


def carried_id(item: WireItem, layout: Layout) -> str | None:
    """Return what follows the prefix in the key attribute that carries it; None where that does not begin with it."""
    text, prefix = item[layout.carrier].get("S"), layout.prefix
    return text[len(prefix) :] if isinstance(text, str) and text.startswith(prefix) else None


def reserved_prefix(keys: WireItem, layout: Layout) -> str | None:
    """Return the prefix by which the keys of an item would be taken for those of the library's own, None for none."""
    carried = [(layout.carrier, layout.prefix), (layout.pk, layout.guard_prefix), (layout.pk, layout.inbox_prefix)]
    if layout.own_partition:
        carried.append((layout.pk, layout.prefix))
    return next((prefix for name, prefix in carried if _begins(keys.get(name), prefix)), None)


def stream_filter(layout: Layout) -> dict[str, Any]:
    """Return the pattern of an event source mapping that lets inserted records through, and little else.

    It passes guards too where `select` does not tell them apart; `is_record` does.
    """
    wanted = {layout.carrier: {"prefix": layout.prefix}} if layout.select is None else layout.select
    pattern: dict[str, Any] = {"eventName": ["INSERT"]}
    if wanted:
        pattern["dynamodb"] = {"NewImage": {name: {"S": [value]} for name, value in wanted.items()}}
    return pattern


def _is_guards(item: WireItem, layout: Layout) -> bool:
    return any(_begins(item.get(layout.pk), prefix) for prefix in (layout.guard_prefix, layout.inbox_prefix))


def _begins(value: Mapping[str, Any] | None, prefix: str) -> bool:
    text = None if value is None else value.get("S")
    return isinstance(text, str) and text.startswith(prefix)


def is_wanted(value: Mapping[str, Any] | None, wanted: str | Mapping[str, str]) -> bool:
    """Whether an attribute is as `select` asks of it."""
    if isinstance(wanted, Mapping):
        return _begins(value, wanted["prefix"])
    return value is not None and value.get("S") == wanted


def _digits(number: str) -> str:
    """Return a number in plain digits, without zeros that say nothing. Raises ValueError for what is no number."""
    try:
        value = Decimal(number)
    except (InvalidOperation, TypeError):
        raise ValueError("it is no number") from None
    if not value.is_finite():
        raise ValueError("it is no number")
    if not value:
        return "0"
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    if len(digits) > NUMBER_DIGITS or not NUMBER_SMALLEST_EXPONENT <= value.adjusted() <= NUMBER_LARGEST_EXPONENT:
        raise ValueError(f"it is a number of more than {NUMBER_DIGITS} digits, or outside 1E-130 to 9.99E+125")
    plain = format(value, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _bytes(content: str | bytes) -> bytes:
    return base64.b64decode(content) if isinstance(content, str) else content
