"""What the inner layers need from the world, as protocols. Adapters and sinks implement them; tests bring their own.

A port speaks in the core's values: no botocore exception crosses it.

A sink is a port that users write for themselves. `lacks` says what something has not that a sink has, for the errors of
those that are given one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dynamodb_outbox.core.limits import SinkLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.core.codec.claim import Claim, ClaimRule
    from dynamodb_outbox.core.commit.answers import Answer, ReadAnswer
    from dynamodb_outbox.core.consuming.order import Position
    from dynamodb_outbox.core.record.leases import Lease
    from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
    from dynamodb_outbox.core.record.parked_keys import KeysFound, Released
    from dynamodb_outbox.core.record.pending import Entry
    from dynamodb_outbox.core.record.waiting import Found
    from dynamodb_outbox.core.relay.outcome import Fault, Outcome, Prepared, Verified
    from dynamodb_outbox.core.sweeping.commands import (
        Failed,
        KeyFound,
        LeaseFound,
        LeaseWritten,
        List,
        Listed,
        Tally,
        WriteLease,
    )
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import DataRef, Event

__all__ = [
    "Clock",
    "Crew",
    "Entropy",
    "Leases",
    "MessageQueue",
    "Observer",
    "ParkedKeys",
    "ParkedStore",
    "PayloadStore",
    "PendingIndex",
    "Positions",
    "PreparesAgain",
    "RecordStates",
    "Results",
    "Routes",
    "Sink",
    "Span",
    "Store",
    "Tracing",
    "lacks",
]

T = TypeVar("T")
F_contra = TypeVar("F_contra", contravariant=True)


class Clock(Protocol):
    """Time. Nothing else in the library asks the system for it, but for how long a question of a sink has taken."""

    def now_ms(self) -> int:
        """Return wall-clock time, epoch milliseconds. It may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, in milliseconds from an arbitrary start."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait."""
        ...


class Entropy(Protocol):
    """Randomness that is safe after a fork and after a restored snapshot; of `bytes`, the operating system's own."""

    def bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        ...

    def unit(self) -> float:
        """Return a number from 0 (included) to 1 (excluded), for jitter."""
        ...


