"""Records, a table, leases and a bus for sweeps of the core alone: no client, no thread, no clock but what is said.

The index is the table's, unless a test holds an older one (`stale`). What is published is accepted and settled, but for
what the test says of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import pending
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.place import Place, place_of
from dynamodb_outbox.core.sweeping.commands import (
    Command,
    Done,
    Fact,
    Failed,
    KeyFound,
    KeysFound,
    LeaseFound,
    LeaseWritten,
    List,
    Listed,
    Publish,
    Published,
    ReadKeys,
    ReadLease,
    Settings,
    SweepReport,
    Tick,
    WaitUntil,
    WriteLease,
)
from dynamodb_outbox.core.sweeping.leases import Now
from dynamodb_outbox.core.sweeping.machine import Sweep
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.record.leases import Lease
    from dynamodb_outbox.core.record.pending import Entry
    from dynamodb_outbox.core.values import WireItem

LAYOUT = Layout(index_shards=1)
SHARD = "00"
NOW_MS = 1_769_860_800_000
MINUTE = 60_000
MIN_AGE = 5 * MINUTE
LEAST = 4_000
LEASE = 60_000


def record(
    number: int,
    *,
    key: str = "A",
    age_ms: int = 10 * MINUTE,
    sequence: str | None = None,
    subject: str | None = None,
    layout: Layout = LAYOUT,
    events: Sequence[Event] = (),
    **more: Any,
) -> WireItem:
    """Return a pending record, as a writer stores it, with a UUID of its number; `more` are attributes in its place."""
    at_ms = NOW_MS - age_ms
    record_id = uuid(number, at_ms)
    time = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    event = Event(record_id, "t", "s", "{}", time, key=key, subject=subject, sequence=sequence)
    draft = RecordDraft(record_id, key, tuple(events) or (event,), 0, 1)
    item = encode_record(draft, Origin(record_id, at_ms, "eu-west-1"), layout)
    return {name: value for name, value in {**item, **more}.items() if value is not None}


def uuid(number: int, at_ms: int = NOW_MS) -> str:
    """Return a UUID of version 7 for a number, made at that time."""
    digits = f"{at_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}"


def number_of(item: WireItem) -> int:
    """Return the number that a record was made with."""
    return int(str(item["sk"]["S"]).partition("#")[2][24:36], 16)


@dataclass
class World:
    """A table with its index and leases, and a bus; `steady_ms` and `wall_ms` are two clocks."""

    items: dict[Place, WireItem] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    layout: Layout = LAYOUT
    wall_ms: int = NOW_MS
    steady_ms: int = 1_000
    stale: list[WireItem] | None = None
    accepted: list[int] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    unsettled: set[int] = field(default_factory=set)
    log: list[Command] = field(default_factory=list)
    page_items: int = 1_000

    def put(self, *records: WireItem) -> World:
        """Store records."""
        for item in records:
            self.items[place_of(item, self.layout)] = item
        return self

    def settle(self, item: WireItem) -> None:
        """Make a record published."""
        left = {name: value for name, value in item.items() if name != "ob_pending"}
        self.items[place_of(item, self.layout)] = {**left, "state": {"S": "published"}}

    @property
    def now(self) -> Now:
        """What both clocks show."""
        return Now(self.wall_ms, self.steady_ms)

    def pending(self) -> list[int]:
        """Return the numbers of the records that are pending."""
        return sorted(number_of(item) for item in self.items.values() if pending.is_in_index(item))

    # --- what commands do ---

    def do(self, command: Command) -> Fact:
        """Do a command as it should be done."""
        self.log.append(command)
        if isinstance(command, List):
            return self.list(command)
        if isinstance(command, ReadLease):
            return LeaseFound(self.leases.get(command.shard))
        if isinstance(command, WriteLease):
            return self.write(command)
        if isinstance(command, ReadKeys):
            return KeysFound(tuple(self.read(entries) for entries in command.keys))
        if isinstance(command, Publish):
            return self.publish(command)
        assert isinstance(command, WaitUntil)
        passed_ms = max(0, command.at_ms - self.steady_ms)
        self.steady_ms += passed_ms
        self.wall_ms += passed_ms
        return Tick()

    def list(self, command: List) -> Listed:
        """Read a page of the index; `after` is the place of the last entry."""
        indexed = [
            item
            for item in (self.items.values() if self.stale is None else self.stale)
            if item.get("ob_pending") == {"S": command.shard}
        ]
        if command.later_than_ms is not None:
            indexed = [item for item in indexed if int(item["at"]["N"]) > command.later_than_ms]
        if command.after is not None:
            begin = self.rank(command.after)
            indexed = [item for item in indexed if self.rank(item) > begin]
        page = sorted(indexed, key=self.rank)[: command.most]
        after = {name: page[-1][name] for name in ("at", "pk", "sk")} if len(page) == command.most else None
        return Listed(tuple(pending.entry_of(item, self.layout) for item in page), after)

    def rank(self, item: WireItem) -> tuple[int, Place]:
        """Return where a record is in its partition of the index."""
        return int(item["at"]["N"]), place_of(item, self.layout)

    def write(self, command: WriteLease) -> LeaseWritten:
        """Store a lease on its condition."""
        if self.leases.get(command.shard) != command.instead_of:
            return LeaseWritten(written=False)
        self.leases[command.shard] = command.lease
        return LeaseWritten(written=True)

    def read(self, entries: Sequence[Entry]) -> KeyFound:
        """Read the partition of a key."""
        partition = entries[0].item["pk"]
        found = [item for item in self.items.values() if item["pk"] == partition and pending.is_in_index(item)]
        found.sort(key=lambda item: str(item["sk"]["S"]))
        return KeyFound(tuple(found[: self.page_items]), complete=len(found) <= self.page_items)

    def publish(self, command: Publish) -> Published:
        """Accept what is not refused, in order; what is refused holds what follows of its key."""
        held: set[str] = set()
        done = set()
        for position, item in enumerate(command.records):
            key, number = str(item["key"]["S"]), number_of(item)
            if number in self.refused or key in held:
                held.add(key)
                continue
            self.accepted.append(number)
            done.add(position)
            if number not in self.unsettled:
                self.settle(item)
        return Published(frozenset(done), accepted=len(done))


def sweep(world: World, *, shards: Sequence[str] = (SHARD,), owner: str = "me", **options: Any) -> Sweep:
    """Return a sweep of this world; `options` are settings, `until_ms` and `lag`."""
    begin = {name: options.pop(name) for name in ("lag", "until_ms") if name in options}
    begin.setdefault("until_ms", world.steady_ms + 3_600_000)
    settings = Settings(**{"least_ms": LEAST, "min_age_ms": MIN_AGE, "lease_ms": LEASE, **options})
    return Sweep(shards, world.layout, "eu-west-1", settings, owner=owner, **begin)


def run(
    machine: Sweep,
    world: World,
    do: Callable[[Command], Fact | None] = lambda _: None,
    *,
    most: int = 1_000,
    step_ms: int = 0,
) -> SweepReport:
    """Drive a sweep to its end; `do` may answer a command in the world's place, and each takes `step_ms`."""
    fact: Fact = Tick()
    for _ in range(most):
        command = machine.step(fact, world.now, 0.5)
        if isinstance(command, Done):
            return command.report
        answer = do(command)
        if answer is None:
            fact = world.do(command)
        else:
            world.log.append(command)
            fact = answer
        world.steady_ms += step_ms
        world.wall_ms += step_ms
    raise AssertionError("the sweep does not end")


def kinds(world: World) -> list[str]:
    """Return what was asked of a world, by the names of the commands."""
    return [type(command).__name__ for command in world.log]


THROTTLED = Failed("ThrottlingException", passing=True)
DENIED = Failed("AccessDeniedException", passing=False)
UNTOLD = Failed("ReadTimeoutError", passing=True, untold=True)

ROUND = ["List", "ReadLease", "WriteLease", "List", "ReadKeys", "Publish", "WriteLease"]


def first(kind: type[Command], answer: Fact, times: int = 1) -> Callable[[Command], Fact | None]:
    """Return what answers the first commands of a kind in the world's place."""
    left = [times]

    def do(command: Command) -> Fact | None:
        if isinstance(command, kind) and left[0]:
            left[0] -= 1
            return answer
        return None

    return do
