"""P2: what was committed is accepted at least once, or parked; nothing is lost, and nothing goes on for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.facts import (
    Checkpointed,
    Committed,
    Faulted,
    Heard,
    Invoked,
    Said,
    Sent,
    Written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.testing.simulation.history import Born, Found, History

__all__ = ["checkpoint_follows_done", "everything_ends", "nothing_is_lost"]

_REST_MS = 600_000
"""After the last news (a commit, a fault) everything has come to rest: longer than all pauses together."""

_SHOWN = 6
"""Facts that show an event which was not done: more would hide the last ones."""


def nothing_is_lost(of: History) -> Iterator[Found]:
    """P2. What was committed is accepted by every destination, parked, or given up to the on-failure destination.

    Lost is what will not be delivered again: it is behind the checkpoint, or was never in the stream. What was trimmed
    unread is not, where the source has a gap; what it had read before is. Where there is a sweeper, what is in its
    index is accepted or parked all the same.
    """
    for destination, one in _left(of):
        place = of.places.get(one.record)
        if of.done_at(destination, one) is not None:
            yield f"the stream had lost {one.name}, and nobody has published it", (one.index,)
        elif place is None:
            yield f"{one.name} was committed and never appeared in the stream", (one.index,)
        elif _is_passed(of, destination, place):
            shown = _invocations_with(of, destination, one)
            yield f"{one.name} was not accepted by {destination}, and its record is behind the checkpoint", shown


def everything_ends(of: History) -> Iterator[Found]:
    """P2. Once faults have stopped, everything is accepted or parked, and nothing is delivered again and again."""
    stuck = [
        (destination, one)
        for destination, one in _left(of)
        if of.done_at(destination, one) is None
        and (place := of.places.get(one.record)) is not None
        and not _is_passed(of, destination, place)
    ]
    for destination, one in sorted(stuck, key=lambda left: (left[0], left[1].event_id) not in of.refused):
        words = f"{one.name} is stuck: long after the last fault {destination} has not accepted it"
        yield words + _why_refused(of, destination, one), _attempts_with(of, destination, one)
    for destination in of.terms.destinations:
        for shard, numbers in of.written.items():
            left = _undrained(of, destination, shard, numbers)
            if left is not None:
                yield f"{left} of {shard} is before the checkpoint of {destination}, long after the last fault", ()
    news_ms = max((fact.at_ms for kind in (Committed, Faulted) for _, fact in of.each(kind)), default=0)
    late = [(index, fact) for index, fact in of.each(Invoked) if fact.at_ms > news_ms + _REST_MS]
    new = {(fact.shard, fact.number) for _, fact in of.each(Written) if fact.at_ms > news_ms + _REST_MS // 2 and late}
    for index, fact in late:
        if any((fact.shard, number) not in new for number in fact.numbers):
            yield f"{fact.destination} is invoked again and again, long after the last fault", (index,)


def checkpoint_follows_done(of: History) -> Iterator[Found]:
    """P2. The checkpoint never passes a record of which an event is neither accepted, parked nor given up."""
    read: dict[tuple[str, str], int] = {}
    for index, fact in of.each(Checkpointed):
        where = (fact.destination, fact.shard)
        inserts = of.inserts.get(fact.shard, [])
        number, place = int(fact.number), read.get(where, 0)
        while place < len(inserts) and inserts[place][0] <= number:
            for one in of.records[inserts[place][1]]:
                done = of.done_at(fact.destination, one)
                if done is None or done > index:
                    shown = (*_invocations_with(of, fact.destination, one, until=index), index)
                    yield f"the checkpoint of {fact.destination} passed {one.name} before it was accepted", shown
            place += 1
        read[where] = place


def _left(of: History) -> Iterator[tuple[str, Born]]:
    """Yield what is not done at the end: (destination, event)."""
    for one in of.born.values():
        for destination in of.terms.destinations:
            done = of.taken_at if _is_swept(of, one) or _is_redriven(of, destination, one) else of.done_at
            if done(destination, one) is None:
                yield destination, one


def _is_swept(of: History, one: Born) -> bool:
    """Whether a sweeper sees the record of an event for as long as it waits, and it is left to nobody else.

    Of a record that is parked an operator publishes all events, also those that it is not parked for.
    """
    is_seen = of.terms.swept and one.dated_ms is not None and one.record not in of.operated
    return is_seen and one.record not in of.parked_records


def _is_redriven(of: History, destination: str, one: Born) -> bool:
    """Whether an operator had what was given up of an event: not when it died with that in hand, or was too late.

    What somebody deleted counts as published long ago, where that is how published ones go.
    """
    place = of.places.get(one.record)
    if not of.terms.redriven or place is None or (destination, place) not in of.given_up:
        return False
    is_the_operators = one.record in of.operated or one.record in of.parked_records
    return place not in of.trimmed and not is_the_operators and of.operated_in.keys().isdisjoint(of.ended)


def _is_passed(of: History, destination: str, place: tuple[str, str]) -> bool:
    shard, number = place
    return of.checkpoints.get((destination, shard), -1) >= int(number)


def _undrained(of: History, destination: str, shard: str, numbers: Sequence[str]) -> str | None:
    """Return the last number of a shard when neither the checkpoint is there nor the source missed it."""
    number = max(numbers, key=int)
    passed = _is_passed(of, destination, (shard, number)) or (destination, (shard, number)) in of.missed
    return None if passed else number


def _why_refused(of: History, destination: str, one: Born) -> str:
    """Say why the bus of a destination does not accept an event, if it refused it for what it says."""
    at = of.refused.get((destination, one.event_id))
    if at is None:
        return ""
    if one.poison:
        return f". {one.name} is poison: its bus refuses it for ever; park it, or simulate(poison=False)"
    return f". Its bus refuses it for what the entry says: {getattr(of.facts[at], 'code', '')}"


def _attempts_with(of: History, destination: str, one: Born) -> tuple[int, ...]:
    """Return where the event was committed, and what happened in the first and the last invocation with its record."""
    shown = _invocations_with(of, destination, one, most=None)[1:]
    ends = {getattr(of.facts[index], "invocation", 0) for index in (*shown[:1], *shown[-1:])}
    kept = [index for index in shown if getattr(of.facts[index], "invocation", 0) in ends]
    return (one.index, *kept[:_SHOWN], *kept[-_SHOWN:])


def _invocations_with(
    of: History, destination: str, one: Born, *, until: int | None = None, most: int | None = _SHOWN
) -> tuple[int, ...]:
    """Return where the event was committed, and the last that happened in invocations which had its record."""
    handed = {
        number for number, fact in of.invoked.items() if fact.destination == destination and one.record in fact.inserted
    }
    shown = [
        index
        for index, fact in enumerate(of.facts[:until])
        if getattr(fact, "invocation", None) in handed and not isinstance(fact, (Heard, Said, Sent))
    ]
    return (one.index, *shown[-(most or len(shown)) :])
