"""Whether an outbox can write by a layout: not each one that a relay can read by.

A record that its own relay would not take for one would be lost. What `select` asks for must therefore hold of every
record that this library makes, whatever its id, its key and its events are: of some of them would not be enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.place import is_wanted
from dynamodb_outbox.core.record.schema import PENDING, STATE
from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from dynamodb_outbox.core.codec.compression import Encoding
    from dynamodb_outbox.layout import Layout, Wanted

__all__ = ["check_guardable", "check_writable"]


def check_writable(layout: Layout, compression: Encoding | None) -> None:
    """Raise ConfigurationError for a layout that records cannot be written by, with what to do about it."""
    name = layout.carrier
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
    wanted = layout.select or {}
    missed = [each for each in wanted if not _holds_of_all(layout, each, wanted[each])]
    if missed:
        raise ConfigurationError(
            f"Outbox: by Layout(select={dict(wanted)!r}) this outbox's own records would not be taken for records, or "
            f"not all of them, and never be published: {' and '.join(map(repr, missed))} is in the way. Attributes "
            "that have to be equal to a text are added to its records, where they have none of that name themselves; a "
            "beginning is met by the key alone that begins with prefix= (with own_partition=True the partition key "
            f"does), and by {layout.column(STATE)!r}, which is {PENDING!r} in all of them."
        )


def _holds_of_all(layout: Layout, name: str, wanted: Wanted) -> bool:
    """Whether every record of a writer has there what `select` asks for."""
    if name in layout.marks:
        return True
    if name == layout.column(STATE):
        return is_wanted({"S": PENDING}, wanted)
    begins_with_prefix = name == layout.carrier or (layout.own_partition and name == layout.pk)
    return begins_with_prefix and not isinstance(wanted, str) and layout.prefix.startswith(wanted["prefix"])


def check_guardable(layout: Layout, what: str) -> None:
    """Raise ConfigurationError when guards, which `what` needs, have no room in the layout's table."""
    if layout.pk_type != "S":
        raise ConfigurationError(
            f"{what} keeps an item under a key that is text, and Layout(pk_type={layout.pk_type!r}) has no room for "
            "one. Keep records and guards in a table of their own, whose keys are text: Layout(placement='table') and "
            "outbox_table=."
        )
