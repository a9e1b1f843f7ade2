"""Where a record is parked apart: nothing can be added to the record itself, or another one is under its keys by now.

What stands for it is an item beside the record, under a key of which one attribute differs from the record's: the one
that carries the prefix where that is text, else the partition key. It is small where the record is still there, and
the whole record where another one is in its place. `core.record.schema` has the rules for writers.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import PARTITION_KEY_BYTES, SORT_KEY_BYTES
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import key_text, keys_of
from dynamodb_outbox.core.record.same import digest

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["apart_keys", "copy_key", "stands_for"]

_APART = "#parked"


def apart_keys(image: WireItem, layout: Layout) -> tuple[WireItem, ...]:
    """Return the keys, first choice first, of the item that stands for a record which is parked apart.

    The first may be the key of somebody's own item: `stands_for` tells. There is none where the table's keys have no
    place for text: such a record cannot be parked apart.
    """
    key, types, name = keys_of(image, layout.keys), layout.keys.types, layout.carrier
    if types[name] == "S":
        most = SORT_KEY_BYTES if name == layout.sk else PARTITION_KEY_BYTES
        texts = _texts(str(key[name]["S"]), layout.prefix, most)
    elif types[layout.pk] == "S":
        name, texts = layout.pk, (_hashed(key_text(key[layout.pk]), layout.prefix),)
    else:
        return ()
    return tuple({**key, name: {"S": text}} for text in texts)


def copy_key(image: WireItem, layout: Layout) -> WireItem | None:
    """Return the key of a whole record that is parked apart: another for each that had one key; None: no key is text.

    No item of somebody's own is there, for the key is made of what the record says.
    """
    key, types = keys_of(image, layout.keys), layout.keys.types
    name = next((name for name in (layout.carrier, layout.pk) if types[name] == "S"), None)
    return None if name is None else {**key, name: {"S": f"{layout.prefix}{digest(image, layout)}{_APART}"}}


def stands_for(found: WireItem, image: WireItem, layout: Layout) -> bool:
    """Whether the item found under one of the `apart_keys` of a record is the one that stands for it.

    One that says another `ob_again` stood for what had been under the record's keys before.
    """
    if schema.SCHEMA not in found or found.get(schema.AGAIN) != image.get(schema.AGAIN):
        return False
    key = keys_of(image, layout.keys)
    partition = schema.value(found, layout, schema.PARKED_PK) or found[layout.pk]
    sort_key = schema.value(found, layout, schema.PARKED_SK)
    return partition == key[layout.pk] and sort_key == ({} if layout.sk is None else key[layout.sk])


def _texts(carried: str, prefix: str, most_bytes: int) -> tuple[str, ...]:
    """Return what may stand in place of what a key attribute of the record holds, of `most_bytes` at most."""
    apart, hashed = carried + _APART, _hashed(carried, prefix)
    return (apart, hashed) if len(apart.encode("utf-8")) <= most_bytes else (hashed,)


def _hashed(text: str, prefix: str) -> str:
    """Return the same for a text that may be of any length, or be that of a number or of bytes."""
    return prefix + hashlib.sha256(text.encode("utf-8")).hexdigest() + _APART
