"""Items between Python and DynamoDB's wire form, in the style of boto3's resources, with nothing changed silently.

Python                                wire          back in Python
None                                  NULL          None
bool                                  BOOL          bool
int, Decimal                          N             Decimal (as boto3; DynamoDB itself drops trailing zeros)
str                                   S             str
bytes, bytearray, boto3's Binary      B             bytes
list, tuple                           L             list
dict (names are str)                  M             dict
set, frozenset of one scalar kind     SS, NS, BS    set

Subclasses of int and str (IntEnum, a str that is an Enum) are stored as what they are underneath. Everything else is
refused with the path of the value and a way out: floats first of all, because a binary fraction is not the decimal
number that was written. What DynamoDB would refuse (an empty set, more than 38 digits, nesting beyond 32 levels, text
that is no UTF-8) is refused here, where the path is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.limits import (
    ATTRIBUTE_NAME_BYTES,
    NESTING_LEVELS,
    NUMBER_DIGITS,
    NUMBER_LARGEST_EXPONENT,
    NUMBER_SMALLEST_EXPONENT,
)
from dynamodb_outbox.errors import InvalidValue

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem

__all__ = ["deserialize", "deserialize_item", "serialize", "serialize_item"]

_Path = str | tuple["_Path", str | int]
"""Where a value stands: text, or a path and one step more. It becomes text only for an error."""

_PLAIN_INTEGERS = 10**NUMBER_DIGITS
"""Integers on this side of it have no more digits than DynamoDB keeps."""

_ADVICE = {
    "float": "a float is a binary fraction and would not keep its decimal digits; use Decimal('1.1') or text.",
    "datetime": "DynamoDB has no date type; use value.isoformat(), or epoch seconds as an int.",
    "date": "DynamoDB has no date type; use value.isoformat().",
    "UUID": "DynamoDB has no UUID type; use str(value).",
    "generator": "use list(value).",
    "map": "use list(value).",
    "range": "use list(value).",
    "coroutine": "await it first.",
    "async_generator": "use [each async for each in value].",
}


def serialize_item(item: Mapping[str, Any], path: str = "item") -> dict[str, AttributeValue]:
    """Return an item, or a key, in wire form. Raises InvalidValue with the path of what cannot be stored."""
    for name in item:
        # DynamoDB's own limits; a name inside of a value has none but the size of the item.
        if isinstance(name, str) and not 0 < len(name) <= ATTRIBUTE_NAME_BYTES // 4:
            _check_attribute(name, path)
    return _members(item, path, 0)


def serialize(value: Any, path: str = "value") -> AttributeValue:
    """Return one value in wire form; `path` is where it stands, for the error. Raises InvalidValue."""
    return _serialize(value, path, 1)


def deserialize_item(item: WireItem) -> dict[str, Any]:
    """Return a wire item as Python values. Raises ValueError for a type that DynamoDB does not have."""
    return {name: deserialize(value) for name, value in item.items()}


def deserialize(value: AttributeValue) -> Any:
    """Return one wire value as a Python value. Raises ValueError for a type that DynamoDB does not have."""
    (kind, content), *more = value.items()
    read = _READERS.get(kind)
    if read is None or more:
        raise ValueError(f"{value!r} is not a value in DynamoDB's wire form")
    return read(content)


def _serialize(value: Any, path: _Path, level: int) -> AttributeValue:
    if level > NESTING_LEVELS:
        raise InvalidValue(
            _said(path), f"nested more than {NESTING_LEVELS} levels deep; store the inner part as JSON text."
        )
    kind = type(value)
    # Nearly all values are text or a whole number, and plain: they are decided here.
    if kind is str and value.isascii():
        return {"S": value}
    if kind is int and -_PLAIN_INTEGERS < value < _PLAIN_INTEGERS:
        return {"N": str(value)}
    scalar = None if kind is dict or kind is list else _scalar(value, path)
    if scalar is not None:
        return scalar
    if isinstance(value, Mapping):
        return {"M": _members(value, path, level)}
    if isinstance(value, (list, tuple)):
        return {"L": [_serialize(member, (path, i), level + 1) for i, member in enumerate(value)]}
    if isinstance(value, (set, frozenset)):
        return _set(value, path)
    advice = _ADVICE.get(kind.__name__, "convert it first.")
    raise InvalidValue(_said(path), f"a value of type {kind.__name__} cannot be stored: {advice}")


def _members(value: Mapping[str, Any], path: _Path, level: int) -> dict[str, AttributeValue]:
    return {
        name if type(name) is str and name.isascii() else _name(name, path): _serialize(member, (path, name), level + 1)
        for name, member in value.items()
    }


def _said(path: _Path) -> str:
    """Return a path as text: `item.lines[0].price`."""
    steps: list[str] = []
    while not isinstance(path, str):
        path, step = path
        steps.append(f"[{step}]" if type(step) is int else f".{step}")
    return path + "".join(reversed(steps))


def _scalar(value: Any, path: _Path) -> AttributeValue | None:
    """Return the wire form of a value that is neither a container nor unknown; None for those."""
    if isinstance(value, str):
        return {"S": _text(value, path)}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": _number(Decimal(int(value)), path)}
    if isinstance(value, Decimal):
        return {"N": _number(value, path)}
    if value is None:
        return {"NULL": True}
    content = _bytes(value)
    return None if content is None else {"B": content}


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    # boto3's Binary, told by its name: the core imports no boto3.
    if type(value).__name__ == "Binary" and isinstance(content := getattr(value, "value", None), (bytes, bytearray)):
        return bytes(content)
    return None


def _text(value: str, path: _Path) -> str:
    text = value if type(value) is str else str.__str__(value)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidValue(_said(path), "the text has a lone surrogate and so no form in UTF-8.") from None
    return text


def _name(name: Any, path: _Path) -> str:
    if not isinstance(name, str):
        raise InvalidValue(_said(path), f"has the name {shown(name)} of type {type(name).__name__}; names must be str.")
    return _text(name, f"{_said(path)}.{shown(name)}")


def _check_attribute(name: str, path: str) -> None:
    if not name:
        raise InvalidValue(path, "has an attribute without a name; DynamoDB takes names of one byte or more.")
    size = len(_text(name, f"{path}.{shown(name)}").encode("utf-8"))
    if size > ATTRIBUTE_NAME_BYTES:
        raise InvalidValue(
            f"{path}.{name[:40]}...", f"has a name of {size:,} bytes; {ATTRIBUTE_NAME_BYTES:,} are the most."
        )


def _number(value: Decimal, path: _Path) -> str:
    if not value.is_finite():
        raise InvalidValue(
            _said(path), f"{value} is not a number that DynamoDB stores; leave the attribute out, or use text."
        )
    significant = "".join(map(str, value.as_tuple().digits)).strip("0")
    if len(significant) > NUMBER_DIGITS:
        raise InvalidValue(
            _said(path),
            f"has {len(significant)} significant digits and DynamoDB keeps {NUMBER_DIGITS}; round it, or use text.",
        )
    if significant and not NUMBER_SMALLEST_EXPONENT <= value.adjusted() <= NUMBER_LARGEST_EXPONENT:
        raise InvalidValue(_said(path), "is outside DynamoDB's range of 1E-130 to 9.99E+125; use text.")
    return _digits(value, significant)


def _digits(value: Decimal, significant: str) -> str:
    if not significant:
        return "0"
    if len(value.as_tuple().digits) <= NUMBER_DIGITS:
        return str(value)
    # Zeros beyond the digits that DynamoDB keeps: the same number, written with an exponent.
    sign = "-" if value.is_signed() else ""
    fraction = f".{significant[1:]}" if len(significant) > 1 else ""
    return f"{sign}{significant[0]}{fraction}E{value.adjusted():+d}"


def _set(value: set[Any] | frozenset[Any], path: _Path) -> AttributeValue:
    if not value:
        raise InvalidValue(_said(path), "DynamoDB has no empty set; leave the attribute out, or use a list.")
    members = [_scalar(member, f"{_said(path)}{{{shown(member)}}}") for member in value]
    kinds = {next(iter(member)) if member is not None else "?" for member in members}
    if len(kinds) > 1 or not kinds <= {"S", "N", "B"}:
        if any(isinstance(member, float) for member in value):
            raise InvalidValue(_said(path), f"a set with a float: {_ADVICE['float']}")
        raise InvalidValue(_said(path), "a set holds text only, numbers only or bytes only; use a list.")
    kind = kinds.pop()
    # Sorted, so that equal sets give equal requests: the iteration order of a set differs between processes.
    return {f"{kind}S": sorted(member[kind] for member in members if member is not None)}


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "S": lambda content: content,
    "N": Decimal,
    "BOOL": lambda content: content,
    "NULL": lambda _: None,
    "B": bytes,
    "L": lambda content: [deserialize(value) for value in content],
    "M": deserialize_item,
    "SS": set,
    "NS": lambda content: {Decimal(number) for number in content},
    "BS": lambda content: {bytes(member) for member in content},
}
