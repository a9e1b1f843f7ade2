"""Whether an item is the record of an image, or another one that was written under the same keys since.

Keys tell a record from all others at one time. Over time they do not: a hand-written row may be deleted and written
again with another event, and a parked record is put again with a corrected one. What is done to the image must not be
done to that. So each move compares what the writer gave the event, of which no move changes anything:

    records of ours      id, at, payload, events
    hand-written rows    type, ts, payload; id, time and at where the layout's `columns` name them
    both                 ob_again, a text that whoever puts a record again gives it anew; absent in what is there first

Compared is what the image has there, of types S and N. A settle leaves out texts longer than SETTLE_TEXT: it would send
every such event a second time. What differs in a long payload alone, and in no time and no mark, it does not tell
apart; a park does.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import key_text, keys_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["SETTLE_TEXT", "conditions", "digest", "is_same"]

SETTLE_TEXT = 1_024
"""The longest text that a settle compares, in characters."""

_OURS = ((schema.ID, "S"), (schema.AT, "N"), (schema.PAYLOAD, "S"), (schema.EVENTS, "S"))
_BY_HAND = ((schema.TYPE, "S"), (schema.TS, "N"), (schema.PAYLOAD, "S"))
_NAMED = ((schema.ID, "S"), (schema.TIME, "S"), (schema.AT, "N"))


def conditions(image: WireItem, layout: Layout, *, longest: int | None = None) -> Mapping[str, AttributeValue | None]:
    """Return what an item must have to be the record of an image, by the table's names; None: not have it at all.

    Texts of more than `longest` characters are left out.
    """
    compared = _OURS if schema.SCHEMA in image else (*_BY_HAND, *(one for one in _NAMED if one[0] in layout.columns))
    types = layout.keys.types
    found: dict[str, AttributeValue | None] = {schema.AGAIN: image.get(schema.AGAIN)}
    for name, kind in compared:
        column = layout.column(name)
        value = image.get(column, schema.ABSENT)
        if kind in value and column not in types and (longest is None or len(value[kind]) <= longest):
            found[column] = value
    return found


def is_same(item: WireItem, image: WireItem, layout: Layout) -> bool:
    """Whether an item found under the keys of an image is its record, in whatever state."""
    return all(_equal(item.get(name), value) for name, value in conditions(image, layout).items())


def digest(image: WireItem, layout: Layout) -> str:
    """Return what tells the record of an image from others under its keys: 64 hex digits, the same each time."""
    told = [f"{name}={key_text(value)}" for name, value in sorted(keys_of(image, layout.keys).items())]
    for name, value in sorted(conditions(image, layout).items()):
        told += [] if value is None else [f"{name}={kind}{content}" for kind, content in value.items()]
    return hashlib.sha256("\0".join(told).encode("utf-8", "surrogatepass")).hexdigest()


def _equal(there: AttributeValue | None, value: AttributeValue | None) -> bool:
    if there == value or there is None or value is None or not ("N" in there and "N" in value):
        return there == value
    try:
        return key_text(there) == key_text(value)
    except ValueError:  # what is no number is in no table: a document says so, which may be anybody's
        return False
