"""boto3's condition objects (`Attr("status").eq("OPEN") & ...`) as expressions, built by boto3's own builder."""

from __future__ import annotations

import re
from typing import Any

from boto3.dynamodb.conditions import AttributeBase, ConditionBase, ConditionExpressionBuilder

from dynamodb_outbox.arguments import shown, text
from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.commit.expressions import Expression
from dynamodb_outbox.core.limits import ATTRIBUTE_NAME_BYTES
from dynamodb_outbox.errors import InvalidAction

__all__ = ["attr_expression"]

_BUILT = re.compile(r"([#:])[nv](\d+)")
"""A placeholder as the builder makes it. The text it builds holds nothing else that could look like one."""

_STEP = r"[^.\[\]]+(?:\[[0-9]+\])*"
_PATH = re.compile(rf"{_STEP}(?:\.{_STEP})*")
"""A path as boto3 reads it. What stands in brackets goes into the expression as it is, so nothing else may."""


def attr_expression(condition: object, action: str) -> Expression:
    """Return a boto3 condition as an expression with placeholders of the library's own.

    Raises InvalidAction for anything else, and for one that boto3 or DynamoDB could make nothing of; InvalidValue for a
    value in it that cannot be stored.
    """
    if not isinstance(condition, ConditionBase):
        raise InvalidAction(
            action,
            f"condition= is {shown(condition)}; a boto3 condition (boto3.dynamodb.conditions.Attr) or text is needed.",
        )
    _check(condition, action)
    try:
        built = ConditionExpressionBuilder().build_expression(condition)
    except RecursionError:
        raise InvalidAction(action, "condition= has more conditions in each other than can be built.") from None
    values = built.attribute_value_placeholders
    return Expression(
        _ours(built.condition_expression),
        {_ours(name): attribute for name, attribute in built.attribute_name_placeholders.items()},
        {_ours(name): serialize(value, f"condition value {name[2:]}") for name, value in values.items()},
    )


def _check(condition: ConditionBase, action: str) -> None:
    """Refuse what the builder fails on with an error of its own, or turns into text that DynamoDB refuses."""
    if isinstance(condition, AttributeBase):
        raise InvalidAction(action, "condition= is a size() that is compared with nothing, as in size().gt(1).")
    pending: list[Any] = [condition]
    while pending:
        one = pending.pop()
        if isinstance(one, AttributeBase):
            _check_name(one.name, action)
        elif isinstance(one, ConditionBase):
            said = one.get_expression()
            if said["operator"] == "IN":
                _check_choice(said["values"][1], action)
            pending += said["values"]


def _check_name(name: object, action: str) -> None:
    def refuse(reason: str) -> InvalidAction:
        return InvalidAction(action, f"condition= has an Attr whose name {reason}")

    plain = text(name, refuse)
    if not _PATH.fullmatch(plain):
        raise InvalidAction(
            action,
            f"condition= has Attr({shown(plain)}); names stand between dots, positions in brackets: "
            "Attr('lines[0].n').",
        )
    for step in plain.split("."):
        text(step.partition("[")[0], refuse, most_bytes=ATTRIBUTE_NAME_BYTES)


def _check_choice(values: object, action: str) -> None:
    """`is_in` of text would be one of its characters."""
    if not isinstance(values, (list, tuple, set, frozenset)) or not values:
        raise InvalidAction(action, f"condition= has is_in({shown(values)}); a list that is not empty is needed.")


def _ours(built: str) -> str:
    return _BUILT.sub(r"\1ob_c\2", built)
