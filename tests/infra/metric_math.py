"""As much of CloudWatch's metric math as alarms here use, and when an alarm starts by it.

An expression is worked out for each period by itself, by the rules that the alarms rely on: an operator of which one
side is missing in a period gives no value there; SUM of an array adds the values that there are, and is missing where
all of them are; a comparison gives 1 or 0; IF chooses by whether its condition is 0. Anything else is an error here, so
that an expression that grows has to be thought about.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.infra.resources import Alarm

Point = float | None
"""Of one period; None where it is missing."""

BINARY: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
}
STARTS: dict[str, Callable[[float, float], bool]] = {"GreaterThanThreshold": operator.gt}


def worked_out(expression: str, metrics: Mapping[str, Point]) -> Point:
    """Return the value of an expression in one period."""
    return _value(ast.parse(expression.replace(" AND ", " and "), mode="eval").body, metrics)


def _value(node: ast.expr, metrics: Mapping[str, Point]) -> Point:
    match node:
        case ast.Constant(value=int() as number):
            return float(number)
        case ast.Name(id=name):
            return metrics[name]
        case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _both(BINARY[type(sign)], _value(left, metrics), _value(right, metrics))
        case ast.BoolOp(op=ast.And(), values=[left, right]):
            return _both(lambda one, other: bool(one) and bool(other), _value(left, metrics), _value(right, metrics))
        case ast.Call(func=ast.Name(id="SUM"), args=[ast.List(elts=array)]):
            there = [point for each in array if (point := _value(each, metrics)) is not None]
            return sum(there) if there else None
        case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
            chosen = _value(condition, metrics)
            return None if chosen is None else _value(then if chosen else otherwise, metrics)
    raise NotImplementedError(ast.dump(node))


def _both(sign: Callable[[float, float], float], left: Point, right: Point) -> Point:
    return None if left is None or right is None else float(sign(left, right))


def starts(alarm: Alarm, periods: Sequence[Mapping[str, Point]]) -> bool:
    """Tell whether an alarm on an expression, off before, is on after these periods, which are all that it looks at."""
    assert alarm.expression is not None
    assert (len(periods), alarm.missing) == (alarm.periods, "ignore")
    values = [worked_out(alarm.expression, each) for each in periods]
    breaching = [each for each in values if each is not None and STARTS[alarm.comparison](each, alarm.threshold)]
    return len(breaching) >= alarm.datapoints
