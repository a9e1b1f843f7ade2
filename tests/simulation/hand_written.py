"""A relay as people write it, with nothing wrong: those with one thing wrong each are made of it.

`HandWritten` takes one record after the other, in the order of their sequence numbers, publishes its events one by one,
parks what cannot be read and what the bus can never take, settles, and stops at the first record that it cannot get
done. It parks ten records a minute at most: if more are refused, they are not what is wrong. It sends
events by the library's own sink and moves records by the library's own adapter; what it decides by itself is what can
go wrong. Each of the others changes one decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.states import PARKED, state_of
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.sinks.eventbridge import EventBridge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.world import FunctionWorld

    Handler = Callable[[Any, Any], Any]

PAUSE_MS = 200
_MARGIN_MS = 6_000
_A_MINUTE_MS = 60_000


class NotDone(Exception):
    """A record could not be published in this invocation."""


class HandWritten:
    """A relay in the order of the stream, one record at a time."""

    tries = 3
    """How often an event is sent in one invocation."""
    most_parks = 10
    """How many records are parked in a minute, at most."""

    def __init__(self, world: FunctionWorld) -> None:
        self.world = world
        self.sink = EventBridge(world.destination, client=world.client("events"))
        self.states = DynamoRecordStates(world.layout, client=world.client("dynamodb"))
        self.parks: list[int] = []

    def handler(self, event: Any, context: Any) -> Any:
        """Publish the records of a batch, up to the first that fails."""
        records = [record for record in event["Records"] if self.is_relayed(record)]
        failed = []
        for record in sorted(records, key=self.place):
            if not self.is_done(record, context):
                failed.append(record)
                if not self.goes_on():
                    break
        return self.answer(failed)

    def is_done(self, record: Any, context: Any) -> bool:
        """Publish a record and settle it; return whether that is done."""
        try:
            self.relay(record, context)
        except NotDone:
            return False
        return True

    # --- decisions ---

    def is_relayed(self, record: Any) -> bool:
        """Whether a stream record is to be published."""
        is_ours = self.is_outbox_record(record) and self.is_from_here(record)
        return self.is_new(record) and is_ours and not self.is_parked(record)

    def is_new(self, record: Any) -> bool:
        """Whether a stream record tells of an item that was written."""
        return bool(record["eventName"] == "INSERT")

    def is_parked(self, record: Any) -> bool:
        """Whether the item was written in order to keep what was parked of another one."""
        inserted = record["eventName"] == "INSERT"
        return inserted and state_of(record["dynamodb"]["NewImage"], self.world.layout) == PARKED

    def is_outbox_record(self, record: Any) -> bool:
        """Whether the item is a record of the outbox."""
        return bool(record["dynamodb"]["Keys"]["sk"]["S"].startswith(self.world.layout.prefix))

    def is_from_here(self, record: Any) -> bool:
        """Whether a record was written in this Region."""
        image, here = record["dynamodb"].get("NewImage", {}), record["awsRegion"]
        return bool(image.get("region", {"S": here}) == {"S": here})

    def place(self, record: Any) -> Any:
        """Return what the order of records goes by."""
        return int(record["dynamodb"]["SequenceNumber"])

    def goes_on(self) -> bool:
        """Whether the next record is published after one that failed."""
        return False

    def has_time(self, context: Any) -> bool:
        """Whether a request still fits into the invocation."""
        return bool(context.get_remaining_time_in_millis() > _MARGIN_MS)

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        numbers = [record["dynamodb"]["SequenceNumber"] for record in sorted(failed, key=self.place)]
        return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}

    def relay(self, record: Any, context: Any) -> None:
        """Publish a record and settle it. Raises NotDone."""
        image = self.image(record)
        parked = self.publish(image, context)
        if not parked:
            self.settle(image)

    def image(self, record: Any) -> Any:
        """Return the item that is published."""
        return record["dynamodb"]["NewImage"]

    def events(self, image: Any) -> Sequence[Event]:
        """Return the events of a record, in the order in which they are published."""
        return decode(image, self.world.layout, source=self.world.table).events

    def entry(self, prepared: Prepared) -> Any:
        """Return what is sent of an event."""
        return prepared.entry

    # --- effects ---

    def publish(self, image: Any, context: Any) -> bool:
        """Publish the events of a record, each when the one before it was taken; return whether one was parked."""
        try:
            events = self.events(image)
        except InvalidRecord:
            return self.cannot_be_read(image)
        refused = []
        for place, event in enumerate(events):
            fault = self.send(event, context)
            if fault is None:
                continue
            if fault.kind is not Kind.CONTENT:
                raise NotDone
            refused.append((place, fault))
        if refused:
            self.park(image, refused[0][1].code, tuple(place for place, _ in refused))
        return bool(refused)

    def cannot_be_read(self, image: Any) -> bool:
        """Park a record that cannot be read."""
        self.park(image, "InvalidRecord", None)
        return True

    def park(self, image: Any, code: str, places: tuple[int, ...] | None) -> None:
        """Park events of a record, or (None) all. Raises NotDone when that did not work, or there were too many."""
        now_ms = self.world.clock.monotonic_ms()
        self.parks = [at_ms for at_ms in self.parks if at_ms > now_ms - _A_MINUTE_MS]
        if len(self.parks) >= self.most_parks:
            raise NotDone
        self.parks.append(now_ms)
        parking = Parking(code, "", self.world.clock.now_ms(), places)
        if self.states.park(self.world.table, image, parking).failure is not None:
            raise NotDone

    def send(self, event: Event, context: Any) -> Fault | None:
        """Send an event, a few times where that may help; return why it was not taken."""
        prepared = self.sink.prepare(event)
        if isinstance(prepared, Fault):
            return self.cannot_be_sent(prepared)
        fault: Fault | None = None
        for _ in range(self.tries):
            if not self.has_time(context):
                raise NotDone
            fault = self.result(self.sink.publish([self.entry(prepared)]))
            if fault is None or fault.kind in (Kind.CONTENT, Kind.TARGET):
                return fault
            self.world.clock.sleep_ms(PAUSE_MS)
        return fault

    def cannot_be_sent(self, fault: Fault) -> Fault | None:
        """Return what an event is parked for that the sink does not take."""
        return fault

    def result(self, outcome: Answered | RequestFailed) -> Fault | None:
        """Read what the bus says of a request with one entry."""
        if isinstance(outcome, RequestFailed):
            return outcome.fault
        return outcome.results[0] if outcome.results else Fault(Kind.UNKNOWN, "NoResult")

    def settle(self, image: Any) -> None:
        """Settle a record; whether that worked is nobody's business."""
        self.states.settle(self.world.table, [image], self.world.clock.now_ms())


def made(kind: type[HandWritten]) -> Callable[[FunctionWorld], Handler]:
    """Return what makes handlers of a kind."""
    return lambda world: kind(world).handler
