"""What a relay knows of a destination, handed on from invocation to invocation.

*Presence.* EventBridge answers 200 for a bus that does not exist, and the events are gone. So nothing is published
before the destination was asked for, and what was found counts for a minute from the moment of asking: whoever
publishes later waits until it was asked for again. Missing counts for nothing but holding: the next invocation asks
again. Once it was missing, it takes an answer that it is there: that nobody can tell is enough only for a destination
that was never known to be missing.

*Breaker.* Requests that fail as a whole, one after the other, say that the destination is in trouble. After some of
them it is left alone for a while, from 0 to a ceiling that doubles each time, and then ONE request is the probe. Any
answer that takes a stand on an entry (accepted, or refused for good) closes the breaker; an answer in which everything
may pass later neither closes nor opens it, and does not do for a probe. A request that was under way when the breaker
opened may close it, and does not lengthen the pause.

*Slow-down.* A request in which the destination asks for fewer halves the requests that may be under way at once, one at
least; each that is accepted as a whole adds one.

*Rate.* A bucket that holds what may be sent in one second, and fills at that rate.

*Two clocks.* The machine's clock is monotonic, and may stand still while nobody is invoked, as in a process that is
frozen between two invocations. A wall clock goes on, and may be set back. So what is handed on has the difference of
the two with it, and whatever the wall clock went ahead of the machine's since then has passed as well: of the two
clocks the one that says more is believed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.outcome import Kind, Presence
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.relay.commands import Settings
    from dynamodb_outbox.core.relay.outcome import Fault, Verified

__all__ = ["NEW", "NOTHING", "Carried", "Health"]

_PART = 1000  # of an event: what a rate of one a second gives in a millisecond
_ROUNDING_MS = 1  # by which the difference of two clocks in whole milliseconds changes though both go on alike
_FOR_GOOD = (Kind.CONTENT, Kind.TARGET)


@dataclass(frozen=True)
class Health:
    """Times are those of the machine's clock.

    presence, verified_until_ms   what was found, and until when it counts; None: not asked yet
    failures                      requests that failed as a whole, one after the other
    openings                      how often the breaker opened, one time after the other
    open_until_ms                 the breaker is open until then, and until a probe closes it; None: it is closed
    at_once                       requests that may be under way at once; None: as many as the settings say
    spent, spent_at_ms            thousandths of events by which the bucket was short of full, and when
    """

    presence: Presence | None = None
    verified_until_ms: int | None = None
    failures: int = 0
    openings: int = 0
    open_until_ms: int | None = None
    at_once: int | None = None
    spent: int = 0
    spent_at_ms: int = 0

    def aged(self, ms: int) -> Health:
        """Return it as it is when so much time has passed of which the machine's clock knows nothing."""
        verified, opened = self.verified_until_ms, self.open_until_ms
        return replace(
            self,
            verified_until_ms=None if verified is None else verified - ms,
            open_until_ms=None if opened is None else opened - ms,
            spent_at_ms=self.spent_at_ms - ms,
        )

    # --- presence ---

    def is_verified(self, now_ms: int) -> bool:
        """Whether the destination was asked for, is not missing, and that still counts."""
        return self.verified_until_ms is not None and now_ms < self.verified_until_ms

    def verified(self, found: Verified, until_ms: int) -> Health:
        """Take in what was found; it counts until then. `is_verified` tells whether it will do."""
        told = found.presence
        if told is Presence.MISSING or (told is Presence.UNSURE and self.presence is Presence.MISSING):
            return replace(self, presence=Presence.MISSING, verified_until_ms=None)
        return replace(self, presence=told, verified_until_ms=until_ms)

    def doubted(self) -> Health:
        """Let the destination be asked for again before anything is published to it."""
        return replace(self, verified_until_ms=None)

    # --- breaker and slow-down ---

    def is_open(self, now_ms: int) -> bool:
        """Whether the destination is left alone."""
        return self.open_until_ms is not None and now_ms < self.open_until_ms

    def most_at_once(self, settings: Settings) -> int:
        """Return how many requests may be under way at once, when it is not left alone; one when that is the probe."""
        if self.open_until_ms is not None:
            return 1
        return settings.max_in_flight if self.at_once is None else min(self.at_once, settings.max_in_flight)

    def after(
        self, results: Sequence[Fault | None], now_ms: int, u: float, settings: Settings, *, failed: bool
    ) -> Health:
        """Take in what a request, or (no results) a question came to; `failed` as a whole, in a way that may pass."""
        health = self
        if failed:
            health = _failed(self, now_ms, u, settings)
        elif any(fault is None or fault.kind in _FOR_GOOD for fault in results):
            if self.failures or self.openings:
                health = replace(self, failures=0, openings=0, open_until_ms=None)
        elif self.open_until_ms is not None and now_ms >= self.open_until_ms:
            health = _opened(self, now_ms, u, settings)
        return _paced(health, results, settings)

    # --- rate ---

    def events_left(self, now_ms: int, rate: int) -> int:
        """Return how many events may be sent now, at `rate` events a second."""
        return (rate * _PART - self._short_by(now_ms, rate)) // _PART

    def due_for(self, events: int, rate: int) -> int:
        """Return from when on so many events may be sent; no more than `rate` ever may at once."""
        missing = self.spent + (events - rate) * _PART
        return self.spent_at_ms + max(0, -(-missing // rate))

    def sent(self, events: int, now_ms: int, rate: int) -> Health:
        """Take events out of the bucket."""
        return replace(self, spent=self._short_by(now_ms, rate) + events * _PART, spent_at_ms=now_ms)

    def _short_by(self, now_ms: int, rate: int) -> int:
        return max(0, self.spent - (now_ms - self.spent_at_ms) * rate)


def _failed(health: Health, now_ms: int, u: float, settings: Settings) -> Health:
    health = replace(health, failures=health.failures + 1)
    if health.open_until_ms is not None:
        return health if now_ms < health.open_until_ms else _opened(health, now_ms, u, settings)
    if settings.breaker_failures is None or health.failures < settings.breaker_failures:
        return health
    return _opened(health, now_ms, u, settings)


def _opened(health: Health, now_ms: int, u: float, settings: Settings) -> Health:
    pause_ms = full_jitter_ms(settings.breaker_base_ms, settings.breaker_cap_ms, health.openings, u)
    return replace(health, openings=health.openings + 1, open_until_ms=now_ms + pause_ms)


def _paced(health: Health, results: Sequence[Fault | None], settings: Settings) -> Health:
    most = settings.max_in_flight
    at_once = most if health.at_once is None else health.at_once
    if any(fault is not None and fault.throttled for fault in results):
        return replace(health, at_once=max(1, at_once // 2))
    if at_once < most and results and not any(results):
        return replace(health, at_once=at_once + 1)
    return health


NEW = Health()
"""Of a destination of which nothing is known."""


@dataclass(frozen=True)
class Carried:
    """What an invocation hands to the next one of the same relay.

    `health` of each destination, in their order; recent `parks`, as pairs of a destination and a time; by how much a
    wall clock was ahead of the machine's (`apart_ms`) when both were read last, None: never.
    """

    health: tuple[Health, ...] = ()
    parks: tuple[tuple[int, int], ...] = ()
    apart_ms: int | None = None

    def at(self, now_ms: int, wall_ms: int) -> Carried:
        """Return it as it is when an invocation begins, `now_ms` by the machine's clock and `wall_ms` by a wall clock.

        A wall clock that was set back takes nothing back, and one that was set ahead lets things be over too early:
        the destination is asked for once more.
        """
        apart_ms = wall_ms - now_ms
        if self.apart_ms is None:
            return replace(self, apart_ms=apart_ms)
        ahead_ms = apart_ms - self.apart_ms
        if abs(ahead_ms) <= _ROUNDING_MS:  # would add up, with thousands of invocations a minute
            return self
        passed_ms = max(0, ahead_ms)
        return Carried(
            tuple(one.aged(passed_ms) for one in self.health),
            tuple((place, at_ms - passed_ms) for place, at_ms in self.parks),
            apart_ms,
        )


NOTHING = Carried()
"""What the first invocation is handed."""
