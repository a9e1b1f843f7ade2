"""The conductor: the outage begins with its order, and each death of the relay is a death of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.local.demo.conductor import Conductor
from dynamodb_outbox.local.demo.schedule import Schedule, plan
from dynamodb_outbox.testing.faultbus import BusState, FaultBusControl, Held

if TYPE_CHECKING:
    from pathlib import Path

SCHEDULE = replace(plan(20, 1), outage_ms=0)


class Bus(FaultBusControl):
    """A bus that does as it is told and says so; `accept` is a publish request that it accepts."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.armed = 0
        self.requests = 0
        self.held: list[Held] = []

    def accept(self) -> None:
        """Accept a publish request, and hold it when told so."""
        self.requests += 1
        if self.armed:
            self.armed -= 1
            self.held.append(Held(self.requests, 0, "PutEvents", ()))

    def state(self) -> BusState:
        """Return what is held and armed."""
        return BusState(self.requests, self.requests, {}, tuple(self.held), self.armed, None)

    def begin_outage(self, mode: str = "503", *, destination: str = "") -> BusState:
        """Note it."""
        self.said.append(f"out {mode} {destination}".strip())
        return self.state()

    def end_outage(self) -> BusState:
        """Note it."""
        self.said.append("back")
        return self.state()

    def hold_next(self, count: int = 1) -> BusState:
        """Hold requests to come."""
        self.armed += count
        return self.state()

    def release(self, request: int | None = None) -> BusState:
        """Note it, and hold the request no longer."""
        self.said.append(f"release {request}")
        self.held = [one for one in self.held if one.request != request]
        return self.state()


class Relay:
    """A process that can be killed and started."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.pid: int | None = 41

    def end(self) -> None:
        """Note it."""
        self.did.append("end")

    def start(self) -> None:
        """Note it; a new process has a new id."""
        self.did.append("start")
        self.pid = (self.pid or 0) + 1


@pytest.fixture
def bus() -> Bus:
    """Make the relay's bus."""
    return Bus()


@pytest.fixture
def relay() -> Relay:
    """Make the relay."""
    return Relay()


def conductor(schedule: Schedule, bus: Bus, relay: Relay, journal: Path, *others: Bus) -> tuple[Conductor, list[str]]:
    """Return a conductor and the lines that it says."""
    said: list[str] = []
    made = Conductor(schedule, buses=(bus, *others), relays_bus=bus, relay=relay, journal=journal, say=said.append)
    return made, said


def test_the_outage_hits_every_bus_and_ends(bus: Bus, relay: Relay, tmp_path: Path) -> None:
    """It begins when its order is submitted, not with another, and ends at the next look after its time."""
    other = Bus()
    made, said = conductor(SCHEDULE, bus, relay, tmp_path / "kills", other)
    made.submitted(SCHEDULE.orders[SCHEDULE.outage_at - 1])
    assert not made.out
    made.submitted(SCHEDULE.orders[SCHEDULE.outage_at])
    assert made.out
    assert not made.idle
    made.tick()
    assert not made.out
    assert made.idle
    assert bus.said == other.said == ["out 503", "back"]
    assert len(said) == 2


def test_the_outage_lasts(bus: Bus, relay: Relay, tmp_path: Path) -> None:
    """A look before its time changes nothing."""
    made, _ = conductor(replace(SCHEDULE, outage_ms=60_000), bus, relay, tmp_path / "kills")
    made.submitted(SCHEDULE.orders[SCHEDULE.outage_at])
    made.tick()
    assert made.out


def test_the_relay_dies_while_the_bus_holds_its_answer(bus: Bus, relay: Relay, tmp_path: Path) -> None:
    """Armed by the order, killed at the next acceptance, written down, started again; the bus goes on after that."""
    made, said = conductor(SCHEDULE, bus, relay, tmp_path / "kills")
    made.submitted(SCHEDULE.hit_by("relay-killed")[0])
    bus.accept()
    made.tick()
    assert relay.did == []
    bus.accept()
    made.tick()
    assert relay.did == ["end", "start"]
    assert bus.said == ["release 2"]
    assert made.idle
    assert made.kills == len(said) == 1
    kill = json.loads((tmp_path / "kills").read_text())
    assert (kill["pid"], kill["request"]) == (41, 2)


def test_a_death_that_was_missed_is_prepared_again(
    bus: Bus, relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay that gave the held request up before it could be killed is killed at another acceptance."""
    now = [100.0]
    monkeypatch.setattr("dynamodb_outbox.local.demo.conductor.time.monotonic", lambda: now[0])
    made, _ = conductor(SCHEDULE, bus, relay, tmp_path / "kills")
    made.submitted(SCHEDULE.hit_by("relay-killed")[0])
    made.tick()
    made.tick()
    bus.accept()
    bus.held.clear()
    made.tick()
    now[0] += 0.1
    made.tick()
    assert bus.armed == 0
    now[0] += 1
    made.tick()
    assert (bus.armed, made.kills) == (1, 0)
    bus.accept()
    made.tick()
    assert made.kills == 1


def test_two_deaths_are_two(bus: Bus, relay: Relay, tmp_path: Path) -> None:
    """Deaths that are due together happen one after the other: the second needs an acceptance of its own."""
    made, _ = conductor(SCHEDULE, bus, relay, tmp_path / "kills")
    for order in SCHEDULE.hit_by("relay-killed"):
        made.submitted(order)
    made.tick()
    assert bus.armed == 1
    bus.accept()
    bus.accept()
    for _ in range(3):
        made.tick()
    assert made.kills == 1
    bus.accept()
    for _ in range(3):
        made.tick()
    assert made.kills == 2
    assert not made.idle
