"""The ledger of one run, looked up: which event was born where, who accepted it and when, where its record went.

Built once and read by every invariant. An *index* is the place of a fact in the ledger, and so in the order of things:
two facts may share a millisecond, never an index. Of what can happen again and again (an acceptance, a park) the first
time is kept, because the promises are about the first time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from dynamodb_outbox.testing.simulation.consuming.facts import Applied, Delivered
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Checkpointed,
    Committed,
    Discarded,
    Ended,
    Fact,
    Faulted,
    Gap,
    Intended,
    Invoked,
    Left,
    Moved,
    Operated,
    Rejected,
    Sent,
    Started,
    Swallowed,
    Swept,
    Trimmed,
    Written,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.facts import LeftRecord, RecordKey

__all__ = ["POISON", "Born", "Found", "History", "Mark", "Place", "Terms", "history", "mark_of"]

CONTENT = frozenset(("InvalidArgument", "MalformedDetail", "RedactionFailure"))
"""Codes with which a bus refuses an event for what it says, so that it would do so for ever [BC]."""

OPERATOR = "operator"
"""By whom an item is changed that somebody changes by hand."""

UNNOTICED_MS = 60_000
"""For how long a bus may be gone without anybody noticing: a relay asks for it once a minute."""
POISON = "poison"
"""The member of an event's data that makes it unacceptable, when it is true."""

Mark = tuple[str, int]
"""What the data of an event say of it: the change, and which of its events it is."""

Place = tuple[str, str]
"""A shard and a sequence number in it."""

Found = tuple[str, tuple[int, ...]]
"""What an invariant yields: words, and the indexes of facts."""

F = TypeVar("F", bound=Fact)


@dataclass(frozen=True)
class Terms:
    """What was promised in a run.

    destinations    each has every event to get
    ordered_keys    P4 holds between the records of one key
    ordered_records P4 holds within a record
    parks_keys      the relay was asked to park what follows a parked event in its key
    parked_keys     nothing that follows a parked event in its key is accepted
    settle          how records say that they are settled
    swept           there is a sweeper for what the stream has left behind
    min_age_ms      how old a record is that it publishes, by its clock
    redriven        an operator publishes what the event source gave up
    """

    destinations: tuple[str, ...] = ("orders",)
    ordered_keys: bool = True
    ordered_records: bool = True
    parks_keys: bool = False
    parked_keys: bool = False
    settle: str = "expire"
    swept: bool = False
    min_age_ms: int = 0
    redriven: bool = False


@dataclass(frozen=True)
class Born:
    """An event as its commit made it: `name` is short and for people (`A.3`: the third event of key A)."""

    index: int
    event_id: str
    key: str
    name: str
    record: RecordKey
    position: int
    at_ms: int
    mark: Mark | None = None
    event: Event | None = None
    unfit: bool = False
    """Whether nobody could ever send it, or read it."""
    poison: bool = False
    """Whether its data make it one that a bus does not accept, unless it takes everything."""
    dated_ms: int | None = None
    """The date of its record in the index, by its writer's clock; None: a sweeper does not see it."""


@dataclass(frozen=True)
class Park:
    """The first time that a record is stored as parked because of an event; `destination` is None where nobody says."""

    index: int
    destination: str | None
    event: Born


