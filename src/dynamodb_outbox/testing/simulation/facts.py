"""What happened in a simulated world, as a list of frozen values: the ledger.

Every part of the world writes down what it did, at the moment at which it took effect there; so the ledger is the
truth, also about what nobody was told. Invariants are functions of it, and a timeline is the same list in words.
Times are virtual milliseconds. A *record* is named by its partition and sort key, an *invocation* by a number, below 0
when it is a delivery to a consumer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = [
    "Accepted",
    "Answered",
    "Checkpointed",
    "Committed",
    "Discarded",
    "Ended",
    "Fact",
    "Faulted",
    "Gap",
    "Heard",
    "Intended",
    "Invoked",
    "Leased",
    "Ledger",
    "Left",
    "LeftRecord",
    "Moved",
    "Operated",
    "Raised",
    "RecordKey",
    "Rejected",
    "Said",
    "Sent",
    "Started",
    "Swallowed",
    "Swept",
    "Told",
    "Trimmed",
    "Written",
    "named",
]

RecordKey = tuple[str, str]


def named(invocation: int) -> str:
    """Return what people call an invocation."""
    return f"invocation {invocation}" if invocation >= 0 else f"delivery {-invocation}"


@dataclass(frozen=True)
class Fact:
    """Something that happened at a time."""

    at_ms: int


@dataclass(frozen=True)
class Intended(Fact):
    """A writer is about to put a change into a transaction, its `attempt`-th for this change.

    `items` are the items to be changed; there is one event for each of `keys`, and its data say which (`mark_of`).
    """

    writer: str
    change: str
    attempt: int
    keys: tuple[str, ...]
    items: frozenset[RecordKey]
    unfit: frozenset[int] = frozenset()
    """Which of the events nobody could ever send, or read: for them parking needs no refusal."""


@dataclass(frozen=True)
class Committed(Fact):
    """A transaction was committed: the change `change` (the writer's name for it), and the events of its records.

    `items` are the other items that it wrote, guards of commands apart; `attempt` is that of its `Intended`.
    `dated` has the date of each of the records, epoch milliseconds by the clock of their writer, if it is in the index
    of pending ones.
    """

    tx: str
    writer: str
    change: str
    records: tuple[tuple[RecordKey, tuple[Event, ...]], ...]
    items: frozenset[RecordKey] = frozenset()
    attempt: int = 1
    dated: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Told(Fact):
    """What a writer was told about its change: "committed", "failed", "unknown", or "died" when it did not live to.

    `attempt` is that of its `Intended`; `events` are the ids in its receipt, in the order of emit.
    """

    writer: str
    change: str
    outcome: str
    attempt: int = 1
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written(Fact):
    """A stream record: `kind` is INSERT, MODIFY or REMOVE, `by` who made the change, `number` its sequence number."""

    kind: str
    item: RecordKey
    shard: str
    number: str
    by: str


@dataclass(frozen=True)
class Trimmed(Fact):
    """Stream records of a shard went out of the stream."""

    shard: str
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class Invoked(Fact):
    """A function was handed a batch: `inserted` are the items of its INSERT records, `until_ms` its time-out."""

    destination: str
    invocation: int
    shard: str
    lane: int
    instance: str
    numbers: tuple[str, ...]
    inserted: frozenset[RecordKey]
    until_ms: int


@dataclass(frozen=True)
class Swept(Fact):
    """A sweep began, in the function of a sweeper; `ahead_ms` is by how much its wall clock is off."""

    destination: str
    invocation: int
    instance: str
    until_ms: int
    ahead_ms: int = 0


@dataclass(frozen=True)
class Leased(Fact):
    """A sweep has written the lease of a partition of the index, which lasts until `until_ms`; None: it has left it."""

    shard: str
    invocation: int
    until_ms: int | None


@dataclass(frozen=True)
class Operated(Fact):
    """An operator has begun with what `does` says."""

    destination: str
    invocation: int
    process: str
    does: str


@dataclass(frozen=True)
class Sent(Fact):
    """A call number `call` left a process for the server `where`. Not each has a Heard: its process may be dead."""

    where: str
    operation: str
    invocation: int
    call: int
    process: str


@dataclass(frozen=True)
class Heard(Fact):
    """A call's process was answered (`error` is empty, or the class of what was raised), or stopped waiting for it.

    A server may act on a call later than that: what it does then has the invocation of the call.
    """

    where: str
    operation: str
    invocation: int
    call: int
    error: str


@dataclass(frozen=True)
class Accepted(Fact):
    """The bus of a destination accepted an event. `entry` is what it was given, as text that equal entries share."""

    destination: str
    invocation: int
    event_id: str
    entry: str


@dataclass(frozen=True)
class Rejected(Fact):
    """The bus of a destination refused an event, in its answer, with a code."""

    destination: str
    invocation: int
    event_id: str
    code: str


@dataclass(frozen=True)
class Swallowed(Fact):
    """The bus of a destination answered that it accepted an event, which is gone: there is no bus of the name `bus`.

    The request was sent at `sent_ms`; `since_ms` is when the bus vanished, None where it never was.
    """

    destination: str
    invocation: int
    event_id: str
    bus: str
    sent_ms: int = 0
    since_ms: int | None = None


@dataclass(frozen=True)
class Moved(Fact):
    """A record was moved to a state (published, parked, discarded); `events` as in core.record.states, for parks.

    gone       it was deleted, which publishes it
    kept_ms    when its TTL is over, from now on and by the clock of who moved it; None: it has none
    keep_ms    for how long it says that it is to be kept; None: it does not say so
    """

    record: RecordKey
    state: str
    invocation: int
    events: frozenset[str] | None = None
    gone: bool = False
    kept_ms: int | None = None
    keep_ms: int | None = None


@dataclass(frozen=True)
class Answered(Fact):
    """A function returned. The event source reads from it that `failed` are, or that all are: `whole` says why then."""

    invocation: int
    answer: str
    failed: tuple[str, ...]
    whole: str = ""


@dataclass(frozen=True)
class Raised(Fact):
    """A function raised an error: its class and text, and where in its code it came from."""

    invocation: int
    error: str


@dataclass(frozen=True)
class Said(Fact):
    """A process of `owner` printed or logged a line: `how` is "prints" or "logs"."""

    process: str
    owner: str
    invocation: int
    how: str
    text: str


@dataclass(frozen=True)
class Ended(Fact):
    """A function ended without an answer: `how` is "crash" or "timeout".

    `error` is what it raised, if it died of that: no Exception, or the runtime would have gone on.
    """

    invocation: int
    how: str
    error: str = ""


@dataclass(frozen=True)
class Started(Fact):
    """The event source of a destination begins to read at LATEST: it passes over this much of these shards."""

    destination: str
    passed: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Checkpointed(Fact):
    """Everything of a shard up to `number` counts as done for a destination."""

    destination: str
    shard: str
    number: str


@dataclass(frozen=True)
class Discarded(Fact):
    """The event source gave records up and sent them to the on-failure destination."""

    destination: str
    shard: str
    numbers: tuple[str, ...]
    condition: str


@dataclass(frozen=True)
class Gap(Fact):
    """The event source lost what was trimmed of a shard, unread: after a number (None: from the start on), up to now.

    Not read is also what was read by a process of it that died before the checkpoint.
    """

    destination: str
    shard: str
    after: str | None


@dataclass(frozen=True)
class Faulted(Fact):
    """A fault was made: its `kind` (faults.py has them all), where, and in which invocation (0: in none).

    What it met, where that is known: the number of a call, the name of a process, a shard.
    """

    kind: str
    where: str
    invocation: int = 0
    call: int = 0
    process: str = ""
    shard: str = ""


@dataclass(frozen=True)
class LeftRecord:
    """A record in the table, its state there, and the events that it is parked for (None: all).

    `visible`: it is in the index as parked, which is where an operator looks.
    """

    record: RecordKey
    state: str
    events: frozenset[str] | None = None
    visible: bool = False


@dataclass(frozen=True)
class Left(Fact):
    """What is left of the outbox in the table at the end of a run."""

    records: tuple[LeftRecord, ...]


@dataclass
class Ledger:
    """The facts so far, in the order in which they took effect; `invocations` counts those that have a number."""

    facts: list[Fact] = field(default_factory=list)
    invocations: int = 0

    def note(self, fact: Fact) -> None:
        """Write a fact down."""
        self.facts.append(fact)

    def close(self) -> list[Fact]:
        """Return the facts and let go of them: they outlive their world."""
        facts, self.facts = self.facts, []
        return facts

    def new_invocation(self) -> int:
        """Return the number of the next invocation, from 1."""
        self.invocations += 1
        return self.invocations
