"""What an invocation of the relay came to, as a value: an observer (`ports.Observer`) is told of each.

It holds counts and times, and no event's data, id or key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Relayed"]


@dataclass(frozen=True)
class Relayed:
    """What became of the records of one invocation of a relay, or of one round of a sweep or a redrive.

    table         the table's name
    records       records that were decoded
    accepted      events that their sink accepted now
    known         events that it had accepted before, as this instance remembers: they were not published again
    recovered     events that met a fault and were accepted after it, of `accepted`
    parked        events of records that were not parked before
    failed        events that were neither accepted nor parked, by the code of the last fault that they met
    unsettled     records that were published and could not be settled; they are published again by a sweep
    requests, sent, room    publish requests, the entries in them, and how many would have found room in them
    ages_ms       how old each accepted event was when it was accepted, by its own time, and never less than 0
    split_keys    ordering keys of which events came from two partitions of the table: they have no order [P4]
    """

    table: str
    records: int = 0
    accepted: int = 0
    known: int = 0
    recovered: int = 0
    parked: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    unsettled: int = 0
    requests: int = 0
    sent: int = 0
    room: int = 0
    ages_ms: tuple[int, ...] = ()
    split_keys: int = 0
