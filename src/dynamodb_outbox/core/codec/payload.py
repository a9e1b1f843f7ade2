"""An event's data as JSON text: compact, UTF-8, the digits of a Decimal kept, nothing changed silently.

The rule, and the only conversions there are:

    str, bool, None, int, list, dict     as they are; dict names are str and keep their order
    Decimal                              a JSON number with the same digits (whole negative zero is written 0)
    tuple                                an array
    datetime with a time zone, date      their ISO 8601 text
    UUID                                 its 36 characters
    Enum                                 what its value gives by this rule

Refused, each with the path of the value and a way out: floats (a binary fraction is not the decimal number that was
meant, and readers round it differently), NaN and infinities, integers outside int64 (EventBridge refuses them and
JavaScript rounds them), datetimes without a zone, sets (no order), bytes, other objects, text that is no UTF-8, and
nesting beyond 200 levels.

A walk checks the data first. Data that needs no conversion, which is nearly all of it, is then written by the standard
library's C encoder; the rest by a slower one here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring as _quote
from typing import Any
from uuid import UUID

from dynamodb_outbox.arguments import has_utf8_form, shown
from dynamodb_outbox.core.limits import INT64_MAX, INT64_MIN
from dynamodb_outbox.errors import InvalidValue

__all__ = ["PAYLOAD_LEVELS", "dump_payload", "rewrite_json"]

PAYLOAD_LEVELS = 200
"""Ours: deeper than any real event, and far enough below the recursion limits of this and other readers (EventBridge
takes 1,000 levels)."""

_LARGEST_EXPONENT = 307  # of a binary64 number, which most readers turn every JSON number into

_SURROGATE = re.compile("[\ud800-\udfff]")
_write_plain = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
_ADVICE = {
    "float": "a float is a binary fraction and would not keep its decimal digits; use Decimal('1.1'), text, or an int "
    "of the smallest unit.",
    "set": "a set has no order; use sorted(value).",
    "frozenset": "a set has no order; use sorted(value).",
    "bytes": "JSON has no bytes; use base64 text.",
    "bytearray": "JSON has no bytes; use base64 text.",
    "timedelta": "use seconds as an int.",
    "generator": "use list(value).",
    "map": "use list(value).",
    "range": "use list(value).",
    "coroutine": "await it first.",
    "async_generator": "use [each async for each in value].",
}


def dump_payload(data: Any, path: str = "data") -> str:
    """Return `data` as JSON text by the rule above; `path` is what an error calls the outermost value.

    Raises InvalidValue with the path of what cannot be published unchanged.
    """
    if _check(data, path, 1):
        text = _write_plain(data)
    else:
        parts: list[str] = []
        _write(data, parts)
        text = "".join(parts)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidValue(
                _surrogate(data, path), "the text has a lone surrogate and so no form in UTF-8."
            ) from None
    return text


def rewrite_json(data: Any) -> str:
    """Return what was read as JSON (numbers that are not whole as Decimal) as JSON text again, whatever it is.

    For data of other writers, which this library's rule does not bind: it says what was said, or nothing is. A lone
    surrogate, which JSON can have in an escape alone, is escaped again: the text has a form in UTF-8.
    """
    try:
        text = _write_plain(data)
    except TypeError:  # a Decimal
        parts: list[str] = []
        _write(data, parts)
        text = "".join(parts)
    return text if has_utf8_form(text) else _SURROGATE.sub(lambda each: f"\\u{ord(each[0]):04x}", text)


def _check(value: Any, path: str, level: int) -> bool:
    """Raise InvalidValue for what cannot be published; return whether the C encoder writes the rest as it should."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        if not INT64_MIN <= value <= INT64_MAX:
            _refuse_integer(path)
        return True
    if kind is dict or kind is list:
        return _check_container(value, path, level)
    return _check_other(value, path, level)


