"""The redrive of parked records: published as by a sweep, up to 100 at once, those of a key in their order.

Nothing is marked as published before its sink has accepted all of it. So a redrive that dies, at whatever point, is run
again: what it had published and not marked is published twice, with the same ids, and nothing is lost.

Before a round its records are read once more: what somebody has published or discarded since is passed over, and what
two redrives send at once is what both have in hand, a round each at most. What is discarded while it is being sent is
told as that.

All events of a record are published, also those that were not refused when it was parked: who parked it may have died
before it published them.

A record that is left keeps what is behind it in its key where it is, in this redrive. One that is refused again does so
where on_poison="park_key" had parked its key; such a key is let go when nothing of it is parked any more. The relay
goes on parking what follows of the key until then, so what was parked meanwhile is published too, where the whole key
is meant.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import BATCH_GET_KEYS
from dynamodb_outbox.core.record.parked import in_key_order
from dynamodb_outbox.core.record.parked_keys import can_park_keys
from dynamodb_outbox.core.record.place import place_of, written_in
from dynamodb_outbox.core.record.same import is_same
from dynamodb_outbox.core.record.states import DISCARDED, PARKED
from dynamodb_outbox.errors import TableUnavailable
from dynamodb_outbox.recover.publishing import ROUND, deadlines_of_round
from dynamodb_outbox.recover.reports import ParkedReport, Treated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dynamodb_outbox.core.record.parked import Held
    from dynamodb_outbox.core.sweeping.commands import Published
    from dynamodb_outbox.ports import Clock, ParkedKeys
    from dynamodb_outbox.recover.parked_reading import Choice, Reading
    from dynamodb_outbox.recover.parked_states import ParkedStates, PassedKeys
    from dynamodb_outbox.recover.publishing import Publishing
    from dynamodb_outbox.recover.reports import Became

__all__ = ["Keys", "Redriving", "Sending", "missing_of", "windows"]

_WINDOW = 500
"""Records that are read, and put in order, at once."""
_LOOKS = 3
"""How often it is looked whether more of a parked key was parked meanwhile."""


@dataclass(frozen=True)
class Sending:
    """What records are published with, those `of_parked_keys` with on_poison="park_key"; `region` is the table's."""

    publishing: Publishing
    of_parked_keys: Publishing
    states: ParkedStates
    passed: PassedKeys
    region: str | None
    clock: Clock


class Keys:
    """Ordering keys that on_poison="park_key" parked, as far as they have been asked for."""

    def __init__(self, keys: ParkedKeys, reading: Reading) -> None:
        self.released: list[str] = []
        self.unreleased: dict[str, str] = {}
        self._keys = keys
        self._reading = reading
        self._known: dict[str, bool] = {}

    def marked(self, keys: Iterable[str]) -> set[str]:
        """Return those of some keys that are parked. Raises TableUnavailable."""
        layout, table = self._reading.layout, self._reading.table
        wanted = set(keys)
        new = sorted(wanted - self._known.keys()) if can_park_keys(layout) else []
        for begin in range(0, len(new), BATCH_GET_KEYS):
            asked = new[begin : begin + BATCH_GET_KEYS]
            found = self._keys.read(table, asked)
            if found.unread:
                raise TableUnavailable(table, found.failure or "keys were left unread", retryable=True)
            self._known |= {key: key in found.parked for key in asked}
        return {key for key in wanted if self._known.get(key)}

    def parked(self) -> list[str]:
        """Return the parked keys among all that were asked for."""
        return [key for key, is_marked in self._known.items() if is_marked]

    def release(self, key: str) -> None:
        """Let a key go on, and note what came of it."""
        released = self._keys.release(self._reading.table, key)
        if released.failure is not None:
            self.unreleased[key] = released.failure
        elif released.was_parked:
            self.released.append(key)


def windows(records: Iterable[Held], reading: Reading) -> Iterator[list[Held]]:
    """Yield parked records some at a time, each time in order."""
    window: list[Held] = []
    for one in records:
        window.append(one)
        if len(window) == _WINDOW:
            yield in_key_order(window, reading.layout)
            window = []
    if window:
        yield in_key_order(window, reading.layout)


def missing_of(choice: Choice, treated: Sequence[Treated]) -> tuple[str, ...]:
    """Return the ids that were asked for and not found."""
    found = {event.id for one in treated for event in one.record.events} | {one.record.id for one in treated}
    return tuple(sorted(choice.ids - found))


@dataclass
class _Notes:
    treated: list[Treated] = field(default_factory=list)
    unsettled: int = 0
    stopped: str | None = None
    stuck: set[str] = field(default_factory=set)
    """Keys of which nothing more is published in this redrive."""
    overtaken: dict[str, bool] = field(default_factory=dict)


