"""How many bytes AWS counts: DynamoDB for an item [DDG, "item sizes and formats"], a bus for an entry.

Names and text count as UTF-8, binary as it is, null and booleans one byte, a number one byte per two significant digits
and one more (one more again for a sign). A list or a map costs 3 bytes and 1 an element, beside its contents. AWS calls
the rule for numbers approximate; here the digits are paired from the decimal point, which is never the smaller count.

The rules are data: what each type costs is a table below, what a bus counts of an entry stands in its `SinkLimits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import CONTAINER_BYTES, ELEMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.core.limits import SinkLimits
    from dynamodb_outbox.core.values import AttributeValue, WireItem

__all__ = ["Member", "entry_bytes", "item_bytes", "text_bytes", "value_bytes"]

Member = str | Sequence[str] | Mapping[str, Mapping[str, str]]
"""A part of an entry that counts: text, a list of text, or message attributes by name."""


def item_bytes(item: WireItem) -> int:
    """Return the size of an item in wire form, in bytes, as DynamoDB counts it."""
    size = 0
    for name, value in item.items():
        ((kind, content),) = value.items()
        if kind == "S" and content.isascii() and name.isascii():  # as most are
            size += len(name) + len(content)
        else:
            size += text_bytes(name) + _SIZES[kind](content)
    return size


def value_bytes(value: AttributeValue) -> int:
    """Return the size of one value in wire form, in bytes."""
    ((kind, content),) = value.items()
    return _SIZES[kind](content)


def entry_bytes(entry: Mapping[str, Member], limits: SinkLimits) -> int:
    """Return the size of an entry of a publish request, in bytes, as its bus counts it.

    Of message attributes the names, the types and the values count.
    """
    return limits.entry_overhead_bytes + sum(_member_bytes(entry[name]) for name in limits.counted if name in entry)


def _member_bytes(member: Member) -> int:
    if isinstance(member, str):
        return text_bytes(member)
    inner = sum(map(text_bytes, member))
    if isinstance(member, Mapping):
        inner += sum(text_bytes(part) for value in member.values() for part in value.values())
    return inner


def text_bytes(text: str) -> int:
    """Return the length of text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _number(text: str) -> int:
    """Digits are stored in pairs that are aligned to the decimal point, without zeros at either end; a byte a pair."""
    digits, exponent = text, 0
    if text.isdigit():
        if text[-1] != "0" != text[0]:  # as most do
            return (len(text) + 1) // 2 + 1
    else:
        mantissa, _, power = text.lstrip("-").upper().partition("E")
        whole, _, fraction = mantissa.partition(".")
        digits, exponent = whole + fraction, int(power or 0) - len(fraction)
    significant = digits.strip("0")
    if not significant:
        return 1
    exponent += len(digits) - len(digits.rstrip("0"))
    # An odd exponent leaves the lowest digit in a pair with a zero.
    return (len(significant) + exponent % 2 + 1) // 2 + 1 + text.startswith("-")


def _list(values: list[AttributeValue]) -> int:
    return CONTAINER_BYTES + len(values) * ELEMENT_BYTES + sum(map(value_bytes, values))


def _map(item: WireItem) -> int:
    return CONTAINER_BYTES + len(item) * ELEMENT_BYTES + item_bytes(item)


_SIZES: Mapping[str, Callable[[Any], int]] = {
    "S": text_bytes,
    "N": _number,
    "B": len,
    "NULL": lambda _: 1,
    "BOOL": lambda _: 1,
    "L": _list,
    "M": _map,
    "SS": lambda members: sum(map(text_bytes, members)),
    "NS": lambda members: sum(map(_number, members)),
    "BS": lambda members: sum(map(len, members)),
}
