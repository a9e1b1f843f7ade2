"""Invariants of a relay's own work: what it puts on the bus, what it answers, parks and settles; and of its source.

As those of `invariants`, which has them all: functions of the ledger that yield what broke. What is asked of the table
is read from what is left in it at the end of a run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import parse_rfc3339
from dynamodb_outbox.core.record.states import PARKED, PENDING, WAYS
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Answered,
    Discarded,
    Faulted,
    Heard,
    Invoked,
    Moved,
    Sent,
    Written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.facts import RecordKey
    from dynamodb_outbox.testing.simulation.history import Born, History

__all__ = [
    "answers_name_what_is_open",
    "entries_carry_their_event",
    "items_in_order",
    "parked_stays_parked",
    "parks_are_limited",
    "settled_after_accepted",
    "settled_as_it_says",
    "settled_in_the_end",
]

_Found = tuple[str, tuple[int, ...]]
"""What an invariant yields: words, and the indexes of facts."""

_PARKS = 10
_WINDOW_MS = 50_000
"""A minute, less the time that a park may be on its way."""

_OF_CLOUDEVENTS = "specversion"
"""The attribute by which a Detail is known as a CloudEvent."""


def entries_carry_their_event(of: History) -> Iterator[_Found]:
    """P3. What a bus accepted says of its event what was committed: type and source, the data, all of the envelope."""
    for (destination, event_id), index in of.accepted.items():
        fact, one = of.facts[index], of.born.get(event_id)
        if one is None or one.event is None or not isinstance(fact, Accepted):
            continue
        if (wrong := _wrong_in(json.loads(fact.entry), one.event)) is not None:
            yield f"{destination} accepted {one.name} with {wrong} than it was given", (one.index, index)


def _wrong_in(entry: Mapping[str, Any], event: Event) -> str | None:
    """Say what of an entry is not its event's."""
    detail = json.loads(entry["Detail"])
    if detail.get("data", detail) != json.loads(event.payload):
        return "other data"
    said = {"DetailType": event.type, "Source": event.source}
    for name, value in said.items():
        if entry.get(name) != value:
            return f"another {name}"
    if "Time" in entry and not _is_time(entry["Time"], event.time):
        return "another Time"
    return _wrong_in_envelope(detail, event) if _OF_CLOUDEVENTS in detail else None


def _wrong_in_envelope(detail: Mapping[str, Any], event: Event) -> str | None:
    attributes = {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "partitionkey": event.key,
        "subject": event.subject,
        "sequence": event.sequence,
        **event.attributes,
    }
    for name, value in attributes.items():
        if detail.get(name) != value:
            return f"another {name}"
    return None if _is_time(detail.get("time"), event.time) else "another time"


def _is_time(said: object, time: datetime) -> bool:
    """Whether a text is a time: as an envelope has it, or as the ledger shows one."""
    text = str(said)
    try:
        return (parse_rfc3339(text) if "T" in text else datetime.fromisoformat(text)) == time
    except (TypeError, ValueError):
        return False


def parked_stays_parked(of: History) -> Iterator[_Found]:
    """Demand that what was parked, and not accepted, is parked in the table at the end, where an operator sees it."""
    for park in of.parks.values() if of.left is not None else ():
        one = park.event
        by = of.terms.destinations if park.destination is None else (park.destination,)
        if all(of.said_at(name, one) is not None for name in by) or _is_operated(of, one.record):
            continue
        if not any(_is_parked_for(found.state, found.events, one) for found in _left_of(of, one.record)):
            yield f"{one.name} was parked, and is not parked in the table any more", (park.index,)
        elif not any(found.visible for found in _left_of(of, one.record)):
            yield f"{one.name} was parked, and is not in the index, where an operator would see it", (park.index,)


def _left_of(of: History, record: RecordKey) -> Sequence[Any]:
    return (of.left or {}).get(record, ())


