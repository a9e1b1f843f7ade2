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
from dynamodb_outbox.environment.settings import settings_of
from dynamodb_outbox.environment.variables import RELAY, SWEEP
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover.sweeper import Sweeper
from dynamodb_outbox.relay.publisher import Relay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.doctor.inventory import Piece
    from dynamodb_outbox.doctor.system import Role

__all__ = ["HANDLERS", "Assumed", "function_of", "reads"]

HANDLERS = {RELAY: "dynamodb_outbox.aws_lambda.relay_handler", SWEEP: "dynamodb_outbox.aws_lambda.sweep_handler"}
"""The ready-made functions, by what they are."""

_SAMPLE = "arn:aws:events:us-east-1:000000000000:event-bus/default"
_MIN_AGE_S = 300


@dataclass(frozen=True)
class Assumed:
    """What a function of one's own is taken to go by."""

    layout: Layout = field(default_factory=Layout)
    ordering: str = "key"


def reads(piece: Piece) -> str | None:
    """Return RELAY or SWEEP for a ready-made function, None for another one."""
    handler = piece.properties.get("Handler")
    return next((kind for kind, named in HANDLERS.items() if handler == named), None)


def function_of(piece: Piece, role: Seen[Role], kind: str, assumed: Assumed) -> Function:
    """Return a function that works as RELAY or SWEEP."""
    found = Properties(piece.properties)
    environment = found.mapping("Environment", "Variables")
    ready = reads(piece) == kind
    name = str(found.raw("FunctionName") or piece.id)
    settings = _settings(environment, kind) if ready else _assumed(assumed)
    log_group = found.text("LoggingConfig", "LogGroup")
    return Function(
        name=name,
        arn=piece.arn,
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
        least_timeout_s=_least_timeout_s(settings_of({"OUTBOX_SINK": _SAMPLE}).sink),
    )


def _settings(environment: Seen[Mapping[str, Seen[str]]], kind: str) -> Settings:
    """Return what the variables say. Those that were not seen are left out when the others are tried."""
    if isinstance(environment, Unseen):
        return _unreadable(environment, ())
    hidden = {name: value for name, value in environment.items() if isinstance(value, Unseen)}
    plain = {name: str(value) for name, value in environment.items() if name not in hidden}
    for name in ("OUTBOX_SINK", "OUTBOX_TABLE"):
        if name in hidden:
            plain[name] = _SAMPLE
    try:
        found = settings_of(plain, kind)
        made: Any = (Relay if kind == RELAY else Sweeper)(found.sink, layout=found.layout, **found.arguments)
    except InvalidEnvironment as error:
        return _unreadable(Unseen("its variables are refused"), error.problems)
    except ConfigurationError as error:
        return _unreadable(Unseen("its variables are refused"), (str(error),))
    min_age = found.arguments.get("min_age")
    return Settings(
        layout=_unless(hidden, ("OUTBOX_LAYOUT", "OUTBOX_SETTLE"), made.layout),
        ordering=_unless(hidden, ("OUTBOX_ORDERING",), found.arguments.get("ordering", "key")),
        on_poison=_unless(hidden, ("OUTBOX_ON_POISON",), found.arguments.get("on_poison", "park")),
        sinks=_unless(hidden, ("OUTBOX_SINK",), _sinks(plain["OUTBOX_SINK"].strip())),
        min_age_s=_unless(hidden, ("OUTBOX_MIN_AGE",), _MIN_AGE_S if min_age is None else int(min_age.total_seconds())),
        problems=(),
        least_timeout_s=_least_timeout_s(found.sink),
    )


def _unless(hidden: Mapping[str, Unseen], names: tuple[str, ...], value: Any) -> Any:
    """Return a value, unless one of the variables that it comes of was not seen."""
    return next((hidden[name] for name in names if name in hidden), value)


def _unreadable(why: Unseen, problems: tuple[str, ...]) -> Settings:
    least = _least_timeout_s(settings_of({"OUTBOX_SINK": _SAMPLE}).sink)
    return Settings(
        layout=why, ordering=why, on_poison=why, sinks=why, min_age_s=why, problems=problems, least_timeout_s=least
    )


def _sinks(text: str) -> dict[str, str]:
    return dict(json.loads(text)) if text.startswith("{") else {"*": text}


def _least_timeout_s(sink: Any) -> int:
    return Relay(sink).least_timeout_s
