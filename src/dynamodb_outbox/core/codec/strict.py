"""A strict reading of JSON text that this library did not write, without building the value.

A payload is spliced into an envelope as it is, so it must be exactly one JSON value by RFC 8259: no second value
behind it, no NaN, no name twice in one object (parsers disagree about which of the two counts), no unescaped control
character; and no half of a surrogate pair, escaped or not, for that is no character and has no form in UTF-8. The
standard library's parser lets several of these pass and recurses on nesting; this one walks the tokens with a stack of
its own, so that depth is measured and cannot exhaust anything. It also finds what a bus refuses: the depth, and
integers beyond 64 bits.

The string pattern is written without nested repetition, so a hostile text costs linear time.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import has_utf8_form
from dynamodb_outbox.core.limits import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JsonFault", "JsonShape", "check", "elements", "examine", "is_json"]

_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_TOKEN = re.compile(
    rf"[ \t\n\r]*(?:(?P<string>{_STRING})"
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?P<broken>\.[0-9]+)?(?P<power>[eE][+-]?[0-9]+)?)"
    r"|(?P<word>true|false|null)|(?P<mark>[\[\]{},:]))"
)
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_MAYBE_HALF = re.compile(rf"{_ESCAPED_HALF.pattern}|[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\n\r]*")
_INT64_DIGITS = 20  # with the sign; longer ones need not be converted to be known as too large

_VALUE, _VALUE_OR_END, _NAME, _NAME_OR_END, _COLON, _COMMA_OR_END, _END = range(7)


class JsonFault(ValueError):
    """The text is not one strict JSON value: `reason`, and the character position `at`."""

    def __init__(self, reason: str, at: int) -> None:
        self.reason = reason
        self.at = at
        super().__init__(f"{reason} (character {at})")


@dataclass(frozen=True)
class JsonShape:
    """What was found: how deep the value nests (0 for a scalar), and where the first integer beyond 64 bits stands.

    `wide_integer_at` is the position of its first character in the text, None when all integers fit.
    """

    depth: int
    wide_integer_at: int | None


def examine(text: str) -> JsonShape:
    """Read one strict JSON value and return its shape. Raises JsonFault."""
    return _Walk(text).run()


def check(text: str) -> None:
    """Read one strict JSON value, as `examine` does, without its shape. Raises JsonFault.

    The standard library's decoder takes a fifth of the time; whatever it does not take at once is examined.
    """
    halves = not has_utf8_form(text) or ("\\u" in text and _ESCAPED_HALF.search(text) is not None)
    if halves or not _is_read_at_once(_strict_decoder, text):
        examine(text)


def is_json(text: str) -> bool:
    """Whether the text is one JSON value, quickly: a name twice in an object passes, a value ended early does not."""
    if _is_read_at_once(_decoder, text):
        return True
    try:
        _decoder.decode(text)
    except RecursionError:
        try:
            examine(text)
        except JsonFault:
            return False
        return True
    except ValueError:
        return False
    return True


def elements(text: str) -> Iterator[dict[str, tuple[Any, str]]]:
    """Yield the objects of a JSON array, each as {name: (value, the value's own text)}.

    Raises JsonFault when the text is anything else, or has a name twice in one of these objects.
    """
    at = _expect(text, _skip(text, 0), "[")
    if text[at : at + 1] == "]":
        at = _skip(text, at + 1)
    else:
        while True:
            element, at = _members(text, _expect(text, at, "{"))
            yield element
            if text[at : at + 1] != ",":
                break
            at = _skip(text, at + 1)
        at = _expect(text, at, "]")
    if at != len(text):
        raise JsonFault("something follows the array", at)


def _members(text: str, at: int) -> tuple[dict[str, tuple[Any, str]], int]:
    found: dict[str, tuple[Any, str]] = {}
    if text[at : at + 1] != "}":
        while True:
            name, end = _value(text, at)
            if not isinstance(name, str) or name in found:
                raise JsonFault("a name twice in one object, or no name", at)
            start = _expect(text, _skip(text, end), ":")
            value, end = _value(text, start)
            found[name] = (value, text[start:end])
            at = _skip(text, end)
            if text[at : at + 1] != ",":
                break
            at = _skip(text, at + 1)
    return found, _expect(text, at, "}")


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text, at)
    except RecursionError:
        raise JsonFault("nested too deeply", at) from None
    except ValueError as error:
        raise JsonFault(str(error), at) from None


def _expect(text: str, at: int, mark: str) -> int:
    """Step over `mark` and the white space behind it."""
    if text[at : at + 1] != mark:
        raise JsonFault(f"{mark!r} is expected", at)
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name twice in one object")


_decoder = json.JSONDecoder(parse_constant=_no_constant)
_strict_decoder = json.JSONDecoder(
    parse_int=str,  # which takes linear time, however many digits there are
    parse_constant=_no_constant,
    object_pairs_hook=_no_name_twice,
)


def _is_read_at_once(decoder: json.JSONDecoder, text: str) -> bool:
    """Whether a text is one value that the decoder takes, with no white space around it; False says nothing."""
    try:
        _, end = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return end == len(text)


class _Walk:
    """One pass over the tokens. `names` has, for each open object, the names seen; None for an open array."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names: list[set[str] | None] = []
        self.depth = 0
        self.wide_at: int | None = None
        self.expected = _VALUE
        self.halves = _MAYBE_HALF.search(text) is not None

    def run(self) -> JsonShape:
        match = _TOKEN.match
        while self.expected != _END:
            token = match(self.text, self.at)
            if token is None:
                raise self.fault("not a JSON token" if self.at < len(self.text) else "the text ends too early")
            kind = token.lastgroup
            if self.halves and token["string"] is not None and not has_utf8_form(json.loads(token["string"])):
                raise self.fault("half of a surrogate pair")
            if token["mark"] is not None:
                self.mark(token["mark"])
            elif token["string"] is not None and self.expected in (_NAME, _NAME_OR_END):
                self.name(token["string"])
            elif self.expected in (_VALUE, _VALUE_OR_END):
                if token["number"] is not None and token["broken"] is None and token["power"] is None:
                    self.integer(token["number"], token.start("number"))
                self.value_ends()
            else:
                raise self.fault(f"an unexpected {kind}")
            self.at = token.end()
        space = _SPACE.match(self.text, self.at)
        if space is None or space.end() != len(self.text):
            raise self.fault("something follows the value")
        return JsonShape(self.depth, self.wide_at)

    def mark(self, mark: str) -> None:
        expected = self.expected
        if mark in "{[" and expected in (_VALUE, _VALUE_OR_END):
            self.names.append(set() if mark == "{" else None)
            self.depth = max(self.depth, len(self.names))
            self.expected = _NAME_OR_END if mark == "{" else _VALUE_OR_END
        elif mark in "}]" and self.may_end(mark):
            self.names.pop()
            self.value_ends()
        elif mark == "," and expected == _COMMA_OR_END:
            self.expected = _VALUE if self.names[-1] is None else _NAME
        elif mark == ":" and expected == _COLON:
            self.expected = _VALUE
        else:
            raise self.fault(f"an unexpected {mark!r}")

    def may_end(self, mark: str) -> bool:
        if not self.names:
            return False
        if self.names[-1] is None:
            return mark == "]" and self.expected in (_COMMA_OR_END, _VALUE_OR_END)
        return mark == "}" and self.expected in (_COMMA_OR_END, _NAME_OR_END)

    def name(self, quoted: str) -> None:
        name = json.loads(quoted) if "\\" in quoted else quoted[1:-1]
        seen = self.names[-1]
        if seen is not None:
            if name in seen:
                raise self.fault("a name twice in one object")
            seen.add(name)
        self.expected = _COLON

    def integer(self, digits: str, at: int) -> None:
        if self.wide_at is None and (len(digits) > _INT64_DIGITS or not INT64_MIN <= int(digits) <= INT64_MAX):
            self.wide_at = at

    def value_ends(self) -> None:
        self.expected = _COMMA_OR_END if self.names else _END

    def fault(self, reason: str) -> JsonFault:
        return JsonFault(reason, self.at)
