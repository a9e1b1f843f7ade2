"""Lambda's event filtering, for DynamoDB stream records.

A pattern is JSON of the record's own shape whose leaves are lists of rules: `{"eventName": ["INSERT"]}`. Every field of
a pattern must match, one rule of a leaf is enough, and one pattern of the mapping is enough. A rule is a literal (text,
number, true, false, null) or one operator: prefix, suffix, anything-but, exists, equals-ignore-case, numeric. `$or`
takes a list of patterns.

Three things surprise people [LDG]. DynamoDB's JSON carries numbers as text (`{"N": "5"}`), so `numeric` and number
literals never match an attribute of type N: compare with the text. A number literal is compared as it is spelt: 300,
300.0 and 3.0e2 are three; only `numeric` compares values. And `exists` looks at leaves: on a field that holds an
object, `exists: true` never matches and `exists: false` always does.

Operators that Lambda does not document are refused with their name and place, and so is a field that is named twice,
because a filter that never matches drops records in silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dynamodb_outbox.core.limits import FILTER_LENGTH, FILTERS
from dynamodb_outbox.errors import InvalidFilter

__all__ = ["NO_FILTERS", "Filters", "compile_filters"]

_Rule = Callable[[Any], bool]
_Matcher = Callable[[Any], bool]
_ABSENT: Any = object()
_DEEPEST = 100  # ours; attributes nest 32 levels [DDG], each of which is two in the record


@dataclass(frozen=True)
class Filters:
    """The patterns of a mapping, ready to use. None at all let every record through."""

    patterns: tuple[str, ...] = ()
    matchers: tuple[_Matcher, ...] = field(default=(), repr=False, compare=False)

    def match(self, body: Mapping[str, Any]) -> bool:
        """Whether a record, in Lambda's JSON form, is to be handed to the function."""
        return not self.matchers or any(matcher(body) for matcher in self.matchers)


NO_FILTERS = Filters()


def compile_filters(*patterns: str | Mapping[str, Any]) -> Filters:
    """Read patterns, as JSON text (as the API takes them) or as dicts; a record passes when one of them matches.

    Raises InvalidFilter for more than five, for one longer than 4,096 characters, and for anything it cannot honour.
    """
    if len(patterns) > FILTERS:
        raise InvalidFilter("(all)", f"{len(patterns)} patterns; a mapping takes {FILTERS}")
    texts = tuple(pattern if isinstance(pattern, str) else json.dumps(pattern) for pattern in patterns)
    return Filters(texts, tuple(_read(number, text) for number, text in enumerate(texts, 1)))


def _read(number: int, text: str) -> _Matcher:
    where = f"{number}"
    if len(text) > FILTER_LENGTH:
        raise InvalidFilter(where, f"{len(text):,} characters; a pattern takes {FILTER_LENGTH:,}")
    try:
        pattern = json.loads(
            text, parse_int=_Number, parse_float=_Number, parse_constant=_no_number, object_pairs_hook=_object
        )
    except ValueError as error:
        raise InvalidFilter(where, f"it is not JSON ({error})") from None
    except RecursionError:
        raise InvalidFilter(where, f"more than {_DEEPEST} levels deep") from None
    return _fields(pattern, where)


class _Number(float):
    """A number of a pattern, with its spelling."""

    spelling: str

    def __new__(cls, spelling: str) -> _Number:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return made


def _fields(pattern: Any, path: str, depth: int = 0) -> _Matcher:
    if depth > _DEEPEST:
        raise InvalidFilter(path.partition(".")[0], f"more than {_DEEPEST} levels deep")
    if not isinstance(pattern, dict):
        raise InvalidFilter(path, f"an object is wanted here, not {json.dumps(pattern)}")
    matchers = [_field(name, inner, f"{path}.{name}", depth) for name, inner in pattern.items()]

    def fits(one: Any) -> bool:
        return all(matcher(one) for matcher in matchers)

    return lambda value: _any_element(value, fits)


def _field(name: str, inner: Any, path: str, depth: int) -> _Matcher:
    if name == "$or":
        if not isinstance(inner, list) or not inner:
            raise InvalidFilter(path, "$or takes a list of patterns", "$or")
        choices = [_fields(choice, f"{path}[{place}]", depth + 1) for place, choice in enumerate(inner)]
        return lambda value: any(choice(value) for choice in choices)
    matcher = _fields(inner, path, depth + 1) if isinstance(inner, dict) else _leaf(inner, path)
    return lambda value: matcher(value.get(name, _ABSENT) if isinstance(value, (dict, Mapping)) else _ABSENT)


