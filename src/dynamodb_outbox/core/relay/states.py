"""The states of one event in a relay invocation, as a table.

An event waits in the queue of its key. Only the head of a queue is ever sent; the next one follows when the head is
accepted or parked, which is what keeps the order of first acceptances within a key. A head that can do neither in this
invocation stays where it is (READY or BACKOFF, while its destination is held) or is STUCK, and with it its key: the
stream delivers both again. docs/relay.md has the table as a diagram, which is made of it.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DONE", "TRANSITIONS", "Cause", "State", "diagram"]


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
    """What was before it in its key is done, and nothing says that the key is parked."""
    SENT = 1
    """A request with it has started."""
    ACCEPTED = 2
    """The result for it says so."""
    REMEMBERED = 3
    """The sink had accepted it in an earlier invocation of this relay."""
    RETRIED = 4
    """It was not accepted, or nobody knows, and can pass later."""
    DUE = 5
    """Its pause is over."""
    NARROWED = 6
    """The request was refused as a whole: it is tried again in a smaller one."""
    REFUSED = 7
    """It can never pass, or its key is parked."""
    PARKED = 8
    """The parked record is stored, and names it."""
    FROZEN = 9
    """It has to wait for another invocation."""


TRANSITIONS: Mapping[tuple[State, Cause], State] = MappingProxyType(
    {
        (State.QUEUED, Cause.HEADS): State.READY,
        (State.READY, Cause.SENT): State.INFLIGHT,
        (State.READY, Cause.REMEMBERED): State.ACCEPTED,
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


def diagram() -> str:
    """Return the table as a diagram in the language of Mermaid."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.QUEUED.name}"]
    lines += [f"    {before.name} --> {after.name}: {cause.name.lower()}" for (before, cause), after in _ROWS]
    lines += [f"    {state.name} --> [*]" for state in State if state in DONE]
    return "\n".join(lines)


_ROWS = sorted(TRANSITIONS.items())
