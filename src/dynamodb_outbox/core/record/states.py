"""The states of a stored record, as one table.

    pending ------> published    its events were accepted: kept until its TTL, out of the index
       |               ^
       +--> parked ----+         an event of it can never be accepted: kept without a TTL, in its own part of the index
               |
               +--> discarded    somebody decided that it shall never be published

A hand-written record begins with no state and counts as pending; its state is kept in `ob_state`, because `state` may
be a column of its writer's. So may the other marks, which are `ob_parked_at` and so on there. Every move is one
conditional write: the record must be in the state that the mover saw, so two movers never undo each other. Its identity
needs no condition of its own, since the id is part of its keys.
Parking alone may also find no item, and writes it then: the event exists nowhere else. No other move creates an item,
so none leaves a ghost of a record that was deleted.

Attributes that a move leaves behind, by names that the layout's `columns` may change; in a hand-written record with
`ob_` before those of the state and of parking:

    state          S    published, parked or discarded
    <ttl>          N    epoch seconds, on published records alone
    ob_pending     S    `parked` on parked records; absent on published ones
    parked_at      N    epoch milliseconds
    parked_code    S    what refused the event: the bus's code, or this library's for what was found without asking it
    parked_reason  S    the words that came with it, shortened; never the payload
    parked_events  NS   positions, from 0, of the events that were refused, in a record of several; absent: all of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.schema import PARKED, PENDING, SCHEMA, state_name, value

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.layout import Layout

__all__ = [
    "DISCARDED",
    "FINAL_STATES",
    "MOVES",
    "PARKED",
    "PARKED_AT",
    "PARKED_CODE",
    "PARKED_EVENTS",
    "PARKED_REASON",
    "PENDING",
    "PUBLISHED",
    "mark_name",
    "moved",
    "needs_no_parking",
    "state_of",
]

PUBLISHED = "published"
DISCARDED = "discarded"

PARKED_AT = "parked_at"
PARKED_CODE = "parked_code"
PARKED_REASON = "parked_reason"
PARKED_EVENTS = "parked_events"


MOVES = frozenset(((PENDING, PUBLISHED), (PENDING, PARKED), (PARKED, PUBLISHED), (PARKED, DISCARDED)))
"""All moves, from one state to another; a pair that is not here is never written."""

FINAL_STATES: tuple[AttributeValue, ...] = ({"S": PUBLISHED}, {"S": PARKED}, {"S": DISCARDED})
"""Values of `state` of a record that no relay publishes from the stream."""


def mark_name(item: WireItem, name: str) -> str:
    """Return what a mark of parking, such as `PARKED_AT`, is called in an item: a hand-written one may have its own."""
    return name if SCHEMA in item else f"ob_{name}"


def state_of(item: WireItem, layout: Layout) -> str:
    """Return an item's state; anything that is not one of the later states counts as pending."""
    found = value(item, layout, state_name(item))
    return str(found["S"]) if found in FINAL_STATES else PENDING


def moved(item: WireItem, state: str, layout: Layout) -> AttributeValue:
    """Return what `state` becomes by a move of `item`. Raises ValueError for a move that there is not."""
    before = state_of(item, layout)
    if (before, state) not in MOVES:
        raise ValueError(f"no record moves from {before} to {state}")
    return {"S": state}


def needs_no_parking(item: WireItem, events: frozenset[str] | None, layout: Layout) -> bool:
    """Whether an item found in place of the expected one makes a park of `events` (None: all) superfluous.

    So it does when it was published or discarded meanwhile, or is parked already with these events among its own.
    """
    state = state_of(item, layout)
    if state != PARKED:
        return state in (PUBLISHED, DISCARDED)
    parked = value(item, layout, mark_name(item, PARKED_EVENTS))
    return not parked or (events is not None and events <= set(parked.get("NS", ())))
