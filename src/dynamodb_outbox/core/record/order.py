"""In which order records of a key were committed, as far as the records themselves tell.

The stream knows the order, and a sweep is for what the stream has not told. Two things speak of it. The `sequence` of
an event is the version of the item that its `subject` names: of two events of one item it says for certain which one
was first. `at` is when a record was first sent, by the clock of its writer: for records of different items, or without
versions, there is nothing else, and it is as good as the writers' clocks, and as the time that commits of one key are
apart.

So the records are taken by `at`, but for those that have to wait for an earlier version of one of their items. Records
of equal date are taken by their sort keys, so that two sweeps do the same.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Dated", "in_order", "versions_of"]

_ANY_SOURCE = "-"


class Dated(NamedTuple):
    """What a record says of its place: the date that counts, a `name` unlike others', and the versions that it tells.

    `versions` has the least `sequence` of its events by their `subject`.
    """

    at_ms: int
    name: str
    versions: Mapping[str, str]


def versions_of(record: WireItem, layout: Layout) -> dict[str, str]:
    """Return the first sequence of each item that the events of a record are about; none where it cannot be read."""
    try:
        events = decode(record, layout, source=_ANY_SOURCE).events
    except (InvalidRecord, ConfigurationError):
        return {}
    found: dict[str, str] = {}
    for event in events:
        if event.subject is not None and event.sequence is not None:
            found[event.subject] = min(event.sequence, found.get(event.subject, event.sequence))
    return found


def in_order(records: Sequence[Dated]) -> list[int]:
    """Return the positions of records in the order in which they are to be published."""
    following, waits = _edges(records)
    ready = [(each.at_ms, each.name, place) for place, each in enumerate(records) if not waits[place]]
    heapify(ready)
    left = {place: (each.at_ms, each.name, place) for place, each in enumerate(records)}
    ordered: list[int] = []
    while left:
        # Versions that contradict each other, which no table gives, leave none ready: then the dates decide.
        place = (heappop(ready) if ready else min(left.values()))[2]
        del left[place]
        ordered.append(place)
        for other in following[place]:
            waits[other] -= 1
            if not waits[other] and other in left:
                heappush(ready, left[other])
    return ordered


def _edges(records: Sequence[Dated]) -> tuple[list[list[int]], list[int]]:
    """Return which records follow a record by a version of an item, and for how many each one waits."""
    of_item: defaultdict[str, list[tuple[str, int, str, int]]] = defaultdict(list)
    for place, each in enumerate(records):
        for subject, sequence in each.versions.items():
            of_item[subject].append((sequence, each.at_ms, each.name, place))
    following: list[list[int]] = [[] for _ in records]
    waits = [0] * len(records)
    for told in of_item.values():
        told.sort()
        for before, after in itertools.pairwise(told):
            following[before[3]].append(after[3])
            waits[after[3]] += 1
    return following, waits
