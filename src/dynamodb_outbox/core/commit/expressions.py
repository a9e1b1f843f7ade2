"""Expressions: DynamoDB's condition and update texts, with the placeholders that they use.

Placeholders that start with `#ob_` and `:ob_` are the library's own, so that its conditions can stand beside a caller's
in one request. A caller's text is taken as it is, but for its placeholders: each one used must be given and each one
given must be used. DynamoDB would refuse the request otherwise, without saying which action of the transaction it was.

Its parentheses must match, each opened before it is closed: `a) OR (b`, put into a pair of parentheses beside another
requirement, would undo that requirement. Counting them is enough, for the language has no literals and no comments that
could hold one: every value and every odd name stands behind a placeholder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import mapping, shown, text
from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.limits import ATTRIBUTE_NAME_BYTES
from dynamodb_outbox.errors import InvalidAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dynamodb_outbox.core.values import AttributeValue

__all__ = [
    "Expression",
    "Placeholders",
    "all_of",
    "check_parentheses",
    "check_placeholders",
    "part",
    "placeholders_of",
]

_PARENTHESIS = re.compile(r"[()]")
_PLACEHOLDER = re.compile(r"[#:][A-Za-z0-9_]+")
_OURS = ("#ob_", ":ob_")


@dataclass(frozen=True)
class Expression:
    """A condition or an update in DynamoDB's language: its `text`, `names` by `#x`, wire `values` by `:x`."""

    text: str
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Placeholders:
    """What a caller gave as `names=` and `values=`, in wire form."""

    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, AttributeValue] = field(default_factory=dict)


def placeholders_of(names: object, values: object, action: str) -> Placeholders:
    """Return `names=` and `values=` of a call in wire form. Raises InvalidAction, InvalidValue."""
    names = mapping(names, lambda reason: InvalidAction(action, f"names= {reason}"))
    values = mapping(values, lambda reason: InvalidAction(action, f"values= {reason}"))
    for mark, given in (("#", names), (":", values)):
        for name in given:
            if not isinstance(name, str) or not name.startswith(mark) or not _PLACEHOLDER.fullmatch(name):
                what = "names" if mark == "#" else "values"
                raise InvalidAction(action, f"{what}= has {shown(name)}; a placeholder looks like {mark}status.")
            if name.startswith(_OURS):
                raise InvalidAction(
                    action, f"{shown(name)}: placeholders that start with {name[:4]!r} are the library's own."
                )
    return Placeholders(
        {str.__str__(name): _attribute(name, attribute, action) for name, attribute in names.items()},
        {str.__str__(name): serialize(value, f"values[{shown(name)}]") for name, value in values.items()},
    )


def check_placeholders(texts: Iterable[str], given: Placeholders, action: str) -> None:
    """Raise InvalidAction unless the texts use exactly the placeholders given."""
    used = {name for text in texts for name in _PLACEHOLDER.findall(text)}
    have = {*given.names, *given.values}
    if missing := sorted(used - have):
        raise InvalidAction(action, f"{', '.join(missing)} is used and not given; pass it in names= or values=.")
    if unused := sorted(have - used):
        raise InvalidAction(action, f"{', '.join(unused)} is given and not used; DynamoDB refuses that.")


def all_of(ours: Sequence[Expression], callers: Expression | None) -> Expression | None:
    """Return the condition that holds when all do, None when there is none.

    `ours` are single comparisons, which need no parentheses. The caller's text gets a pair, unless it has one already:
    DynamoDB refuses a second pair as redundant.
    """
    if callers is None and len(ours) == 1:
        return ours[0]
    parts = [*ours, *([] if callers is None else [callers])]
    if not parts:
        return None
    texts = [one.text for one in ours]
    if callers is not None:
        bare = callers.text.strip()
        texts.append(bare if not ours or _enclosed(bare) else f"({bare})")
    names = {name: attribute for one in parts for name, attribute in one.names.items()}
    values = {name: value for one in parts for name, value in one.values.items()}
    return Expression(" AND ".join(texts), names, values)


def check_parentheses(expression: str, argument: str, action: str) -> None:
    """Raise InvalidAction unless each parenthesis that is opened is closed, and none before it is opened."""
    depth = 0
    for mark in _PARENTHESIS.findall(expression):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            break
    if depth:
        raise InvalidAction(action, f"{argument}= is {shown(expression)}; its parentheses do not match.")


def _attribute(name: str, attribute: object, action: str) -> str:
    def refuse(reason: str) -> InvalidAction:
        return InvalidAction(action, f"names[{shown(name)}], the name of an attribute, {reason}")

    return text(attribute, refuse, most_bytes=ATTRIBUTE_NAME_BYTES)


def _enclosed(text: str) -> bool:
    """Whether the first character opens a pair of parentheses that the last one closes."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def part(given_text: object, given: Placeholders, argument: str, action: str) -> Expression:
    """Return a caller's text as an expression, with those of the placeholders that it uses.

    `argument` names it in errors. Raises InvalidAction for what is no text, or text that is not whole by itself.
    """
    plain = text(given_text, lambda reason: InvalidAction(action, f"{argument}= {reason}"))
    if not plain.strip():
        raise InvalidAction(action, f"{argument}= is blank text; leave it out if nothing is meant.")
    check_parentheses(plain, argument, action)
    used = set(_PLACEHOLDER.findall(plain))
    return Expression(
        plain,
        {name: attribute for name, attribute in given.names.items() if name in used},
        {name: value for name, value in given.values.items() if name in used},
    )
