"""What an account counts at each hop: events in their order, effects, balances. Pure, and the same for both."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.local.demo.evidence import changes, event_id
from dynamodb_outbox.local.demo.names import BALANCE, INVOICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from dynamodb_outbox.local.demo.evidence import Acceptance, Change, Item

__all__ = ["Consumed", "consumed", "listed_twice", "out_of_order", "renamed"]


@dataclass(frozen=True)
class Consumed:
    """What a consumer was handed, and what it made of it.

    effects_twice      ids of events that it applied more than once
    effects_missing    ids of events that were delivered and not applied
    undelivered        ids of events that the bus accepted and never delivered
    wrong_balances     customers whose balance, or the sum of whose invoices, is not that of the effects
    """

    deliveries: int
    duplicates_delivered: int
    effects_twice: tuple[str, ...] = ()
    effects_missing: tuple[str, ...] = ()
    undelivered: tuple[str, ...] = ()
    wrong_balances: tuple[str, ...] = ()


def consumed(
    accepted: Iterable[Acceptance], deliveries: Iterable[Mapping[str, Any]], items: Sequence[Item]
) -> Consumed:
    """Compare what a bus accepted and delivered with the items of the consumer's table."""
    delivered = [event_id(row) for row in deliveries]
    effects = Counter(item["event"] for item in items if "event" in item)
    return Consumed(
        deliveries=len(delivered),
        duplicates_delivered=len(delivered) - len(set(delivered)),
        effects_twice=tuple(sorted(one for one, times in effects.items() if times > 1)),
        effects_missing=tuple(sorted(str(one) for one in set(delivered) - set(effects))),
        undelivered=tuple(sorted(str(one) for one in {one.id for one in accepted} - set(delivered))),
        wrong_balances=_wrong_balances(items),
    )


def _wrong_balances(items: Iterable[Item]) -> tuple[str, ...]:
    effects, balances = Counter[str](), Counter[str]()
    for item in items:
        if "event" in item:
            effects[item["pk"]] += item["cents"]
        elif item["sk"] == BALANCE or item["sk"].startswith(INVOICE):
            balances[item["pk"]] += item["cents"]
    return tuple(sorted(key for key in effects.keys() | balances.keys() if effects[key] != balances[key]))


def out_of_order(committed: Sequence[Change], accepted: Sequence[Acceptance]) -> list[str]:
    """Return the keys in which a first acceptance came after that of a later event."""
    place = {change.name: change for change in committed}
    latest: dict[str, tuple[int, int]] = {}
    broken: dict[str, None] = {}
    for name in dict.fromkeys(one.name for one in accepted):
        change = place.get(name) if name is not None else None
        if change is None:
            continue
        position = (change.n, change.place)
        if position < latest.get(change.key, position):
            broken[change.key] = None
        latest[change.key] = max(position, latest.get(change.key, position))
    return list(broken)


def renamed(accepted: Iterable[Acceptance]) -> tuple[str, ...]:
    """Return the names of events that were published under more than one id."""
    ids: dict[str | None, set[str | None]] = defaultdict(set)
    for one in accepted:
        ids[one.name].add(one.id)
    return tuple(sorted(str(name) for name, known in ids.items() if len(known) > 1))


def listed_twice(items: Sequence[Item]) -> list[str]:
    """Return the names of events that the rows of a table list more than once."""
    return [name for name, times in Counter(change.name for change in changes(items)).items() if times > 1]
