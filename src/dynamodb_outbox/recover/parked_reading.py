"""Which parked records are meant, and how they are read: named by the index, read from the table, consistently.

What the index names and is parked no more is passed over; so are the parked records of other layouts. A request that
fails in a way that may pass is made three times, with pauses; then `TableUnavailable` is raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from dynamodb_outbox.core.limits import BATCH_GET_KEYS
from dynamodb_outbox.core.record.parked import held, home_of, is_parked_here
from dynamodb_outbox.core.record.place import keys_of, place_of
from dynamodb_outbox.core.record.same import is_same
from dynamodb_outbox.core.record.schema import PARKED
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.core.sweeping.commands import Failed, List
from dynamodb_outbox.core.timing import full_jitter_ms
from dynamodb_outbox.errors import TableUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dynamodb_outbox.core.record.parked import Held
    from dynamodb_outbox.core.record.place import Place
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Entropy, ParkedStore, PendingIndex

__all__ = ["Choice", "Reading"]

T = TypeVar("T")

_ATTEMPTS = 3
_BASE_MS, _CAP_MS = 100, 2_000


@dataclass(frozen=True)
class Choice:
    """Parked records by the ids of records or of their events, by ordering key, by the type of an event; or all."""

    ids: frozenset[str] = frozenset()
    key: str | None = None
    type: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The ordering key that is meant: it may be parked with nothing of it left, where it could not be let go."""
        return () if self.key is None else (self.key,)

    @property
    def is_whole_keys(self) -> bool:
        """Whether of a key that is chosen all records are."""
        return not self.ids and self.type is None

    def fits(self, one: Held) -> bool:
        """Whether a record is one of those that are meant."""
        record = one.record
        return (
            (not self.ids or not self.ids.isdisjoint((record.id, *(event.id for event in record.events))))
            and self.key in (None, record.key)
            and (self.type is None or any(event.type == self.type for event in record.events))
        )


class Reading:
    """Reads the parked records of `table`; `source` is the source of events whose record names none."""

    def __init__(
        self,
        table: str,
        layout: Layout,
        *,
        source: str,
        index: PendingIndex,
        parked: ParkedStore,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.table = table
        self.layout = layout
        self._source = source
        self._index = index
        self._parked = parked
        self._clock = clock
        self._entropy = entropy

    def chosen(self, choice: Choice) -> Iterator[Held]:
        """Yield the parked records that are meant, the oldest first. Raises TableUnavailable."""
        asked: List | None = List(PARKED, BATCH_GET_KEYS)
        while asked is not None:
            listed = self.tried(partial(self._index.list, self.table, asked))
            named = [one.item for one in listed.entries if None in (choice.key, one.key) or one.key == choice.key]
            yield from filter(choice.fits, self._held(named))
            asked = None if listed.after is None else List(PARKED, BATCH_GET_KEYS, listed.after)

    def of_key(self, key: str) -> list[Held]:
        """Return what is parked of a key: what the index names, and what is in its partition by a consistent read."""
        found = {place_of(one.item, self.layout): one for one in self.chosen(Choice(key=key))}
        names = self.tried(lambda: self._parked.of_partition(self.table, key))
        new = [item for item in names if place_of(item, self.layout) not in found]
        for begin in range(0, len(new), BATCH_GET_KEYS):
            more = self._held(new[begin : begin + BATCH_GET_KEYS])
            found |= {place_of(one.item, self.layout): one for one in more if one.record.key == key}
        return list(found.values())

    def again(self, records: Sequence[Held]) -> list[Held | None]:
        """Return up to 100 parked records as they are now; None for one that is parked no more.

        Raises TableUnavailable.
        """
        there = {place_of(one.item, self.layout): one for one in self._held([one.item for one in records])}
        return [there.get(place_of(one.item, self.layout)) for one in records]

    def states(self, records: Sequence[Held]) -> list[str | None]:
        """Return in which states the items of up to 100 records are now; None for one that is gone, or another.

        Raises TableUnavailable.
        """
        items = self.items([one.item for one in records])
        found = [items.get(place_of(one.item, self.layout)) for one in records]
        return [
            None if item is None or not is_same(item, one.item, self.layout) else state_of(item, self.layout)
            for one, item in zip(records, found, strict=True)
        ]

    def is_overtaken(self, image: WireItem) -> bool:
        """Whether a later record of the key of one is there and published. Raises TableUnavailable."""
        return self.tried(lambda: self._parked.is_overtaken(self.table, image))

    def tried(self, call: Callable[[], T | Failed]) -> T:
        """Return what a call comes to. Raises TableUnavailable."""
        attempt = 0
        while isinstance(found := call(), Failed):
            attempt += 1
            if not found.passing or attempt == _ATTEMPTS:
                raise TableUnavailable(self.table, found.reason, retryable=found.passing)
            self._clock.sleep_ms(full_jitter_ms(_BASE_MS, _CAP_MS, attempt, self._entropy.unit()))
        return found

    def _held(self, keys: Sequence[WireItem]) -> list[Held]:
        """Return what is parked under up to 100 keys, in their order."""
        items = self.items(keys)
        homes = {place: home for place, item in items.items() if (home := home_of(item, self.layout)) is not None}
        records = self.items(list(homes.values()))
        found = []
        for key in keys:
            place = place_of(key, self.layout)
            item, home = items.get(place), homes.get(place)
            record: WireItem = {} if home is None else records.get(place_of(home, self.layout), {})
            if item is not None and is_parked_here(item, home, record, self.layout):
                found.append(held(item, home, record, self.layout, source=self._source))
        return found

    def items(self, keys: Sequence[WireItem]) -> dict[Place, WireItem]:
        """Return the items that there are under up to 100 keys, by their keys as text. Raises TableUnavailable."""
        by_place = {place_of(key, self.layout): keys_of(key, self.layout.keys) for key in keys}
        if not by_place:
            return {}
        items = self.tried(lambda: self._parked.read(self.table, list(by_place.values())))
        return {place_of(item, self.layout): item for item in items}
