"""boto3's condition objects (`Attr("status").eq("OPEN") & ...`) as expressions, built by boto3's own builder."""

from __future__ import annotations

import re

from boto3.dynamodb.conditions import ConditionBase, ConditionExpressionBuilder

from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.commit.expressions import Expression
from dynamodb_outbox.errors import InvalidAction

__all__ = ["attr_expression"]

_BUILT = re.compile(r"([#:])[nv](\d+)")
"""A placeholder as the builder makes it. The text it builds holds nothing else that could look like one."""


def attr_expression(condition: object, action: str) -> Expression:
    """Return a boto3 condition as an expression with placeholders of the library's own.

    Raises InvalidAction for anything else, InvalidValue for a value in it that cannot be stored.
    """
    if not isinstance(condition, ConditionBase):
        raise InvalidAction(
            action,
            f"condition= is {condition!r}; a boto3 condition (boto3.dynamodb.conditions.Attr) or text is needed.",
        )
    built = ConditionExpressionBuilder().build_expression(condition)
    values = built.attribute_value_placeholders
    return Expression(
        _ours(built.condition_expression),
        {_ours(name): attribute for name, attribute in built.attribute_name_placeholders.items()},
        {_ours(name): serialize(value, f"condition value {name[2:]}") for name, value in values.items()},
    )


def _ours(text: str) -> str:
    return _BUILT.sub(r"\1ob_c\2", text)