def _is_parked_for(state: str, events: frozenset[str] | None, one: Born) -> bool:
    return state == PARKED and (events is None or str(one.position) in events)


def _is_operated(of: History, record: RecordKey) -> bool:
    """Whether somebody deleted a record, or what stands for it beside it."""
    return any(pk == record[0] and sk.startswith(record[1]) for pk, sk in of.operated)


def settled_after_accepted(of: History) -> Iterator[_Found]:
    """Demand that a record is published in the table only when all of its events were accepted, or parked.

    Given up, or trimmed, is neither: nobody has got it.
    """
    for index, fact in enumerate(of.facts):
        if not isinstance(fact, Moved) or fact.state != "published":
            continue
        invocation = of.invoked.get(fact.invocation)
        for one in of.records.get(fact.record, ()) if invocation is not None else ():
            done = of.taken_at(invocation.destination, one) if invocation is not None else None
            if done is None or done > index:
                yield f"the record of {one.name} was settled before {one.name} was accepted", (index,)


def settled_as_it_says(of: History) -> Iterator[_Found]:
    """Demand that a record is settled as its writer counts on: deleted, kept, or left alone, as the record says."""
    way = WAYS[of.terms.settle]
    parked: set[RecordKey] = set()
    for index, fact in enumerate(of.facts):
        if not isinstance(fact, Moved) or fact.record not in of.records:
            continue
        if fact.state == "parked":
            parked.add(fact.record)
        elif fact.state == "published" and fact.gone is way.stays:
            what = "deleted" if fact.gone else "kept"
            yield f"a record of {fact.record[0]} was {what}, which is not what it says", (index,)
        elif fact.state == "published" and not way.writes and fact.record not in parked:
            yield f"a record of {fact.record[0]} was settled that says that nothing settles it", (index,)


def settled_in_the_end(of: History) -> Iterator[_Found]:
    """Demand that a record is published in the table at the end, if no fault met the invocation that had it accepted.

    What says of itself that nothing settles it is not asked for, nor what was parked or deleted; and nothing is of who
    leaves the table alone altogether.
    """
    by_function = any(isinstance(fact, Moved) and fact.invocation in of.invoked for fact in of.facts)
    if of.left is None or not by_function or not WAYS[of.terms.settle].writes:
        return
    last: dict[str, tuple[int, int]] = {}  # event -> invocation, index
    answered: set[int] = set()
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Accepted):
            last[fact.event_id] = (fact.invocation, index)
        elif isinstance(fact, Answered):
            answered.add(fact.invocation)
    for record, events in of.records.items():
        found = _left_of(of, record)
        if not found or any(one.state != PENDING for one in found):
            continue
        accepted = [last.get(one.event_id, (0, 0)) for one in events]
        invocations = {invocation for invocation, _ in accepted}
        if len(invocations) == 1 and (invocations & answered) - of.faulted.keys():
            words = f"the record of {events[-1].name} is pending at the end, and nothing kept it from being settled"
            yield words, (events[-1].index, accepted[-1][1])


def parks_are_limited(of: History) -> Iterator[_Found]:
    """Demand that an instance parks ten records a minute at most that its bus refused: so many cannot all be poison.

    Not counted is what nobody could read or send, which is not the bus's word, what is parked because its key is, and
    what an invocation parked in which the answer to a park was lost: where the SDK's second attempt was turned away,
    the relay was told that nothing was parked.
    """
    of_instance: defaultdict[str, list[int]] = defaultdict(list)
    lost = {fact.invocation for fact in of.facts if isinstance(fact, Faulted) and fact.kind == "park_lost_after"}
    for record, index in of.parked_records.items():
        invocation = getattr(of.facts[index], "invocation", 0)
        invoked = of.invoked.get(invocation)
        if (
            invoked is not None
            and invocation not in lost
            and any((invoked.destination, one.event_id) in of.refused for one in of.records.get(record, ()))
        ):
            of_instance[invoked.instance].append(index)
    for instance, parks in of_instance.items():
        for first, beyond in zip(parks, parks[_PARKS:], strict=False):
            if of.facts[beyond].at_ms < of.facts[first].at_ms + _WINDOW_MS:
                shown = tuple(index for index in parks if first <= index <= beyond)
                yield f"{instance} parked {_PARKS + 1} records within a minute", shown


