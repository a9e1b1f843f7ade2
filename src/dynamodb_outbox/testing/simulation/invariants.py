"""What must hold of every run, one function each: a pure reading of the ledger that yields what broke.

P1 to P4 are the promises of the library; the others say how a relay keeps them, so that a relay that broke none of the
promises by luck is found as well. Each is about what took effect (what the bus accepted, what the table stored), never
about what somebody was told. The names are stable: tests and reports go by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.simulation.demands import (
    answers_name_what_is_open,
    entries_carry_their_event,
    items_in_order,
    parked_stays_parked,
    parks_are_limited,
    settled_after_accepted,
    settled_as_it_says,
    settled_in_the_end,
)
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Answered,
    Checkpointed,
    Committed,
    Faulted,
    Heard,
    Intended,
    Invoked,
    Raised,
    Rejected,
    Said,
    Sent,
    Told,
)
from dynamodb_outbox.testing.simulation.history import history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.history import Born, History, Mark, Terms

__all__ = ["INVARIANTS", "Violation", "check"]

HANGS = frozenset(("function_timeout",))
"""Faults that make a call hang for longer than its client allows: no code could have ended in time."""


@dataclass(frozen=True)
class Violation:
    """An invariant did not hold: its name, what happened in words, and the facts that show it, in order."""

    invariant: str
    words: str
    facts: tuple[Fact, ...]


CRASHES = frozenset(("crash",))
"""Faults of which a process dies."""

UNTOLD = frozenset(("entry_malformed_answer",))
"""Faults that leave a result out of an answer, so that nobody knows what was accepted."""

_REST_MS = 600_000
"""After the last news (a commit, a fault) everything has come to rest: longer than all pauses together."""

_SHOWN = 6
"""Facts that show an event which was not done: more would hide the last ones."""

_Found = tuple[str, tuple[int, ...]]
"""What an invariant yields: words, and the indexes of facts."""


# --- P1: an event exists if and only if the change was committed ------------------------------------------------------


def no_phantoms(of: History) -> Iterator[_Found]:
    """P1. Every event that a bus accepted belongs to a transaction that was committed before."""
    for (destination, event_id), index in of.accepted.items():
        one = of.born.get(event_id)
        if one is None:
            yield f"{destination} accepted an event with the id {event_id!r}, which nobody committed", (index,)
        elif one.index > index:
            yield f"{destination} accepted {one.name} before it was committed", (index, one.index)


def committed_as_intended(of: History) -> Iterator[_Found]:
    """P1. A transaction that was committed holds what its writer put into it: all changes, all events, in order."""
    for index, fact in enumerate(of.facts):
        if not isinstance(fact, Committed):
            continue
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


def writers_know_the_truth(of: History) -> Iterator[_Found]:
    """P1. What a writer was told is true: "committed" is in the table, with these ids, and "failed" never comes to be.

    Failed is said of one attempt; what an earlier one comes to after it was begun, nobody could have known.
    """
    committed: dict[str, int] = {}
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Committed):
            committed.setdefault(fact.change, index)
    for index, fact in enumerate(of.facts):
        at = committed.get(fact.change) if isinstance(fact, Told) else None
        done = None if at is None else of.facts[at]
        if not isinstance(fact, Told):
            continue
        if fact.outcome == "committed" and (at is None or at > index):
            yield f"{fact.writer} was told that {fact.change} is committed, and it is not", (index,)
        elif fact.outcome == "committed" and isinstance(done, Committed) and fact.events != _ids(of, done):
            yield f"{fact.writer} was given other ids for the events of {fact.change} than they have", (at or 0, index)
        elif fact.outcome == "failed" and isinstance(done, Committed) and at is not None:
            begun = of.intended.get((fact.change, fact.attempt), index)
            if done.attempt == fact.attempt or at < begun:
                yield f"{fact.writer} was told that {fact.change} failed, and it is committed", (at, index)


def commands_commit_once(of: History) -> Iterator[_Found]:
    """P6. A change is committed at most once, however often its writer asked for it."""
    first: dict[str, int] = {}
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Committed) and first.setdefault(fact.change, index) != index:
            yield f"{fact.change} was committed twice", (first[fact.change], index)


# --- P2: accepted at least once, or parked; nothing is lost -----------------------------------------------------------


def nothing_is_lost(of: History) -> Iterator[_Found]:
    """P2. What was committed is accepted by every destination, parked, or given up to the on-failure destination.

    Lost is what will not be delivered again: it is behind the checkpoint, or was never in the stream. What was trimmed
    unread is not, where the source has a gap; what it had read before is.
    """
    for destination, one in _left(of):
        place = of.places.get(one.record)
        if place is None:
            yield f"{one.name} was committed and never appeared in the stream", (one.index,)
        elif _is_passed(of, destination, place):
            shown = _invocations_with(of, destination, one)
            yield f"{one.name} was not accepted by {destination}, and its record is behind the checkpoint", shown


def everything_ends(of: History) -> Iterator[_Found]:
    """P2. Once faults have stopped, everything is accepted or parked, and nothing is delivered again and again."""
    stuck = [
        (destination, one)
        for destination, one in _left(of)
        if (place := of.places.get(one.record)) is not None and not _is_passed(of, destination, place)
    ]
    for destination, one in sorted(stuck, key=lambda left: (left[0], left[1].event_id) not in of.refused):
        words = f"{one.name} is stuck: long after the last fault {destination} has not accepted it"
        yield words + _why_refused(of, destination, one), _attempts_with(of, destination, one)
    for destination in of.terms.destinations:
        for shard, numbers in of.written.items():
            left = _undrained(of, destination, shard, numbers)
            if left is not None:
                yield f"{left} of {shard} is before the checkpoint of {destination}, long after the last fault", ()
    news_ms = max((fact.at_ms for fact in of.facts if isinstance(fact, (Committed, Faulted))), default=0)
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Invoked) and fact.at_ms > news_ms + _REST_MS:
            yield f"{fact.destination} is invoked again and again, long after the last fault", (index,)


def checkpoint_follows_done(of: History) -> Iterator[_Found]:
    """P2. The checkpoint never passes a record of which an event is neither accepted, parked nor given up."""
    read: dict[tuple[str, str], int] = {}
    for index, fact in enumerate(of.facts):
        if not isinstance(fact, Checkpointed):
            continue
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


# --- P3 and P4: one id, and order -------------------------------------------------------------------------------------


def one_id_one_entry(of: History) -> Iterator[_Found]:
    """P3. Every publication of one event says the same: the id it was committed with, and the same content."""
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Accepted):
            entry, at = first.setdefault((fact.destination, fact.event_id), (fact.entry, index))
            if entry != fact.entry:
                yield f"{of.name(fact.event_id)} was published in two forms", (at, index)


def order_per_key(of: History) -> Iterator[_Found]:
    """P4. Of the events of one key, each is first accepted after those before it; parked and lost ones are left out.

    Lost are those that the event source gave up or missed.
    """
    if of.terms.ordered_keys:
        for events in of.keys.values():
            yield from _disorder(of, events, of.skipped_at)


def order_in_record(of: History) -> Iterator[_Found]:
    """P4. Of the events of one record, each is first accepted after those before it; parked ones are left out."""
    if of.terms.ordered_records:
        for events in of.records.values():
            yield from _disorder(of, events, of.parked_at)


def parked_keys_stay_parked(of: History) -> Iterator[_Found]:
    """P4. Where keys are parked, nothing that follows a parked event in its key is accepted by its destination."""
    if not of.terms.parked_keys:
        return
    for events in of.keys.values():
        for destination in of.terms.destinations:
            park: tuple[int, Born] | None = None
            for one in events:
                at, accepted = of.parked_at(destination, one), of.said_at(destination, one)
                if park is not None and accepted is not None:
                    yield (
                        f"{destination} accepted {one.name}, and {park[1].name} of its key is parked",
                        (park[0], accepted),
                    )
                elif at is not None and accepted is None and park is None:
                    park = at, one


# --- how a relay keeps them -------------------------------------------------------------------------------------------


def parked_only_what_cannot_pass(of: History) -> Iterator[_Found]:
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


def published_from_inserts(of: History) -> Iterator[_Found]:
    """Demand that an invocation publishes events of records whose INSERT it was handed, and no others."""
    for index, fact in enumerate(of.facts):
        if not isinstance(fact, Accepted):
            continue
        invocation, one = of.invoked.get(fact.invocation), of.born.get(fact.event_id)
        if invocation is not None and one is not None and one.record not in invocation.inserted:
            words = f"invocation {fact.invocation} published {one.name}, and its batch has no INSERT of that record"
            yield words, (of.facts.index(invocation), index)


def answers_after_partial_failure(of: History) -> Iterator[_Found]:
    """Demand an answer of a function that knows of its first record that it was accepted: raising gives all of it up.

    An answer names the record from which everything is to come again. Where the first one is not through, or nobody was
    told, or no other is in the batch, raising says the same.
    """
    accepted: dict[int, dict[str, list[tuple[int, frozenset[int]]]]] = {}
    under_way: dict[int, set[int]] = {}
    heard: set[int] = set()
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Sent):
            under_way.setdefault(fact.invocation, set()).add(fact.call)
        elif isinstance(fact, Heard):
            under_way.get(fact.invocation, set()).discard(fact.call)
            heard.update([] if fact.error else [fact.call])
        elif isinstance(fact, Accepted):
            by = frozenset(under_way.get(fact.invocation, ()))
            accepted.setdefault(fact.invocation, {}).setdefault(fact.event_id, []).append((index, by))
        elif isinstance(fact, Raised) and not UNTOLD & of.faulted.get(fact.invocation, set()):
            first, times = _first_record(of, fact.invocation), accepted.get(fact.invocation, {})
            known = [[at for at, by in times.get(one.event_id, ()) if by and by <= heard] for one in first]
            if first and all(known):
                names = "+".join(one.name for one in first)
                words = f"invocation {fact.invocation} raised ({fact.error}) after the record of {names} was accepted"
                yield words, (*(at for at, *_ in known), index)


def answers_name_the_batch(of: History) -> Iterator[_Found]:
    """Demand that an answer names sequence numbers of its batch; anything else is a failure of all of it."""
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Answered) and fact.whole:
            words = f"the answer of invocation {fact.invocation} fails its whole batch: {fact.whole}"
            invocation = of.invoked.get(fact.invocation)
            yield words, (*([] if invocation is None else [of.facts.index(invocation)]), index)


def ends_in_time(of: History) -> Iterator[_Found]:
    """Demand that a function ends before its time-out, unless a call hung for longer than its client allows."""
    for number, ended in of.ended.items():
        if ended.how == "timeout" and not HANGS & of.faulted.get(number, set()):
            words = f"invocation {number} ran into its time-out, and no call had hung"
            shown = (of.invoked[number], ended) if number in of.invoked else (ended,)
            yield words, tuple(map(of.facts.index, shown))


def dies_of_a_crash_alone(of: History) -> Iterator[_Found]:
    """Demand that a function lives to answer, unless a crash struck it: its death gives up all of its batch."""
    for number, ended in of.ended.items():
        if ended.how == "crash" and not CRASHES & of.faulted.get(number, set()):
            shown = (of.invoked[number], ended) if number in of.invoked else (ended,)
            yield f"invocation {number} died, and no crash had struck it", tuple(map(of.facts.index, shown))


def nothing_after_the_end(of: History) -> Iterator[_Found]:
    """Demand that nothing is under way at an answer: the instance is frozen then, and goes on at the next event.

    What a server does after its caller had stopped waiting is not the function's doing.
    """
    under_way: dict[int, dict[int, int]] = {}
    over: dict[int, int] = {}
    for index, fact in enumerate(of.facts):
        if isinstance(fact, Sent):
            if fact.invocation in over:
                yield f"invocation {fact.invocation} sent a request after it had ended", (over[fact.invocation], index)
            under_way.setdefault(fact.invocation, {})[fact.call] = index
        elif isinstance(fact, Heard):
            under_way.get(fact.invocation, {}).pop(fact.call, None)
        elif isinstance(fact, (Answered, Raised)):
            over[fact.invocation] = index
            for sent in under_way.get(fact.invocation, {}).values():
                yield f"invocation {fact.invocation} ended while a request of it was under way", (sent, index)


INVARIANTS: dict[str, Callable[[History], Iterator[_Found]]] = {
    invariant.__name__: invariant
    for invariant in (
        no_phantoms,
        committed_as_intended,
        writers_know_the_truth,
        commands_commit_once,
        nothing_is_lost,
        everything_ends,
        checkpoint_follows_done,
        one_id_one_entry,
        entries_carry_their_event,
        order_per_key,
        order_in_record,
        items_in_order,
        parked_keys_stay_parked,
        settled_after_accepted,
        settled_as_it_says,
        settled_in_the_end,
        parked_only_what_cannot_pass,
        parked_stays_parked,
        parks_are_limited,
        published_from_inserts,
        answers_after_partial_failure,
        answers_name_the_batch,
        answers_name_what_is_open,
        ends_in_time,
        dies_of_a_crash_alone,
        nothing_after_the_end,
    )
}
"""All of them, by name."""


def check(facts: Sequence[Fact], terms: Terms) -> list[Violation]:
    """Return the first violation of each invariant that a run broke, in the order of `INVARIANTS`."""
    of = history(facts, terms)
    found = []
    for name, invariant in INVARIANTS.items():
        for words, indexes in invariant(of):
            found.append(Violation(name, words, tuple(facts[index] for index in sorted(set(indexes)))))
            break
    return found


def _left(of: History) -> Iterator[tuple[str, Born]]:
    """Yield what is not done at the end: (destination, event)."""
    for one in of.born.values():
        for destination in of.terms.destinations:
            if of.done_at(destination, one) is None:
                yield destination, one


def _is_passed(of: History, destination: str, place: tuple[str, str]) -> bool:
    shard, number = place
    return of.checkpoints.get((destination, shard), -1) >= int(number)


def _undrained(of: History, destination: str, shard: str, numbers: Sequence[str]) -> str | None:
    """Return the last number of a shard when neither the checkpoint is there nor the source missed it."""
    number = max(numbers, key=int)
    passed = _is_passed(of, destination, (shard, number)) or (destination, (shard, number)) in of.missed
    return None if passed else number


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


def _disorder(of: History, events: Sequence[Born], left_out_at: Callable[[str, Born], int | None]) -> Iterator[_Found]:
    for destination in of.terms.destinations:
        last: tuple[int, Born] | None = None
        for one in events:
            index, skipped = of.said_at(destination, one), left_out_at(destination, one)
            if index is None or (skipped is not None and skipped < index):
                continue
            if last is not None and index < last[0]:
                words = f"{destination} accepted {one.name} before {last[1].name}"
                yield words, (last[1].index, one.index, index, last[0])
            else:
                last = (index, one)


def _first_record(of: History, invocation: int) -> Sequence[Born]:
    """Return the events of the record that comes first in the batch of an invocation, if it has another one."""
    invoked = of.invoked.get(invocation)
    carried = [] if invoked is None else [record for record in invoked.inserted if record in of.places]
    ordered = sorted(carried, key=lambda record: int(of.places[record][1]))
    return of.records[ordered[0]] if len(ordered) > 1 else ()


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
