"""What an ordering key must be, so that a record of it can be stored where the layout keeps records.

A key is text. In a partition of numbers or of bytes it is the text that names one (`core.record.place.key_text`), and
nothing else: two texts of one number would be two keys in one partition.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import shown, text
from dynamodb_outbox.core.limits import PARTITION_KEY_BYTES
from dynamodb_outbox.core.record.place import key_bytes, key_text, key_value

if TYPE_CHECKING:
    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.layout import Layout

__all__ = ["checked_key"]

_ELSEWHERE = "or keep records in a table of their own, where keys are text: Layout(placement='table')."
_ADVICE = {
    "N": f"Records live in partitions of numbers (pk_type='N'): give the number's plain digits, as '42', {_ELSEWHERE}",
    "B": f"Records live in partitions of bytes (pk_type='B'): give the base64 of those bytes, {_ELSEWHERE}",
}


def checked_key(key: object, layout: Layout, refuse: Refusal) -> str:
    """Return an ordering key in its plain form. Raises what `refuse` makes of the reason, for a key that cannot be."""
    if isinstance(key, (int, Decimal)) and not isinstance(key, bool):
        raise refuse(f"is {shown(key)}, and a key is text{_as_text(key)}.")
    checked = text(key, refuse, most_bytes=key_bytes(layout))
    if layout.sk is None or layout.own_partition:
        return checked
    if layout.pk_type == "S":
        _check_free(checked, layout, refuse)
    else:
        _check_named(checked, layout, refuse)
    return checked


def _as_text(number: int | Decimal) -> str:
    """Return how to give a number as a key, where it can be one."""
    try:
        return f": {key_text({'N': str(number)})!r}"
    except ValueError:
        return ""


def _check_free(key: str, layout: Layout, refuse: Refusal) -> None:
    """Refuse a key that would be the partition of a guard or of an inbox record."""
    for prefix in (layout.guard_prefix, layout.inbox_prefix):
        if key.startswith(prefix):
            raise refuse(f"starts with {prefix!r}, which belongs to the library's own items.")


def _check_named(key: str, layout: Layout, refuse: Refusal) -> None:
    """Refuse a text that is not the one by which a number, or bytes, are named."""
    kind = layout.pk_type
    try:
        value = key_value(key, kind)
    except ValueError as error:
        raise refuse(f"is {key!r}: {error}. {_ADVICE[kind]}") from None
    if kind == "B" and len(value["B"]) > PARTITION_KEY_BYTES:
        raise refuse(f"names {len(value['B']):,} bytes; {PARTITION_KEY_BYTES:,} are the most.")
