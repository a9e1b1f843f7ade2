"""P1 and P6: an event exists if and only if its change was committed, once, and whoever asked for it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.facts import Committed, Intended, Told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.testing.simulation.history import Found, History, Mark

__all__ = ["commands_commit_once", "committed_as_intended", "no_phantoms", "writers_know_the_truth"]


def no_phantoms(of: History) -> Iterator[Found]:
    """P1. Every event that a bus accepted belongs to a transaction that was committed before."""
    for (destination, event_id), index in of.accepted.items():
        one = of.born.get(event_id)
        if one is None:
            yield f"{destination} accepted an event with the id {event_id!r}, which nobody committed", (index,)
        elif one.index > index:
            yield f"{destination} accepted {one.name} before it was committed", (index, one.index)


def committed_as_intended(of: History) -> Iterator[Found]:
    """P1. A transaction that was committed holds what its writer put into it: all changes, all events, in order."""
    for index, fact in of.each(Committed):
        at = of.intended.get((fact.change, fact.attempt))
        meant = None if at is None else of.facts[at]
        if at is None or not isinstance(meant, Intended):
            yield f"{fact.change} was committed, and nobody had asked for it", (index,)
        elif fact.items != meant.items:
            amiss = "/".join(min(fact.items ^ meant.items))
            what = "with a change nobody asked for" if fact.items - meant.items else "without a change asked for"
            yield f"{fact.change} was committed {what}, of the item {amiss}", (at, index)
        elif _marks(of, fact) != _marks_meant(meant):
            carried = sum(len(events) for _, events in fact.records)
            s = "" if carried == 1 else "s"
            words = f"{fact.change} was committed with {carried} event{s}, not the {len(meant.keys)} it was given"
            yield words, (at, index)


def writers_know_the_truth(of: History) -> Iterator[Found]:
    """P1. What a writer was told is true: "committed" is in the table, with these ids, and "failed" never comes to be.

    Failed is said of one attempt; what an earlier one comes to after it was begun, nobody could have known.
    """
    committed: dict[str, tuple[int, Committed]] = {}
    for index, fact in of.each(Committed):
        committed.setdefault(fact.change, (index, fact))
    for index, told in of.each(Told):
        at, done = committed.get(told.change, (None, None))
        if told.outcome == "committed" and (at is None or at > index):
            yield f"{told.writer} was told that {told.change} is committed, and it is not", (index,)
        elif at is None or done is None:
            continue
        elif told.outcome == "committed" and told.events != _ids(of, done):
            yield f"{told.writer} was given other ids for the events of {told.change} than they have", (at, index)
        elif told.outcome == "failed":
            begun = of.intended.get((told.change, told.attempt), index)
            if done.attempt == told.attempt or at < begun:
                yield f"{told.writer} was told that {told.change} failed, and it is committed", (at, index)


def commands_commit_once(of: History) -> Iterator[Found]:
    """P6. A change is committed at most once, however often its writer asked for it."""
    first: dict[str, int] = {}
    for index, fact in of.each(Committed):
        if first.setdefault(fact.change, index) != index:
            yield f"{fact.change} was committed twice", (first[fact.change], index)


def _marks(of: History, fact: Committed) -> dict[str, list[Mark | None]]:
    """Return the marks of the events of a transaction by their keys, in the order in which it has them."""
    found: dict[str, list[Mark | None]] = {}
    for _, events in fact.records:
        for event in events:
            one = of.born[event.id]
            found.setdefault(one.key, []).append(one.mark)
    return found


def _marks_meant(fact: Intended) -> dict[str, list[Mark | None]]:
    return {key: [(fact.change, n) for n, of_n in enumerate(fact.keys) if of_n == key] for key in fact.keys}


def _ids(of: History, fact: Committed) -> tuple[str, ...]:
    """Return the ids of the events of a transaction, in the order of emit."""
    ones = [of.born[event.id] for _, events in fact.records for event in events]
    return tuple(one.event_id for one in sorted(ones, key=lambda one: one.mark[1] if one.mark else 0))
