"""What is published of a key: of its pending records the first ones, in order, up to the first that has to wait.

The records come from a consistent read of the key's partition. Left alone are those that are not this sweep's:

    parked, published, discarded        their state says that nobody waits for them
    written in another Region           a replica of a global table; its own Region's relay and sweep see to it
    of another layout                   another outbox in the same table: other columns, another prefix

Of the others the order is that of `core.record.order`. Nothing is published of a key behind a record that is too young:
that one is on its way through the relay, and what comes after it must not be first.

A key may have more pending records than one read gives. Those that were not read are younger by their sort keys, and
may all the same come before the last of those that were. So the last five minutes of an incomplete read are left to the
next one, unless that would leave nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.order import Dated, in_order, versions_of
from dynamodb_outbox.core.record.place import is_of, place_of, written_in
from dynamodb_outbox.core.record.states import PENDING, state_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dynamodb_outbox.core.record.place import Place
    from dynamodb_outbox.core.sweeping.ages import Ages
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["APART_MS", "Choice", "choose"]

APART_MS = 5 * 60 * 1000
"""How far apart the clocks of writers are taken to be where a key is read in parts."""


@dataclass(frozen=True)
class Choice:
    """The `records` of a key to publish, in order. `young` wait: they are too young, or behind one that is.

    `more`: others that are old enough were not read yet, or are left to the next read. `elsewhere` and `others` count
    the pending records that are another Region's, or another layout's.
    """

    records: tuple[WireItem, ...] = ()
    young: int = 0
    more: bool = False
    elsewhere: int = 0
    others: int = 0


def choose(
    found: Sequence[WireItem],
    layout: Layout,
    here: str | None,
    ages: Ages,
    *,
    complete: bool = True,
    but: Collection[Place] = (),
) -> Choice:
    """Return what to publish of the items that were read of a key.

    `here` is the AWS Region of the table; `but` are records that this sweep has published before, and that were left
    pending; `complete` says whether the read gave all pending records of the key.
    """
    pending = [item for item in found if state_of(item, layout) == PENDING and place_of(item, layout) not in but]
    ours = [item for item in pending if is_of(item, layout)]
    own = [item for item in ours if here is None or written_in(item, layout) in (None, here)]
    dated = [_dated(item, layout, ages, alone=len(own) == 1) for item in own]
    order = in_order(dated)
    due = next((count for count, place in enumerate(order) if dated[place].at_ms > ages.cutoff_ms), len(order))
    chosen = order[:due]
    if not complete and chosen:
        newest = max(each.at_ms for each in dated)
        chosen = [place for place in chosen if dated[place].at_ms <= newest - APART_MS] or chosen
    return Choice(
        tuple(own[place] for place in chosen),
        young=len(order) - due,
        more=len(chosen) < due or not complete,
        elsewhere=len(ours) - len(own),
        others=len(pending) - len(ours),
    )


def _dated(item: WireItem, layout: Layout, ages: Ages, *, alone: bool) -> Dated:
    at = schema.value(item, layout, schema.AT).get("N")
    at_ms = ages.cutoff_ms if at is None else ages.dated(int(Decimal(at)))
    return Dated(at_ms, "/".join(place_of(item, layout)), {} if alone else versions_of(item, layout))
