"""Whether an outbox can write by a layout: not each one that a relay can read by.

A record that its own relay would not take for one would be lost. What `select` asks for is therefore tried on records
as this library makes them, in both of their forms, before anything is written.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.place import carrier, is_record
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.core.codec.compression import Encoding
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["check_guardable", "check_writable"]

_ID = "01234567-89ab-7def-8123-456789abcdef"
_KEYS = {"S": "(key)", "N": "0", "B": "AAAA"}


def check_writable(layout: Layout, compression: Encoding | None, source: str) -> None:
    """Raise ConfigurationError for a layout that records cannot be written by, with what to do about it."""
    name = carrier(layout)
    if (kind := layout.keys.types[name]) != "S":
        raise ConfigurationError(
            f"Outbox: {name!r} is of type {kind} and cannot carry {layout.prefix!r} and a record's id. A relay may "
            "read such a table by Layout(select=...); what an Outbox writes needs a table of its own, whose keys are "
            "text: Layout(placement='table') and Outbox(table, outbox_table=...)."
        )
    if compression is not None and layout.payload_format == "map":
        raise ConfigurationError(
            f"Outbox: compression={compression!r} stores payloads as bytes, and Layout(payload_format='map') as maps. "
            "Leave one of them out."
        )
    if layout.select is not None and not all(is_record(item, layout) for item in _samples(layout, source)):
        raise ConfigurationError(
            f"Outbox: by Layout(select={dict(layout.select)!r}) this outbox's own records would not be taken for "
            "records, and never be published. Attributes that have to be equal to a text are added to its records, "
            "where they have none of that name themselves; a beginning is met by a key alone, with prefix= or "
            "own_partition=True."
        )


def check_guardable(layout: Layout, what: str) -> None:
    """Raise ConfigurationError when guards, which `what` needs, have no room in the layout's table."""
    if layout.pk_type != "S":
        raise ConfigurationError(
            f"{what} keeps an item under a key that is text, and Layout(pk_type={layout.pk_type!r}) has no room for "
            "one. Keep records and guards in a table of their own, whose keys are text: Layout(placement='table') and "
            "outbox_table=."
        )


def _samples(layout: Layout, source: str) -> Iterator[WireItem]:
    """Yield records as an outbox writes them: of one event, and of several."""
    moment = datetime(2000, 1, 1, tzinfo=timezone.utc)
    event = Event(id=_ID, type="(type)", source=source, payload="{}", time=moment)
    for events in ((event,), (event, event)):
        record = RecordDraft(_ID, _KEYS[layout.pk_type], events, 0, 1)
        yield encode_record(record, Origin(_ID, 0, None), layout)
