"""What goes into the relay machine and what comes out of it, as frozen values.

Entries and records are named by their position: entry n is the n-th event of the invocation, record n the n-th record,
both in the order of the stream's sequence numbers. Times are integers of milliseconds on one clock that never goes
back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import BATCH_STATEMENTS, SinkLimits

if TYPE_CHECKING:
    from dynamodb_outbox.core.relay.outcome import Fault, Outcome

__all__ = [
    "Command",
    "Done",
    "Entry",
    "Fact",
    "Park",
    "ParkDone",
    "Publish",
    "PublishDone",
    "Settings",
    "Settle",
    "SettleDone",
    "Tick",
    "WaitUntil",
]


@dataclass(frozen=True)
class Settings:
    """The figures that the machine goes by; none of them changes what is promised.

    limits             what one request of the sink takes
    ordered            one event of a key at a time; False lifts that gate
    max_in_flight      publish requests at the same time
    max_table_calls    park and settle calls at the same time, together
    settle_batch       records in one settle call
    settle_attempts    calls that a record is tried in before it is left to later repair
    backoff_base_ms, backoff_cap_ms    a pause is drawn from 0 to min(cap, base * 2**attempts)
    park_limit, park_window_ms         records newly parked within the window, after which content errors are held and
                       not parked: so many at once point at the sink or its configuration rather than at the events
    """

    limits: SinkLimits
    ordered: bool = True
    max_in_flight: int = 8
    max_table_calls: int = 2
    settle_batch: int = BATCH_STATEMENTS
    settle_attempts: int = 3
    backoff_base_ms: int = 50
    backoff_cap_ms: int = 5_000
    park_limit: int = 10
    park_window_ms: int = 60_000


@dataclass(frozen=True)
class Entry:
    """One event: the record it came in, its ordering key, its size in a request.

    `fault` says that it cannot be sent at all, which was found without asking the sink.
    """

    record: int
    key: str
    size: int
    fault: Fault | None = None


# --- facts: what happened ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """Nothing but the passing of time; also the first fact of an invocation."""


@dataclass(frozen=True)
class PublishDone:
    """The request `batch` came to `outcome`."""

    batch: int
    outcome: Outcome


@dataclass(frozen=True)
class ParkDone:
    """The park of `entry` ended; `parked` is False when the record may not have been stored.

    `new` is False when nothing was parked that had not been before: a batch that is delivered again finds it so.
    `lost` says, of a record that may not have been stored, that it may have been, too: no answer denies it.
    """

    entry: int
    parked: bool
    new: bool = True
    lost: bool = False


@dataclass(frozen=True)
class SettleDone:
    """The settle call for `records` ended; those in `again` may succeed when tried again."""

    records: tuple[int, ...]
    again: tuple[int, ...] = ()


Fact = Tick | PublishDone | ParkDone | SettleDone


# --- commands: what to do ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Publish:
    """Send these entries, in this order, in one request; answer with PublishDone(batch)."""

    batch: int
    entries: tuple[int, ...]


@dataclass(frozen=True)
class Park:
    """Store `record` as parked because `entry` cannot pass (`fault`); answer with ParkDone(entry).

    `refused` are all entries of the record that cannot pass, as far as known, `entry` among them: those whose turn is
    still to come, too. One park stores them all.
    """

    entry: int
    record: int
    refused: tuple[int, ...]
    fault: Fault


@dataclass(frozen=True)
class Settle:
    """Mark these records as published; answer with SettleDone."""

    records: tuple[int, ...]


@dataclass(frozen=True)
class WaitUntil:
    """Nothing to start before this time: wait for it (then Tick) or for the next fact, whichever is first."""

    at_ms: int


@dataclass(frozen=True)
class Done:
    """The invocation is over. `lowest` is the first record that is not done, None when all are."""

    lowest: int | None


Command = Publish | Park | Settle | WaitUntil | Done
