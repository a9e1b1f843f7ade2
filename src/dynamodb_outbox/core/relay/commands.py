"""What goes into the relay machine and what comes out of it, as frozen values.

Entries, records and destinations are named by their position: entry n is the n-th event of the invocation, record n the
n-th record, both in the order of the stream's sequence numbers; destination n is the router's n-th. Times are integers
of milliseconds on one clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dynamodb_outbox.core.limits import BATCH_GET_KEYS, BATCH_STATEMENTS

if TYPE_CHECKING:
    from dynamodb_outbox.choices import OnPoison
    from dynamodb_outbox.core.relay.outcome import Fault, Outcome, Verified

__all__ = [
    "NOWHERE",
    "Command",
    "Done",
    "Entry",
    "Fact",
    "KeysRead",
    "Park",
    "ParkDone",
    "Publish",
    "PublishDone",
    "ReadKeys",
    "Settings",
    "Settle",
    "SettleDone",
    "Tick",
    "Verify",
    "VerifyDone",
    "WaitUntil",
]

NOWHERE = -1
"""The destination of an event that has none: it could not be decoded, or no route fits it."""


@dataclass(frozen=True)
class Settings:
    """The figures that the machine goes by; only `ordered` and `on_poison` change what is promised.

    ordered            one event of a key at a time; False lifts that gate
    on_poison          of an event that can never be accepted: "park": it is parked, and its key goes on. "park_key": it
                       is parked, and so is all that follows of its key, until somebody lifts that. "block": it is
                       held, and its key with it
    max_in_flight      publish requests at the same time, of all destinations together
    max_table_calls    calls to the table at the same time, together
    settle_batch       records in one settle call
    settle_attempts    calls that a record is tried in before it is left to later repair
    read_batch, read_attempts          keys in one call that asks whether they are parked; calls that a key is tried in
    backoff_base_ms, backoff_cap_ms    a pause is drawn from 0 to min(cap, base * 2**attempts)
    park_limit, park_window_ms         records newly parked within the window, for each destination, after which content
                       errors are held and not parked: so many at once point at the sink or its configuration rather
                       than at the events
    verified_ms        for how long a destination that was found counts as being there
    breaker_failures   requests that fail as a whole, one after the other, after which a destination is left alone for a
                       while; None: never
    breaker_base_ms, breaker_cap_ms    that while is drawn from 0 to min(cap, base * 2**openings)
    rate_limit         events a second for each destination; None: no limit
    """

    ordered: bool = True
    on_poison: OnPoison = "park"
    max_in_flight: int = 8
    max_table_calls: int = 2
    settle_batch: int = BATCH_STATEMENTS
    settle_attempts: int = 3
    read_batch: int = BATCH_GET_KEYS
    read_attempts: int = 3
    backoff_base_ms: int = 50
    backoff_cap_ms: int = 5_000
    park_limit: int = 10
    park_window_ms: int = 60_000
    verified_ms: int = 60_000
    breaker_failures: int | None = 5
    breaker_base_ms: int = 1_000
    breaker_cap_ms: int = 60_000
    rate_limit: int | None = None


class Entry(NamedTuple):
    """One event: the record it came in, its ordering key, its size in a request, its destination.

    `fault` says that it cannot be sent at all, which was found without asking the sink. `accepted` says that its
    destination had accepted it before. (A tuple, because each event has one: it is made in half the time.)
    """

    record: int
    key: str
    size: int
    fault: Fault | None = None
    destination: int = 0
    accepted: bool = False


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
class VerifyDone:
    """What is known of a destination."""

    destination: int
    verified: Verified


@dataclass(frozen=True)
class ParkDone:
    """The park of `entry` ended; `parked` is False when the record may not have been stored.

    `new` is False when nothing was parked that had not been before: a batch that is delivered again finds it so.
    `lost` says, of a record that may not have been stored, that it may have been, too: no answer denies it.
    `key_parked` says that the key is parked with it, as the command asked.
    """

    entry: int
    parked: bool
    new: bool = True
    lost: bool = False
    key_parked: bool = False


@dataclass(frozen=True)
class KeysRead:
    """Of the keys that were asked about, `parked` are parked, and of `unread` nobody knows; all others are not."""

    keys: tuple[str, ...]
    parked: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SettleDone:
    """The settle call for `records` ended; those in `again` may succeed when tried again.

    Of those in `settled` it is known that nothing is left to write.
    """

    records: tuple[int, ...]
    again: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()


Fact = Tick | PublishDone | VerifyDone | ParkDone | KeysRead | SettleDone


# --- commands: what to do ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Publish:
    """Send these entries, in this order, in one request to `destination`; answer with PublishDone(batch)."""

    batch: int
    entries: tuple[int, ...]
    destination: int = 0


@dataclass(frozen=True)
class Verify:
    """Ask whether a destination is there; answer with VerifyDone."""

    destination: int


@dataclass(frozen=True)
class Park:
    """Store `record` as parked because `entry` cannot pass (`fault`); answer with ParkDone(entry).

    `refused` are all entries of the record that cannot pass, as far as known, `entry` among them: those whose turn is
    still to come, too. One park stores them all. With `key` that key is to be parked in the same transaction.
    """

    entry: int
    record: int
    refused: tuple[int, ...]
    fault: Fault
    key: str | None = None


@dataclass(frozen=True)
class ReadKeys:
    """Ask which of these keys are parked; answer with KeysRead."""

    keys: tuple[str, ...]


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


Command = Publish | Verify | Park | ReadKeys | Settle | WaitUntil | Done
