"""The records that one invocation of the relay was given: decoded, and their events as entries of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import shown
from dynamodb_outbox.core.record.decode import Record, decode, ordering_key
from dynamodb_outbox.core.record.schema import SETTLE
from dynamodb_outbox.core.record.states import needs_no_settling
from dynamodb_outbox.core.relay.commands import NOWHERE, Entry, Park
from dynamodb_outbox.core.relay.memory import Accepted, Memory
from dynamodb_outbox.core.relay.outcome import Fault, Kind, Prepared
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord
from dynamodb_outbox.relay.foreign import place_of, prepared_of
from dynamodb_outbox.relay.log import InvocationLog
from dynamodb_outbox.relay.misfits import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from dynamodb_outbox.core.relay.select import Selected
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Routes
    from dynamodb_outbox.relay.misfits import Judged

__all__ = ["Delivery"]


class Delivery:
    """The `selected` records that were found, of the table `table`, and their events in the same order.

    It ends before the record at which the stream is `held`: one of another layout, or one that cannot be decoded here.
    An event that `memory` knows as accepted by its destination is not prepared again. `source` is the source of events
    whose record names none. What a router or a sink raises, or returns wrongly, is a content fault of the event at hand
    (NoRoute, PrepareFailed), and `log` has the traceback.

    `in_time` is asked before each record but the first; where it says no, the delivery ends before that record, `late`.
    So what was prepared until then is sent, and a batch that is too much for one invocation gets on in the next.
    """

    def __init__(
        self,
        found: Judged,
        table: str,
        routes: Routes,
        layout: Layout,
        *,
        source: str,
        memory: Memory,
        in_time: Callable[[], bool] = lambda: True,
    ) -> None:
        self.selected = found.records
        self.held = found.held
        self.late: str | None = None
        self.table = table
        self.entries: list[Entry] = []
        self.log = InvocationLog()
        self.idle: set[int] = set()
        """Records of which nothing is written when they are accepted."""
        self._pk = layout.pk
        self._routes = routes
        self._sinks = tuple(routes.sinks)
        self._memory = memory
        self._prepared: list[Prepared | None] = []
        self._types: list[str | None] = []  # None: the record cannot be read
        self._ids: list[str] = []
        self.times: list[datetime | None] = []
        """Of each entry; None where the record cannot be read."""
        self._first: list[int] = []  # record -> its first entry
        for number, one in enumerate(found.records):
            if number and not in_time():
                self.selected, self.held, self.late = found.records[:number], None, one.sequence_number
                break
            self._first.append(len(self.entries))
            try:
                record = decode(one.image, layout, source=source)
            except ConfigurationError as error:
                self.selected, self.held = found.records[:number], Held(one.sequence_number, error)
                break
            except InvalidRecord as error:
                fault = Fault(Kind.CONTENT, "InvalidRecord", error.reason)
                self._add(
                    Entry(number, ordering_key(one.image, layout), 0, fault, NOWHERE), None, None, error.where, None
                )
            else:
                self._add_events(number, one, record)
        by_hand = layout.settle == "none"
        self.idle |= {
            number
            for number, one in enumerate(self.selected)
            if (by_hand or SETTLE in one.image) and needs_no_settling(one.image, layout)
        }

    @property
    def held_at(self) -> str | None:
        """The sequence number of the record before which the delivery ends, if it does before the batch."""
        return self.late if self.held is None else self.held.sequence_number

    def _add_events(self, number: int, one: Selected, record: Record) -> None:
        key, knows, settled = record.key, len(self._memory) > 0, bool(record.events)
        for event in record.events:
            place = self._way_of(event)
            accepted = self._accepted(one, place, event.id) if knows and not isinstance(place, Fault) else None
            settled = settled and accepted is not None and self._memory.is_settled(accepted)
            prepared = None
            if isinstance(place, Fault):
                entry = Entry(number, key, 0, place, NOWHERE)
            elif accepted is not None and accepted in self._memory:
                entry = Entry(number, key, 0, None, place, accepted=True)
            elif isinstance(found := self._prepare(place, event), Fault):
                entry = Entry(number, key, 0, found, place)
            else:
                prepared = found
                entry = Entry(number, key, found.size, None, place)
            self._add(entry, prepared, event.type, event.id, event.time)
        if settled:
            self.idle.add(number)

    def _way_of(self, event: Event) -> int | Fault:
        try:
            return place_of(self._routes.route(event), len(self._sinks))
        except Exception as error:  # noqa: BLE001 -- anybody's code: what it raises is a fault of this event
            return self._of_foreign_code("NoRoute", "route", error)

    def _prepare(self, place: int, event: Event) -> Prepared | Fault:
        try:
            return prepared_of(self._sinks[place].prepare(event))
        except Exception as error:  # noqa: BLE001 -- as above
            return self._of_foreign_code("PrepareFailed", "prepare", error)

    def _of_foreign_code(self, code: str, method: str, error: Exception) -> Fault:
        self.log.raised(method, error)
        return Fault(Kind.CONTENT, code, f"{method}() failed ({type(error).__name__}); the log has it")

    def _add(
        self, entry: Entry, prepared: Prepared | None, event_type: str | None, event_id: str, time: datetime | None
    ) -> None:
        self.entries.append(entry)
        self._prepared.append(prepared)
        self._types.append(event_type)
        self._ids.append(event_id)
        self.times.append(time)

    def named(self, number: int) -> str:
        """Return what the log calls an entry: nothing of its data."""
        entry, event_type = self.entries[number], self._types[number]
        what = "the unreadable record" if event_type is None else f"the event {shown(event_type)}"
        to = "" if entry.destination == NOWHERE else f", to {self._sinks[entry.destination].name}"
        number_in_stream = self.selected[entry.record].sequence_number
        return f"{what} {shown(self._ids[number])} of key {shown(entry.key)}, record {number_in_stream}{to}"

    def partition(self, record: int) -> object:
        """Return the partition key of a record."""
        return next(iter(self.selected[record].image[self._pk].values()))

    def to_send(self, numbers: Sequence[int]) -> list[Any]:
        """Return entries as their sink sends them."""
        return [prepared.entry for number in numbers if (prepared := self._prepared[number]) is not None]

    def positions(self, command: Park) -> tuple[int, ...] | None:
        """Return which events of the record are refused, None when all are."""
        first = self._first[command.record]
        following = command.record + 1
        end = self._first[following] if following < len(self._first) else len(self.entries)
        return None if len(command.refused) == end - first else tuple(number - first for number in command.refused)

    def remember(self, numbers: Iterable[int], settled: Collection[int]) -> None:
        """Remember that these entries were accepted, and that the records `settled` are."""
        if self._memory.is_off:
            return
        for number in numbers:
            entry = self.entries[number]
            accepted = self._accepted(self.selected[entry.record], entry.destination, self._ids[number])
            self._memory.add(accepted, settled=entry.record in settled)

    def _accepted(self, one: Selected, place: int, event_id: str) -> Accepted:
        return Accepted(one.stream, self._sinks[place].name, one.sequence_number, event_id)
