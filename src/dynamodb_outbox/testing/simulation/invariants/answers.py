"""What an invocation owes to its event source: it publishes what it was handed, answers, tells the truth, and ends."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.consuming.facts import Applied
from dynamodb_outbox.testing.simulation.facts import Accepted, Answered, Heard, Raised, Sent, named
from dynamodb_outbox.testing.simulation.faults import CONSUMED, PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.history import Born, Found, History

__all__ = [
    "answers_after_partial_failure",
    "answers_name_the_batch",
    "answers_name_what_is_open",
    "dies_of_a_crash_alone",
    "ends_in_time",
    "nothing_after_the_end",
    "published_from_inserts",
]

HANGS = frozenset(("function_timeout", "recovery_frozen"))
"""Faults that make a call hang for longer than its client allows: no code could have ended in time."""

_SLOWS = CONSUMED | frozenset(PARTS["network"])
"""Faults that keep a consumer from its work, in one call or in each."""

CRASHES = frozenset(("crash", "consumer_crash", "recovery_crash"))
"""Faults of which a process dies."""

UNTOLD = frozenset(("entry_malformed_answer",))
"""Faults that leave a result out of an answer, so that nobody knows what was accepted."""

_IN_DOUBT = UNTOLD | {"entry_miscounted", "entry_no_result", "target_vanishes"}
"""Faults after which an answer of the bus does not tell what was accepted."""


def published_from_inserts(of: History) -> Iterator[Found]:
    """Demand that an invocation publishes events of records whose INSERT it was handed, and no others."""
    for index, fact in of.each(Accepted):
        invocation, one = of.invoked.get(fact.invocation), of.born.get(fact.event_id)
        if invocation is not None and one is not None and one.record not in invocation.inserted:
            words = f"invocation {fact.invocation} published {one.name}, and its batch has no INSERT of that record"
            yield words, (of.facts.index(invocation), index)


def answers_after_partial_failure(of: History) -> Iterator[Found]:
    """Demand an answer of a function that knows of its first record that it was accepted: raising gives all of it up.

    An answer names the record from which everything is to come again. Where the first one is not through, or nobody was
    told, or no other is in the batch, raising says the same. Of a consumer's messages it is any that was applied.
    """
    if not of.each(Raised):
        return
    seen = _Effects()
    for index, fact in of.among(Sent, Heard, Accepted, Applied, Raised):
        if not isinstance(fact, Raised):
            seen.note(index, fact)
        elif not UNTOLD & of.faulted.get(fact.invocation, set()):
            names, shown = _given_up(of, seen, fact.invocation)
            if shown:
                yield f"{named(fact.invocation)} raised ({fact.error}) after {names}", (*shown, index)


def answers_name_the_batch(of: History) -> Iterator[Found]:
    """Demand that an answer names sequence numbers of its batch; anything else is a failure of all of it."""
    for index, fact in of.each(Answered):
        if fact.whole:
            words = f"the answer of {named(fact.invocation)} fails its whole batch: {fact.whole}"
            invocation = of.invoked.get(fact.invocation)
            yield words, (*([] if invocation is None else [of.facts.index(invocation)]), index)


def answers_name_what_is_open(of: History) -> Iterator[Found]:
    """Demand that an answer names no record as the first to come again whose events this invocation saw accepted.

    It saw them where each of its requests to the bus was answered. Whether they could be settled is no matter.
    """
    accepted: defaultdict[int, dict[str, int]] = defaultdict(dict)
    unheard: defaultdict[int, set[int]] = defaultdict(set)
    records = {place: record for record, place in of.places.items()}
    for index, fact in of.among(Accepted, Sent, Heard, Answered):
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
                words = f"the answer of {named(fact.invocation)} asks for {name} again, which it saw accepted"
                yield words, (*(at for at in shown if at is not None), index)


def ends_in_time(of: History) -> Iterator[Found]:
    """Demand that a function ends before its time-out, unless a call hung for longer than its client allows.

    Of a consumer also unless any call failed: where its table answers nothing, the time goes by, message by message.
    """
    for number, ended in of.ended.items():
        excuses = _SLOWS if number in of.delivered else HANGS
        excused = excuses & of.faulted.get(number, set())
        if ended.how == "timeout" and not excused:
            words = f"{named(number)} ran into its time-out, and no call had hung"
            shown = (of.invoked[number], ended) if number in of.invoked else (ended,)
            yield words, tuple(map(of.facts.index, shown))


def dies_of_a_crash_alone(of: History) -> Iterator[Found]:
    """Demand that a function lives to answer, unless a crash struck it: its death gives up all of its batch."""
    for number, ended in of.ended.items():
        if ended.how == "crash" and not CRASHES & of.faulted.get(number, set()):
            shown = (of.invoked[number], ended) if number in of.invoked else (ended,)
            yield f"{named(number)} died, and no crash had struck it", tuple(map(of.facts.index, shown))


def nothing_after_the_end(of: History) -> Iterator[Found]:
    """Demand that nothing is under way at an answer: the instance is frozen then, and goes on at the next event.

    What a server does after its caller had stopped waiting is not the function's doing.
    """
    under_way: dict[int, dict[int, int]] = {}
    over: dict[int, int] = {}
    for index, fact in of.among(Sent, Heard, Answered, Raised):
        if isinstance(fact, Sent):
            if fact.invocation in over:
                yield f"{named(fact.invocation)} sent a request after it had ended", (over[fact.invocation], index)
            under_way.setdefault(fact.invocation, {})[fact.call] = index
        elif isinstance(fact, Heard):
            under_way.get(fact.invocation, {}).pop(fact.call, None)
        elif isinstance(fact, (Answered, Raised)):
            over[fact.invocation] = index
            for sent in under_way.get(fact.invocation, {}).values():
                yield f"{named(fact.invocation)} ended while a request of it was under way", (sent, index)


class _Effects:
    """What took effect in each invocation: which event, at which fact, and by which calls that were under way."""

    def __init__(self) -> None:
        self._of: defaultdict[int, dict[str, list[tuple[int, frozenset[int]]]]] = defaultdict(dict)
        self._under_way: defaultdict[int, set[int]] = defaultdict(set)
        self._heard: set[int] = set()

    def note(self, index: int, fact: Fact) -> None:
        """Take a fact in."""
        if isinstance(fact, Sent):
            self._under_way[fact.invocation].add(fact.call)
        elif isinstance(fact, Heard):
            self._under_way[fact.invocation].discard(fact.call)
            self._heard.update([] if fact.error else [fact.call])
        elif isinstance(fact, (Accepted, Applied)):
            by = frozenset(self._under_way[fact.invocation])
            for event in [fact.event_id] if isinstance(fact, Accepted) else fact.events:
                self._of[fact.invocation].setdefault(event, []).append((index, by))

    def known(self, invocation: int, event: str) -> int | None:
        """Return where an event took effect, if its invocation knows: it heard of each call that may have done it."""
        times = self._of[invocation].get(event, ())
        return next((at for at, by in times if by and by <= self._heard), None)


def _given_up(of: History, seen: _Effects, invocation: int) -> tuple[str, list[int]]:
    """Say what an invocation that raised knows to be done, and the facts that show it; nothing if nothing is."""
    delivered = of.delivered.get(invocation)
    if delivered is None:
        first = _first_record(of, invocation)
        known = [seen.known(invocation, one.event_id) for one in first]
        names = f"the record of {'+'.join(one.name for one in first)} was accepted"
        return names, [at for at in known if at is not None] if None not in known else []
    if len(delivered.messages) > 1:
        for event in delivered.events:
            if (at := seen.known(invocation, event)) is not None:
                return f"{of.name(event)} was applied", [at]
    return "", []


def _first_record(of: History, invocation: int) -> Sequence[Born]:
    """Return the events of the record that comes first in the batch of an invocation, if it has another one."""
    invoked = of.invoked.get(invocation)
    carried = [] if invoked is None else [record for record in invoked.inserted if record in of.places]
    ordered = sorted(carried, key=lambda record: int(of.places[record][1]))
    return of.records[ordered[0]] if len(ordered) > 1 else ()
