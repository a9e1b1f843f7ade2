"""The publishing side of a sweep: records that were read from the table, through the relay's own invocation.

Sinks, classes of faults, order, bisecting, parking, settling, pace and breaker are the relay's. What differs: nothing
is remembered of what was accepted, since a record that is still pending is to be published; and a destination that has
failed as a whole (it is missing, refuses the sweep, leaves requests unanswered) gets nothing more in the same sweep,
while the others go on. When none is left the sweep ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.decode import record_id
from dynamodb_outbox.core.relay.health import NOTHING
from dynamodb_outbox.core.relay.memory import Memory
from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.core.relay.select import Selected
from dynamodb_outbox.core.relay.states import State
from dynamodb_outbox.core.sweeping.commands import Published
from dynamodb_outbox.relay.delivery import Delivery
from dynamodb_outbox.relay.invocation import Invocation
from dynamodb_outbox.relay.log import log
from dynamodb_outbox.relay.margins import Deadlines
from dynamodb_outbox.relay.misfits import Judged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.limits import SinkLimits
    from dynamodb_outbox.core.relay.outcome import Outcome, Prepared, Verified
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Routes, Sink
    from dynamodb_outbox.relay.invocation import Tools

__all__ = ["ROUND", "Publishing", "Ways", "deadlines_of_round"]

ROUND = 100
"""Records that are published at once where an operator redrives."""
_ROUND_MS = 60_000

_HELD = Fault(Kind.TRANSIENT, "DestinationHeld", "its destination has failed in this sweep")


def deadlines_of_round(clock: Clock) -> Deadlines:
    """Return until when a round may publish: what is not accepted by then is left. Settling has as long again."""
    until_ms = clock.monotonic_ms() + _ROUND_MS
    return Deadlines(until_ms, until_ms + _ROUND_MS)


class _Way:
    """A sink, for as long as it is not held."""

    def __init__(self, sink: Sink, again: str | None) -> None:
        self.is_held = False
        self._sink = sink
        anew = None if again is None else getattr(sink, "prepare_again", None)
        self._prepare: Callable[[Event], Prepared | Fault] = sink.prepare if anew is None else partial(anew, mark=again)

    @property
    def name(self) -> str:
        return self._sink.name

    @property
    def limits(self) -> SinkLimits:
        return self._sink.limits

    @property
    def request_ms(self) -> int:
        return self._sink.request_ms

    def prepare(self, event: Event) -> Prepared | Fault:
        return _HELD if self.is_held else self._prepare(event)

    def publish(self, entries: Sequence[Any]) -> Outcome:
        return self._sink.publish(entries)

    def verify(self) -> Verified:
        return self._sink.verify()

    def __repr__(self) -> str:
        return repr(self._sink)


class Ways:
    """The routes that were given, by way of sinks that can be held: `ports.Routes`.

    `again` is for events that somebody wants published once more: a text that tells this time from others, for sinks
    that else would take such an event for one that they have had (`ports.PreparesAgain`).
    """

    def __init__(self, routes: Routes, *, again: str | None = None) -> None:
        self.sinks = tuple(_Way(sink, again) for sink in routes.sinks)
        self._routes = routes

    def route(self, event: Event) -> int | Fault:
        """Return what the routes say."""
        return self._routes.route(event)

    def release(self) -> None:
        """Let all sinks take events again."""
        for way in self.sinks:
            way.is_held = False


@dataclass(frozen=True)
class _Records:
    """What is published at once, and where it comes from."""

    table: str
    layout: Layout
    source: str


class Publishing:
    """Publishes records of `table`; `source` is the source of events whose record names none."""

    def __init__(self, ways: Ways, tools: Tools, table: str, layout: Layout, source: str) -> None:
        self._ways = ways
        self._tools = tools
        self._of = _Records(table, layout, source)
        self._memory = Memory(0)
        self._unsure: dict[int, str] = {}
        self._carried = NOTHING

    def publish(self, records: Sequence[WireItem], deadlines: Deadlines) -> Published:
        """Publish records, those of one key in their order, and say what came of them."""
        delivery = self._delivery(records)
        untried = frozenset(range(len(delivery.selected) + 1, len(records)))
        if not delivery.entries:
            return Published(frozenset(), untried=untried)
        clock = self._tools.clock
        carried = self._carried.at(clock.monotonic_ms(), clock.now_ms())
        invocation = Invocation(delivery, self._tools, deadlines, self._unsure, carried)
        try:
            lowest = invocation.to_the_end()
        finally:
            self._carried = invocation.machine.carried
        invocation.report(None if lowest is None else "the others are left pending")
        self._hold(invocation, delivery)
        return self._published(invocation, delivery, untried)

    def _delivery(self, records: Sequence[WireItem]) -> Delivery:
        of = self._of
        selected = [
            Selected(record_id(image, of.layout) or f"number {place}", image, of.table)
            for place, image in enumerate(records)
        ]
        delivery = Delivery(Judged(selected), of.table, self._ways, of.layout, source=of.source, memory=self._memory)
        if delivery.held is not None:
            log.error(
                "record %s cannot be read here, and is left: %s", delivery.held.sequence_number, delivery.held.error
            )
        return delivery

    def _hold(self, invocation: Invocation, delivery: Delivery) -> None:
        """Let the destinations have nothing more in this sweep that have failed as a whole."""
        machine, now_ms = invocation.machine, self._tools.clock.monotonic_ms()
        waiting = {delivery.entries[number].destination for number in machine.progress.at(State.BACKOFF)}
        for place, destination in enumerate(machine.destinations):
            unanswered = destination.left and not destination.health.is_verified(now_ms)
            if destination.is_held(now_ms) or unanswered or place in waiting:
                self._ways.sinks[place].is_held = True

    def _published(self, invocation: Invocation, delivery: Delivery, untried: frozenset[int]) -> Published:
        progress = invocation.machine.progress
        accepted, parked = progress.at(State.ACCEPTED), progress.at(State.PARKED)
        over = {*accepted, *parked}
        unfinished = {entry.record for number, entry in enumerate(delivery.entries) if number not in over}
        held = [way.name for way in self._ways.sinks if way.is_held]
        return Published(
            frozenset(range(len(delivery.selected))) - unfinished,
            accepted=len(accepted),
            parked=len(parked),
            untried=untried,
            stop=f"nothing more can be sent to {', '.join(held)}" if len(held) == len(self._ways.sinks) else None,
        )