@dataclass
class History:
    """What the ledger says, by what one asks for. `terms` are those of the run."""

    facts: Sequence[Fact]
    terms: Terms
    by_kind: defaultdict[type[Fact], list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))
    """kind -> the facts of it, each with its index; see `each`."""
    born: dict[str, Born] = field(default_factory=dict)
    records: dict[RecordKey, list[Born]] = field(default_factory=dict)
    keys: dict[str, list[Born]] = field(default_factory=dict)
    accepted: dict[tuple[str, str], int] = field(default_factory=dict)
    """(destination, event) -> index of the first acceptance."""
    gone: dict[tuple[str, str], int] = field(default_factory=dict)
    """(destination, event) -> index of the first time that a bus which had just vanished said that it accepted it."""
    refused: dict[tuple[str, str], int] = field(default_factory=dict)
    """(destination, event) -> index of the first time that it was refused for what it says."""
    parks: dict[str, Park] = field(default_factory=dict)
    """event -> the first time that its record was stored as parked because of it."""
    parked_records: dict[RecordKey, int] = field(default_factory=dict)
    """record -> index of the first time that it was stored as parked."""
    operated: set[RecordKey] = field(default_factory=set)
    """Items that somebody deleted."""
    left: dict[RecordKey, list[LeftRecord]] | None = None
    """record -> what the table has of it at the end; None: the ledger does not go so far."""
    intended: dict[tuple[str, int], int] = field(default_factory=dict)
    """(change, attempt) -> index of what was to be written."""
    places: dict[RecordKey, Place] = field(default_factory=dict)
    """record -> where the stream has its INSERT."""
    inserts: dict[str, list[tuple[int, RecordKey]]] = field(default_factory=dict)
    """shard -> the records that it carries, by number."""
    written: dict[str, list[str]] = field(default_factory=dict)
    """shard -> all numbers in it, in order."""
    invoked: dict[int, Invoked] = field(default_factory=dict)
    sweeps: dict[int, tuple[int, Swept]] = field(default_factory=dict)
    """invocation -> where a sweep began."""
    operated_in: dict[int, Operated] = field(default_factory=dict)
    """invocation -> what an operator did."""
    ended: dict[int, Ended] = field(default_factory=dict)
    faulted: dict[int, set[str]] = field(default_factory=dict)
    """invocation -> kinds of the faults in it."""
    given_up: dict[tuple[str, Place], int] = field(default_factory=dict)
    """(destination, place) -> index at which the event source gave the stream record up."""
    trimmed: dict[Place, int] = field(default_factory=dict)
    missed: dict[tuple[str, Place], int] = field(default_factory=dict)
    """(destination, place) -> index at which it was clear that it is never read: trimmed before, or not asked for."""
    checkpoints: dict[tuple[str, str], int] = field(default_factory=dict)
    """(destination, shard) -> the last checkpoint, as a number."""
    applied: dict[str, int] = field(default_factory=dict)
    """event -> index of the first time that a consumer applied it."""
    delivered: dict[int, Delivered] = field(default_factory=dict)
    senders: dict[int, str] = field(default_factory=dict)
    """call -> the process that sent it."""
    _done: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """What `done_at` found; it is asked for again and again."""

    def each(self, kind: type[F]) -> Sequence[tuple[int, F]]:
        """Return the facts of a kind, in order, each with its index."""
        return self.by_kind.get(kind, [])

    def among(self, *kinds: type[Fact]) -> Sequence[tuple[int, Fact]]:
        """Return the facts of several kinds, in order, each with its index."""
        found: list[tuple[int, Fact]] = []
        for kind in kinds:
            found += self.each(kind)
        found.sort(key=itemgetter(0))
        return found

    def parked_at(self, destination: str, one: Born) -> int | None:
        """Return the index at which an event was parked for a destination: by it, or by another when it refused it."""
        park = self.parks.get(one.event_id)
        if park is None or park.destination in (None, destination):
            return None if park is None else park.index
        refused = self.refused.get((destination, one.event_id))
        return None if refused is None else max(park.index, refused)

    def skipped_at(self, destination: str, one: Born) -> int | None:
        """Return the index from which on an event's place in the order is nobody's promise.

        It was parked for the destination, or its source gave it up or missed it: what an invocation does with it that
        the source forgot comes when it comes.
        """
        place = self.places.get(one.record)
        lost = [] if place is None else [book.get((destination, place)) for book in (self.given_up, self.missed)]
        return _first(self.parked_at(destination, one), *lost)

    def taken_at(self, destination: str, one: Born) -> int | None:
        """Return the index at which an event was accepted by a destination or parked for it, whichever was first."""
        return _first(self.said_at(destination, one), self.parked_at(destination, one))

    def said_at(self, destination: str, one: Born) -> int | None:
        """Return the index at which a bus first said that it accepted an event: it did, or nobody could know yet."""
        asked = destination, one.event_id
        return _first(self.accepted.get(asked), self.gone.get(asked))

    def done_at(self, destination: str, one: Born) -> int | None:
        """Return the index at which an event was done for a destination: accepted, parked, given up or never read."""
        asked = destination, one.event_id
        if asked not in self._done:
            place = self.places.get(one.record)
            found = [self.taken_at(destination, one)]
            if place is not None:
                found += [self.given_up.get((destination, place)), self.missed.get((destination, place))]
            self._done[asked] = _first(*found)
        return self._done[asked]

    def destination_of(self, invocation: int) -> str | None:
        """Return where an invocation publishes to: of a function, of a sweeper, or what an operator did."""
        if invocation in self.sweeps:
            return self.sweeps[invocation][1].destination
        found = self.invoked.get(invocation) or self.operated_in.get(invocation)
        return None if found is None else found.destination

    def instance_of(self, invocation: int) -> str | None:
        """Return the instance that an invocation of a function, or a sweep, ran in."""
        found = self.sweeps[invocation][1] if invocation in self.sweeps else self.invoked.get(invocation)
        return None if found is None else found.instance

    def name(self, event_id: str) -> str:
        """Return an event's short name; the id itself of one that nobody committed."""
        one = self.born.get(event_id)
        return event_id if one is None else one.name


