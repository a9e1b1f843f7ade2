"""The update expression of `update(set=, remove=, add=, delete=)`, or a caller's own text, plus the version's clause.

A name given as text is one top-level attribute, taken literally: a dot in it is part of the name. A tuple is a path
into maps and lists: ("address", "city"), ("lines", 0, "price"). Functions such as list_append and if_not_exists, and
arithmetic, are written as an `expression=` with `names=` and `values=`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import has_utf8_form, mapping, shown, text
from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.commit.conditions import VERSION_NAME
from dynamodb_outbox.core.commit.expressions import Expression
from dynamodb_outbox.core.limits import ATTRIBUTE_NAME_BYTES, INT64_MAX
from dynamodb_outbox.errors import InvalidAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dynamodb_outbox.core.values import AttributeValue

__all__ = ["NEXT_VALUE", "Changes", "Path", "changes_of", "update_of", "with_version"]

Path = str | tuple[str | int, ...]
"""The name of a top-level attribute, or a path below one."""

NEXT_VALUE = ":ob_next"
"""Stands for the version that an update writes."""

_ADDED = frozenset(("N", "SS", "NS", "BS"))
_DELETED = frozenset(("SS", "NS", "BS"))
_SET_SECTION = re.compile(r"(?<![#:\w.])SET(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class Changes:
    """The change arguments of `update`, as given."""

    set: Mapping[Path, Any] = field(default_factory=dict)
    remove: tuple[Path, ...] = ()
    add: Mapping[Path, Any] = field(default_factory=dict)
    delete: Mapping[Path, Any] = field(default_factory=dict)


class _Writer:
    """Gives each name one placeholder and each value its own, in the order of use."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.placeholders: dict[str, str] = {}
        self.values: dict[str, AttributeValue] = {}
        self.seen: list[tuple[str | int, ...]] = []

    def path(self, path: Path, section: str) -> str:
        steps = path if isinstance(path, tuple) else (path,)
        self._check(path, steps, section)
        written = ""
        for step in steps:
            if isinstance(step, int):
                written += f"[{step}]"
            else:
                placeholder = self.placeholders.setdefault(str.__str__(step), f"#ob_n{len(self.placeholders)}")
                written += f".{placeholder}" if written else placeholder
        return written

    def value(self, value: Any, path: Path, section: str, kinds: frozenset[str] | None = None) -> str:
        where = f"{section}{_said(path)}"
        wire = serialize(value, where)
        if kinds is not None and not kinds & wire.keys():
            needed = "a number or a set" if "N" in kinds else "a set"
            raise InvalidAction(self.action, f"{where}: {needed} is needed, not {type(value).__name__}.")
        placeholder = f":ob_v{len(self.values)}"
        self.values[placeholder] = wire
        return placeholder

    def _check(self, path: Path, steps: tuple[str | int, ...], section: str) -> None:
        if not steps or not isinstance(steps[0], str):
            raise InvalidAction(self.action, f"{section}= has {shown(path)}; a path starts with an attribute's name.")
        for step in steps:
            is_index = isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= INT64_MAX
            if not is_index and not (isinstance(step, str) and step and has_utf8_form(step)):
                raise InvalidAction(
                    self.action, f"{section}= has {shown(path)}; a path holds names and list positions."
                )
            if isinstance(step, str):
                text(step, partial(_refusal_of_name, self.action, section, path), most_bytes=ATTRIBUTE_NAME_BYTES)
        for other in self.seen:
            shorter = min(len(other), len(steps))
            if other[:shorter] == steps[:shorter]:
                raise InvalidAction(self.action, f"{section}= has {shown(path)}, which overlaps another change.")
        self.seen.append(steps)


def changes_of(sections: Mapping[str, object], remove: object, action: str) -> Changes:
    """Return the arguments of `update` as changes; `sections` are set, add and delete. Raises InvalidAction."""
    # A tuple is a path elsewhere, so a tuple here could mean one path or several names.
    if remove != () and not isinstance(remove, list):
        raise InvalidAction(action, f"remove= is {shown(remove)}; a list of names and paths is needed.")
    taken = {name: mapping(given, partial(_refusal, action, name)) for name, given in sections.items()}
    return Changes(remove=tuple(remove) if isinstance(remove, list) else (), **taken)


def update_of(changes: Changes, protected: Iterable[str | None], action: str) -> Expression | None:
    """Return the changes as an update expression, None when there are none.

    `protected` are names that a caller may not change so: those of the key and, when it is counted, the version.
    Raises InvalidAction, and InvalidValue for values that cannot be stored.
    """
    writer = _Writer(action)
    sections = [
        ("SET", [f"{writer.path(p, 'set')} = {writer.value(v, p, 'set')}" for p, v in changes.set.items()]),
        ("REMOVE", [writer.path(p, "remove") for p in changes.remove]),
        ("ADD", [f"{writer.path(p, 'add')} {writer.value(v, p, 'add', _ADDED)}" for p, v in changes.add.items()]),
        (
            "DELETE",
            [f"{writer.path(p, 'delete')} {writer.value(v, p, 'delete', _DELETED)}" for p, v in changes.delete.items()],
        ),
    ]
    for name in protected:
        if any(steps[0] == name for steps in writer.seen):
            raise InvalidAction(
                action, f"{name!r} cannot be changed: it is part of the key, or counted by if_version=."
            )
    text = " ".join(f"{keyword} {', '.join(clauses)}" for keyword, clauses in sections if clauses)
    names = {placeholder: name for name, placeholder in writer.placeholders.items()}
    return Expression(text, names, writer.values) if text else None


def with_version(update: Expression | None, attribute: str, version: int) -> Expression:
    """Return the update with a clause that sets the version `attribute` to `version`."""
    clause = f"{VERSION_NAME} = {NEXT_VALUE}"
    text = "" if update is None else update.text
    # SET is a reserved word: outside of a placeholder it can only be the section's keyword.
    text, found = _SET_SECTION.subn(lambda keyword: f"{keyword[0]} {clause},", text, count=1)
    if not found:
        text = f"{text} SET {clause}".lstrip()
    return Expression(
        text,
        {**(update.names if update else {}), VERSION_NAME: attribute},
        {**(update.values if update else {}), NEXT_VALUE: {"N": str(version)}},
    )


def _refusal(action: str, section: str, reason: str) -> InvalidAction:
    return InvalidAction(action, f"{section}= {reason}")


def _refusal_of_name(action: str, section: str, path: Path, reason: str) -> InvalidAction:
    return InvalidAction(action, f"{section}= has {shown(path)}, of which a name {reason}")


def _said(path: Path) -> str:
    steps = path if isinstance(path, tuple) else (path,)
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
