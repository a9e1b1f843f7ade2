"""One round of a sweep: keys that are read together, and the records that are published of them together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.place import place_of
from dynamodb_outbox.core.sweeping.choice import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.sweeping.ages import Ages
    from dynamodb_outbox.core.sweeping.choice import Choice
    from dynamodb_outbox.core.sweeping.commands import Failed, KeyFound, Published
    from dynamodb_outbox.core.sweeping.keys import Key
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Ended", "Round"]


@dataclass
class Ended:
    """What a round came to: records that are `left`; keys whose turn is next (`first`), or comes again (`last`)."""

    left: int = 0
    first: list[Key] = field(default_factory=list)
    last: list[Key] = field(default_factory=list)


class Round:
    """`records` are to be published, those of a key in their order; `unread` the keys that could not be read.

    `unfit` are keys for whose records there was no room. `young`, `elsewhere` and `others` are counts as in a `Choice`.
    """

    def __init__(self, keys: Sequence[Key], layout: Layout) -> None:
        self.keys = keys
        self.records: tuple[WireItem, ...] = ()
        self.unread: list[tuple[Key, Failed]] = []
        self.unfit: list[Key] = []
        self.young = self.elsewhere = self.others = 0
        self._layout = layout
        self._parts: list[tuple[Key, range, bool]] = []  # key, positions of its records, whether it has more

    def met_ms(self, found: Sequence[KeyFound], ages: Ages) -> int:
        """Return the age of the oldest record that the index named and that had been settled when it was read; or 0."""
        met = [0]
        for key, one in zip(self.keys, found, strict=True):
            if one.complete and one.failure is None and not key.published:
                there = {place_of(item, self._layout) for item in one.items}
                met += [
                    ages.now_ms - entry.at_ms
                    for entry in key.entries
                    if not ages.is_ahead(entry.at_ms) and place_of(entry.item, self._layout) not in there
                ]
        return max(met)

    def read(self, found: Sequence[KeyFound], here: str | None, ages: Ages, most: int) -> None:
        """Take in what was read of each key, and choose up to `most` records."""
        records: list[WireItem] = []
        for key, one in zip(self.keys, found, strict=True):
            if one.failure is not None:
                self.unread.append((key, one.failure))
                continue
            choice = choose(one.items, self._layout, here, ages, complete=one.complete, but=key.published)
            if choice.records and len(records) == most:
                self.unfit.append(key)
                continue
            self._count(choice)
            part = choice.records[: most - len(records)]
            more = choice.more or len(part) < len(choice.records)
            self._parts.append((key, range(len(records), len(records) + len(part)), more))
            records += part
        self.records = tuple(records)

    def _count(self, choice: Choice) -> None:
        self.young += choice.young
        self.elsewhere += choice.elsewhere
        self.others += choice.others

    def ended(self, published: Published) -> Ended:
        """Take in what came of the records."""
        ended = Ended()
        was_tried = len(published.untried) < len(self.records)
        for key, positions, more in self._parts:
            done = published.done.intersection(positions)
            key.published.update(place_of(self.records[position], self._layout) for position in done)
            if len(done) == len(positions):
                if more and done:
                    ended.first.append(key)
            elif was_tried and published.untried.issuperset(positions):
                ended.last.append(key)
            else:
                ended.left += len(positions) - len(done)
        return ended
