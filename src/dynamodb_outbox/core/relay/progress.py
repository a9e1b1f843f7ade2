"""Where each event of an invocation is, by the table of `core.relay.states`, and the last fault that it met."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.states import DONE, TRANSITIONS, Cause, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dynamodb_outbox.core.relay.commands import Entry
    from dynamodb_outbox.core.relay.outcome import Fault

__all__ = ["Progress"]


class Progress:
    """The states of `entries`, all of which begin QUEUED. `faults` holds the last fault of each that met one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.faults: dict[int, Fault] = {}
        self._entries = entries
        self._states = [State.QUEUED] * len(entries)
        self._first_open = 0  # every entry before this one is done

    def move(self, number: int, cause: Cause) -> None:
        """Move an entry. Raises KeyError for a move that the table does not have."""
        self._states[number] = TRANSITIONS[self._states[number], cause]

    def move_all(self, numbers: Iterable[int], cause: Cause) -> None:
        """Move several entries, of a request for instance, as `move` does."""
        states = self._states
        for number in numbers:
            states[number] = TRANSITIONS[states[number], cause]

    def is_at(self, number: int, state: State) -> bool:
        """Whether an entry is in a state."""
        return self._states[number] is state

    def lowest(self) -> int | None:
        """Return the first record with an event that is not done."""
        while self._first_open < len(self._states) and self._states[self._first_open] in DONE:
            self._first_open += 1
        return self._entries[self._first_open].record if self._first_open < len(self._states) else None

    def tally(self) -> Mapping[State, int]:
        """Count the events by state."""
        return Counter(self._states)

    def met(self, *, accepted: bool) -> Mapping[Fault, Sequence[int]]:
        """Return the entries that met a fault and were, or were not, accepted after it; by their last fault."""
        found: dict[Fault, list[int]] = {}
        for number, fault in sorted(self.faults.items(), key=itemgetter(0)):
            if self.is_at(number, State.ACCEPTED) is accepted:
                found.setdefault(fault, []).append(number)
        return found

    def at(self, state: State) -> Sequence[int]:
        """Return the entries in a state."""
        return [number for number, found in enumerate(self._states) if found is state]
