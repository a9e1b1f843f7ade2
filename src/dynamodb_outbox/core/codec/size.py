"""How many bytes DynamoDB counts for an item. [DDG, "item sizes and formats"].

Names and text count as UTF-8, binary as it is, a number about one byte per two significant digits and one more (one
more again for a sign), null and booleans one. A list or a map costs 3 bytes and 1 an element, beside its contents.
Numbers are the only approximation, on the high side; `ITEM_HEADROOM_BYTES` covers what settling adds later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem

__all__ = ["item_bytes", "text_bytes", "value_bytes"]


def item_bytes(item: WireItem) -> int:
    """Return the size of an item in wire form, in bytes, as DynamoDB counts it."""
    return sum(text_bytes(name) + value_bytes(value) for name, value in item.items())


def value_bytes(value: AttributeValue) -> int:
    """Return the size of one value in wire form, in bytes."""
    ((kind, content),) = value.items()
    return _SIZES[kind](content)


def text_bytes(text: str) -> int:
    """Return the length of text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _number(text: str) -> int:
    mantissa = text.lstrip("-").upper().partition("E")[0].replace(".", "").strip("0")
    return (len(mantissa) + 1) // 2 + 1 + text.startswith("-")


def _list(values: list[AttributeValue]) -> int:
    return 3 + sum(1 + value_bytes(value) for value in values)


def _map(item: WireItem) -> int:
    return 3 + sum(1 + text_bytes(name) + value_bytes(value) for name, value in item.items())


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
