"""Expressions: DynamoDB's condition and update texts, with the placeholders that they use.

Placeholders that start with `#ob_` and `:ob_` are the library's own, so that its conditions can stand beside a caller's
in one request. A caller's text is taken as it is, but for its placeholders: each one used must be given and each one
given must be used. DynamoDB would refuse the request otherwise, without saying which action of the transaction it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.errors import InvalidAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dynamodb_outbox.core.values import AttributeValue

__all__ = ["Expression", "Placeholders", "all_of", "check_placeholders", "part", "placeholders_of"]

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


def placeholders_of(names: Mapping[Any, Any] | None, values: Mapping[Any, Any] | None, action: str) -> Placeholders:
    """Return `names=` and `values=` of a call in wire form. Raises InvalidAction, InvalidValue."""
    for mark, given in (("#", names), (":", values)):
        for name in given or ():
            if not isinstance(name, str) or not name.startswith(mark) or not _PLACEHOLDER.fullmatch(name):
                what = "names" if mark == "#" else "values"
                raise InvalidAction(action, f"{what}= has {name!r}; a placeholder looks like {mark}status.")
            if name.startswith(_OURS):
                raise InvalidAction(
                    action, f"{name!r}: placeholders that start with {name[:4]!r} are the library's own."
                )
    for name, attribute in (names or {}).items():
        if not isinstance(attribute, str) or not attribute:
            raise InvalidAction(action, f"names[{name!r}] is {attribute!r}; the name of an attribute is needed.")
    return Placeholders(
        dict(names or {}), {name: serialize(value, f"values[{name!r}]") for name, value in (values or {}).items()}
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


def part(text: str, given: Placeholders) -> Expression:
    """Return a caller's text as an expression, with those of the placeholders that it uses."""
    used = set(_PLACEHOLDER.findall(text))
    return Expression(
        text,
        {name: attribute for name, attribute in given.names.items() if name in used},
        {name: value for name, value in given.values.items() if name in used},
    )
