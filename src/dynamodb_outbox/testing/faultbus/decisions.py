"""The decider as the threads of a bus share it: behind a lock, with a clock, and with the requests numbered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.faultbus.decide import Decider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.ports import Clock
    from dynamodb_outbox.testing.faultbus.decide import AfterAcceptance, Content, Decision, PassThrough
    from dynamodb_outbox.testing.faultbus.plan import FaultPlan
    from dynamodb_outbox.testing.faultbus.rules import OutageMode

__all__ = ["Decisions"]


class Decisions:
    """A plan in progress. Safe to use from several threads."""

    def __init__(self, plan: FaultPlan, clock: Clock) -> None:
        self._decider = Decider(plan)
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = 0

    @property
    def requests(self) -> int:
        """How many publish requests came in."""
        return self._requests

    def publish(self, entries: Sequence[Content]) -> tuple[int, Decision]:
        """Give a publish request its number (from 1, in the order of the decisions) and decide about it."""
        with self._lock:
            self._requests += 1
            return self._requests, self._decider.publish(entries, self._clock.monotonic_ms())

    def accepted(self, entries: Sequence[Content]) -> AfterAcceptance:
        """See `Decider.accepted`."""
        with self._lock:
            return self._decider.accepted(entries)

    def pass_through(self, operation: str, body: str) -> PassThrough:
        """See `Decider.pass_through`."""
        with self._lock:
            return self._decider.pass_through(operation, body)

    def is_missing(self, destination: str) -> bool:
        """See `Decider.is_missing`."""
        return self._decider.is_missing(destination)

    def outage(self, told: Sequence[str] | None = None) -> OutageMode | None:
        """Return how the bus is out now, None when it serves; see `Decider.outage`."""
        with self._lock:
            return self._decider.outage(self._clock.monotonic_ms(), told)

    def begin_outage(self, mode: OutageMode, destination: str) -> None:
        """See `Decider.begin_outage`."""
        with self._lock:
            self._decider.begin_outage(mode, destination)

    def end_outages(self) -> None:
        """See `Decider.end_outages`."""
        with self._lock:
            self._decider.end_outages()

    def arm(self, count: int) -> None:
        """See `Decider.arm`."""
        with self._lock:
            self._decider.arm(count)

    @property
    def armed(self) -> int:
        """How many accepted requests are still to be held on demand."""
        return self._decider.armed