def answers_name_what_is_open(of: History) -> Iterator[_Found]:
    """Demand that an answer names no record as the first to come again whose events this invocation saw accepted.

    It saw them where each of its requests to the bus was answered. Whether they could be settled is no matter.
    """
    accepted: defaultdict[int, dict[str, int]] = defaultdict(dict)
    unheard: defaultdict[int, set[int]] = defaultdict(set)
    records = {place: record for record, place in of.places.items()}
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Accepted):
            accepted[fact.invocation].setdefault(fact.event_id, index)
        elif isinstance(fact, Sent) and fact.where in of.terms.destinations:
            unheard[fact.invocation].add(fact.call)
        elif isinstance(fact, Heard) and not fact.error:
            unheard[fact.invocation].discard(fact.call)
        elif isinstance(fact, Answered) and fact.failed and not fact.whole:
            invoked = of.invoked.get(fact.invocation)
            if invoked is None or unheard[fact.invocation] or _IN_DOUBT & of.faulted.get(fact.invocation, set()):
                continue
            record = records.get((invoked.shard, min(fact.failed, key=int)))
            ones = [] if record is None else of.records[record]
            shown = [accepted[fact.invocation].get(one.event_id) for one in ones]
            if shown and all(at is not None for at in shown):
                name = "+".join(one.name for one in ones)
                words = f"the answer of invocation {fact.invocation} asks for {name} again, which it saw accepted"
                yield words, (*(at for at in shown if at is not None), index)


_IN_DOUBT = frozenset(("entry_malformed_answer", "entry_miscounted", "entry_no_result", "target_vanishes"))
"""Faults after which an answer of the bus does not tell what was accepted."""


def items_in_order(of: History) -> Iterator[_Found]:
    """Demand of the event source that a change of an item is handed over only when those before it are done.

    So it is within each lane of a shard, however many there are. What is handed over in one batch is in order in it.
    What was trimmed in the middle of its retries, so that the source has a gap there, is done with.
    """
    for destination in of.terms.destinations:
        first, done = _handed_over(of, destination)
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


def _changes(of: History) -> dict[RecordKey, list[tuple[str, str]]]:
    """Return where the changes of each item are that has several, in their order."""
    found: defaultdict[RecordKey, list[tuple[str, str]]] = defaultdict(list)
    for fact in of.facts:
        if isinstance(fact, Written):
            found[fact.item].append((fact.shard, fact.number))
    return {item: places for item, places in found.items() if len(places) > 1}


def _numbers_at(of: History, index: int) -> tuple[str, ...]:
    fact = of.facts[index]
    return fact.numbers if isinstance(fact, Invoked) else ()


def _handed_over(of: History, destination: str) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]]:
    """Return when each stream record was handed over first, and when it was done first."""
    first: dict[tuple[str, str], int] = {}
    done: dict[tuple[str, str], int] = {}
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Invoked) and fact.destination == destination:
            for number in fact.numbers:
                first.setdefault((fact.shard, number), index)
        elif isinstance(fact, Answered) and not fact.whole:
            invoked = of.invoked.get(fact.invocation)
            if invoked is not None and invoked.destination == destination:
                lowest = min(map(int, fact.failed), default=None)
                for number in invoked.numbers:
                    if lowest is None or int(number) < lowest:
                        done.setdefault((invoked.shard, number), index)
        elif isinstance(fact, Discarded) and fact.destination == destination:
            for number in fact.numbers:
                done.setdefault((fact.shard, number), index)
    return first, done