def _any_element(value: Any, matches: _Rule) -> bool:
    """Whether a value matches; a list does when one of its elements does."""
    return any(matches(element) for element in value) if isinstance(value, list) else matches(value)


def _leaf(rules: Any, path: str) -> _Matcher:
    if not isinstance(rules, list) or not rules:
        raise InvalidFilter(path, f"a value is a list of one or more rules, not {json.dumps(rules)}")
    compiled = [_rule(rule, path) for rule in rules]
    return compiled[0] if len(compiled) == 1 else lambda value: any(rule(value) for rule in compiled)


def _rule(rule: Any, path: str) -> _Rule:
    if isinstance(rule, dict):
        if len(rule) != 1:
            raise InvalidFilter(path, f"a rule has one operator, not {len(rule)}: {json.dumps(rule)}")
        [(operator, argument)] = rule.items()
        maker = _OPERATORS.get(operator)
        if maker is None:
            known = ", ".join(sorted(_OPERATORS))
            raise InvalidFilter(path, f"unknown operator {operator!r}; known are {known}", operator)
        return maker(argument, path)
    if isinstance(rule, list):
        raise InvalidFilter(path, f"a rule is a literal or one operator, not a list: {json.dumps(rule)}")
    return lambda value: _any_element(value, lambda one: _same(one, rule))


def _same(value: Any, literal: Any) -> bool:
    """Equality of JSON values as they are spelt: true is not 1, 1 is not 1.0, and text is never a number [LDG]."""
    if isinstance(literal, _Number):
        return _is_number(value) and json.dumps(value) == literal.spelling
    return type(value) is type(literal) and bool(value == literal)


def _text(operator: str, argument: Any, path: str) -> str:
    if not isinstance(argument, str):
        raise InvalidFilter(path, f"{operator} takes text, not {json.dumps(argument)}", operator)
    return argument


def _prefix(argument: Any, path: str) -> _Rule:
    start = _text("prefix", argument, path)
    return lambda value: _any_element(value, lambda one: isinstance(one, str) and one.startswith(start))


def _suffix(argument: Any, path: str) -> _Rule:
    end = _text("suffix", argument, path)
    return lambda value: _any_element(value, lambda one: isinstance(one, str) and one.endswith(end))


def _equals_ignore_case(argument: Any, path: str) -> _Rule:
    folded = _text("equals-ignore-case", argument, path).lower()
    return lambda value: _any_element(value, lambda one: isinstance(one, str) and one.lower() == folded)


def _anything_but(argument: Any, path: str) -> _Rule:
    excluded = argument if isinstance(argument, list) else [argument]
    if not excluded or not all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in excluded):
        raise InvalidFilter(
            path, f"anything-but takes text, a number, or a list of these, not {json.dumps(argument)}", "anything-but"
        )

    def differs(value: Any) -> bool:
        is_leaf = value is not _ABSENT and not isinstance(value, Mapping)
        return is_leaf and not any(_same(value, one) for one in excluded)

    return lambda value: _any_element(value, differs)


def _exists(argument: Any, path: str) -> _Rule:
    if not isinstance(argument, bool):
        raise InvalidFilter(path, f"exists takes true or false, not {json.dumps(argument)}", "exists")
    wanted = argument
    return lambda value: (value is not _ABSENT and not isinstance(value, Mapping)) is wanted


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": lambda value, bound: value == bound,
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
}
_MOST_COMPARISONS = 2


def _numeric(argument: Any, path: str) -> _Rule:
    parts = argument if isinstance(argument, list) else []
    pairs = list(zip(parts[::2], parts[1::2], strict=False))
    well_formed = len(parts) == 2 * len(pairs) and 1 <= len(pairs) <= _MOST_COMPARISONS
    known = all(isinstance(sign, str) and sign in _COMPARISONS and _is_number(bound) for sign, bound in pairs)
    if not well_formed or not known:
        raise InvalidFilter(path, f'numeric takes ["=", 5] or [">", 0, "<=", 5], not {json.dumps(argument)}', "numeric")
    checks = [(_COMPARISONS[sign], bound) for sign, bound in pairs]
    return lambda value: _any_element(
        value, lambda one: _is_number(one) and all(holds(one, bound) for holds, bound in checks)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_OPERATORS: dict[str, Callable[[Any, str], _Rule]] = {
    "anything-but": _anything_but,
    "equals-ignore-case": _equals_ignore_case,
    "exists": _exists,
    "numeric": _numeric,
    "prefix": _prefix,
    "suffix": _suffix,
}
