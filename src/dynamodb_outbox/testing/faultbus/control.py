"""Control over HTTP, under `/_faults/`, for whoever drives a bus in another process.

    GET  /_faults/          what the bus has seen and is doing, as `BusState` in JSON
    POST /_faults/outage    {"on": true, "mode": "503" | "reset" | "hang", "destination": "orders"}  or  {"on": false}
    POST /_faults/release   {} for all held requests, {"request": 12} for one
    POST /_faults/hold      {"count": 1}: hold the next so many accepted requests

A POST is answered with the state after it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.testing.faultbus.errors import FaultPlanInvalid
from dynamodb_outbox.testing.faultbus.exchange import json_answer
from dynamodb_outbox.testing.faultbus.held import Held
from dynamodb_outbox.testing.faultbus.rules import Outage, check_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request
    from dynamodb_outbox.testing.faultbus.rules import OutageMode

__all__ = ["PREFIX", "BusState", "Controlled", "control", "state_from_json"]

PREFIX = "/_faults/"


@dataclass(frozen=True)
class BusState:
    """What a bus has seen and is doing.

    `requests` publish requests came in; `accepted` acceptances are on record (second copies included); `faults` counts
    each kind of fault; `held` are the requests withheld now, `armed` those still to be withheld on demand; `outage` is
    how the bus is out now, for one destination at least.
    """

    requests: int
    accepted: int
    faults: Mapping[str, int]
    held: tuple[Held, ...]
    armed: int
    outage: OutageMode | None


class Controlled(Protocol):
    """What can be controlled."""

    def state(self) -> BusState:
        """Return the state."""
        ...

    def begin_outage(self, mode: OutageMode = "503", *, destination: str = "") -> None:
        """Begin an outage."""
        ...

    def end_outage(self) -> None:
        """End it."""
        ...

    def release(self, request: int | None = None) -> int:
        """Let held requests go."""
        ...

    def hold_next(self, count: int = 1) -> None:
        """Hold the next accepted requests."""
        ...


def control(bus: Controlled, request: Request) -> Answer:
    """Serve a control call. What cannot be done is answered with a 4xx and `{"error": …}`."""
    name = request.target.partition("?")[0][len(PREFIX) :]
    if request.method == "GET" and name in {"", "state"}:
        return json_answer(200, asdict(bus.state()))
    command = _COMMANDS.get(name)
    if command is None:
        return json_answer(404, {"error": f"no such control call; there are: {', '.join(_COMMANDS)}, and GET {PREFIX}"})
    if request.method != "POST":
        return json_answer(405, {"error": f"{PREFIX}{name} takes POST"})
    try:
        command(bus, _options(request.body))
    except FaultPlanInvalid as error:
        return json_answer(400, {"error": f"{error.where}: {error.reason}"})
    return json_answer(200, asdict(bus.state()))


def state_from_json(data: Mapping[str, Any]) -> BusState:
    """Return the state that a control call answered with."""
    held = tuple(Held(**{**one, "ids": tuple(one["ids"])}) for one in data["held"])
    return BusState(**{**data, "held": held})


def _options(body: bytes) -> dict[str, Any]:
    try:
        options = json.loads(body or b"{}")
    except ValueError as error:
        raise FaultPlanInvalid("the body", f"not JSON: {error}") from None
    if not isinstance(options, dict):
        raise FaultPlanInvalid("the body", "must be a JSON object")
    return options


def _outage(bus: Controlled, options: Mapping[str, Any]) -> None:
    _known(options, "on", "mode", "destination")
    on, mode, destination = options.get("on"), options.get("mode", "503"), options.get("destination", "")
    if not isinstance(on, bool):
        raise FaultPlanInvalid("on", "must be true or false")
    out = Outage(0, 1, mode, destination=destination)
    if on:
        bus.begin_outage(out.mode, destination=out.destination)
    else:
        bus.end_outage()


def _release(bus: Controlled, options: Mapping[str, Any]) -> None:
    _known(options, "request")
    request = options.get("request")
    if request is not None:
        check_count(request, "request")
    bus.release(request)


def _hold(bus: Controlled, options: Mapping[str, Any]) -> None:
    _known(options, "count")
    count = options.get("count", 1)
    check_count(count, "count")
    bus.hold_next(count)


def _known(options: Mapping[str, Any], *names: str) -> None:
    for name in options:
        if name not in names:
            raise FaultPlanInvalid(name, f"not known here; known: {', '.join(names)}")


_COMMANDS = {"outage": _outage, "release": _release, "hold": _hold}