def _first(*indexes: int | None) -> int | None:
    return min([index for index in indexes if index is not None], default=None)


def mark_of(data: Any) -> Mark | None:
    """Return the mark in the data of an event; None when there is none."""
    change, n = (data.get("change"), data.get("n")) if isinstance(data, dict) else (None, None)
    return (change, n) if isinstance(change, str) and type(n) is int else None


def history(facts: Sequence[Fact], terms: Terms) -> History:
    """Read the whole ledger once."""
    found = History(facts, terms)
    for index, fact in enumerate(facts):
        kind = type(fact)
        found.by_kind[kind].append((index, fact))
        reader = _READERS.get(kind)
        if reader is not None:
            reader(found, index, fact)
    return found


def _intended(found: History, index: int, fact: Intended) -> None:
    found.intended.setdefault((fact.change, fact.attempt), index)


def _committed(found: History, index: int, fact: Committed) -> None:
    dates = fact.dated or (None,) * len(fact.records)
    for (record, events), dated_ms in zip(fact.records, dates, strict=True):
        for position, event in enumerate(events):
            key = event.key or record[0]
            of_key = found.keys.setdefault(key, [])
            data = json.loads(event.payload)
            poison = isinstance(data, dict) and data.get(POISON) is True
            name, mark = f"{key}.{len(of_key) + 1}", mark_of(data)
            unfit = mark is not None and mark[1] in _unfit(found, fact)
            one = Born(index, event.id, key, name, record, position, fact.at_ms, mark, event, unfit, poison, dated_ms)
            of_key.append(one)
            found.born.setdefault(event.id, one)
            found.records.setdefault(record, []).append(one)


def _unfit(found: History, fact: Committed) -> frozenset[int]:
    at = found.intended.get((fact.change, fact.attempt))
    meant = None if at is None else found.facts[at]
    return meant.unfit if isinstance(meant, Intended) else frozenset()


def _accepted(found: History, index: int, fact: Accepted) -> None:
    found.accepted.setdefault((fact.destination, fact.event_id), index)


def _swallowed(found: History, index: int, fact: Swallowed) -> None:
    if fact.since_ms is not None and fact.sent_ms < fact.since_ms + UNNOTICED_MS:
        found.gone.setdefault((fact.destination, fact.event_id), index)


