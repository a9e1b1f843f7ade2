"""P5: a consumer that writes its effect through an inbox applies each event once; and what it owes to its queue."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.consuming.facts import Acknowledged, Applied, Carrying, Queued

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.testing.simulation.history import Found, History

__all__ = [
    "acknowledged_after_applied",
    "acknowledged_in_the_end",
    "applied_in_the_end",
    "applied_once",
    "effects_add_up",
    "effects_say_what_is_so",
    "own_events_once",
]

_SHOWN = 4


def applied_once(of: History) -> Iterator[Found]:
    """P5. A consumer applies no event twice, however often it is delivered, and to however many instances at once."""
    first: dict[str, int] = {}
    for index, fact in of.each(Applied):
        for event in fact.events:
            if first.setdefault(event, index) != index or fact.events.count(event) > 1:
                yield f"{of.name(event)} was applied twice", (first[event], index)


def applied_in_the_end(of: History) -> Iterator[Found]:
    """P5. Whatever a bus accepted is applied by the consumer, if there is one, once faults have stopped."""
    for event in dict.fromkeys(event for _, fact in of.each(Queued) for event in fact.events):
        if event not in of.applied:
            yield f"{of.name(event)} was delivered to the consumer, and never applied", _about(of, event)


def effects_add_up(of: History) -> Iterator[Found]:
    """P5. Each effect of a consumer builds on the one before it: none is written over by one that did not see it."""
    for index, fact in of.each(Applied):
        for event in fact.odd:
            others = [at for at, one in of.each(Applied) if at < index and one.invocation != fact.invocation]
            yield f"the effect of {of.name(event)} does not count one more than what was there", (*others[-1:], index)


def own_events_once(of: History) -> Iterator[Found]:
    """P5. With each effect a consumer commits one event of its own, and none without."""
    told = Counter(event for _, fact in of.each(Applied) for event in fact.own)
    for event in dict.fromkeys((*of.applied, *told)):
        count = told[event]
        if count != 1 or event not in of.applied:
            shown = tuple(at for at, fact in of.each(Applied) if event in fact.events or event in fact.own)
            effect = "its effect" if event in of.applied else "no effect"
            yield f"of {of.name(event)} there is {effect} and {count} events of the consumer's own", shown


def effects_say_what_is_so(of: History) -> Iterator[Found]:
    """P5. What effects, and events of a consumer's own, say of their event is what was written: its key, its data.

    Under one ordering key there are own events of one key alone, or of what has its effects in one partition.
    """
    told_under = {key: key for key in of.keys}
    for index, fact in of.each(Applied):
        for claim in fact.said:
            one = of.born.get(claim.event)
            if one is None or one.event is None:
                continue
            if claim.name == "ordering key":
                right = told_under.setdefault(claim.said, one.key) == one.key
            else:
                right = claim.said == one.key if claim.name == "key" else _is_data(claim.said, one.event.payload)
            if not right:
                yield f"{claim.what} of {one.name} has another {claim.name}: {claim.said!r}", (one.index, index)


def _is_data(said: object, payload: str) -> bool:
    """Whether something is the data of an event, maybe as text in JSON."""
    data = json.loads(payload)
    if not isinstance(said, str):
        return bool(said == data)
    try:
        return bool(json.loads(said) == data)
    except ValueError:
        return False


def acknowledged_after_applied(of: History) -> Iterator[Found]:
    """Demand that a consumer acknowledges a message only when its event has been applied: it may not come again."""
    for index, fact in of.each(Acknowledged):
        for event in fact.events:
            if of.applied.get(event, index) >= index:
                yield f"{fact.message} was acknowledged before {of.name(event)} was applied", _about(of, event)


def acknowledged_in_the_end(of: History) -> Iterator[Found]:
    """Demand that a consumer has acknowledged every message once faults have stopped, those of duplicates too."""
    open_ones: dict[str, int] = {}
    for index, fact in of.among(Queued, Acknowledged):
        if isinstance(fact, Queued):
            open_ones[fact.message] = index
        elif isinstance(fact, Acknowledged):
            open_ones.pop(fact.message, None)
    for message, index in open_ones.items():
        fact = of.facts[index]
        (event,) = fact.events if isinstance(fact, Queued) else ("",)
        words = f"{message} with {of.name(event)} is delivered again and again, long after the last fault"
        yield words, _about(of, event)


def _about(of: History, event: str) -> tuple[int, ...]:
    """Return what happened to an event at the consumer: the beginning, and the end."""
    found = [
        index
        for kind in of.by_kind
        if issubclass(kind, Carrying)
        for index, fact in of.each(kind)
        if event in fact.events
    ]
    found.sort()
    return (*found[:_SHOWN], *found[_SHOWN:][-_SHOWN:])
