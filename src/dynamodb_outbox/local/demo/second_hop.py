"""The account of the second hop: what the consumer emitted in turn, from its rows to the ledger. Pure.

Each effect of the first consumer lists the event that was committed with it, so that what should have been announced is
read off its table, as it is for orders. A consumer that lists none is not asked for any: what happens at the second
hop is counted then, and nothing is judged by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.local.demo.counting import Consumed, consumed, listed_twice, out_of_order, renamed
from dynamodb_outbox.local.demo.evidence import acceptance, changes, stored

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.evidence import Evidence

__all__ = ["HopFigures", "hop_figures"]


@dataclass(frozen=True)
class HopFigures:
    """What can be said of the second hop, in the words of the first (`account.py`). What is parked is so wrongly.

    Where it is not `judged`, nothing is said against it.
    """

    events: int
    published: int
    consumed: Consumed
    lost: tuple[str, ...] = ()
    phantom: tuple[str, ...] = ()
    out_of_order_keys: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    committed_twice: tuple[str, ...] = ()
    parked: tuple[str, ...] = ()
    pending: int = 0
    judged: bool = True


def hop_figures(evidence: Evidence) -> HopFigures:
    """Draw up the account of the second hop."""
    second, rows = evidence.second, evidence.consumer
    committed, records = changes(rows), stored(rows)
    accepted = [acceptance(row) for row in second.acceptances]
    names, published = {change.name for change in committed}, {one.name for one in accepted}
    consumption = consumed(accepted, second.deliveries, second.ledger)
    if not names:
        counted = Consumed(consumption.deliveries, consumption.duplicates_delivered)
        return HopFigures(0, len(published), counted, judged=False)
    return HopFigures(
        events=len(names),
        published=len(published),
        lost=tuple(sorted(names - published)),
        phantom=tuple(sorted(str(name) for name in published - names)),
        out_of_order_keys=tuple(out_of_order(committed, accepted)),
        renamed=renamed(accepted),
        committed_twice=tuple(sorted(listed_twice(rows))),
        parked=tuple(sorted(one.name or one.id for one in records if one.state == "parked")),
        pending=sum(one.state not in {"published", "parked"} for one in records),
        consumed=consumption,
    )
