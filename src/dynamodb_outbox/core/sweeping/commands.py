"""What goes into a sweep and what comes out of it, as frozen values. Each command is answered by one fact."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.leases import LEASE_MS

if TYPE_CHECKING:
    from dynamodb_outbox.core.record.leases import Lease
    from dynamodb_outbox.core.record.pending import Entry
    from dynamodb_outbox.core.values import WireItem

__all__ = [
    "Command",
    "Done",
    "Fact",
    "Failed",
    "KeyFound",
    "KeysFound",
    "LeaseFound",
    "LeaseWritten",
    "List",
    "Listed",
    "Publish",
    "Published",
    "ReadKeys",
    "ReadLease",
    "Settings",
    "SweepReport",
    "Swept",
    "Tally",
    "Tick",
    "WaitUntil",
    "WriteLease",
]


@dataclass(frozen=True)
class Settings:
    """The figures that a sweep goes by.

    min_age_ms      records that are younger are left to the relay
    least_ms        how long one publish request and the calls to the table after it may take: a round of publishing
                    begins only while so much time is left, of the sweep's own and of its lease
    lease_ms        for how long a lease lasts; None: the table has no place for leases
    page            entries of the index in one query
    round_keys, round_records    keys that are read at once, and records that are published at once
    attempts        how often a request to the table is made that fails in a way that may pass
    backoff_base_ms, backoff_cap_ms    a pause is drawn from 0 to min(cap, base * 2**attempts)
    dry_run         nothing is written and nothing published
    """

    least_ms: int
    min_age_ms: int = 5 * 60 * 1000
    lease_ms: int | None = LEASE_MS
    page: int = 500
    round_keys: int = 25
    round_records: int = 100
    attempts: int = 3
    backoff_base_ms: int = 50
    backoff_cap_ms: int = 2_000
    dry_run: bool = False


@dataclass(frozen=True)
class SweepReport:
    """What a sweep came to.

    partitions    of the index that were looked at; of these `idle` had nothing that was due, `taken` are another
                  sweep's, or became that, `unread` could not be read or leased
    due           records that the index named as old enough, in partitions that this sweep had
    keys          ordering keys that were read from the table
    done          records of which all events were accepted or parked; of a dry run, those that would be published
    accepted, parked    events, of these records and others
    left          records that are old enough and not done; the log has the reason
    young         pending records of these keys that are too young, or behind one that is
    elsewhere     pending records of another Region, `others` of another layout: both are left alone
    lag_ms        by how much the relay is behind, as far as sweeps have met it
    oldest_ms     how old the oldest pending record is that the sweep was named, 0 where there was none
    stopped       why the sweep ended early; None: it did not
    dry_run       whether it was one: then nothing was written or published
    """

    partitions: int = 0
    idle: int = 0
    taken: int = 0
    unread: int = 0
    due: int = 0
    keys: int = 0
    done: int = 0
    accepted: int = 0
    parked: int = 0
    left: int = 0
    young: int = 0
    elsewhere: int = 0
    others: int = 0
    lag_ms: int = 0
    oldest_ms: int = 0
    stopped: str | None = None
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members."""
        return asdict(self)


@dataclass(frozen=True)
class Swept:
    """A sweep of a table came to its end: what an observer (`ports.Observer`) is told."""

    table: str
    report: SweepReport


# --- facts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """Nothing but the passing of time; also the first fact of a sweep."""


@dataclass(frozen=True)
class Failed:
    """The command was not done, or nobody knows (`untold`). `passing`: it may be when it is tried again."""

    reason: str
    passing: bool
    untold: bool = False


@dataclass(frozen=True)
class Listed:
    """Entries of the index, and where the next page begins; None: there is none."""

    entries: tuple[Entry, ...]
    after: WireItem | None = None


@dataclass(frozen=True)
class LeaseFound:
    """The lease as it is stored; None: nobody has ever had it."""

    lease: Lease | None


@dataclass(frozen=True)
class LeaseWritten:
    """Whether the lease is stored; False: another one was there than was seen."""

    written: bool


@dataclass(frozen=True)
class KeyFound:
    """What was read of one key. `complete`: these are all of its pending records. `failure`: why nothing was read."""

    items: tuple[WireItem, ...] = ()
    complete: bool = True
    failure: Failed | None = None


@dataclass(frozen=True)
class Tally:
    """How many records a partition of the index has, and when the oldest was written; or why that cannot be told."""

    count: int = 0
    oldest_ms: int | None = None
    failure: Failed | None = None


@dataclass(frozen=True)
class KeysFound:
    """What was read of each key that was asked for, in their order."""

    keys: tuple[KeyFound, ...]


@dataclass(frozen=True)
class Published:
    """What came of the records, by their positions in the command.

    `done` were accepted or parked, whether they could be settled or not. `untried` were not sent, for a reason that
    has nothing to do with them. `stop`: why no destination takes anything more. `accepted` and `parked` count events.
    """

    done: frozenset[int]
    accepted: int = 0
    parked: int = 0
    untried: frozenset[int] = frozenset()
    stop: str | None = None


Fact = Tick | Failed | Listed | LeaseFound | LeaseWritten | KeysFound | Published


# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class List:
    """Read up to `most` entries of a partition of the index, after where another page ended, or after a date."""

    shard: str
    most: int
    after: WireItem | None = None
    later_than_ms: int | None = None


@dataclass(frozen=True)
class ReadLease:
    """Read the lease of a partition of the index, consistently."""

    shard: str


@dataclass(frozen=True)
class WriteLease:
    """Store the lease of a partition of the index, if what is there is as it was seen (None: nothing)."""

    shard: str
    lease: Lease
    instead_of: Lease | None


@dataclass(frozen=True)
class ReadKeys:
    """Read the pending records of some keys, consistently, each by the entries that the index has of it."""

    keys: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Publish:
    """Publish records, those of one key in their order; nothing is to begin after `until_ms` that may last longer.

    The time is that of the clock that never goes back.
    """

    records: tuple[WireItem, ...]
    until_ms: int


@dataclass(frozen=True)
class WaitUntil:
    """Wait until then, by the clock that never goes back, and answer with Tick."""

    at_ms: int


@dataclass(frozen=True)
class Done:
    """The sweep is over. `fault`: it cannot be done as things are set up."""

    report: SweepReport
    fault: str | None = None


Command = List | ReadLease | WriteLease | ReadKeys | Publish | WaitUntil | Done
