"""The faults that happen at a moment: the outage, and the deaths of the relay.

The outage begins when its order is submitted, for all lanes at once. The relay is killed like this: from the moment its
order is submitted, the bus is told to hold the answer to the next publish request that it accepts; when it holds one,
the relay's process group gets SIGKILL, and a new relay starts from the checkpoint file; the bus, whose client is gone,
goes on. One death at a time: the next is not prepared before the last is over, so none of them gets lost in another. A
relay that gave the held request up before it could be killed (on a machine with too much to do) is waited for again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.process.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from dynamodb_outbox.local.demo.schedule import Order, Schedule
    from dynamodb_outbox.testing.faultbus import FaultBusControl

__all__ = ["Conductor", "Relay"]

_MISSED_S = 0.3


class Relay(Protocol):
    """The process to be killed."""

    @property
    def pid(self) -> int | None:
        """Its process id."""
        ...

    def end(self) -> None:
        """Kill it."""
        ...

    def start(self) -> None:
        """Start it again."""
        ...


class Conductor:
    """Carries out the outage and the kills of `schedule`.

    `submitted` is called by the outbox's writers for each order; `tick` by the demo's loop, every few milliseconds.
    `say` is given a line about everything that happens. Kills are written to `journal`.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        buses: Iterable[FaultBusControl],
        relays_bus: FaultBusControl,
        relay: Relay,
        journal: Path,
        say: Callable[[str], None],
    ) -> None:
        self._schedule = schedule
        self._buses = tuple(buses)
        self._bus = relays_bus
        self._relay = relay
        self._journal = journal
        self._say = say
        self._lock = threading.Lock()
        self._kills_due = 0
        self._armed = False
        self._missed_since: float | None = None
        self._outage_ends: float | None = None
        self.kills = 0

    @property
    def out(self) -> bool:
        """Whether the bus is out."""
        return self._outage_ends is not None

    @property
    def idle(self) -> bool:
        """Whether nothing is going on or due."""
        with self._lock:
            return not (self.out or self._armed or self._kills_due)

    def submitted(self, order: Order) -> None:
        """Take notice of an order that is about to be submitted through the outbox."""
        if order.number == self._schedule.outage_at:
            for bus in self._buses:
                bus.begin_outage()
            with self._lock:
                self._outage_ends = time.monotonic() + self._schedule.outage_ms / 1000
            self._say(f"the bus is out ({order.request_id})")
        if order.fault == "relay-killed":
            with self._lock:
                self._kills_due += 1

    def tick(self) -> None:
        """Do what is due."""
        if self._outage_ends is not None and time.monotonic() >= self._outage_ends:
            for bus in self._buses:
                bus.end_outage()
            with self._lock:
                self._outage_ends = None
            self._say("the bus is back")
        if not self._armed and self._kills_due:
            with self._lock:
                self._kills_due -= 1
                self._armed = True
            self._bus.hold_next()
        elif self._armed:
            self._look()

    def _look(self) -> None:
        state = self._bus.state()
        if state.held:
            self._kill(state.held[0].request)
        elif state.armed:
            self._missed_since = None
        elif self._missed_since is None:
            self._missed_since = time.monotonic()  # or it is held at this very moment: look again
        elif time.monotonic() - self._missed_since > _MISSED_S:
            self._missed_since = None
            self._bus.hold_next()

    def _kill(self, request: int) -> None:
        pid = self._relay.pid
        self._relay.end()
        with Journal(self._journal) as journal:
            journal.write(at_ms=SystemClock().now_ms(), pid=pid, request=request)
        self._bus.release(request)
        self._relay.start()
        with self._lock:
            self._armed = False
            self._missed_since = None
            self.kills += 1
        self._say(f"relay killed after the acceptance of request {request}, and started again")
