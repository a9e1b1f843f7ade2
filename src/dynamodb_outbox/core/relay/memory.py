"""A bounded memory of what a sink accepted, so that a warm relay does not send it again.

A batch of which one record failed is delivered again from there on, with all that was accepted behind it. Who remembers
passes these over; they keep their place in the order of their key. Their record is settled as any other, unless it is
known to be settled, which is remembered too.

What is remembered is an event of one stream record at one destination. The stream and the sequence number belong to it:
a row that was deleted and written again under the same key is another stream record, and to be published again. Only an
acceptance goes in: what was merely sent may be lost. Nobody has to rely on it: it ends with its process, and the least
recently used goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

__all__ = ["Accepted", "Memory"]


class Accepted(NamedTuple):
    """An event of a stream record that was accepted by a destination.

    `stream` is the stream's ARN, None where the record does not say it; `destination` the name of a sink.
    """

    stream: str | None
    destination: str
    sequence_number: str
    event_id: str


class Memory:
    """Up to `most` acceptances; with 0 it remembers nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Accepted, bool] = OrderedDict()  # -> whether its record is known to be settled

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, accepted: Accepted) -> bool:
        return accepted in self._known

    @property
    def is_off(self) -> bool:
        """Whether it can remember nothing."""
        return not self._most

    def is_settled(self, accepted: Accepted) -> bool:
        """Whether the record of an acceptance is known to be settled."""
        return self._known.get(accepted, False)

    def add(self, accepted: Accepted, *, settled: bool = False) -> None:
        """Remember an acceptance, as the latest one used, and whether its record was `settled`, now or before."""
        if not self._most:
            return
        self._known[accepted] = settled or self.is_settled(accepted)
        self._known.move_to_end(accepted)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
