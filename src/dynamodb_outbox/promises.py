"""Which promises hold for a set-up, why, and what would change it: computed, not narrated.

    for each in guarantees(Layout(settle="none"), parallelization=4):
        print(each.promise, each.standing.value, each.why)

A promise has one of four standings. `HOLDS`: it follows from what this library does and AWS documents. `OBSERVED`: it
rests on something that AWS has been seen to do and does not document. `LIMITED`: it holds within bounds, which `why`
names. `NOT_PROMISED`: it may be broken without anything having failed.

docs/guarantees.md, `outbox guarantees` and the doctor say what this function says. It looks at nothing but its
arguments: whether a stream is on, or a bus exists, is for the doctor to find out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from dynamodb_outbox.arguments import choice, flag, refusal, shown, whole
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

__all__ = ["PROMISES", "Guarantee", "SinkKind", "Standing", "guarantees"]

SinkKind = Literal["bus", "topic", "topic.fifo", "queue", "queue.fifo"]

PROMISES = {
    "P1": "An event exists if and only if the change it describes was committed (in one Region)",
    "P2": "A committed event is accepted by the sink at least once, or is parked where an operator sees it",
    "P3": "Every publication of one event carries the same id",
    "P4": "For events a before b of one key, the first acceptance of a precedes the first acceptance of b",
    "P5": "A consumer that writes its effect through the inbox applies an event once",
    "P6": "A retried command does not commit twice",
    "P7": "Which of these hold is computed from the set-up",
}


_refusal = partial(refusal, "guarantees")


class Standing(Enum):
    """How far a promise holds."""

    HOLDS = "holds"
    OBSERVED = "observed"
    LIMITED = "limited"
    NOT_PROMISED = "not promised"


@dataclass(frozen=True)
class Guarantee:
    """A promise in a set-up: how far it holds, why, and what would change that."""

    promise: str
    standing: Standing
    why: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _SetUp:
    """What the promises depend on: the arguments of `guarantees`, checked."""

    layout: Layout
    ordering: Literal["key", "none"]
    on_poison: Literal["park", "park_key", "block"]
    parallelization: int
    sink: SinkKind
    sweeper: bool
    keeps_records: bool
    hand_written: bool

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise _refusal("layout")(f"is {shown(self.layout)}; a Layout is needed.")
        for what, allowed in _CHOICES.items():
            choice(getattr(self, what), _refusal(what), allowed)
        whole(self.parallelization, _refusal("parallelization"), least=1, most=10)
        for what in ("sweeper", "keeps_records", "hand_written"):
            flag(getattr(self, what), _refusal(what))

    @property
    def is_swept(self) -> bool:
        """Whether what the stream misses is found by somebody."""
        return self.sweeper and self.layout.settle != "none" and not self.hand_written

    @property
    def has_text_keys(self) -> bool:
        """Whether the records' table has a place for items of the library's own, as guards."""
        return self.layout.keys.are_text


_CHOICES: dict[str, tuple[str, ...]] = {
    "ordering": ("key", "none"),
    "on_poison": ("park", "park_key", "block"),
    "sink": get_args(SinkKind),
}


def guarantees(
    layout: Layout | None = None,
    *,
    ordering: Literal["key", "none"] = "key",
    on_poison: Literal["park", "park_key", "block"] = "park",
    parallelization: int = 1,
    sink: SinkKind = "bus",
    sweeper: bool = True,
    keeps_records: bool = True,
    hand_written: bool = False,
) -> tuple[Guarantee, ...]:
    """Return what holds of P1 to P7, in this order.

    layout           the writer's Layout, with its `settle`
    ordering, on_poison    those of the relay
    parallelization  ParallelizationFactor of the relay's mapping, 1 to 10
    sink             where events go: "bus", "topic", "queue", and with ".fifo" the two that have an order
    sweeper          whether a sweeper runs
    keeps_records    whether the mapping's on-failure destination is a bucket, which gets the records
    hand_written     whether the records are another program's, without attributes of the index

    Raises ConfigurationError for anything else.
    """
    set_up = _SetUp(
        layout=layout if layout is not None else Layout(),
        ordering=ordering,
        on_poison=on_poison,
        parallelization=parallelization,
        sink=sink,
        sweeper=sweeper,
        keeps_records=keeps_records,
        hand_written=hand_written,
    )
    return tuple(judge(set_up) for judge in _JUDGES)


def _exists(set_up: _SetUp) -> Guarantee:
    if set_up.hand_written:
        why = "The change and the record are in one transaction if their writer puts them there."
        return Guarantee("P1", Standing.LIMITED, why, ("Write through Outbox, or outbox.records().",))
    why = "The change and the record are in one TransactWriteItems, which DynamoDB does as a whole or not at all."
    return Guarantee("P1", Standing.HOLDS, why, ("A table with multi-Region strong consistency has no transactions.",))


def _delivered(set_up: _SetUp) -> Guarantee:
    why = "Every entry's result is read, and nothing is settled before it was accepted."
    changes: list[str] = []
    for is_so, said, change in _TAKING:
        if is_so(set_up):
            why += f" {said}"
            changes.append(change)
    if set_up.is_swept:
        why += " What the stream loses after its 24 hours is still in the index, and swept."
        return Guarantee("P2", Standing.LIMITED if changes else Standing.HOLDS, why, tuple(changes))
    why += " The stream alone knows what is pending, and for 24 hours: " + _unswept(set_up)
    if set_up.keeps_records:
        why += " What the mapping gives up by then is in its bucket, with the records."
    else:
        why += " What the mapping gives up is told by its numbers in the stream alone, which forgets it by then, too."
        changes.append("A bucket as the on-failure destination gets the records themselves.")
    changes.append(_sweepable(set_up))
    return Guarantee("P2", Standing.LIMITED, why, tuple(changes))


_ASKED_AGAIN_S = 60  # that is `verified_ms` of a relay

_BUS = (
    "EventBridge says yes to events for a bus that does not exist, and drops them. A bus is asked for before it is "
    f"sent anything, and again after {_ASKED_AGAIN_S} s: what is sent to one that was deleted meanwhile is lost, and "
    "one of another account cannot be asked for."
)
_NO_BUS = (
    "A queue or a topic as the sink, of which FIFO ones keep the order of a key, too: they refuse what comes when they "
    "are gone. An archive of the bus does not help: it has nothing of what came when there was no bus."
)
_TAKING: tuple[tuple[Callable[[_SetUp], bool], str, str], ...] = (
    (lambda set_up: set_up.sink == "bus", _BUS, _NO_BUS),
    (
        lambda set_up: set_up.on_poison == "block",
        "What can never be accepted is held, not parked: its key waits until the sink takes it.",
        "on_poison='park' parks it, and its key goes on.",
    ),
)
"""What limits P2 besides the sweeper: when, why, and what would change it."""


def _unswept(set_up: _SetUp) -> str:
    if set_up.hand_written:
        return "hand-written rows are in no index until they are parked."
    if set_up.layout.settle == "none":
        return "settle='none' leaves records out of the index."
    return "no sweeper reads the index."


def _sweepable(set_up: _SetUp) -> str:
    if set_up.hand_written:
        return "Rows that carry ob_pending, at, id and key are swept."
    return "Another settle, and a sweeper." if set_up.layout.settle == "none" else "A sweeper."


def _same_id(set_up: _SetUp) -> Guarantee:
    if set_up.hand_written:
        why = "The id is that of the row, or made of its keys: the same each time that it is read."
    else:
        why = "The id is fixed when the transaction is built, and stored with the event."
    return Guarantee("P3", Standing.HOLDS, why)


def _in_order(set_up: _SetUp) -> Guarantee:
    never = _no_order(set_up)
    if never is not None:
        return Guarantee("P4", Standing.NOT_PROMISED, *never)
    why = (
        "The records of a key are in one partition, and the relay sends the next event when the one before it was "
        "accepted. That a stream keeps the order of different items of one partition has been observed, with a "
        "parallelization factor of 1; AWS documents it for one item. "
        f"{_POISON[set_up.on_poison]} {_BEYOND[set_up.sink]}"
    )
    changes = []
    if set_up.is_swept and set_up.layout.version is None:
        why += (
            " A sweep orders events by when their records were first sent, by their writers' clocks: events that are "
            "pending together, and closer than the clocks agree, may come out of order."
        )
        changes.append("Layout(version=...) orders the events of an item by its versions in a sweep, too.")
    if set_up.on_poison == "park":
        changes.append("on_poison='park_key' parks what follows of the key, too, so that it is published after it.")
    return Guarantee("P4", Standing.OBSERVED, why, tuple(changes))


def _no_order(set_up: _SetUp) -> tuple[str, tuple[str, ...]] | None:
    if set_up.ordering == "none":
        return "ordering='none' sends all at once.", ("ordering='key', with a parallelization factor of 1.",)
    if set_up.layout.sk is None:
        why = "Without a sort key each record is a partition of its own, and a stream orders no two partitions."
        return why, ("A table with a sort key.",)
    if set_up.parallelization > 1:
        why = (
            f"The records of a key are different items, which up to {set_up.parallelization} batches of a shard hand "
            "over at the same time."
        )
        return why, ("A parallelization factor of 1.",)
    return None


_POISON = {
    "park": "A parked event is out of the order of its key.",
    "park_key": "What follows a parked event of its key is parked, too, until somebody lets the key go.",
    "block": "An event that is never accepted holds its key.",
}
_BEYOND = {
    "bus": "EventBridge adds no order of its own: consumers see what it makes of it.",
    "topic": "A standard topic adds no order of its own: consumers see what it makes of it.",
    "topic.fifo": "A FIFO topic keeps the order of a key's group, for queues that are FIFO as well.",
    "queue": "A standard queue keeps no order: consumers see what it makes of it.",
    "queue.fifo": "A FIFO queue keeps the order of a key's group.",
}


def _applied_once(set_up: _SetUp) -> Guarantee:
    why = (
        "The inbox record is in the effect's own transaction, and is kept for 30 days, unless the consumer says "
        "otherwise: what is delivered later than that is applied again."
    )
    if set_up.sink.endswith(".fifo"):
        why += " The sink itself drops an id that comes again within five minutes."
    changes = ("Inbox(remember=...), longer than queue, dead-letter queue and replays take together.",)
    return Guarantee("P5", Standing.LIMITED, why, (*changes, "Effects outside of the transaction are outside of it."))


def _command_once(set_up: _SetUp) -> Guarantee:
    if set_up.hand_written:
        return Guarantee("P6", Standing.NOT_PROMISED, "Guards are Outbox's.", ("Write through Outbox.",))
    if not set_up.has_text_keys:
        why = "A guard has keys that are text, and this table's are of other types."
        return Guarantee("P6", Standing.NOT_PROMISED, why, ("A table of records with keys of type S.",))
    why = (
        "With idempotency_key, a guard is in the same transaction, and is kept for "
        f"{_days(set_up.layout.guard_for)}. Without, a commit whose answer was lost is found by its record, for "
        f"{_found_for(set_up.layout)}; after that it may end as CommitUnknown, never as one that failed."
    )
    return Guarantee("P6", Standing.LIMITED, why, ("Layout(guard_for=...) keeps guards longer.",))


def _found_for(layout: Layout) -> str:
    return "9 minutes, by its token alone" if layout.settle == "delete" else _days(layout.published_for)


def _days(duration: timedelta) -> str:
    days, rest = divmod(duration.total_seconds(), 86_400)
    if rest:
        return f"{duration.total_seconds():,.0f} s"
    return "1 day" if days == 1 else f"{days:,.0f} days"


def _computed(_set_up: _SetUp) -> Guarantee:
    return Guarantee("P7", Standing.HOLDS, "This is a function of the set-up, and its tests hold the documents to it.")


_JUDGES: tuple[Callable[[_SetUp], Guarantee], ...] = (
    _exists,
    _delivered,
    _same_id,
    _in_order,
    _applied_once,
    _command_once,
    _computed,
)
