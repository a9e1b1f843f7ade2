"""What the variables of an environment come to: the sinks, the layout, and the arguments of a relay or a sweeper.

The environment is handed in as a mapping, so that the variables of a template can be tried in a test. A variable that
holds nothing, or white space alone, counts as one that is not set, for templates hand on a parameter that was left out
as empty text. White space around a value is no part of it. A name that begins with `OUTBOX_` and is no variable is
refused, since one that is misspelt would else be a setting that does nothing; its value is not told, for nobody knows
what it is. All that is wrong is told at once, in one error.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.environment.variables import LAYOUT_MEMBERS, PREFIX, RELAY, SWEEP, VARIABLES, alike
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment, Problem
from dynamodb_outbox.errors.root import said_of
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.sinks.from_arn import sink_from_arn
from dynamodb_outbox.sinks.router import Router

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import timedelta

    from dynamodb_outbox.ports import Sink

__all__ = ["FunctionSettings", "layout_from", "layout_text", "settings_of"]

_OF_LAYOUT = ("OUTBOX_LAYOUT", "OUTBOX_SETTLE")
_NAMES = tuple(each.name.removeprefix(PREFIX) for each in VARIABLES)
"""Without what all have in common, which would make any name like any other."""


@dataclass(frozen=True)
class FunctionSettings:
    """What the variables say. `arguments` holds the further arguments of Relay, or of Sweeper, that were set."""

    sink: Sink | Router
    layout: Layout
    arguments: Mapping[str, Any] = field(hash=False)
    log_level: str | None
    metrics: bool


def settings_of(environment: Mapping[str, str], function: str = RELAY) -> FunctionSettings:
    """Return what the variables of an environment say to a ready-made function, RELAY or SWEEP.

    Those that do not begin with `OUTBOX_` are left alone.

    Makes no client and sends nothing. Raises InvalidEnvironment with all that is wrong.
    """
    problems = list(_unknown(environment))
    values = _values(environment, [each.name for each in VARIABLES], problems)
    layout = sink = None
    with _collected(problems):
        layout = _layout(values)
    if not environment.get("OUTBOX_SINK", "").strip():
        what = "where events go: the ARN of a bus, a topic or a queue."
        problems.append(Problem("OUTBOX_SINK", f"is not set: it names {what}"))
    elif "OUTBOX_SINK" in values:
        with _collected(problems):
            sink = _sink(values["OUTBOX_SINK"], values.get("OUTBOX_ENVELOPE", "cloudevents"))
    if function == SWEEP and not environment.get("OUTBOX_TABLE", "").strip():
        problems.append(Problem("OUTBOX_TABLE", "is not set: it names the table to sweep."))
    if problems or sink is None or layout is None:
        raise InvalidEnvironment(problems)
    arguments = {
        each.argument: values[each.name]
        for each in VARIABLES
        if each.argument and each.name in values and function in each.read_by
    }
    return FunctionSettings(
        sink, layout, arguments, values.get("OUTBOX_LOG_LEVEL"), values.get("OUTBOX_METRICS") == "emf"
    )


def layout_from(environment: Mapping[str, str]) -> Layout:
    """Return the layout that the variables of an environment describe. Raises InvalidEnvironment."""
    problems: list[Problem] = []
    values = _values(environment, _OF_LAYOUT, problems)
    with _collected(problems):
        layout = _layout(values)
        if not problems:
            return layout
    raise InvalidEnvironment(problems)


def layout_text(layout: Layout) -> str:
    """Return a layout as OUTBOX_LAYOUT holds it: JSON of what is not Layout's default."""
    members = {name: getattr(layout, name) for name, default in LAYOUT_MEMBERS.items()}
    changed = {name: value for name, value in members.items() if value != LAYOUT_MEMBERS[name]}
    return json.dumps(changed, default=_plain, separators=(",", ":"), ensure_ascii=False)


def _values(environment: Mapping[str, str], names: Collection[str], problems: list[Problem]) -> dict[str, Any]:
    """Return what those of the variables of these names hold that are set; and note what is wrong with others."""
    values: dict[str, Any] = {}
    for variable in VARIABLES:
        if variable.name in names and (given := environment.get(variable.name, "").strip()):
            with _collected(problems):
                values[variable.name] = variable.read(given, partial(_refused, variable.name))
    return values


def _plain(value: timedelta) -> float:
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _unknown(environment: Mapping[str, str]) -> Iterator[Problem]:
    for name in sorted(environment):
        rest = name[len(PREFIX) :].upper()
        if name[: len(PREFIX)].upper() == PREFIX and name.removeprefix(PREFIX) not in _NAMES:
            meant = alike(rest, _NAMES)
            told = (
                f"did you mean {PREFIX}{meant}?"
                if meant
                else f"there are {', '.join(PREFIX + each for each in _NAMES)}."
            )
            yield Problem(None, f"{shown(name)} is no variable of this handler; {told}")


def _layout(values: Mapping[str, Any]) -> Layout:
    members, settle = values.get("OUTBOX_LAYOUT", {}), values.get("OUTBOX_SETTLE")
    if settle is not None and members.get("settle", settle) != settle:
        said = shown(members["settle"])
        raise _refused("OUTBOX_SETTLE", f"is {settle!r}, and the layout says {said}: set one of them alone.")
    with _said_of("OUTBOX_LAYOUT"):
        return Layout(**(members if settle is None else {**members, "settle": settle}))


def _sink(destinations: str | Mapping[str, Any], envelope: str) -> Sink | Router:
    if isinstance(destinations, str):
        with _said_of("OUTBOX_SINK"):
            return sink_from_arn(destinations, envelope=envelope)
    sinks: dict[Any, Sink] = {}  # by ARN: a router takes one sink for each destination
    for pattern, arn in destinations.items():
        with _said_of("OUTBOX_SINK", f", the route {shown(pattern)}"):
            sinks[arn] = sink_from_arn(arn, envelope=envelope)
    with _said_of("OUTBOX_SINK"):
        return Router({pattern: sinks[arn] for pattern, arn in destinations.items()})


def _refused(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(reason, argument=name)


@contextlib.contextmanager
def _said_of(name: str, part: str = "") -> Iterator[None]:
    """Make an error about a variable, or a part of it, of one of the constructor that its value was handed to."""
    try:
        yield
    except ConfigurationError as error:
        whole = error.argument == "arn"  # all that the variable, or its route, holds: the reason is said of that
        reason = error.reason if whole else f": {error}"
        raise _refused(name, said_of(part, reason) if part else reason) from None


@contextlib.contextmanager
def _collected(problems: list[Problem]) -> Iterator[None]:
    """Note an error in place of raising it, so that the next one is found as well."""
    try:
        yield
    except ConfigurationError as error:
        problems.append(Problem(error.argument, error.reason))
