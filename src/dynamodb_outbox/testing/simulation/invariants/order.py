"""P4: the order in which the events of a key, and of a record, are first accepted; and what a source owes to it."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.facts import Answered, Discarded, Invoked, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dynamodb_outbox.testing.simulation.facts import RecordKey
    from dynamodb_outbox.testing.simulation.history import Born, Found, History, Place

__all__ = ["foregoing", "items_in_order", "order_in_record", "order_per_key", "parked_keys_stay_parked"]


def order_per_key(of: History) -> Iterator[Found]:
    """P4. Of the events of one key, each is first accepted after those before it; parked and lost ones are left out.

    Lost are those that the event source gave up or missed. A sweeper has no stream to go by: it takes what it finds by
    versions of the same item, and else by date, and both publish in that order then.
    """
    if of.terms.ordered_keys:
        for events in of.keys.values():
            yield from _disorder(of, events, of.skipped_at, by_date=True)


def order_in_record(of: History) -> Iterator[Found]:
    """P4. Of the events of one record, each is first accepted after those before it; parked ones are left out."""
    if of.terms.ordered_records:
        for events in of.records.values():
            yield from _disorder(of, events, of.parked_at)


def parked_keys_stay_parked(of: History) -> Iterator[Found]:
    """P4. Where keys are parked, nothing that follows a parked event in its key is accepted by its destination.

    What the event source had lost before it was parked stands in nobody's way; nor does what a sweep takes later by its
    date.
    """
    if not of.terms.parked_keys:
        return
    for events in of.keys.values():
        for destination in of.terms.destinations:
            park: tuple[int, Born] | None = None
            for place, one in enumerate(events):
                at, accepted = of.parked_at(destination, one), of.said_at(destination, one)
                if park is not None and accepted is not None:
                    if _is_swept_before(of, events[: place + 1], park[1], accepted):
                        continue
                    words = f"{destination} accepted {one.name}, and {park[1].name} of its key is parked"
                    yield words, (park[0], accepted)
                elif at is not None and accepted is None and park is None and of.skipped_at(destination, one) == at:
                    park = at, one


def items_in_order(of: History) -> Iterator[Found]:
    """Demand of the event source that a change of an item is handed over only when those before it are done.

    So it is within each lane of a shard, however many there are. What is handed over in one batch is in order in it.
    What was trimmed in the middle of its retries, so that the source has a gap there, is done with.
    """
    for destination in of.terms.destinations:
        first, done = _first_handed(of, destination), _first_done(of, destination)
        for numbers in _changes(of).values():
            handed = [place for place in numbers if place in first]
            for earlier, later in pairwise(handed):
                at = first[later]
                together = _numbers_at(of, at)
                if earlier[1] in together and together.index(earlier[1]) < together.index(later[1]):
                    continue
                if min(done.get(earlier, at), of.missed.get((destination, earlier), at)) >= at:
                    words = f"{later[1]} of {later[0]} was handed over to {destination} before {earlier[1]} was done"
                    yield words, (first[earlier], at)


def _disorder(
    of: History, events: Sequence[Born], left_out_at: Callable[[str, Born], int | None], *, by_date: bool = False
) -> Iterator[Found]:
    for destination in of.terms.destinations:
        last: tuple[int, Born] | None = None
        for place, one in enumerate(events):
            index, skipped = of.said_at(destination, one), left_out_at(destination, one)
            if index is None or (skipped is not None and skipped < index):
                continue
            if last is not None and index < last[0]:
                if by_date and _is_by_date(of, destination, events[: place + 1], index):
                    continue
                words = f"{destination} accepted {one.name} before {last[1].name}"
                yield words, (last[1].index, one.index, index, last[0])
            else:
                last = (index, one)


def _is_by_date(of: History, destination: str, events: Sequence[Born], index: int) -> bool:
    """Whether a sweep published the last of these events before others of them because of their dates.

    Or because nobody sees them but the relay: somebody had deleted their record, or it was parked for another event.
    """
    *_, one = events
    by_sweep = getattr(of.facts[index], "invocation", 0) in of.sweeps and one.dated_ms is not None
    unseen = of.operated | {record for record, at in of.parked_records.items() if at < index} if by_sweep else set()
    there = (other for other in foregoing(events) if other.record not in unseen) if by_sweep else ()
    return by_sweep and not any(_is_later(of.said_at(destination, other), index) for other in there)


def _is_swept_before(of: History, events: Sequence[Born], other: Born, index: int) -> bool:
    """Whether a sweep published the last of these events, and takes another one of them after that."""
    return getattr(of.facts[index], "invocation", 0) in of.sweeps and other not in foregoing(events)


def _is_later(accepted: int | None, index: int) -> bool:
    return accepted is not None and accepted > index


def foregoing(events: Sequence[Born]) -> Iterator[Born]:
    """Yield those of some events of a key that a sweep takes before the last one, if they are there: in commit order.

    By their versions those of the same item, by their dates the others. These wait, in turn, for earlier versions of
    their items, whatever the dates of those.
    """
    *before, one = events
    latest_ms = 0
    for other in before:
        latest_ms = max(latest_ms, other.dated_ms or 0)
        if (one.dated_ms or 0) > latest_ms or _is_earlier(other, one):
            yield other


def _is_earlier(one: Born, other: Born) -> bool:
    """Whether their versions say of two events that one was first."""
    if one.event is None or other.event is None or one.event.subject is None or one.event.sequence is None:
        return False
    return one.event.subject == other.event.subject and one.event.sequence < (other.event.sequence or "")


def _changes(of: History) -> dict[RecordKey, list[Place]]:
    """Return where the changes of each item are that has several, in their order."""
    found: defaultdict[RecordKey, list[Place]] = defaultdict(list)
    for _, fact in of.each(Written):
        found[fact.item].append((fact.shard, fact.number))
    return {item: places for item, places in found.items() if len(places) > 1}


def _numbers_at(of: History, index: int) -> tuple[str, ...]:
    fact = of.facts[index]
    return fact.numbers if isinstance(fact, Invoked) else ()


def _first_handed(of: History, destination: str) -> dict[Place, int]:
    """Return when each stream record was handed over first."""
    first: dict[Place, int] = {}
    for index, fact in of.each(Invoked):
        if fact.destination == destination:
            for number in fact.numbers:
                first.setdefault((fact.shard, number), index)
    return first


def _first_done(of: History, destination: str) -> dict[Place, int]:
    """Return when each stream record was done first."""
    done: dict[Place, int] = {}
    for index, fact in of.among(Answered, Discarded):
        if isinstance(fact, Answered) and not fact.whole:
            invoked = of.invoked.get(fact.invocation)
            if invoked is not None and invoked.destination == destination:
                lowest = min(map(int, fact.failed), default=None)
                for number in invoked.numbers:
                    if lowest is None or int(number) < lowest:
                        done.setdefault((invoked.shard, number), index)
        elif isinstance(fact, Discarded) and fact.destination == destination:
            for number in fact.numbers:
                done.setdefault((fact.shard, number), index)
    return done
