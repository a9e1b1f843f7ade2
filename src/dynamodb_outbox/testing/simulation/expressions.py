"""Condition and update expressions of DynamoDB, as far as the library itself sends them.

A condition is terms joined by AND, or such groups joined by OR, without parentheses. A term is `attribute_exists(x)`,
`attribute_not_exists(x)` or `x = :v`. An update has the sections SET `x = :v` or `x = if_not_exists(x, :v)`, REMOVE `x`
and ADD `x :v`, of top-level attributes. `x` is a name or a placeholder. Anything else raises `NotSimulated`: to guess
at what DynamoDB would do with it would make the whole simulation worthless.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.simulation.refusal import NotSimulated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem

__all__ = ["condition_holds", "updated"]

_NAME = r"(?:#\w+|[A-Za-z_]\w*)"
_FUNCTION = re.compile(rf"(attribute_exists|attribute_not_exists)\(({_NAME})\)")
_EQUALS = re.compile(rf"({_NAME}) = (:\w+)")
_UNLESS_THERE = re.compile(rf"({_NAME}) = if_not_exists\(({_NAME}); (:\w+)\)")
_SECTION = re.compile(r"\s*\b(SET|REMOVE|ADD|DELETE)\s+")
_INSIDE = re.compile(r", (?=[^(]*\))")  # a comma within parentheses
_ADD = re.compile(rf"({_NAME}) (:\w+)")


def condition_holds(request: Mapping[str, Any], item: WireItem | None) -> bool:
    """Whether the ConditionExpression of a request holds for the item there (None: there is none); without one, yes."""
    condition = request.get("ConditionExpression")
    if condition is None:
        return True
    return any(
        all(_holds(term, request, item or {}) for term in group.split(" AND ")) for group in condition.split(" OR ")
    )


def updated(request: Mapping[str, Any], item: WireItem) -> dict[str, AttributeValue]:
    """Return the item after the request's UpdateExpression."""
    _, *parts = _SECTION.split(request["UpdateExpression"])
    after = dict(item)
    if not parts:
        raise _not_an_update(request)
    for section, clauses in zip(parts[::2], parts[1::2], strict=True):
        for clause in _INSIDE.sub("; ", clauses).split(", "):
            _change(section, clause.strip(), request, after)
    return after


def _holds(term: str, request: Mapping[str, Any], item: WireItem) -> bool:
    if found := _FUNCTION.fullmatch(term):
        return (_name(found[2], request) in item) is (found[1] == "attribute_exists")
    if found := _EQUALS.fullmatch(term):
        there = item.get(_name(found[1], request))
        return there is not None and _same(there, _value(found[2], request))
    raise NotSimulated(
        f"the condition {request['ConditionExpression']!r}: attribute_exists(a), attribute_not_exists(a) and a = :v "
        "are, joined by AND or OR, without parentheses."
    )


def _change(section: str, clause: str, request: Mapping[str, Any], item: dict[str, AttributeValue]) -> None:
    if section == "SET" and (found := _EQUALS.fullmatch(clause)):
        item[_name(found[1], request)] = _value(found[2], request)
    elif section == "SET" and (found := _UNLESS_THERE.fullmatch(clause)) and found[1] == found[2]:
        item.setdefault(_name(found[1], request), _value(found[3], request))
    elif section == "REMOVE" and re.fullmatch(_NAME, clause):
        item.pop(_name(clause, request), None)
    elif section == "ADD" and (found := _ADD.fullmatch(clause)):
        name = _name(found[1], request)
        item[name] = _sum(item.get(name), _value(found[2], request))
    else:
        raise _not_an_update(request)


def _not_an_update(request: Mapping[str, Any]) -> NotSimulated:
    known = "SET a = :v, REMOVE a and ADD a :v are, of attributes at the top."
    return NotSimulated(f"the update {request['UpdateExpression']!r}: {known}")


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
