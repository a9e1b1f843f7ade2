"""An event's data as a map of DynamoDB's, and back: for tables whose payload column is a map and no JSON text.

JSON                      wire     back as JSON
object                    M        object, its names in the order of their characters: a map of DynamoDB's has no order
array                     L        array
text, true, false, null   S, BOOL, NULL    the same
number                    N        the number as DynamoDB writes it: the same value, its digits perhaps in another form

DynamoDB keeps numbers of 38 digits between 1E-130 and 9.99E+125 and nests 32 levels; what goes beyond that is refused
with its place. So are whole numbers outside int64 in whatever form: DynamoDB writes 1E+30 as an integer, which buses
refuse. Sets and binary values have no form in JSON. Equal maps give equal texts.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.limits import INT64_MAX, INT64_MIN, NESTING_LEVELS
from dynamodb_outbox.errors import InvalidEvent, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import AttributeValue

__all__ = ["MapFault", "from_map", "to_map"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOT_IN_JSON = {"B": "binary", "SS": "a set", "NS": "a set", "BS": "a set"}


class MapFault(ValueError):
    """A map cannot be written as JSON: `path` says where, `reason` why."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} {reason}")


def to_map(payload: str) -> AttributeValue:
    """Return the data of an event, a JSON object as text, as a map.

    Raises InvalidEvent for any other JSON value, InvalidValue, with the path, for what a map cannot hold.
    """
    try:
        data = json.loads(payload, parse_float=Decimal, parse_int=Decimal)
    except RecursionError:
        raise InvalidValue("data", f"nested more than {NESTING_LEVELS} levels deep, which a map cannot be.") from None
    if not isinstance(data, dict):
        raise InvalidEvent(
            "data",
            "is no object, and the layout stores payloads as maps (payload_format='map'): emit a dict, or store JSON "
            "text.",
        )
    wire = serialize(data, "data")
    _refuse_wide(data, "data")
    return wire


def from_map(value: AttributeValue) -> str:
    """Return a map as the text of a JSON object, compact; equal maps give equal texts. Raises MapFault."""
    if "M" not in value:
        raise MapFault("payload", "is no map")
    return _written(value, "payload", 1)


def _refuse_wide(value: Any, path: str) -> None:
    if isinstance(value, Decimal):
        if not INT64_MIN <= value <= INT64_MAX and value == value.to_integral_value():
            raise InvalidValue(path, f"{value} is a whole number outside int64, which buses refuse; use text.")
    elif isinstance(value, dict):
        for name, member in value.items():
            _refuse_wide(member, f"{path}.{name}")
    elif isinstance(value, list):
        for position, member in enumerate(value):
            _refuse_wide(member, f"{path}[{position}]")


def _written(value: AttributeValue, path: str, level: int) -> str:
    if level > NESTING_LEVELS:
        raise MapFault(path, f"is nested more than {NESTING_LEVELS} levels deep")
    kind, content = next(iter(value.items()), ("", None))
    if kind == "S" and isinstance(content, str):
        return _quote(content)
    if kind == "N":
        return _number(content, path)
    if kind == "M" and isinstance(content, dict):
        return f"{{{','.join(_members(content, path, level))}}}"
    if kind == "L" and isinstance(content, list):
        return f"[{','.join(_written(member, f'{path}[{i}]', level + 1) for i, member in enumerate(content))}]"
    if kind == "BOOL":
        return "true" if content else "false"
    if kind == "NULL":
        return "null"
    raise MapFault(path, f"is {_NOT_IN_JSON.get(kind, 'no value of DynamoDB')}, for which JSON has no form")


def _members(members: Mapping[str, AttributeValue], path: str, level: int) -> list[str]:
    return [f"{_quote(name)}:{_written(members[name], f'{path}.{name}', level + 1)}" for name in sorted(members)]


def _number(text: object, path: str) -> str:
    if isinstance(text, str) and _NUMBER.fullmatch(text):
        return text
    try:
        value = Decimal(str(text))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise MapFault(path, "is no number")
    return str(value)
