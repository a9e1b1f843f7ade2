"""How what a fault broke came to be done after all: the other half of the histogram of a simulation.

A fault without a recovery tests nothing: either it struck where nothing was open, or the run never got over it. So each
fault of a run is put beside what happened to the events that it concerned:

    nothing was open            all of them had been accepted or parked before
    in the invocation           they were accepted in the invocation that met the fault
    parked                      it ended with one of them parked, the others accepted
    delivered again             the event source handed their records to another invocation
    given up                    the event source discarded them, to its on-failure destination
    trimmed                     they went out of the stream unread
    read on                     for faults of the stream and its source: what came after it was accepted
    settled, left pending       for faults of settling: whether all records that were open for it were settled later
    told committed, told failed, told unknown, died    for faults of writers: what the writer was told then
    open                        not done at the end; there is a violation then
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.facts import Accepted, Faulted, Heard, Invoked, Moved, Sent, Told
from dynamodb_outbox.testing.simulation.faults import PARTS
from dynamodb_outbox.testing.simulation.history import history

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dynamodb_outbox.testing.simulation.facts import Fact, RecordKey
    from dynamodb_outbox.testing.simulation.history import Born, History, Terms

__all__ = ["recoveries"]

_WRITERS = frozenset(PARTS["writer"])
_ITEMS = frozenset(PARTS["items"])
_SETTLES = frozenset(kind for kind in PARTS["table"] if kind.startswith("settle"))
_NOTHING = "nothing was open"


def recoveries(facts: list[Fact], terms: Terms) -> Counter[tuple[str, str]]:
    """Count the faults of a run by kind and recovery."""
    of = history(facts, terms)
    found: Counter[tuple[str, str]] = Counter()
    for index, fact in enumerate(facts):
        if isinstance(fact, Faulted):
            found[fact.kind, _recovery(of, index, fact)] += 1
    return found


def _recovery(of: History, index: int, fault: Faulted) -> str:
    if fault.kind in _WRITERS:
        return _told(of, index)
    invoked = of.invoked.get(fault.invocation)
    if invoked is not None and fault.kind in _SETTLES:
        return _settled(of, index, invoked)
    if invoked is not None:
        return _of_invocation(of, index, invoked)
    if fault.kind in _ITEMS:
        concerned = [one for one in of.keys.get(fault.where, ()) if one.index < index]
    else:
        concerned = [one for one in of.born.values() if fault.kind != "trim" or one.index < index]
    return _in_the_end(of, index, concerned)


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
        return _NOTHING
    how = {_how(of, destination, one, invoked.invocation) for one in open_ones}
    worst = ("open", "trimmed", "given up", "delivered again", "parked", "in the invocation")
    return next(one for one in worst if one in how)


def _settled(of: History, index: int, invoked: Invoked) -> str:
    """Say whether the records of an invocation whose settling met a fault were settled after it."""
    left = {record for record in invoked.inserted if record in of.records} - _moved(of.facts[:index])
    if not left:
        return _NOTHING
    return "left pending" if left - _moved(of.facts[index:]) else "settled"


def _moved(facts: Sequence[Fact]) -> set[RecordKey]:
    return {fact.record for fact in facts if isinstance(fact, Moved)}


def _how(of: History, destination: str, one: Born, invocation: int) -> str:
    done = of.done_at(destination, one)
    if done is None:
        return "open"
    fact = of.facts[done]
    if isinstance(fact, Accepted):
        return "in the invocation" if fact.invocation == invocation else "delivered again"
    if done == of.parked.get(one.event_id):
        return "parked" if getattr(fact, "invocation", 0) == invocation else "delivered again"
    return "trimmed" if done == of.trimmed.get(of.places[one.record]) else "given up"


def _in_the_end(of: History, index: int, concerned: Iterable[Born]) -> str:
    """Say how events ended that a fault outside of invocations concerned."""
    how = {
        _how(of, destination, one, 0)
        for one in concerned
        for destination in of.terms.destinations
        if not _is_done_before(of, destination, one, index)
    }
    for worst in ("open", "trimmed"):
        if worst in how:
            return worst
    return "read on" if how else _NOTHING


def _is_done_before(of: History, destination: str, one: Born, index: int) -> bool:
    done = of.done_at(destination, one)
    return done is not None and done < index


def _told(of: History, index: int) -> str:
    """Say what the writer was told that had a call under way when the fault struck."""
    under_way: dict[int, str] = {}
    for fact in of.facts[:index]:
        if isinstance(fact, Sent) and not fact.invocation:
            under_way[fact.call] = fact.process.rpartition(".")[0]
        elif isinstance(fact, Heard):
            under_way.pop(fact.call, None)
    writers = set(under_way.values())
    told = (fact for fact in of.facts[index:] if isinstance(fact, Told) and (not writers or fact.writer in writers))
    outcome = next(told, None)
    if outcome is None:
        return _NOTHING
    return "died" if outcome.outcome == "died" else f"told {outcome.outcome}"
