"""The keys of a partition of the index that wait for their turn in a sweep, those with the oldest record first.

A key has one turn in a sweep: whatever came of it, it is not tried again, so that a key that is stuck keeps nobody
waiting. It has another one at once where it has more records than one read gives, and the last of all where nothing was
tried of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.place import key_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamodb_outbox.core.record.pending import Entry
    from dynamodb_outbox.core.record.place import Place
    from dynamodb_outbox.core.sweeping.ages import Ages
    from dynamodb_outbox.layout import Layout

__all__ = ["Key", "Keys"]


@dataclass
class Key:
    """A key of which the index named `entries`; its records that were `published` in this sweep; reads that failed.

    `label` is what its records have in common.
    """

    label: str
    entries: list[Entry] = field(default_factory=list)
    published: set[Place] = field(default_factory=set)
    failures: int = 0


class Keys:
    """The keys that wait."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._waiting: deque[Key] = deque()
        self._had: set[str] = set()  # what tells the keys that wait, or have had a turn

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, entries: Iterable[Entry], ages: Ages) -> int:
        """Take the keys of those entries that are due, in their order, but those with a turn; count these entries."""
        new: dict[str, Key] = {}
        for entry in entries:
            label = self._label(entry)
            if ages.is_due(entry.at_ms) and label not in self._had:
                new.setdefault(label, Key(label)).entries.append(entry)
        self._waiting.extend(new.values())
        self._had.update(new)
        return sum(len(key.entries) for key in new.values())

    def take(self, most: int) -> list[Key]:
        """Return the next keys, `most` of them."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def first(self, keys: list[Key]) -> None:
        """Let keys be the next ones, in their order."""
        self._waiting.extendleft(reversed(keys))

    def last(self, keys: list[Key]) -> None:
        """Let keys have their turn after all others."""
        self._waiting.extend(keys)

    def clear(self) -> None:
        """Forget the keys that wait; they may come again, and those that had their turn may not."""
        self._had.difference_update(key.label for key in self._waiting)
        self._waiting.clear()

    def records(self) -> int:
        """Return how many records the index named of the keys that wait."""
        return sum(len(key.entries) for key in self._waiting)

    def _label(self, entry: Entry) -> str:
        """Return what the records of a key have in common: their partition; where there is none, the key itself."""
        if self._layout.sk is None and entry.key is not None:
            return entry.key
        return key_text(entry.item[self._layout.pk])
