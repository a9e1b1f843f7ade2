"""The states of one event in a relay invocation, as a table.

An event waits in the queue of its key. Only the head of a queue is ever sent; the next one follows when the head is
accepted or parked, which is what keeps the order of first acceptances within a key. A head that can do neither in this
invocation stays where it is (BACKOFF without a further attempt) or is STUCK, and with it its key: the stream delivers
both again.

    QUEUED --heads--> READY --sent--> INFLIGHT --accepted--> ACCEPTED
                        |                |
                        |                +--retried--> BACKOFF --due--> READY
                        |                +--narrowed-> READY          (a refused request is tried in smaller ones)
                        +----refused-----+--refused--> PARKING --parked--> PARKED
                        +----frozen------+--frozen---> STUCK <--frozen--+
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DONE", "TRANSITIONS", "Cause", "State"]


class State(IntEnum):
    """Where an event is."""

    QUEUED = 0
    """Behind another event of its key."""
    READY = 1
    """The head of its key, waiting for a request to travel in."""
    INFLIGHT = 2
    """Sent, no answer yet."""
    BACKOFF = 3
    """Not accepted; to be sent again at a later time."""
    ACCEPTED = 4
    """The sink said yes."""
    PARKING = 5
    """The sink can never accept it; the record is being parked."""
    PARKED = 6
    """The parked record is stored."""
    STUCK = 7
    """Neither accepted nor parked in this invocation; the checkpoint stays before it."""


class Cause(IntEnum):
    """Why an event moves."""

    HEADS = 0
    SENT = 1
    ACCEPTED = 2
    RETRIED = 3
    DUE = 4
    NARROWED = 5
    REFUSED = 6
    PARKED = 7
    FROZEN = 8


TRANSITIONS: Mapping[tuple[State, Cause], State] = MappingProxyType(
    {
        (State.QUEUED, Cause.HEADS): State.READY,
        (State.READY, Cause.SENT): State.INFLIGHT,
        (State.READY, Cause.REFUSED): State.PARKING,
        (State.READY, Cause.FROZEN): State.STUCK,
        (State.INFLIGHT, Cause.ACCEPTED): State.ACCEPTED,
        (State.INFLIGHT, Cause.RETRIED): State.BACKOFF,
        (State.INFLIGHT, Cause.NARROWED): State.READY,
        (State.INFLIGHT, Cause.REFUSED): State.PARKING,
        (State.INFLIGHT, Cause.FROZEN): State.STUCK,
        (State.BACKOFF, Cause.DUE): State.READY,
        (State.PARKING, Cause.PARKED): State.PARKED,
        (State.PARKING, Cause.FROZEN): State.STUCK,
    }
)
"""The whole machine of one event; a pair that is not here cannot happen."""

DONE = frozenset((State.ACCEPTED, State.PARKED))
"""States in which the stream may forget the event; only from them the next of the key follows."""