def _rejected(found: History, index: int, fact: Rejected) -> None:
    if fact.code in CONTENT:
        found.refused.setdefault((fact.destination, fact.event_id), index)


def _moved(found: History, index: int, fact: Moved) -> None:
    if fact.state == "parked":
        found.parked_records.setdefault(fact.record, index)
        destination = found.destination_of(fact.invocation)
        for one in found.records.get(fact.record, ()):
            if fact.events is None or str(one.position) in fact.events:
                found.parks.setdefault(one.event_id, Park(index, destination, one))


def _left(found: History, _: int, fact: Left) -> None:
    found.left = {}
    for one in fact.records:
        found.left.setdefault(one.record, []).append(one)


def _sent(found: History, _: int, fact: Sent) -> None:
    found.senders[fact.call] = fact.process


def _written(found: History, _: int, fact: Written) -> None:
    if fact.by == OPERATOR and fact.kind == "REMOVE":
        found.operated.add(fact.item)
    found.written.setdefault(fact.shard, []).append(fact.number)
    if fact.kind == "INSERT" and fact.item in found.records and fact.item not in found.places:
        found.places[fact.item] = (fact.shard, fact.number)
        found.inserts.setdefault(fact.shard, []).append((int(fact.number), fact.item))


def _invoked(found: History, _: int, fact: Invoked) -> None:
    found.invoked[fact.invocation] = fact


def _applied(found: History, index: int, fact: Applied) -> None:
    for event in fact.events:
        found.applied.setdefault(event, index)


def _delivered(found: History, _: int, fact: Delivered) -> None:
    found.delivered[fact.invocation] = fact


def _swept(found: History, index: int, fact: Swept) -> None:
    found.sweeps[fact.invocation] = index, fact


def _operated(found: History, _: int, fact: Operated) -> None:
    found.operated_in[fact.invocation] = fact


def _ended(found: History, _: int, fact: Ended) -> None:
    found.ended[fact.invocation] = fact


def _faulted(found: History, _: int, fact: Faulted) -> None:
    found.faulted.setdefault(fact.invocation, set()).add(fact.kind)


def _discarded(found: History, index: int, fact: Discarded) -> None:
    for number in fact.numbers:
        found.given_up.setdefault((fact.destination, (fact.shard, number)), index)


def _trimmed(found: History, index: int, fact: Trimmed) -> None:
    for number in fact.numbers:
        found.trimmed.setdefault((fact.shard, number), index)


def _started(found: History, index: int, fact: Started) -> None:
    for shard, last in fact.passed:
        for number in found.written.get(shard, ()):
            if int(number) <= int(last):
                found.missed.setdefault((fact.destination, (shard, number)), index)


def _gap(found: History, index: int, fact: Gap) -> None:
    after = -1 if fact.after is None else int(fact.after)
    for shard, number in found.trimmed:
        if shard == fact.shard and int(number) > after:
            found.missed.setdefault((fact.destination, (shard, number)), index)


def _checkpointed(found: History, _: int, fact: Checkpointed) -> None:
    where = (fact.destination, fact.shard)
    found.checkpoints[where] = max(int(fact.number), found.checkpoints.get(where, -1))


_READERS: dict[type, Callable[..., None]] = {
    Accepted: _accepted,
    Applied: _applied,
    Checkpointed: _checkpointed,
    Committed: _committed,
    Delivered: _delivered,
    Discarded: _discarded,
    Ended: _ended,
    Faulted: _faulted,
    Gap: _gap,
    Intended: _intended,
    Invoked: _invoked,
    Left: _left,
    Moved: _moved,
    Operated: _operated,
    Rejected: _rejected,
    Sent: _sent,
    Started: _started,
    Swallowed: _swallowed,
    Swept: _swept,
    Trimmed: _trimmed,
    Written: _written,
}
