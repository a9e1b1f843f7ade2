"""A function as the rules see it, and what it goes by.

The ready-made functions say it in their variables, and are set up here by the very code that they run. A function of
one's own says it in its code, which is not read: what counts then is what the user of the doctor says, and the defaults
of the library for the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.inventory import Seen, Unseen
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.reading import DEFAULT_MEMORY_MB, DEFAULT_TIMEOUT_S
from dynamodb_outbox.doctor.system import Function, Settings
from dynamodb_outbox.environment.settings import FunctionSettings, layout_from, settings_of
from dynamodb_outbox.environment.variables import RELAY, SWEEP, VARIABLES
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover.sweeper import MIN_AGE, Sweeper
from dynamodb_outbox.relay.publisher import Relay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.choices import Ordering
    from dynamodb_outbox.doctor.inventory import Piece
    from dynamodb_outbox.doctor.system import Role

__all__ = ["HANDLERS", "Assumed", "function_of", "reads"]

HANDLERS = {RELAY: "dynamodb_outbox.aws_lambda.relay_handler", SWEEP: "dynamodb_outbox.aws_lambda.sweep_handler"}
"""The ready-made functions, by what they are."""

_SAMPLE = "arn:aws:events:us-east-1:000000000000:event-bus/default"
_MIN_AGE_S = int(MIN_AGE.total_seconds())


@dataclass(frozen=True)
class Assumed:
    """What a function of one's own is taken to go by.

    `told` is whether a user named the layout: then it counts for a table without a relay, too.
    """

    layout: Layout = field(default_factory=Layout)
    ordering: Ordering = "key"
    told: bool = False


def reads(piece: Piece) -> str | None:
    """Return RELAY or SWEEP for a ready-made function, None for another one."""
    handler = piece.properties.get("Handler")
    return next((kind for kind, named in HANDLERS.items() if handler == named), None)


def function_of(piece: Piece, role: Seen[Role], kind: str, assumed: Assumed) -> Function:
    """Return a function that works as RELAY or SWEEP."""
    found = Properties(piece.properties)
    told = found.mapping("Environment", "Variables")
    environment = told if isinstance(told, Unseen) else {name: _text(value) for name, value in told.items()}
    ready = reads(piece) == kind
    name = str(found.raw("FunctionName") or piece.id)
    settings = _settings(environment, kind) if ready else _assumed(assumed)
    log_group = found.text("LoggingConfig", "LogGroup")
    return Function(
        name=name,
        arn=piece.arn,
        state=(found.text("State"), found.text("StateReason")),
        update=(found.text("LastUpdateStatus"), found.text("LastUpdateStatusReason")),
        handler=found.text("Handler"),
        runtime=found.text("Runtime"),
        timeout_s=_number(found, "Timeout", DEFAULT_TIMEOUT_S),
        memory_mb=_number(found, "MemorySize", DEFAULT_MEMORY_MB),
        reserved=found.number("ReservedConcurrentExecutions"),
        environment=environment,
        log_group=f"/aws/lambda/{name}" if log_group is None else log_group,
        role=role,
        ready_made=ready,
        settings=settings,
    )


def _text(value: Any) -> Seen[str]:
    """Return a variable's value, which CloudFormation makes text of."""
    return value if isinstance(value, Unseen) else str(value).lower() if isinstance(value, bool) else str(value)


def _number(found: Properties, name: str, default: int) -> Seen[int]:
    value = found.number(name, default=default)
    return default if value is None else value


def _assumed(assumed: Assumed) -> Settings:
    return Settings(
        layout=assumed.layout,
        ordering=assumed.ordering,
        on_poison="park",
        sinks=Unseen("the function's own code says where events go"),
        min_age_s=_MIN_AGE_S,
        problems=(),
        least_timeout_s=_least_timeout_s({}),
    )


