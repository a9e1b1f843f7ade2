"""What an ordering key must be, so that a record of it can be stored where the layout keeps records.

A key is text. In a partition of numbers or of bytes it is the text that names one (`core.record.place.key_text`), and
nothing else: two texts of one number would be two keys in one partition.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import text
from dynamodb_outbox.core.codec.size import text_bytes
from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.limits import PARTITION_KEY_BYTES
from dynamodb_outbox.core.record.place import key_value
from dynamodb_outbox.errors import InvalidValue

if TYPE_CHECKING:
    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.layout import Layout

__all__ = ["checked_key"]

_BASE64_BYTES = -(-PARTITION_KEY_BYTES // 3) * 4
"""Of the text of the largest partition key that is binary."""
_ELSEWHERE = "or keep records in a table of their own, where keys are text: Layout(placement='table')."
_ADVICE = {
    "N": f"Records live in partitions of numbers (pk_type='N'): give the number's plain digits, as '42', {_ELSEWHERE}",
    "B": f"Records live in partitions of bytes (pk_type='B'): give the base64 of those bytes, {_ELSEWHERE}",
}


def checked_key(key: object, layout: Layout, refuse: Refusal) -> str:
    """Return an ordering key in its plain form. Raises what `refuse` makes of the reason, for a key that cannot be."""
    if layout.sk is not None and layout.pk_type != "S":
        return _named(key, layout, refuse)
    in_own = layout.own_partition and layout.sk is not None
    checked = text(key, refuse, most_bytes=PARTITION_KEY_BYTES - (text_bytes(layout.prefix) if in_own else 0))
    if layout.sk is not None and not in_own:
        for prefix in (layout.guard_prefix, layout.inbox_prefix):
            if checked.startswith(prefix):
                raise refuse(f"starts with {prefix!r}, which belongs to the library's own items.")
    return checked


def _named(key: object, layout: Layout, refuse: Refusal) -> str:
    """Return the text of a key that is a number or bytes in the table."""
    kind = layout.pk_type
    checked = text(key, refuse, most_bytes=_BASE64_BYTES)
    try:
        if kind == "N":
            serialize(Decimal(checked), "it")  # what DynamoDB has no room for has many digits: not written out below
        value = key_value(checked, kind)
    except InvalidOperation:
        raise refuse(f"is {checked!r}, and that is no number. {_ADVICE[kind]}") from None
    except InvalidValue as error:
        raise refuse(f"is {checked!r}: {error} {_ADVICE[kind]}") from None
    except ValueError as error:
        raise refuse(f"is {checked!r}: {error}. {_ADVICE[kind]}") from None
    if kind == "B" and len(value["B"]) > PARTITION_KEY_BYTES:
        raise refuse(f"names {len(value['B']):,} bytes; {PARTITION_KEY_BYTES:,} are the most.")
    return checked
