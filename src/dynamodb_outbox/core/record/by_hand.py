"""What a hand-written record says of itself: id, ordering key, time. Its writer knew nothing of this library.

Each is in a column of its own where the layout's `columns` name one, and is told by the keys and `ts` where they do
not, or where the row has no such attribute. `core.record.schema` has the rules for writers.

An id has to tell a row from every other of the table. A prefix is taken off only where all records have it: where
`select` chooses them, `OUTBOX#5` and `5` may be two rows. What is left may be the name of an event in one partition
alone, so the partition key belongs to the id, except beside a UUID.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from dynamodb_outbox.core.codec.moments import moment_of, parse_moment
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import key_of_partition, key_text, quoted

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["id_by_keys", "id_of", "is_uuid", "key_by_place", "key_of", "named", "time_of", "written_ms"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_UUID_LENGTH = 36
_MEANING = {
    schema.TIME: "a time as text (S)",
    schema.AT: "a number (N) of milliseconds since 1970",
    schema.TS: "a number (N) of seconds since 1970",
}
_ID_BYTES = 512  # an inbox record's partition key holds the id and has 2,048 bytes for it and for other names


def named(image: WireItem, layout: Layout, name: str) -> AttributeValue | None:
    """Return the attribute of that name of the schema, where the layout's `columns` name it and the row has it.

    NULL and empty text are what many writers store for nothing, and count as that.
    """
    if name not in layout.columns:
        return None
    found = schema.value(image, layout, name)
    return None if "NULL" in found or found.get("S") == "" else found or None


def id_of(image: WireItem, layout: Layout) -> str:
    """Return the id of a row's event. Raises ValueError, with what is wrong, where it gives none."""
    given = named(image, layout, schema.ID)
    if given is None:
        return _id_by_keys(image, layout)
    if "S" not in given:
        raise ValueError(f"attribute {layout.column(schema.ID)!r} is not of type S")
    return _short(str(given["S"]))


def key_of(image: WireItem, layout: Layout) -> str:
    """Return the ordering key of a row. Raises ValueError, with what is wrong, where it gives none."""
    given = named(image, layout, schema.KEY)
    if given is None:
        return key_by_place(image, layout)
    if not {"S", "N"} & given.keys():
        raise ValueError(f"attribute {layout.column(schema.KEY)!r} is neither of type S nor of type N")
    return key_text(given)


def key_by_place(image: WireItem, layout: Layout) -> str:
    """Return the ordering key that the keys of a row give, whatever else is in it.

    The partition key, in a partition of records' own less the prefix; in a table without a sort key the id.
    """
    if layout.sk is None:
        try:
            return id_of(image, layout)
        except ValueError:
            return key_text(image[layout.pk])
    return key_of_partition(layout, image[layout.pk])


def time_of(image: WireItem, layout: Layout) -> datetime:
    """Return when a row's event happened: `time` or `at` where the layout's `columns` name them, else `ts`.

    Raises ValueError with what is wrong.
    """
    for name in (schema.TIME, schema.AT):
        if (given := named(image, layout, name)) is not None:
            return _told(given, name, layout)
    return _told(schema.value(image, layout, schema.TS), schema.TS, layout)


def written_ms(image: WireItem, layout: Layout) -> int | None:
    """Return the same in epoch milliseconds, None where the row does not say it."""
    try:
        return (time_of(image, layout) - _EPOCH) // _MS
    except ValueError:
        return None


def _id_by_keys(image: WireItem, layout: Layout) -> str:
    text = key_text(image[layout.carrier])
    suffix = text.removeprefix(layout.prefix)
    if layout.select is not None and not is_uuid(suffix):
        suffix = text
    if not suffix:
        raise ValueError(f"the {'partition' if layout.sk is None else 'sort'} key has no id after {layout.prefix!r}")
    return id_by_keys(None if layout.sk is None else key_text(image[layout.pk]), suffix)


def id_by_keys(partition: str | None, suffix: str) -> str:
    """Return the id of a hand-written record, by its partition key and what follows the prefix in its sort key.

    In a table without a sort key `partition` is None, and `suffix` what follows the prefix in the partition key.
    """
    return _short(suffix if partition is None or is_uuid(suffix) else f"{quoted(partition)}#{suffix}")


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its 36-character form."""
    return len(text) == _UUID_LENGTH and _UUID.fullmatch(text) is not None


def _short(text: str) -> str:
    """Return an id that its text gives: the text itself, or its SHA-256 where it is longer than an id may be."""
    if len(text) <= _ID_BYTES // 4:
        return text
    content = text.encode("utf-8", "surrogatepass")
    return text if len(content) <= _ID_BYTES else hashlib.sha256(content).hexdigest()


def _told(given: AttributeValue, name: str, layout: Layout) -> datetime:
    column = layout.column(name)
    try:
        if name == schema.TIME:
            return parse_moment(given["S"])
        return moment_of(given["N"], 1000 if name == schema.AT else 1)
    except (KeyError, TypeError):
        nothing = "" if given and "NULL" not in given else "missing, NULL, or "
        advice = _advice(given, name, column)
        raise ValueError(f"attribute {column!r} is {nothing}not {_MEANING[name]}{advice}") from None
    except ValueError as fault:
        raise ValueError(f"attribute {column!r} is not {_MEANING[name]}: {fault}") from None


def _advice(given: AttributeValue, name: str, column: str) -> str:
    """Return how to read a time that is of another type than the column's meaning asks for."""
    free = f", {name!r}: 'outbox_{name}'" if name == column else ""  # two names of the schema need two columns
    if "N" in given:
        return f"; for milliseconds say Layout(columns={{'at': {column!r}{free}}}), for seconds 'ts' in place of 'at'"
    return f"; for text say Layout(columns={{'time': {column!r}{free}}})" if given.get("S") else ""
