"""A fault plan: everything that a bus will do wrong, as one frozen value that can be kept as JSON.

A plan is a seed and lists of rules. In JSON it is an object with the same names, every list optional:

    {"seed": 7,
     "rejections": [{"fraction": 0.05, "max_consecutive": 2}],
     "unacceptable": [{"contains": "poison"}],
     "outages": [{"start_ms": 3000, "end_ms": 9000, "mode": "503", "destination": "orders.fifo"}]}

A name that is not known is refused, so that a misspelt fault is not a fault that silently never happens.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeVar

from dynamodb_outbox.testing.faultbus.errors import FaultPlanInvalid
from dynamodb_outbox.testing.faultbus.rules import (
    Delay,
    Duplicate,
    Hold,
    Lost,
    Missing,
    Outage,
    Rejection,
    RequestError,
    Reset,
    Rule,
    Unacceptable,
    check_count,
)

__all__ = ["FaultPlan"]

R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class FaultPlan:
    """What a bus does wrong. The same plan does the same to the same entries, whatever the timing.

    Rules of one list are tried in order and the first that hits decides. An empty plan is a faithful bus.
    """

    seed: int = 0
    rejections: tuple[Rejection, ...] = ()
    unacceptable: tuple[Unacceptable, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    errors: tuple[RequestError, ...] = ()
    resets: tuple[Reset, ...] = ()
    delays: tuple[Delay, ...] = ()
    holds: tuple[Hold, ...] = ()
    outages: tuple[Outage, ...] = ()
    missing: tuple[Missing, ...] = ()
    lost: tuple[Lost, ...] = ()

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", least=0)

    @classmethod
    def from_json(cls, text: str | bytes) -> FaultPlan:
        """Read a plan from JSON text.

        Raises `FaultPlanInvalid`, which names the place, for text that is not JSON, for a fault or a setting that is
        not known, for one that is missing, and for a value that cannot work.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise FaultPlanInvalid("the text", f"not JSON: {error}") from None
        if not isinstance(data, dict):
            raise FaultPlanInvalid("the text", "must be a JSON object")
        _refuse_unknown(data, {"seed", *_RULES}, "")
        rules = {name: _rules(kind, data.get(name, []), name) for name, kind in _RULES.items()}
        return cls(seed=data.get("seed", 0), **rules)

    def to_json(self) -> str:
        """Return the plan as JSON text that `from_json` reads back to an equal plan."""
        return json.dumps({name: value for name, value in asdict(self).items() if value != ()}, indent=1)


_RULES: dict[str, type[Rule]] = {
    "rejections": Rejection,
    "unacceptable": Unacceptable,
    "duplicates": Duplicate,
    "errors": RequestError,
    "resets": Reset,
    "delays": Delay,
    "holds": Hold,
    "outages": Outage,
    "missing": Missing,
    "lost": Lost,
}


def _rules(kind: type[R], data: Any, where: str) -> Any:
    if not isinstance(data, list):
        raise FaultPlanInvalid(where, "must be a list")
    return tuple(_rule(kind, one, f"{where}[{index}]") for index, one in enumerate(data))


def _rule(kind: type[R], data: Any, where: str) -> R:
    if not isinstance(data, dict):
        raise FaultPlanInvalid(where, "must be an object")
    known = fields(kind)
    _refuse_unknown(data, {field.name for field in known}, f"{where}.")
    missing = [field.name for field in known if field.default is MISSING and field.name not in data]
    if missing:
        raise FaultPlanInvalid(where, f"{missing[0]} is missing")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    try:
        return kind(**values)
    except FaultPlanInvalid as error:
        raise FaultPlanInvalid(f"{where}.{error.where}", error.reason) from None


def _refuse_unknown(data: dict[str, Any], known: set[str], where: str) -> None:
    for name in data:
        if name not in known:
            raise FaultPlanInvalid(f"{where}{name}", f"not known here; known: {', '.join(sorted(known))}")
