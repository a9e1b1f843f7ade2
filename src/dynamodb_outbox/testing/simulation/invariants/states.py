"""What becomes of records in the table: settled when they may be, parked when they have to be, and so in the end.

What is asked of the table is read from what is left in it at the end of a run.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.states import DISCARDED, PARKED, PENDING, WAYS
from dynamodb_outbox.testing.simulation.facts import Accepted, Answered, Faulted, Moved, Rejected
from dynamodb_outbox.testing.simulation.process import CLOCK_JUMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.testing.simulation.facts import RecordKey
    from dynamodb_outbox.testing.simulation.history import Born, Found, History

__all__ = [
    "parked_only_what_cannot_pass",
    "parked_stays_parked",
    "parks_are_limited",
    "settled_after_accepted",
    "settled_as_it_says",
    "settled_in_the_end",
]

_PARKS = 10
_LOST_PARKS = frozenset(("park_lost_after", "recovery_lost_after"))
_OFF_MS, _STRUCK_MS = 30_000, 600_000
"""So far a TTL may be off; and where a fault has struck: a settle is tried again, while clocks jump and stand still."""
_WINDOW_MS = 50_000
"""A minute, less the time that a park may be on its way."""


def settled_after_accepted(of: History) -> Iterator[Found]:
    """Demand that a record is published in the table only when all of its events were accepted, or parked.

    Given up, or trimmed, is neither: nobody has got it.
    """
    for index, fact in of.each(Moved):
        destination = of.destination_of(fact.invocation)
        if fact.state != "published" or destination is None:
            continue
        for one in of.records.get(fact.record, ()):
            done = of.taken_at(destination, one)
            if done is None or done > index:
                yield f"the record of {one.name} was settled before {one.name} was accepted", (index,)


def settled_as_it_says(of: History) -> Iterator[Found]:
    """Demand that a record is settled as its writer counts on: deleted, kept for so long, or left alone, as it says."""
    way = WAYS[of.terms.settle]
    parked: set[RecordKey] = set()
    for index, fact in of.each(Moved):
        if fact.record not in of.records:
            continue
        if fact.state == "parked":
            parked.add(fact.record)
        elif fact.state == "published" and fact.gone is way.stays:
            what = "deleted" if fact.gone else "kept"
            yield f"a record of {fact.record[0]} was {what}, which is not what it says", (index,)
        elif fact.state == "published" and not way.writes and fact.record not in parked:
            yield f"a record of {fact.record[0]} was settled that says that nothing settles it", (index,)
        elif fact.state == "published" and (kept := _wrongly_kept(of, fact, expires=way.expires)):
            yield f"a record of {fact.record[0]} {kept}", (index,)


def settled_in_the_end(of: History) -> Iterator[Found]:
    """Demand that a record is published in the table at the end, if no fault met the invocation that had it accepted.

    What says of itself that nothing settles it is not asked for, nor what was parked or deleted; and nothing is of who
    leaves the table alone altogether.
    """
    by_function = any(fact.invocation in of.invoked for _, fact in of.each(Moved))
    if of.left is None or not by_function or not WAYS[of.terms.settle].writes:
        return
    last = {fact.event_id: (fact.invocation, index) for index, fact in of.each(Accepted)}
    answered = {fact.invocation for _, fact in of.each(Answered)}
    for record, events in of.records.items():
        found = _left_of(of, record)
        if not found or any(one.state != PENDING for one in found):
            continue
        accepted = [last.get(one.event_id, (0, 0)) for one in events]
        invocations = {invocation for invocation, _ in accepted}
        if len(invocations) == 1 and (invocations & answered) - of.faulted.keys():
            words = f"the record of {events[-1].name} is pending at the end, and nothing kept it from being settled"
            yield words, (events[-1].index, accepted[-1][1])


def parked_only_what_cannot_pass(of: History) -> Iterator[Found]:
    """Demand that an event is parked only when its bus refused it for what it says, or nobody could ever send it.

    Where keys are parked, one of its key.
    """
    for park in of.parks.values():
        one = park.event
        by = of.terms.destinations if park.destination is None else (park.destination,)
        blamed = of.keys[one.key] if of.terms.parks_keys else [one]
        if any(other.unfit for other in blamed):
            continue
        if not any(of.refused.get((name, other.event_id), park.index) < park.index for name in by for other in blamed):
            shown = [
                place
                for place, fact in enumerate(of.facts[: park.index])
                if isinstance(fact, (Rejected, Accepted)) and fact.event_id == one.event_id
            ]
            yield f"{one.name} was parked, and no bus had refused it for good", (one.index, *shown[-3:], park.index)


def parked_stays_parked(of: History) -> Iterator[Found]:
    """Demand that what was parked, and not accepted, is parked in the table at the end, where an operator sees it.

    Unless it is an operator who discards it.
    """
    discarded = {
        fact.record for _, fact in of.each(Moved) if fact.state == DISCARDED and fact.invocation in of.operated_in
    }
    for park in of.parks.values() if of.left is not None else ():
        one = park.event
        if one.record in discarded:
            continue
        by = of.terms.destinations if park.destination is None else (park.destination,)
        if all(of.said_at(name, one) is not None for name in by) or _is_operated(of, one.record):
            continue
        if not any(_is_parked_for(found.state, found.events, one) for found in _left_of(of, one.record)):
            yield f"{one.name} was parked, and is not parked in the table any more", (park.index,)
        elif not any(found.visible for found in _left_of(of, one.record)):
            yield f"{one.name} was parked, and is not in the index, where an operator would see it", (park.index,)


def parks_are_limited(of: History) -> Iterator[Found]:
    """Demand that an instance parks ten records a minute at most that its bus refused: so many cannot all be poison.

    Not counted is what nobody could read or send, which is not the bus's word, what is parked because its key is, and
    what an invocation parked in which the answer to a park was lost: where the SDK's second attempt was turned away,
    the relay was told that nothing was parked. A jump of its wall clock begins the minute anew: a process that was
    frozen cannot tell it from time that has passed.
    """
    of_instance: defaultdict[str, list[int]] = defaultdict(list)
    jumps = [(index, of.instance_of(fact.invocation)) for index, fact in of.each(Faulted) if fact.kind == CLOCK_JUMP]
    lost = {fact.invocation for _, fact in of.each(Faulted) if fact.kind in _LOST_PARKS}
    for record, index in of.parked_records.items():
        invocation = getattr(of.facts[index], "invocation", 0)
        instance, destination = of.instance_of(invocation), of.destination_of(invocation)
        if (
            instance is not None
            and invocation not in lost
            and any((destination, one.event_id) in of.refused for one in of.records.get(record, ()))
        ):
            of_instance[instance].append(index)
    for instance, parks in of_instance.items():
        for first, beyond in zip(parks, parks[_PARKS:], strict=False):
            jumped = any(first < index < beyond and whose == instance for index, whose in jumps)
            if of.facts[beyond].at_ms < of.facts[first].at_ms + _WINDOW_MS and not jumped:
                shown = tuple(index for index in parks if first <= index <= beyond)
                yield f"{instance} parked {_PARKS + 1} records within a minute", shown


def _wrongly_kept(of: History, fact: Moved, *, expires: bool) -> str:
    """Say what is wrong with the TTL of a record that was settled; of one that says nothing of it, nothing is."""
    if fact.gone or fact.keep_ms is None:
        return ""
    if not expires:
        return "" if fact.kept_ms is None else "expires, and says that it is kept"
    if fact.kept_ms is None:
        return "has no TTL, and says that it expires"
    if abs(fact.kept_ms - fact.keep_ms) <= (_STRUCK_MS if fact.invocation in of.faulted else _OFF_MS):
        return ""
    return f"expires in {fact.kept_ms // 1_000:,} s, and says that it is kept for {fact.keep_ms // 1_000:,} s"


def _left_of(of: History, record: RecordKey) -> Sequence[Any]:
    return (of.left or {}).get(record, ())


def _is_parked_for(state: str, events: frozenset[str] | None, one: Born) -> bool:
    return state == PARKED and (events is None or str(one.position) in events)


def _is_operated(of: History, record: RecordKey) -> bool:
    """Whether somebody deleted a record, or what stands for it beside it."""
    return any(pk == record[0] and sk.startswith(record[1]) for pk, sk in of.operated)