def _settings(environment: Seen[Mapping[str, Seen[str]]], kind: str) -> Settings:
    """Return what the variables say. Those that were not seen are left out when the others are tried."""
    if isinstance(environment, Unseen):
        return _unreadable(environment)
    hidden = {name: value for name, value in environment.items() if isinstance(value, Unseen)}
    plain = {name: str(value) for name, value in environment.items() if name not in hidden}
    for name in ("OUTBOX_SINK", "OUTBOX_TABLE"):
        if name in hidden:
            plain[name] = _SAMPLE
    problems: tuple[str, ...] = ()
    try:
        found = settings_of(plain, kind)
        (Relay if kind == RELAY else Sweeper)(found.sink, layout=found.layout, **found.arguments)
    except InvalidEnvironment as error:
        problems = tuple(map(str, error.problems))
    except ConfigurationError as error:
        problems = (str(error),)
    return Settings(
        layout=_unless(hidden, ("OUTBOX_LAYOUT", "OUTBOX_SETTLE"), _layout(plain)),
        ordering=_unless(hidden, ("OUTBOX_ORDERING",), _argument(plain, "OUTBOX_ORDERING", "key")),
        on_poison=_unless(hidden, ("OUTBOX_ON_POISON",), _argument(plain, "OUTBOX_ON_POISON", "park")),
        sinks=_unless(hidden, ("OUTBOX_SINK",), _sinks(plain)),
        min_age_s=_unless(hidden, ("OUTBOX_MIN_AGE",), _min_age_s(plain)),
        problems=problems,
        least_timeout_s=_least_timeout_s(plain),
    )


def _unless(hidden: Mapping[str, Unseen], names: tuple[str, ...], value: Any) -> Any:
    """Return a value, unless one of the variables that it comes of was not seen."""
    return next((hidden[name] for name in names if name in hidden), value)


def _unreadable(why: Unseen) -> Settings:
    return Settings(
        layout=why,
        ordering=why,
        on_poison=why,
        sinks=why,
        min_age_s=why,
        problems=(),
        least_timeout_s=_least_timeout_s({}),
    )


def _alone(plain: Mapping[str, str], name: str) -> FunctionSettings | None:
    """Return what one variable comes to, whatever others say; None for one that is refused."""
    sink = {"OUTBOX_SINK": _SAMPLE, "OUTBOX_TABLE": "table"}
    try:
        return settings_of(sink | {each: value for each, value in plain.items() if each == name}, SWEEP)
    except InvalidEnvironment:
        return None


def _argument(plain: Mapping[str, str], name: str, default: str) -> Any:
    """Return what a variable's own reader makes of it: one of its few words, or Unseen."""
    value, (variable,) = plain.get(name, "").strip(), (each for each in VARIABLES if each.name == name)
    try:
        return variable.read(value, ConfigurationError) if value else default
    except ConfigurationError:
        return Unseen(f"{name} is refused")


def _min_age_s(plain: Mapping[str, str]) -> Seen[int]:
    found = _alone(plain, "OUTBOX_MIN_AGE")
    if found is None:
        return Unseen("OUTBOX_MIN_AGE is refused")
    age = found.arguments.get("min_age")
    return _MIN_AGE_S if age is None else int(age.total_seconds())


def _layout(plain: Mapping[str, str]) -> Seen[Layout]:
    try:
        return layout_from(plain)
    except InvalidEnvironment:
        return Unseen("the layout in its variables is refused")


def _sinks(plain: Mapping[str, str]) -> Seen[Mapping[str, str]]:
    text = plain.get("OUTBOX_SINK", "").strip()
    if not text or _alone(plain, "OUTBOX_SINK") is None:
        return Unseen("OUTBOX_SINK is refused" if text else "OUTBOX_SINK is not set")
    return dict(json.loads(text)) if text.startswith("{") else {"*": text}


def _least_timeout_s(plain: Mapping[str, str]) -> int:
    found = _alone(plain, "OUTBOX_SINK") or settings_of({"OUTBOX_SINK": _SAMPLE})
    return Relay(found.sink).least_timeout_s