class Redriving:
    """One redrive of what `choice` means."""

    def __init__(self, choice: Choice, reading: Reading, keys: Keys, sending: Sending) -> None:
        self._choice = choice
        self._reading = reading
        self._keys = keys
        self._sending = sending
        self._notes = _Notes()

    def run(self, *, dry_run: bool) -> ParkedReport:
        """Return what it came to. Raises TableUnavailable when the table cannot be read."""
        notes = self._notes
        for window in windows(self._reading.chosen(self._choice), self._reading):
            self._publish(window, dry_run=dry_run)
        if not dry_run:
            self._keys.marked(self._choice.keys)
            for key in self._keys.parked():
                self._end(key)
        return ParkedReport(
            tuple(notes.treated),
            missing_of(self._choice, notes.treated),
            notes.unsettled,
            tuple(self._keys.released),
            dict(self._keys.unreleased),
            notes.stopped,
            dry_run,
        )

    def _publish(self, records: Sequence[Held], *, dry_run: bool = False) -> None:
        """Publish records that are in order."""
        waiting = deque(records)
        while waiting:
            taken = [one for one in self._taken(waiting) if not self._is_kept(one)]
            self._look_for_later(taken)
            if dry_run:
                for one in taken:
                    unreadable = one.record.unreadable
                    self._note(one, "published" if unreadable is None else "refused", unreadable or "")
                continue
            marked = self._keys.marked(one.record.key for one in taken)
            for are_marked in (True, False):
                part = [one for one in taken if (one.record.key in marked) is are_marked]
                if part := [one for one in part if not self._is_kept(one)]:  # the first part may have stopped it
                    waiting.extendleft(reversed(self._round(part, marked)))

    def _taken(self, waiting: deque[Held]) -> list[Held]:
        return [waiting.popleft() for _ in range(min(ROUND, len(waiting)))]

    def _is_kept(self, one: Held) -> bool:
        """Whether a record is not to be sent; then it is noted why."""
        notes, here = self._notes, self._sending.region
        elsewhere = written_in(one.image, self._reading.layout) if one.image else None
        if not one.image:
            self._note(one, "gone", "the record has been deleted; what stands for it can be discarded")
        elif notes.stopped is not None:
            self._note(one, "left", notes.stopped)
        elif here is not None and elsewhere not in (None, here):
            self._note(one, "left", f"it was written in {elsewhere}, and is published from there")
        elif one.record.key in notes.stuck:
            self._note(one, "left", "it is behind one of its key that was not published")
        else:
            return False
        return True

    def _look_for_later(self, records: Sequence[Held]) -> None:
        """Ask once for each key, by its first record, whether a later one has been published."""
        for one in records:
            if one.record.key not in self._notes.overtaken:
                self._notes.overtaken[one.record.key] = self._reading.is_overtaken(one.image)

    def _round(self, records: list[Held], marked: set[str]) -> list[Held]:
        """Publish up to 100 records, all of parked keys or none; return those that were not tried."""
        sending = self._sending
        if not (records := self._still(records)):
            return []
        sending.passed.marked = marked
        images = sending.states.images(records)
        publishing = sending.of_parked_keys if records[0].record.key in marked else sending.publishing
        published = publishing.publish(images, deadlines_of_round(sending.clock))
        self._notes.stopped = published.stop
        unmarked = [number for number in sorted(published.done) if number not in sending.states.settled]
        found = self._reading.states([records[number] for number in unmarked]) if unmarked else []
        now = dict(zip(unmarked, found, strict=True))
        for number, one in enumerate(records):
            if number not in published.untried:
                self._became(number, one, published, now.get(number))
        return [one for number, one in enumerate(records) if number in published.untried]

    def _still(self, records: Sequence[Held]) -> list[Held]:
        """Return those of up to 100 records that are parked still, as they were; note what is with the others."""
        layout, still = self._reading.layout, []
        for one, now in zip(records, self._reading.again(records), strict=True):
            if now is None:
                self._note(one, "gone", "it is parked no more")
            elif not is_same(now.item, one.item, layout) or (now.image and not is_same(now.image, one.image, layout)):
                self._notes.stuck.add(one.record.key)
                self._note(one, "left", "somebody has changed it meanwhile: redrive it again")
            elif not self._is_kept(now):
                still.append(now)
        return still

    def _became(self, number: int, one: Held, published: Published, state: str | None) -> None:
        """Note what came of a record that was tried; `state` is the present one of what was not marked."""
        states, key = self._sending.states, one.record.key
        if number in states.refused:
            if key in self._sending.passed.marked:
                self._notes.stuck.add(key)
            parking = states.refused[number]
            self._note(one, "refused", f"{parking.code}: {parking.reason}" if parking.reason else parking.code)
        elif number not in published.done or number in states.behind:
            self._notes.stuck.add(key)
            why = "it is behind one of its key that was refused" if number in states.behind else published.stop
            self._note(one, "left", why or "it was not accepted; the log has the reason")
        elif state == DISCARDED:
            self._note(one, "crossed", "somebody has discarded it while its events were sent")
        else:
            self._notes.unsettled += state == PARKED
            self._note(one, "published")

    def _note(self, one: Held, became: Became, why: str = "") -> None:
        overtaken = became in ("published", "crossed") and self._notes.overtaken.get(one.record.key, False)
        self._notes.treated.append(Treated(one.record, became, why, overtaken))

    def _end(self, key: str) -> None:
        """Let a parked key go when nothing of it is parked; publish what was parked of it meanwhile."""
        for _ in range(_LOOKS):
            if not (left := self._reading.of_key(key)):
                break
            if not self._choice.is_whole_keys or key in self._notes.stuck:
                return
            self._publish(in_key_order(self._new(left), self._reading.layout))
        else:
            return
        self._keys.release(key)
        if self._choice.is_whole_keys:  # a relay that had asked before may have parked one more
            self._publish(in_key_order(self._new(self._reading.of_key(key)), self._reading.layout))

    def _new(self, records: Sequence[Held]) -> list[Held]:
        """Return the records that this redrive has not taken yet."""
        layout = self._reading.layout
        taken = {tuple(one.record.item[name] for name in layout.keys.types) for one in self._notes.treated}
        return [one for one in records if place_of(one.item, layout) not in taken]
