"""What a hand-written record says of itself: id, ordering key, time. Its writer knew nothing of this library.

Each is in a column of its own where the layout's `columns` name one, and is told by the keys and `ts` where they do
not, or where the row has no such attribute. `core.record.schema` has the rules for writers.

An id has to tell a row from every other of the table. A prefix is taken off only where all records have it: where
`select` chooses them, `OUTBOX#5` and `5` may be two rows. What is left may be the name of an event in one partition
alone, so the partition key belongs to the id, except beside a UUID.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

from dynamodb_outbox.core.codec.envelope import parse_rfc3339
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import carrier, key_text

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["id_of", "key_by_place", "key_of", "named", "time_of", "written_ms"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_NOTHING: AttributeValue = {}


def named(image: WireItem, layout: Layout, name: str) -> AttributeValue | None:
    """Return the attribute of that name of the schema, where the layout's `columns` name it and the row has it."""
    column = layout.columns.get(name)
    return None if column is None else image.get(column)


def id_of(image: WireItem, layout: Layout) -> str:
    """Return the id of a row's event. Raises ValueError, with what is wrong, where it gives none."""
    given = named(image, layout, schema.ID)
    if given is None:
        return _id_by_keys(image, layout)
    text = given.get("S")
    if not isinstance(text, str) or not text:
        raise ValueError(f"attribute {layout.column(schema.ID)!r} is empty or not of type S")
    return schema.short_id(text)


def key_of(image: WireItem, layout: Layout) -> str:
    """Return the ordering key of a row. Raises ValueError, with what is wrong, where it gives none."""
    given = named(image, layout, schema.KEY)
    if given is None:
        return key_by_place(image, layout)
    if not {"S", "N"} & given.keys() or not (text := key_text(given)):
        raise ValueError(f"attribute {layout.column(schema.KEY)!r} is empty or neither of type S nor of type N")
    return text


def key_by_place(image: WireItem, layout: Layout) -> str:
    """Return the ordering key that the keys of a row give, whatever else is in it.

    The partition key, in a partition of records' own less the prefix; in a table without a sort key the id.
    """
    if layout.sk is None:
        try:
            return id_of(image, layout)
        except ValueError:
            return key_text(image[layout.pk])
    partition = key_text(image[layout.pk])
    return (partition.removeprefix(layout.prefix) if layout.own_partition else partition) or partition


def time_of(image: WireItem, layout: Layout) -> datetime:
    """Return when a row's event happened: `time` or `at` where the layout's `columns` name them, else `ts`.

    Raises ValueError with what is wrong.
    """
    if (given := named(image, layout, schema.TIME)) is not None:
        try:
            return parse_rfc3339(given["S"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"attribute {layout.column(schema.TIME)!r} is not a time by RFC 3339, of type S") from None
    if (given := named(image, layout, schema.AT)) is not None:
        return _moment(given, 1, f"attribute {layout.column(schema.AT)!r} is not a time in epoch milliseconds")
    ts = layout.column(schema.TS)
    what = f"attribute {ts!r} is missing, not of type N, or not a time in epoch seconds"
    return _moment(image.get(ts, _NOTHING), 1000, what)


def written_ms(image: WireItem, layout: Layout) -> int | None:
    """Return the same in epoch milliseconds, None where the row does not say it."""
    try:
        return (time_of(image, layout) - _EPOCH) // _MS
    except ValueError:
        return None


def _id_by_keys(image: WireItem, layout: Layout) -> str:
    name = carrier(layout)
    text = key_text(image[name])
    suffix = text.removeprefix(layout.prefix)
    if layout.select is not None and not schema.is_uuid(suffix):
        suffix = text
    if not suffix:
        raise ValueError(f"the {'partition' if layout.sk is None else 'sort'} key has no id after {layout.prefix!r}")
    return schema.id_by_hand(None if layout.sk is None else key_text(image[layout.pk]), suffix)


def _moment(value: AttributeValue, scale: int, otherwise: str) -> datetime:
    try:
        return datetime.fromtimestamp(int(Decimal(value.get("N", "")) * scale) / 1000, timezone.utc)
    except (ArithmeticError, TypeError, ValueError, OSError):
        raise ValueError(otherwise) from None
