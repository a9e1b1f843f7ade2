"""Condition and update expressions of DynamoDB, as far as the library itself sends them.

A condition is terms joined by AND, or such groups joined by OR, without parentheses. A term is `attribute_exists(x)`,
`attribute_not_exists(x)` or `x = :v`. An update has the sections SET `x = :v`, `x = if_not_exists(x, :v)` or
`x = if_not_exists(x, :v) + :w`, REMOVE `x` and ADD `x :v`, of top-level attributes. `x` is a name or a placeholder.
Anything else raises `NotSimulated`: to guess at what DynamoDB would do with it would make the whole simulation
worthless.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamodb_outbox.testing.simulation.refusal import NotSimulated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem

__all__ = ["condition_holds", "updated"]

_NAME = r"(?:#\w+|[A-Za-z_]\w*)"
_FUNCTION = re.compile(rf"(attribute_exists|attribute_not_exists)\(({_NAME})\)")
_EQUALS = re.compile(rf"({_NAME}) = (:\w+)")
_UNLESS_THERE = re.compile(rf"({_NAME}) = if_not_exists\(({_NAME}); (:\w+)\)")
_COUNTED = re.compile(rf"({_NAME}) = if_not_exists\(({_NAME}); (:\w+)\) \+ (:\w+)")
_SECTION = re.compile(r"\s*\b(SET|REMOVE|ADD|DELETE)\s+")
_INSIDE = re.compile(r", (?=[^(]*\))")  # a comma within parentheses
_ADD = re.compile(rf"({_NAME}) (:\w+)")


class _Term(NamedTuple):
    """One term of a condition; without a value it is about the attribute's being there."""

    name: str
    value: str | None
    there: bool


class _Clause(NamedTuple):
    """One clause of an update."""

    section: str
    name: str
    value: str
    unless_there: bool = False
    added: str = ""


def condition_holds(request: Mapping[str, Any], item: WireItem | None) -> bool:
    """Whether the ConditionExpression of a request holds for the item there (None: there is none); without one, yes."""
    condition = request.get("ConditionExpression")
    if condition is None:
        return True
    there = item or {}
    for group in _groups(condition):
        for term in group:
            if not _holds(term, request, there):
                break
        else:
            return True
    return False


def updated(request: Mapping[str, Any], item: WireItem) -> dict[str, AttributeValue]:
    """Return the item after the request's UpdateExpression."""
    after = dict(item)
    for clause in _clauses(request["UpdateExpression"]):
        _change(clause, request, after)
    return after


@lru_cache(maxsize=256)
def _groups(condition: str) -> tuple[tuple[_Term, ...], ...]:
    """Read a condition; the library sends few that differ."""
    return tuple(tuple(_term(term, condition) for term in group.split(" AND ")) for group in condition.split(" OR "))


def _term(term: str, condition: str) -> _Term:
    if found := _FUNCTION.fullmatch(term):
        return _Term(found[2], None, found[1] == "attribute_exists")
    if found := _EQUALS.fullmatch(term):
        return _Term(found[1], found[2], there=True)
    raise NotSimulated(
        f"the condition {condition!r}: attribute_exists(a), attribute_not_exists(a) and a = :v are, joined by AND or "
        "OR, without parentheses."
    )


def _holds(term: _Term, request: Mapping[str, Any], item: WireItem) -> bool:
    there = item.get(_name(term.name, request))
    if term.value is None:
        return (there is not None) is term.there
    return there is not None and _same(there, _value(term.value, request))


@lru_cache(maxsize=256)
def _clauses(update: str) -> tuple[_Clause, ...]:
    """Read an update."""
    _, *parts = _SECTION.split(update)
    if not parts:
        raise _not_an_update(update)
    return tuple(
        _clause(section, clause.strip(), update)
        for section, clauses in zip(parts[::2], parts[1::2], strict=True)
        for clause in _INSIDE.sub("; ", clauses).split(", ")
    )


def _clause(section: str, clause: str, update: str) -> _Clause:
    if section == "SET" and (found := _EQUALS.fullmatch(clause)):
        return _Clause(section, found[1], found[2])
    if section == "SET" and (found := _UNLESS_THERE.fullmatch(clause)) and found[1] == found[2]:
        return _Clause(section, found[1], found[3], unless_there=True)
    if section == "SET" and (found := _COUNTED.fullmatch(clause)) and found[1] == found[2]:
        return _Clause(section, found[1], found[3], unless_there=True, added=found[4])
    if section == "REMOVE" and re.fullmatch(_NAME, clause):
        return _Clause(section, clause, "")
    if section == "ADD" and (found := _ADD.fullmatch(clause)):
        return _Clause(section, found[1], found[2])
    raise _not_an_update(update)


def _change(clause: _Clause, request: Mapping[str, Any], item: dict[str, AttributeValue]) -> None:
    name = _name(clause.name, request)
    if clause.section == "REMOVE":
        item.pop(name, None)
    elif clause.section == "ADD":
        item[name] = _sum(item.get(name), _value(clause.value, request))
    elif clause.unless_there:
        item.setdefault(name, _value(clause.value, request))
        if clause.added:
            item[name] = _sum(item[name], _value(clause.added, request))
    else:
        item[name] = _value(clause.value, request)


def _not_an_update(update: str) -> NotSimulated:
    known = "SET a = :v, REMOVE a and ADD a :v are, of attributes at the top."
    return NotSimulated(f"the update {update!r}: {known}")


def _sum(there: AttributeValue | None, added: AttributeValue) -> AttributeValue:
    ((kind, more),) = added.items()
    if kind not in ("N", "NS", "SS") or (there is not None and kind not in there):
        raise NotSimulated(f"ADD of {added} to {there}: numbers and sets of text or numbers are, each to its own kind.")
    if there is None:
        return added
    if kind == "N":
        return {"N": str(Decimal(there["N"]) + Decimal(more))}
    return {kind: sorted({*there[kind], *more})}


def _same(one: AttributeValue, other: AttributeValue) -> bool:
    if "N" in one and "N" in other:
        return Decimal(one["N"]) == Decimal(other["N"])
    return one == other


def _name(said: str, request: Mapping[str, Any]) -> str:
    return str(request["ExpressionAttributeNames"][said]) if said.startswith("#") else said


def _value(said: str, request: Mapping[str, Any]) -> AttributeValue:
    value: AttributeValue = request["ExpressionAttributeValues"][said]
    return value
