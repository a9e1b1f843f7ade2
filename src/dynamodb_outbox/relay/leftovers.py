"""Why events were left to be delivered again, where no fault says it: time, the rate, the limits of parking.

What a destination is to blame for is said where it is met. What is left then is the relay's own doing, and whoever
reads the log has to know which of its settings, or of the function's, it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import NOWHERE
from dynamodb_outbox.core.relay.outcome import Kind
from dynamodb_outbox.core.relay.states import State
from dynamodb_outbox.words import counted, first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from dynamodb_outbox.core.relay.commands import Entry, Settings
    from dynamodb_outbox.core.relay.machine import Machine

__all__ = ["Left"]


@dataclass(frozen=True)
class Left:
    """What a `machine` that is over, and published until `publish_until_ms`, left of its `entries` at `now_ms`."""

    machine: Machine
    entries: Sequence[Entry]
    settings: Settings
    now_ms: int
    publish_until_ms: int

    def reasons(
        self, *, unanswered: Collection[int], not_parked: Collection[int], named: Callable[[int], str]
    ) -> list[str]:
        """Return a sentence for each reason; events behind others of their key are not counted.

        What is said elsewhere is left out: destinations that are `unanswered`, and records of which a park failed. The
        first event is told as it is `named`.
        """
        left: dict[str, list[int]] = {}
        for why, number in (*self._unsent(unanswered), *self._unparked(not_parked)):
            left.setdefault(why, []).append(number)
        return [
            f"{counted(len(numbers), 'event')} left, and what follows by key: {why} "
            f"({first_of(len(numbers), named(min(numbers)))})"
            for why, numbers in left.items()
        ]

    def _unsent(self, unanswered: Collection[int]) -> Iterator[tuple[str, int]]:
        rate = self.settings.rate_limit
        ready = self.machine.progress.at(State.READY)
        waiting = Counter(self.entries[number].destination for number in ready)
        for number in ready:
            place = self.entries[number].destination
            one = self.machine.destinations[place]
            if one.is_held(self.now_ms) or place in unanswered or number in self.machine.progress.faults:
                continue
            if rate is not None and one.health.due_for(min(waiting[place], rate), rate) >= self.publish_until_ms:
                yield f"rate_limit_per_instance={rate} let no more through in the time that there was", number
            else:
                yield "there was no time left to send more", number

    def _unparked(self, not_parked: Collection[int]) -> Iterator[tuple[str, int]]:
        since_ms = self.now_ms - self.settings.park_window_ms
        recent = Counter(place for place, at_ms in self.machine.carried.parks if at_ms > since_ms)
        for number in self.machine.progress.at(State.STUCK):
            entry, fault = self.entries[number], self.machine.progress.faults.get(number)
            if fault is None or fault.kind is not Kind.CONTENT or entry.record in not_parked:
                continue
            if self.settings.on_poison == "block":
                yield "on_poison='block' parks nothing", number
            elif entry.destination != NOWHERE and self.machine.destinations[entry.destination].halted:
                continue
            elif recent[entry.destination] >= self.settings.park_limit - 1:
                most, window_s = self.settings.park_limit, self.settings.park_window_ms // 1000
                yield f"the park limit is reached ({most} records in {window_s} s, of one destination)", number
            else:
                yield "there was no time left to park more", number
