"""How what a fault broke came to be done after all: the other half of the histogram of a simulation.

A fault without a recovery tests nothing: either it struck where nothing was open, or the run never got over it. So each
fault of a run is put beside what happened to the events that it concerned: those of the invocation that met it, those
of the shard or of the destination that were under way, those that a trimming took, those of the record that went. A
strike that concerned none of them is not an effective one.

    nothing was open            there were none, or all of them had been accepted or parked before (which they have to
                                be, for a batch to be redelivered)
    in the invocation           they were accepted, by a consumer applied, in the invocation that met the fault
    parked                      it ended with one of them parked, the others accepted
    delivered again             the event source handed their records to another invocation, or a queue their messages
    given up                    the event source discarded them, to its on-failure destination
    trimmed                     they went out of the stream unread
    swept, redriven             a sweeper published them, or an operator
    read on                     for faults of the stream and its source, and of messages: they were accepted, parked or
                                applied later
    settled, left pending       for faults of settling: whether all records that were open for it were settled later
    told committed, told failed, told unknown, died    for faults that a writer met: what it was told then
    open                        not done at the end; there is a violation then
"""

from __future__ import annotations

from collections import Counter
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.consuming.facts import CONSUMER, Carrying, Queued
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Discarded,
    Faulted,
    Invoked,
    Moved,
    Rejected,
    Swallowed,
    Told,
    Trimmed,
    Written,
)
from dynamodb_outbox.testing.simulation.faults import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.history import Born, History

__all__ = ["NOTHING_OPEN", "recoveries"]

_TOLD = frozenset(PARTS["writer"])
_SETTLES = frozenset(kind for kind in PARTS["table"] if kind.startswith("settle"))
_HELD_MS = 200
"""For so long, at least, records are held back."""
NOTHING_OPEN = "nothing was open"
UNNOTICED = "lost unnoticed"
"""By a bus that had just vanished."""
_RECOVERED = ("swept", "redriven")
"""By somebody else than the relay."""


def recoveries(of: History) -> Counter[tuple[str, str]]:
    """Count the faults of a run by kind and recovery."""
    writers = {fact.writer for _, fact in of.each(Told)}
    return Counter((fault.kind, _recovery(of, index, fault, writers)) for index, fault in of.each(Faulted))


def _recovery(of: History, index: int, fault: Faulted, writers: Collection[str]) -> str:
    invoked = of.invoked.get(fault.invocation)
    if fault.where == CONSUMER:
        return _consumed(of, index, fault)
    if invoked is not None:
        return (_settled if fault.kind in _SETTLES else _of_invocation)(of, index, invoked)
    if of.destination_of(fault.invocation) is not None:
        return _by_recovery(of, index, fault.invocation)
    if fault.process or fault.kind in _TOLD or fault.where in writers:
        return _told(of, index, fault)
    if fault.kind == "redelivered":
        return _delivered_again(of, index, fault)
    concerned = _CONCERNED.get(fault.kind, _under_way)(of, index, fault)
    destinations = [fault.where] if fault.where in of.terms.destinations else of.terms.destinations
    return _in_the_end(of, index, concerned, destinations)


# --- which events a fault concerns that no invocation met -------------------------------------------------------------


def _under_way(of: History, index: int, fault: Faulted) -> list[Born]:
    """Return what was committed before, of one shard if it is one that the fault met."""
    before = [one for one in of.born.values() if one.index < index]
    return [one for one in before if not fault.shard or of.places.get(one.record, ("",))[0] == fault.shard]


def _of_the_family(of: History, index: int, fault: Faulted) -> list[Born]:
    """Return what was under way in a shard that was split, and what came later of its partitions."""
    inside = {record[0] for record, place in of.places.items() if place[0] == fault.shard}
    later = [one for one in of.born.values() if one.index > index and one.record[0] in inside]
    return [*_under_way(of, index, fault), *later]


def _held_back(of: History, index: int, fault: Faulted) -> list[Born]:
    """Return the events of records that were written when it began, and could not be read."""
    written = takewhile(lambda fact: fact.at_ms <= fault.at_ms + _HELD_MS, islice(of.facts, index, None))
    items = [fact.item for fact in written if isinstance(fact, Written) and fact.shard == fault.shard]
    return [one for item in dict.fromkeys(items) for one in of.records.get(item, ())]


def _taken_away(of: History, index: int, _: Faulted) -> list[Born]:
    """Return what a trimming took out of the stream."""
    trimmed = [fact for fact in _at_once(of, index) if isinstance(fact, Trimmed)]
    gone = {(fact.shard, number) for fact in trimmed for number in fact.numbers}
    return [one for record, events in of.records.items() if of.places.get(record) in gone for one in events]


def _of_the_item(of: History, index: int, fault: Faulted) -> list[Born]:
    """Return the events of the record that was deleted."""
    for at, fact in of.each(Written):
        if at > index and (fact.kind, fact.item[0]) == ("REMOVE", fault.where):
            return of.records.get(fact.item, [])
    return []


def _nothing(*_: object) -> list[Born]:
    """Return nothing: a record of another Region is not for those here."""
    return []