def _check_container(value: dict[Any, Any] | list[Any], path: str, level: int) -> bool:
    if level > PAYLOAD_LEVELS:
        raise InvalidValue(path, f"nested more than {PAYLOAD_LEVELS} levels deep.")
    plain = True
    if type(value) is dict:
        for name, member in value.items():
            if type(name) is not str:
                said = f"has the name {shown(name)} of type {type(name).__name__}; names must be str."
                raise InvalidValue(path, said)
            # The commonest members are decided here: a path is built only for those that need a closer look.
            kind = type(member)
            if not (
                kind is str or kind is bool or member is None or (kind is int and INT64_MIN <= member <= INT64_MAX)
            ):
                plain &= _check(member, f"{path}.{name}", level + 1)
    else:
        for i, member in enumerate(value):
            if type(member) is not str:
                plain &= _check(member, f"{path}[{i}]", level + 1)
    return plain


def _check_other(value: Any, path: str, level: int) -> bool:
    """Values that the C encoder does not write, or writes in a way that is not the rule's."""
    if isinstance(value, Enum):
        _check(value.value, path, level)
    elif isinstance(value, (str, int)):
        _check(_underneath(value), path, level)
    elif isinstance(value, Decimal):
        _check_decimal(value, path)
    elif isinstance(value, (Mapping, list, tuple)):
        _check_container(dict(value) if isinstance(value, Mapping) else list(value), path, level)
    elif isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidValue(path, "a datetime without a time zone names no moment; use datetime.now(timezone.utc).")
    elif not isinstance(value, (date, UUID)):
        kind = type(value).__name__
        raise InvalidValue(
            path, f"a value of type {kind} cannot be published: {_ADVICE.get(kind, 'convert it first.')}"
        )
    return False


def _check_decimal(value: Decimal, path: str) -> None:
    if not value.is_finite():
        raise InvalidValue(path, f"JSON has no {value}; use None, or text.")
    if value and value.adjusted() > _LARGEST_EXPONENT:
        raise InvalidValue(path, "the number is beyond what readers of JSON take (1E+308); use text.")
    if value.as_tuple().exponent == 0 and not INT64_MIN <= value <= INT64_MAX:
        _refuse_integer(path)


def _refuse_integer(path: str) -> None:
    raise InvalidValue(
        path, "the integer is outside int64, which EventBridge refuses and many readers round; use text."
    )


def _write(value: Any, parts: list[str]) -> None:
    """Append the JSON text of checked data, by the rule."""
    kind = type(value)
    if kind is str:
        parts.append(_quote(value))
    elif kind is int or kind is Decimal:
        parts.append(_digits(value))
    elif isinstance(value, Enum):
        _write(value.value, parts)
    elif isinstance(value, Mapping):
        mark = "{"
        for name, member in value.items():
            parts += (mark, _quote(name), ":")
            _write(member, parts)
            mark = ","
        parts.append("{}" if mark == "{" else "}")
    elif isinstance(value, (list, tuple)):
        mark = "["
        for member in value:
            parts.append(mark)
            _write(member, parts)
            mark = ","
        parts.append("[]" if mark == "[" else "]")
    else:
        parts.append(_scalar(value))


def _scalar(value: Any) -> str:
    if isinstance(value, Decimal):
        return _digits(value)
    if isinstance(value, (datetime, date)):
        return _quote(value.isoformat())
    if isinstance(value, UUID):
        return _quote(str(value))
    return _write_plain(_underneath(value))


def _digits(value: int | Decimal) -> str:
    text = str(value)
    return text if text != "-0" else "0"


def _underneath(value: Any) -> Any:
    """Return a str or an int of a subclass as what it is underneath."""
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _surrogate(value: Any, path: str) -> str:
    """Return the path of the first text that has no UTF-8 form."""
    if isinstance(value, Enum):
        return _surrogate(value.value, path)
    if isinstance(value, str):
        return path if _is_broken(value) else ""
    if isinstance(value, Mapping):
        found = (
            f"{path}.{name!r}" if _is_broken(name) else _surrogate(member, f"{path}.{name}")
            for name, member in value.items()
        )
        return next(filter(None, found), "")
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_surrogate(member, f"{path}[{i}]") for i, member in enumerate(value))), "")
    return ""


def _is_broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
