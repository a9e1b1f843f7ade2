"""What an action requires of the item it touches, and the condition that says so.

The forms combine: every one that is given must hold. Two that cannot hold together are refused, since such an action
would fail on each attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import flag, whole
from dynamodb_outbox.core.commit.expressions import Expression, all_of
from dynamodb_outbox.core.limits import INT64_MAX, NUMBER_DIGITS
from dynamodb_outbox.errors import InvalidAction

if TYPE_CHECKING:
    from dynamodb_outbox.core.commit.targets import Target
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = [
    "VERSION_NAME",
    "VERSION_VALUE",
    "Requirement",
    "condition_of",
    "is_stale",
    "next_version",
    "requirement_of",
    "unmet",
    "whole_version",
]

VERSION_NAME = "#ob_version"
VERSION_VALUE = ":ob_version"
_KEY_NAME = "#ob_pk"
_LAST_VERSION = INT64_MAX - 1  # the next one must fit int64, too: sequences are written with its 19 digits


@dataclass(frozen=True)
class Requirement:
    """The condition arguments of one action, `condition` already as an expression."""

    if_absent: bool = False
    if_exists: bool = False
    if_version: int | None = None
    condition: Expression | None = None

    @property
    def given(self) -> bool:
        """Whether anything is required at all."""
        return self.if_absent or self.if_exists or self.if_version is not None or self.condition is not None


def requirement_of(
    action: str, if_absent: object, if_exists: object, if_version: object, condition: Expression | None
) -> Requirement:
    """Return the condition arguments of one action, checked. Raises InvalidAction."""
    return Requirement(
        flag(if_absent, lambda reason: InvalidAction(action, f"if_absent= {reason}")),
        flag(if_exists, lambda reason: InvalidAction(action, f"if_exists= {reason}")),
        whole_version(if_version, action),
        condition,
    )


def whole_version(value: object, action: str) -> int | None:
    """Return `if_version=` as an int: a Decimal, as boto3 reads it, counts too. Raises InvalidAction."""
    if value is None:
        return None
    # The size first: an int made of Decimal("1E+999999999") would take all memory there is.
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < NUMBER_DIGITS and value == int(value):
        value = int(value)
    return whole(value, lambda reason: InvalidAction(action, f"if_version= {reason}"), least=0, most=_LAST_VERSION)


def condition_of(requirement: Requirement, layout: Layout, target: Target) -> Expression | None:
    """Return all that is required of an item as one condition, None when nothing is. Raises InvalidAction."""
    _refuse_contradictions(requirement, layout, target.label)
    ours = []
    if requirement.if_absent:
        ours.append(Expression(f"attribute_not_exists({_KEY_NAME})", {_KEY_NAME: target.keys.pk}))
    if requirement.if_exists:
        ours.append(Expression(f"attribute_exists({_KEY_NAME})", {_KEY_NAME: target.keys.pk}))
    if requirement.if_version is not None and layout.version is not None:
        expected = {VERSION_VALUE: {"N": str(requirement.if_version)}}
        ours.append(Expression(f"{VERSION_NAME} = {VERSION_VALUE}", {VERSION_NAME: layout.version}, expected))
    return all_of(ours, requirement.condition)


def unmet(requirement: Requirement, version: str | None, item: WireItem | None) -> str:
    """Return which part of a requirement the item that was there, None for none, did not meet; empty: not known.

    `version` is the name of the attribute that counts.
    """
    if requirement.if_absent:
        return "" if item is None else "it exists already"
    if item is None:
        return "it is not there" if requirement.if_exists or requirement.if_version is not None else ""
    if requirement.if_version is not None and version is not None:
        found = item.get(version, {}).get("N")
        if found != str(requirement.if_version):
            said = f"has no {version}" if found is None else f"{version} is {found}"
            return f"{said}, if_version={requirement.if_version}"
    return "condition= does not hold" if requirement.condition is not None else ""


def is_stale(requirement: Requirement, version: str | None, item: WireItem | None) -> bool:
    """Whether a requirement that was not met asked for another version than the item that was there, None for none.

    Where no item came with the answer, nobody knows which part it was: any `if_version` counts.
    """
    if requirement.if_version is None or version is None:
        return False
    return item is None or item.get(version, {}).get("N") != str(requirement.if_version)


def next_version(requirement: Requirement, layout: Layout, first: int) -> int | None:
    """Return the version that a put or an update writes, None when it counts none; `first` is that of a new item."""
    if requirement.if_version is not None:
        return requirement.if_version + 1
    return first if requirement.if_absent and layout.version is not None else None


def _refuse_contradictions(requirement: Requirement, layout: Layout, action: str) -> None:
    if requirement.if_version is not None and layout.version is None:
        raise InvalidAction(action, "if_version= needs Layout(version=...), the name of the attribute that counts.")
    if requirement.if_absent and requirement.if_exists:
        raise InvalidAction(action, "if_absent=True and if_exists=True cannot both hold.")
    if requirement.if_absent and requirement.if_version is not None:
        raise InvalidAction(action, "if_absent=True and if_version= cannot both hold.")