_CONCERNED: dict[str, Callable[[History, int, Faulted], list[Born]]] = {
    "shard_split": _of_the_family,
    "late_visibility": _held_back,
    "trim": _taken_away,
    "ttl_delete": _of_the_item,
    "operator_delete": _of_the_item,
    "replicated": _nothing,
}


def _at_once(of: History, index: int) -> Iterator[Fact]:
    """Yield what happened after a fault in its own millisecond."""
    return takewhile(lambda fact: fact.at_ms == of.facts[index].at_ms, islice(of.facts, index, None))


# --- what became of them ----------------------------------------------------------------------------------------------


def _delivered_again(of: History, index: int, fault: Faulted) -> str:
    """Say whether there were events in a batch that was done and is handed over again."""
    later = (fact for at, fact in of.each(Invoked) if at > index)
    again = next((fact for fact in later if (fact.destination, fact.shard) == (fault.where, fault.shard)), None)
    return NOTHING_OPEN if again is None or of.records.keys().isdisjoint(again.inserted) else "delivered again"


def _of_invocation(of: History, index: int, invoked: Invoked) -> str:
    """Say what became of the events of an invocation that met a fault."""
    destination = invoked.destination
    open_ones = [
        one
        for record in invoked.inserted
        for one in of.records.get(record, ())
        if not _is_done_before(of, destination, one, index)
    ]
    if not open_ones:
        return NOTHING_OPEN
    how = {_how(of, destination, one, invoked.invocation) for one in open_ones}
    worst = ("open", "trimmed", UNNOTICED, "given up", *_RECOVERED, "delivered again", "parked", "in the invocation")
    return next(one for one in worst if one in how)


def _by_recovery(of: History, index: int, invocation: int) -> str:
    """Say what came of a fault that a sweep met, or an operator: of what was open and sweeps, or operators, took on."""
    how = {
        _how(of, destination, one, invocation)
        for one in of.born.values()
        for destination in of.terms.destinations
        if one.index < index and (taken := of.taken_at(destination, one)) is not None and taken > index
    }
    return next((one for one in ("in the invocation", "parked", *_RECOVERED) if one in how), NOTHING_OPEN)


def _settled(of: History, index: int, invoked: Invoked) -> str:
    """Say whether the records of an invocation whose settling met a fault were settled after it."""
    moved = of.each(Moved)
    left = {record for record in invoked.inserted if record in of.records}
    left -= {fact.record for at, fact in moved if at < index}
    if not left:
        return NOTHING_OPEN
    return "left pending" if left - {fact.record for at, fact in moved if at > index} else "settled"


def _how(of: History, destination: str, one: Born, invocation: int) -> str:
    done = of.done_at(destination, one)
    if done is None:
        return "open"
    taken = of.taken_at(destination, one)
    by = 0 if taken is None else getattr(of.facts[taken], "invocation", 0)
    if by in of.sweeps or by in of.operated_in:
        done = done if taken is None else taken
        if by != invocation:
            return _RECOVERED[by in of.operated_in]
    fact = of.facts[done]
    if isinstance(fact, Accepted):
        return "in the invocation" if fact.invocation == invocation else "delivered again"
    if isinstance(fact, Swallowed):
        return UNNOTICED
    if isinstance(fact, (Moved, Rejected)):  # refused, of a record that was parked before
        return "parked" if fact.invocation == invocation else "delivered again"
    return "given up" if isinstance(fact, Discarded) else "trimmed"


def _in_the_end(of: History, index: int, concerned: Iterable[Born], destinations: Iterable[str]) -> str:
    """Say how events ended that a fault outside of invocations concerned."""
    how = {
        _how(of, destination, one, 0)
        for one in concerned
        for destination in destinations
        if not _is_done_before(of, destination, one, index)
    }
    for worst in ("open", "trimmed", UNNOTICED, "given up", *_RECOVERED):
        if worst in how:
            return worst
    return "read on" if how else NOTHING_OPEN


def _is_done_before(of: History, destination: str, one: Born, index: int) -> bool:
    done = of.done_at(destination, one)
    return done is not None and done < index


def _consumed(of: History, index: int, fault: Faulted) -> str:
    """Say what became of the events of a delivery that met a fault, or of a message that did."""
    of_message = fault.kind.startswith("message_")
    met = of.facts[index + 1] if of_message else of.delivered.get(fault.invocation)
    events = met.events if isinstance(met, Carrying) else ()
    if isinstance(met, Queued) and met.again:
        return "delivered again"
    applied = [of.applied.get(event) for event in events]
    done = [at for at in applied if at is not None]
    if len(done) < len(applied):
        return "open"
    if all(at < index for at in done):
        return NOTHING_OPEN
    if isinstance(met, Queued):
        return "read on"
    by = {getattr(of.facts[at], "invocation", 0) for at in done if at > index}
    return "in the invocation" if by == {fault.invocation} else "delivered again"


def _told(of: History, index: int, fault: Faulted) -> str:
    """Say what the writer was told that met the fault."""
    writer = fault.process.rpartition(".")[0] or fault.where
    told = (fact for at, fact in of.each(Told) if at > index and fact.writer == writer)
    outcome = next(told, None)
    if outcome is None:
        return NOTHING_OPEN
    return "died" if outcome.outcome == "died" else f"told {outcome.outcome}"