class MessageQueue(Protocol):
    """A queue of messages, each of which is somebody's until a time that can be put off."""

    @property
    def fifo(self) -> bool:
        """Whether it keeps the order of each group."""
        ...

    def receive(self, most: int, wait_s: int, hold_s: int) -> Sequence[Mapping[str, Any]]:
        """Wait up to `wait_s` for up to `most` (at most 10) messages, held for `hold_s`, as Lambda gives them.

        Raises QueueUnavailable when there was no answer, QueueRefused when there will be none.
        """
        ...

    def hold(self, records: Sequence[Mapping[str, Any]], hold_s: int) -> Sequence[str]:
        """Hold up to 10 messages for `hold_s` from now, 0: let them go; return why some were not, empty for all."""
        ...

    def delete(self, records: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Delete up to 10 messages; return why some were not, empty for all."""
        ...


class Observer(Protocol[F_contra]):
    """Looks on while events are relayed, swept and consumed. It may be called from several threads at once."""

    def observe(self, fact: F_contra) -> None:
        """Take note of something that has happened; what it raises is logged, and changes nothing."""
        ...


class Span(Protocol):
    """Something under way that is followed. It is begun and ended by one thread."""

    @property
    def context(self) -> Mapping[str, str]:
        """The trace context of what comes from it: `traceparent`, and `tracestate` where there is one."""
        ...

    def end(self, outcome: str, error: BaseException | None) -> None:
        """Take note of the end: of what it came to, or of the error that ended it, with an outcome that is empty.

        Of a commit: "committed", or "replayed" for a command that had been committed before. Of an event in a consumer:
        "applied", "duplicate", "skipped" or "rejected".
        """
        ...


class Tracing(Protocol):
    """Follows events from their commit to their consumers; it may be called from several threads at once.

    What it raises is logged, and changes nothing. Publishing is followed by a sink around a sink.
    """

    def context(self) -> Mapping[str, str]:
        """Return the trace context of who is calling, empty where there is none."""
        ...

    def committing(self, table: str, events: Sequence[Event]) -> Span:
        """Follow a commit of events, one at least, whose records go to `table`.

        Its context becomes that of the events, other than those that have one.
        """
        ...

    def processing(self, consumer: str, event: Event, origin: str) -> Span:
        """Follow the application of an event; `origin` is the ARN of its queue, topic or stream, empty where unsaid."""
        ...


class Results(Protocol[T]):
    """A queue on which whoever started tasks waits for what they put there."""

    def put(self, result: T) -> None:
        """Add a result; for tasks, at any time."""
        ...

    def get(self, timeout_ms: int | None) -> T | None:
        """Wait for the next result, in the order in which they came; return None when none comes within the time."""
        ...


class Crew(Protocol):
    """Those who do tasks side by side: at most so many at a time, the others wait their turn."""

    def start(self, task: Callable[[], object]) -> None:
        """Have a task done; what it returns or raises is lost. Raises RuntimeError when nothing can be started."""
        ...

    def results(self) -> Results[Any]:
        """Return a new queue, empty, between tasks of this crew and who started them."""
        ...


class Sink(Protocol):
    """A bus. It may be called from several threads at once."""

    @property
    def name(self) -> str:
        """Which destination this is, the same in each process: the bus's, queue's or topic's ARN or name as given."""
        ...

    @property
    def limits(self) -> SinkLimits:
        """What one request takes."""
        ...

    @property
    def request_ms(self) -> int:
        """Return the longest time that one `publish`, or one `verify`, may take, in milliseconds."""
        ...

    def prepare(self, event: Event) -> Prepared | Fault:
        """Turn an event into an entry of a request, or say why the bus could never accept it. Sends nothing."""
        ...

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Send prepared entries in one request and report on each; answers and the network raise nothing."""
        ...

    def verify(self) -> Verified:
        """Ask whether the destination is there; answers and the network raise nothing.

        MISSING only where the service says so: the relay then holds everything. UNSURE where nobody can tell: for good
        (no permission, another account), and it is published to; or `passing`, without an answer (a time-out, expired
        credentials), and it is asked again first.
        """
        ...


class PreparesAgain(Protocol):
    """What a sink has besides whose destination passes over an event that it has had not long ago, as FIFO queues do.

    A sink without it is given redriven events by `prepare`.
    """

    def prepare_again(self, event: Event, mark: str) -> Prepared | Fault:
        """Turn an event into an entry as `prepare` does, which the destination takes for another one than before.

        `mark` tells one redrive from all others: within it the entry is the same each time. The event keeps its id.
        """
        ...


def lacks(given: Any) -> list[str]:
    """Return which members of `Sink` something has not, or not as a sink has them; nothing, when it is a sink."""
    if isinstance(given, type):
        return ["a call, as it is a class"]
    named = getattr(given, "name", None)
    request_ms = getattr(given, "request_ms", None)
    there = {
        "prepare(event)": callable(getattr(given, "prepare", None)),
        "publish(entries)": callable(getattr(given, "publish", None)),
        "verify()": callable(getattr(given, "verify", None)),
        "limits (SinkLimits)": isinstance(getattr(given, "limits", None), SinkLimits),
        "name (text)": isinstance(named, str) and named != "",
        "request_ms (a whole number)": type(request_ms) is int and request_ms > 0,
    }
    return [member for member, is_there in there.items() if not is_there]


class Routes(Protocol):
    """The way of each event to one of several sinks."""

    @property
    def sinks(self) -> Sequence[Sink]:
        """The destinations, each once, in an order that stays."""
        ...

    def route(self, event: Event) -> int | Fault:
        """Return the position in `sinks` of the one that an event goes to, or why there is none; raises nothing."""
        ...


class PayloadStore(Protocol):
    """Where the data of claimed events is kept. It may be called from several threads at once."""

    @property
    def rule(self) -> ClaimRule:
        """Which events are claimed, and how their objects are named."""
        ...

    def store(self, claim: Claim) -> None:
        """Store the data of a claim; again, when it is there already. Raises UploadFailed."""
        ...

    def load(self, reference: DataRef) -> bytes:
        """Return the bytes that a reference leads to, not verified. Raises PayloadMissing, PayloadUnavailable."""
        ...


class Positions(Protocol):
    """How far a consumer is with each subject. It may be called from several threads at once."""

    def advance(self, consumer: str, event: Event, expires_s: int) -> Position:
        """Make an event's sequence the highest of its subject if it is above, and say where it stands; raises nothing.

        What is written may be removed from `expires_s` on, epoch seconds.
        """
        ...


class RecordStates(Protocol):
    """Moves of stored records from state to state. It may be called from several threads at once."""

    @property
    def request_ms(self) -> int:
        """Return the longest time that one request may take, in milliseconds."""
        ...

    def settle(self, table: str, images: Sequence[WireItem], now_ms: int) -> Settled:
        """Settle pending records, as each says itself or its layout, if it is still as its image says.

        `now_ms` is wall-clock time.
        """
        ...

    def park(self, table: str, image: WireItem, parking: Parking) -> Parked:
        """Store a record as parked, whether it is still there or not, and say whether that holds and is new."""
        ...

    def find(self, table: str, key: WireItem) -> Found:
        """Read one item consistently, by the key attributes among `key`; every failure of the call is an answer."""
        ...


class ParkedKeys(Protocol):
    """Ordering keys of which nothing is published. It may be called from several threads at once."""

    @property
    def request_ms(self) -> int:
        """Return the longest time that one request may take, in milliseconds."""
        ...

    def read(self, table: str, keys: Sequence[str]) -> KeysFound:
        """Return which of up to 100 keys are parked, and of which that could not be read, and why; raises nothing."""
        ...

    def park(self, table: str, image: WireItem, parking: Parking, key: str) -> tuple[Parked, bool]:
        """Store a record as parked, and its key with it; say whether the record is parked, and whether the key is."""
        ...

    def release(self, table: str, key: str) -> Released:
        """Let a key go on; every failure of the call is an answer."""
        ...


class PendingIndex(Protocol):
    """The index of pending records, and the records that it leads to. It may be called from several threads at once."""

    @property
    def region(self) -> str | None:
        """The AWS Region of the table, None when it is not known."""
        ...

    def list(self, table: str, asked: List) -> Listed | Failed:
        """Return a page of a partition of the index; every failure of the call is an answer."""
        ...

    def read(self, table: str, entries: Sequence[Entry]) -> KeyFound:
        """Return the pending records of the key that entries of the index are of; every failure is an answer."""
        ...

    def tally(self, table: str, shard: str) -> Tally:
        """Count the records of a partition of the index, and tell the oldest; every failure is an answer."""
        ...


class ParkedStore(Protocol):
    """Parked records, to look at and to decide about. It may be called from several threads at once."""

    @property
    def request_ms(self) -> int:
        """Return the longest time that one request may take, in milliseconds."""
        ...

    def read(self, table: str, keys: Sequence[WireItem]) -> Sequence[WireItem] | Failed:
        """Return the items that there are of up to 100, read consistently; every failure of the call is an answer."""
        ...

    def of_partition(self, table: str, key: str) -> Sequence[WireItem] | Failed:
        """Return the key attributes of what is parked in the partition of an ordering key, read consistently.

        There is nothing where keys have no such partition; every failure of the call is an answer.
        """
        ...

    def is_overtaken(self, table: str, image: WireItem) -> bool | Failed:
        """Whether a later record of the same ordering key is there and published; every failure is an answer."""
        ...

    def refuse_again(self, table: str, item: WireItem, parking: Parking) -> str | None:
        """Note that a parked record was refused once more; return why that was not done, if it was not."""
        ...

    def discard(self, table: str, item: WireItem, reason: str, now_ms: int) -> bool | str | Failed:
        """Make a parked record a discarded one; False when it is parked no more, a text why this one cannot be.

        Every failure of the call is an answer.
        """
        ...

    def unlist(self, table: str, record: WireItem) -> bool | Failed:
        """Take a record out of the index that is parked apart; every failure of the call is an answer."""
        ...


class Leases(Protocol):
    """Who may sweep a partition of the index."""

    def read(self, table: str, shard: str) -> LeaseFound | Failed:
        """Read the lease of a partition of the index, consistently; every failure of the call is an answer."""
        ...

    def write(self, table: str, asked: WriteLease) -> LeaseWritten | Failed:
        """Store a lease, if what is there is as it was seen; every failure of the call is an answer."""
        ...

    def read_all(self, table: str, shards: Sequence[str]) -> Mapping[str, Lease]:
        """Return the leases that there are of up to 100 partitions. Raises TableUnavailable."""
        ...


class Store(Protocol):
    """The table, as the writing side sees it."""

    @property
    def region(self) -> str | None:
        """The AWS Region of the table, None when it is not known."""
        ...

    def transact(self, request: Mapping[str, Any]) -> Answer:
        """Send one TransactWriteItems request, once, and say what came back; every failure of the call is an answer."""
        ...

    def read(self, table: str, key: WireItem) -> ReadAnswer:
        """Read one item consistently; every failure of the call is an answer."""
        ...
