"""One destination in an invocation: what is ready for it, what waits, what is under way, and what it may be sent now.

Nothing here knows of keys: what is added is the head of one. A destination is *halted* by a fault of the target until
the invocation ends, and *held* also while its breaker is open: held at once, so that an invocation ends in place of
waiting for a destination that is in trouble.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.outcome import Presence
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.limits import SinkLimits
    from dynamodb_outbox.core.relay.commands import Entry, Settings
    from dynamodb_outbox.core.relay.health import Health
    from dynamodb_outbox.core.relay.outcome import Fault, Verified

__all__ = ["Destination"]


class Destination:
    """`entries` are those of the invocation; `left` counts those of this destination that are not done."""

    def __init__(self, entries: Sequence[Entry], limits: SinkLimits, settings: Settings, health: Health) -> None:
        self.health = health
        self.left = 0
        self.under_way = 0
        self.halted = False
        self._entries = entries
        self._limits = limits
        self._settings = settings
        self._ready: deque[int] = deque()
        self._later: list[tuple[int, int]] = []  # (due, entry)
        self._largest: dict[int, int] = {}  # entry -> entries that a request may have when this one is in it
        self._asked_ms: int | None = None
        self._ask_at_ms = 0  # not before: the last question was not answered
        self._unanswered = 0

    # --- entries come in ---

    def add(self, number: int) -> None:
        """Take the head of a key, to be sent."""
        self._ready.append(number)

    def add_later(self, number: int, due_ms: int) -> None:
        """Take an entry that is to be sent again at a later time."""
        heappush(self._later, (due_ms, number))

    def narrow(self, numbers: Sequence[int]) -> None:
        """Take the entries of a request that was refused as a whole, to be sent in requests of half its size."""
        for number in reversed(numbers):
            self._largest[number] = len(numbers) // 2
            self._ready.appendleft(number)

    def wake(self, now_ms: int) -> list[int]:
        """Return the entries whose pause is over, which are ready now."""
        due = []
        while self._later and self._later[0][0] <= now_ms:
            due.append(heappop(self._later)[1])
        self._ready.extend(due)
        return due

    # --- what it may be sent ---

    def is_held(self, now_ms: int) -> bool:
        """Whether nothing is published to it now."""
        return self.halted or self.health.is_open(now_ms)

    def is_missing(self) -> bool:
        """Whether it was not there when it was asked for."""
        return self.health.presence is Presence.MISSING

    def wants_verify(self, now_ms: int, *, parks_wait: bool) -> bool:
        """Whether something waits for it to be asked for."""
        if self.halted or self._asked_ms is not None or self.health.is_verified(now_ms) or now_ms < self._ask_at_ms:
            return False
        return parks_wait or bool(self._ready and not self.health.is_open(now_ms))

    def needs_room(self, now_ms: int, *, parks_wait: bool, more: bool) -> bool:
        """Whether others leave a request for it: something is to be sent (`more`: soon), or it is to be asked for."""
        if self.under_way or self.halted:
            return False
        if parks_wait and not self.health.is_verified(now_ms):
            return True
        return bool(self._ready or self._later or more) and not self.health.is_open(now_ms)

    def ask(self, now_ms: int) -> None:
        """Note that it is being asked for."""
        self._asked_ms = now_ms
        self.under_way += 1

    def found(self, verified: Verified, now_ms: int, u: float) -> None:
        """Take in what came of that. A question without an answer counts as a request that failed, and is asked again.

        To publish on nobody's word would lose events where the destination is gone, and what does not answer the one
        request will hardly answer the other.
        """
        asked_ms, self._asked_ms = self._asked_ms, None
        self.under_way -= 1
        settings = self._settings
        if verified.passing:
            self.health = self.health.after((), now_ms, u, settings, failed=True)
            pause_ms = full_jitter_ms(settings.backoff_base_ms, settings.backoff_cap_ms, self._unanswered, u)
            self._unanswered += 1
            self._ask_at_ms = now_ms + pause_ms
            return
        self._unanswered = 0
        self.health = self.health.verified(verified, (asked_ms or 0) + settings.verified_ms)
        self.halted = self.halted or self.is_missing()

    def can_be_sent(self, now_ms: int) -> bool:
        """Whether a request may start now, as far as this destination goes."""
        return bool(
            self._ready
            and not self.is_held(now_ms)
            and self.health.is_verified(now_ms)
            and self.under_way < self.health.most_at_once(self._settings)
            and self._rate_due(now_ms) is None
        )

    def take(self, now_ms: int) -> tuple[int, ...]:
        """Take from the front of what is ready as much as one request holds, and at least one; it is under way."""
        most, size = self._limits.entries, 0
        rate = self._settings.rate_limit
        if rate is not None:
            most = min(most, self.health.events_left(now_ms, rate))
        chosen: list[int] = []
        ready, entries, most_bytes = self._ready, self._entries, self._limits.request_bytes
        while ready:
            number = ready[0]
            if self._largest:
                most = min(most, self._largest.get(number, most))
            size += entries[number].size
            if chosen and (len(chosen) >= most or size > most_bytes):
                break
            chosen.append(ready.popleft())
        if rate is not None:
            self.health = self.health.sent(len(chosen), now_ms, rate)
        self.under_way += 1
        return tuple(chosen)

    def ended(self, results: Sequence[Fault | None], now_ms: int, u: float, *, failed: bool) -> None:
        """Take in what a request came to; `failed` as a whole, in a way that may pass."""
        self.under_way -= 1
        self.health = self.health.after(results, now_ms, u, self._settings, failed=failed)

    def halt(self) -> None:
        """Publish and park nothing more in this invocation, and let the next one ask for the destination first."""
        self.halted = True
        self.health = self.health.doubted()

    # --- time ---

    def may_send_more(self, now_ms: int, until_ms: int, *, parks_wait: bool) -> bool:
        """Whether anything is under way, or can be sent before `until_ms`, or asked for, when parks wait for that."""
        if self.under_way:
            return True
        if parks_wait and not self.halted and not self.health.is_verified(now_ms) and self._ask_at_ms < until_ms:
            return True
        if self.is_held(now_ms):
            return False
        return bool(self._later or (self._ready and (self._ready_due(now_ms) or now_ms) < until_ms))

    def next_due(self, now_ms: int, *, parks_wait: bool) -> int | None:
        """Return when something for it is due next: an entry, what the rate allows, or a question that failed."""
        if self.halted:
            return None
        asks = self._ask_due(now_ms) if parks_wait else None
        if self.is_held(now_ms):
            return asks
        due = self._ready_due(now_ms) if self._ready else None
        later = self._later[0][0] if self._later else None
        return min((at for at in (asks, due, later) if at is not None), default=None)

    def _ready_due(self, now_ms: int) -> int | None:
        """Return from when on what is ready can be sent, or be asked for, or None when it can be now."""
        return self._rate_due(now_ms) if self.health.is_verified(now_ms) else self._ask_due(now_ms)

    def _ask_due(self, now_ms: int) -> int | None:
        waits = now_ms < self._ask_at_ms and not self.health.is_verified(now_ms)
        return self._ask_at_ms if waits else None

    def _rate_due(self, now_ms: int) -> int | None:
        """Return from when on the rate allows a full request of what is ready, or None when it does now."""
        rate = self._settings.rate_limit
        if rate is None:
            return None
        due = self.health.due_for(min(len(self._ready), self._limits.entries, rate), rate)
        return due if due > now_ms else None
