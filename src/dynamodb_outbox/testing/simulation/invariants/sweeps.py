"""What is asked of a sweeper: that it leaves to others what is theirs. Where there is none, nothing is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.sweeping.ages import AHEAD_MS
from dynamodb_outbox.testing.simulation.facts import Accepted, Heard, Leased, Moved, Raised, Rejected, Sent
from dynamodb_outbox.testing.simulation.invariants.order import foregoing
from dynamodb_outbox.testing.simulation.process import CLOCK_JUMP, START_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.testing.simulation.facts import RecordKey, Swept
    from dynamodb_outbox.testing.simulation.history import Born, Found, History

__all__ = ["parked_is_the_operators", "sweeps_answer", "swept_in_order", "swept_under_a_lease", "swept_when_old_enough"]

_PUBLISHES = "PutEvents"
_FAR_AHEAD_MS = AHEAD_MS // 2
"""What is dated so far ahead, or farther, when it is accepted is let through.

A sweep publishes what is dated AHEAD_MS ahead, or more, when it looks. Until it is accepted some of that has passed:
the sweep works on all that it found, retries, and may stand still.
"""


def swept_when_old_enough(of: History) -> Iterator[Found]:
    """Demand that a sweep publishes what is `min_age_ms` old, by its own clock, or dated far ahead, and nothing else.

    What is younger is on its way through the relay.
    """
    for index, fact in of.each(Accepted):
        began, one = of.sweeps.get(fact.invocation), of.born.get(fact.event_id)
        if began is None or one is None or one.dated_ms is None or _has_jumped(of, fact.invocation):
            continue
        age_ms = _age_ms(fact, one.dated_ms, began[1])
        if -_FAR_AHEAD_MS < age_ms < of.terms.min_age_ms:
            yield f"a sweep published {one.name} {age_ms:,} ms after its date", (one.index, began[0], index)


def swept_in_order(of: History) -> Iterator[Found]:
    """Demand that a sweep publishes an event after those before it in its key that wait in the table when it begins.

    Of one item by their versions, of several by date. What is dated far ahead stands before all that is young.
    """
    for index, fact in of.each(Accepted) if of.sweeps else ():
        began, one = of.sweeps.get(fact.invocation), of.born.get(fact.event_id)
        if began is None or one is None or one.dated_ms is None or _age_ms(fact, one.dated_ms, began[1]) < 0:
            continue
        events = of.keys[one.key]
        for other in foregoing(events[: events.index(one) + 1]):
            if other.index < began[0] and other.record != one.record and _waits(of, fact.destination, other, index):
                shown = (other.index, one.index, began[0], index)
                yield f"a sweep published {one.name}, and {other.name} was there to be published before", shown


def _waits(of: History, destination: str, one: Born, index: int) -> bool:
    """Whether an event is pending: neither accepted nor parked, and seen by sweepers."""
    done = [of.said_at(destination, one), of.parked_records.get(one.record)]
    return one.dated_ms is not None and one.record not in of.operated and all(at is None or at > index for at in done)


def swept_under_a_lease(of: History) -> Iterator[Found]:
    """Demand that a sweep publishes while it has the lease of its partition of the index, and not beyond its end.

    A lease ends by the sweep's own clock: what another one makes of it is not known at once.
    """
    until: dict[int, tuple[int, int | None]] = {}
    for index, fact in of.among(Leased, Sent) if of.sweeps else ():
        if isinstance(fact, Leased):
            until[fact.invocation] = index, fact.until_ms
        elif isinstance(fact, Sent) and fact.operation == _PUBLISHES and fact.invocation in of.sweeps:
            at, until_ms = until.get(fact.invocation, (None, None))
            if until_ms is None or (fact.at_ms > until_ms and not _has_jumped(of, fact.invocation)):
                shown = of.sweeps[fact.invocation][0] if at is None else at
                yield f"sweep {fact.invocation} published without a lease", (shown, index)


def sweeps_answer(of: History) -> Iterator[Found]:
    """Demand that a sweep answers, unless something went wrong: no fault struck it, no call failed, no event refused.

    What raises is tried again at once by Lambda, and sounds an alarm.
    """
    raised = [(index, fact) for index, fact in of.each(Raised) if fact.invocation in of.sweeps]
    if not raised:
        return
    troubled = {fact.invocation for _, fact in of.each(Heard) if fact.error}
    troubled |= {fact.invocation for _, fact in of.each(Rejected)} | of.faulted.keys()
    for index, fact in raised:
        if fact.invocation not in troubled:
            words = f"sweep {fact.invocation} raised ({fact.error}), and nothing had gone wrong in it"
            yield words, (of.sweeps[fact.invocation][0], index)


def parked_is_the_operators(of: History) -> Iterator[Found]:
    """Demand that what is parked is published and settled by an operator alone, where there is one or a sweeper.

    Whoever had it in hand before may find its bus of another mind: the record stays parked all the same.
    """
    parked: dict[RecordKey, int] = {}
    for index, fact in of.among(Moved, Accepted) if of.sweeps or of.operated_in else ():
        if isinstance(fact, Moved):
            since = parked.get(fact.record)
            if fact.state == "parked":
                parked.setdefault(fact.record, index)
            elif since is not None:
                del parked[fact.record]
                if fact.invocation not in of.operated_in:
                    yield f"a record of {fact.record[0]} was parked, and no operator has settled it", (since, index)
        elif isinstance(fact, Accepted) and fact.invocation in of.sweeps:
            one, began = of.born.get(fact.event_id), of.sweeps[fact.invocation][0]
            since = None if one is None else parked.get(one.record)
            if one is not None and since is not None and since < began:
                yield f"a sweep published {one.name}, which was parked before it began", (since, began, index)


def _age_ms(fact: Accepted, dated_ms: int, swept: Swept) -> int:
    """Return how old a record was when a sweep had it accepted, by the clock of that sweep."""
    return START_MS + fact.at_ms + swept.ahead_ms - dated_ms


def _has_jumped(of: History, invocation: int) -> bool:
    """Whether the clock of a sweep jumped while it was at work."""
    return CLOCK_JUMP in of.faulted.get(invocation, ())
