"""The states of a stored record, as one table: `MOVES`. Whoever moves a record reads it: settling, parking, repairs.

    pending ------> published    its events were accepted: out of the index, kept or not as its way of settling says
       |               ^
       +--> parked ----+         an event of it can never be accepted: kept without a TTL, in its own part of the index
               |
               +--> discarded    somebody decided that it shall never be published

A hand-written record begins with no state and counts as pending; its state is kept in `ob_state`, because `state` may
be a column of its writer's. So may the other marks, which are `ob_parked_at` and so on there. Every move is one
conditional write: the record must be in the state that the mover saw, so two movers never undo each other. And it must
be the record that the mover saw: another may have been written under its keys since (`core.record.same`).
Parking alone may also find no item, and writes it then: the event exists nowhere else. Where it finds another record,
it leaves that alone, and writes its own apart. No other move creates an item, so none leaves a ghost of a record that
was deleted.

How a record becomes published is said by itself (`ob_settle`), by a hand-written one's relay: `WAYS`. One that is
deleted is published all the same: whoever finds no item where a record was may not take it for pending.

Attributes that a move leaves behind, by names that the layout's `columns` may change; in a hand-written record with
`ob_` before those of the state and of parking:

    state          S    published, parked or discarded
    <ttl>          N    epoch seconds, on published records that expire; a record that nothing settles has it always
    ob_pending     S    `parked` on parked records; absent on published ones
    parked_at      N    epoch milliseconds
    parked_code    S    what refused the event: the bus's code, or this library's for what was found without asking it
    parked_reason  S    the words that came with it, shortened; never the payload
    parked_events  NS   positions, from 0, of the events that were refused, in a record of several; absent: all of them
    parked_attempts   N  how often it was refused in all, once somebody has had it published again; absent: once
    discarded_at      N  epoch milliseconds; with it stay the marks of parking
    discarded_reason  S  why somebody decided so, in their words, shortened
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.schema import PARKED, PENDING, PENDING_INDEX, SCHEMA, SETTLE, state_name, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = [
    "DISCARDED",
    "DISCARDED_AT",
    "DISCARDED_REASON",
    "FINAL_STATES",
    "MOVES",
    "PARKED",
    "PARKED_AT",
    "PARKED_ATTEMPTS",
    "PARKED_CODE",
    "PARKED_EVENTS",
    "PARKED_REASON",
    "PENDING",
    "PUBLISHED",
    "WAYS",
    "Expected",
    "Move",
    "Way",
    "expected",
    "mark_name",
    "move_of",
    "needs_no_parking",
    "needs_no_settling",
    "state_of",
    "way_of",
]

PUBLISHED = "published"
DISCARDED = "discarded"

PARKED_AT = "parked_at"
PARKED_ATTEMPTS = "parked_attempts"
PARKED_CODE = "parked_code"
PARKED_EVENTS = "parked_events"
PARKED_REASON = "parked_reason"
DISCARDED_AT = "discarded_at"
DISCARDED_REASON = "discarded_reason"


@dataclass(frozen=True)
class Move:
    """An edge of the table: from `before` to `after`, on condition of `before`.

    creates    whether the item may be gone: it is written as a whole then. The condition of every other move is that
               the item is there
    index      the partition of the sparse index where the record is afterwards; None: it is in none
    """

    before: str
    after: str
    creates: bool = False
    index: str | None = None

    @property
    def state(self) -> AttributeValue:
        """What the attribute of the state becomes."""
        return {"S": self.after}


MOVES: Mapping[tuple[str, str], Move] = {
    (move.before, move.after): move
    for move in (
        Move(PENDING, PUBLISHED),
        Move(PENDING, PARKED, creates=True, index=PARKED),
        Move(PARKED, PUBLISHED),
        Move(PARKED, DISCARDED),
    )
}
"""All moves, by the states before and after; a pair that is not here is never written."""


@dataclass(frozen=True)
class Way:
    """How a record is settled: whether a pending one is written at all, stays in the table, and gets a TTL then."""

    writes: bool = True
    stays: bool = True
    expires: bool = False


WAYS: Mapping[str, Way] = {
    "expire": Way(expires=True),
    "mark": Way(),
    "delete": Way(stays=False),
    "none": Way(writes=False, expires=True),
}
"""All ways, by their names in `Layout(settle=)` and `ob_settle`."""

FINAL_STATES: tuple[AttributeValue, ...] = ({"S": PUBLISHED}, {"S": PARKED}, {"S": DISCARDED})
"""Values of `state` of a record that no relay publishes from the stream."""


@dataclass(frozen=True)
class Expected:
    """The condition of a move: the attribute of the state, by the table's name, and its value; None: it has none."""

    attribute: str
    value: AttributeValue | None


def mark_name(item: WireItem, name: str) -> str:
    """Return what a mark of parking, such as `PARKED_AT`, is called in an item: a hand-written one may have its own."""
    return name if SCHEMA in item else f"ob_{name}"


def state_of(item: WireItem, layout: Layout) -> str:
    """Return an item's state; anything that is not one of the later states counts as pending."""
    found = value(item, layout, state_name(item))
    return str(found["S"]) if found and found in FINAL_STATES else PENDING


def move_of(item: WireItem, after: str, layout: Layout) -> Move:
    """Return the move of an item, as it was seen, to a state. Raises ValueError for a move that there is not."""
    before = state_of(item, layout)
    if (before, after) not in MOVES:
        raise ValueError(f"no record moves from {before} to {after}")
    return MOVES[before, after]


def expected(item: WireItem, layout: Layout) -> Expected:
    """Return what a move of an item demands of the stored one: the state that was seen, whatever counted as pending."""
    attribute = layout.column(state_name(item))
    return Expected(attribute, item.get(attribute))


def way_of(item: WireItem, layout: Layout) -> Way:
    """Return how a record is settled: as it says itself; a hand-written one as the layout, its relay's, has it.

    One of ours that says something unknown is marked, for that takes nothing away. One that nothing settles, and that
    is parked, or in the index for another reason, has to leave it all the same: it expires.
    """
    if SCHEMA in item:
        said = item.get(SETTLE)
        way = WAYS["expire"] if said is None else WAYS.get(str(said.get("S")), WAYS["mark"])
    else:
        way = WAYS[layout.settle]
    return way if way.writes or PENDING_INDEX not in item else WAYS["expire"]


def needs_no_settling(item: WireItem, layout: Layout) -> bool:
    """Whether there is nothing to write once the events of a pending record were accepted."""
    return not way_of(item, layout).writes


def needs_no_parking(item: WireItem, events: frozenset[str] | None, layout: Layout) -> bool:
    """Whether an item found in place of the expected one makes a park of `events` (None: all) superfluous.

    So it does when it was published or discarded meanwhile, or is parked already with these events among its own.
    """
    state = state_of(item, layout)
    if state != PARKED:
        return state in (PUBLISHED, DISCARDED)
    parked = value(item, layout, mark_name(item, PARKED_EVENTS))
    return not parked or (events is not None and events <= set(parked.get("NS", ())))
