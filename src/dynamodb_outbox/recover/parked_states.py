"""What a redrive does in place of a relay when records are accepted or refused: they are parked as it begins.

Published is what was accepted: a record in place by itself; one that is parked apart, and then the item that stands for
it, in this order, so that who dies in between finds the item, and publishes once more; one beside another by the key
that it has now, whatever it was published under.

Refused is noted in the record, which stays parked. Of a key that on_poison="park_key" had parked, what follows is held
behind it, as the relay would; of others it goes on. That a key is parked keeps nothing from being published here: it is
what somebody asked for.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.moves import Parked, Settled
from dynamodb_outbox.core.record.parked_keys import KeysFound, Released
from dynamodb_outbox.core.record.schema import PARKED, PENDING_INDEX
from dynamodb_outbox.core.relay.parking import KEY_PARKED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dynamodb_outbox.core.record.moves import Parking
    from dynamodb_outbox.core.record.parked import Held
    from dynamodb_outbox.core.record.waiting import Found
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.ports import ParkedKeys, ParkedStore, RecordStates

__all__ = ["ParkedStates", "PassedKeys"]

_log = logging.getLogger("dynamodb_outbox.parked")


class ParkedStates:
    """`ports.RecordStates` for records that are parked. Several threads may use it at once.

    After a round `refused`, `behind` and `settled` tell what came of its records, by their positions; `settled` are
    those of which nothing is left to ask.
    """

    def __init__(self, states: RecordStates, parked: ParkedStore) -> None:
        self._states = states
        self._parked = parked
        self._of: dict[int, Held] = {}
        self._numbers: dict[int, int] = {}
        self.refused: dict[int, Parking] = {}
        self.behind: set[int] = set()
        self.settled: set[int] = set()

    def images(self, records: Sequence[Held]) -> list[WireItem]:
        """Begin a round with these records; return what is published of them. They are told by their positions."""
        images: list[WireItem] = []
        self._of = {}
        self._numbers = {}
        self.refused, self.behind, self.settled = {}, set(), set()
        for number, one in enumerate(records):
            # In the index as what it is: one that else nothing settles has to leave it all the same (`way_of`).
            image = {**one.image, PENDING_INDEX: {"S": PARKED}}
            images.append(image)
            self._of[id(image)] = one
            self._numbers[id(image)] = number
        return images

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return max(self._states.request_ms, self._parked.request_ms)

    def settle(self, table: str, images: Sequence[WireItem], now_ms: int) -> Settled:
        """Mark parked records as published, if they are still as they were read."""
        records = [self._of[id(image)] for image in images]
        apart = [place for place, one in enumerate(records) if one.stands_apart]
        again: set[int] = set()
        if apart:
            originals = self._states.settle(table, [records[place].image for place in apart], now_ms)
            again = {apart[position] for position in originals.again}
            for reason, count in originals.failed.items():
                _log.warning("%d records that are parked apart stay as they are, though published: %s", count, reason)
        rest = [place for place in range(len(records)) if place not in again]
        if not rest:
            return Settled(again=tuple(sorted(again)))
        settled = self._states.settle(table, [records[place].item for place in rest], now_ms)
        again |= {rest[position] for position in settled.again}
        if not settled.failed and not settled.changed:
            done = [place for place in range(len(records)) if place not in again]
            self.settled |= {self._numbers[id(images[place])] for place in done}
        return Settled(settled.done, settled.changed, tuple(sorted(again)), settled.failed)

    def park(self, table: str, image: WireItem, parking: Parking) -> Parked:
        """Note that a record was refused, or is behind one that was: it is parked as it is."""
        number = self._numbers[id(image)]
        if parking.code == KEY_PARKED.code:
            self.behind.add(number)
            return Parked()
        self.refused[number] = parking
        failure = self._parked.refuse_again(table, self._of[id(image)].item, parking)
        if failure is not None:
            _log.warning("that a parked record was refused again could not be noted in it: %s", failure)
        return Parked()

    def find(self, table: str, key: WireItem) -> Found:
        """Read one item consistently."""
        return self._states.find(table, key)


class PassedKeys:
    """`ports.ParkedKeys` by which no key is parked, until one of its records is refused: of `marked` ones alone."""

    def __init__(self, states: ParkedStates, keys: ParkedKeys) -> None:
        self.marked: Collection[str] = ()
        self._states = states
        self._keys = keys

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._states.request_ms

    def read(self, table: str, keys: Sequence[str]) -> KeysFound:  # noqa: ARG002 -- as the port has it
        """Say that no key is parked."""
        return KeysFound(frozenset(), frozenset())

    def park(self, table: str, image: WireItem, parking: Parking, key: str) -> tuple[Parked, bool]:
        """Note that a record was refused; its key is parked with it where it had been."""
        return self._states.park(table, image, parking), key in self.marked

    def release(self, table: str, key: str) -> Released:
        """Let a key go on."""
        return self._keys.release(table, key)
