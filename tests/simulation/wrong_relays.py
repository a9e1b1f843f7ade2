"""Relays with one thing wrong each, as people write them, and one with nothing wrong, which they are made of.

`HandWritten` takes one record after the other, in the order of their sequence numbers, publishes its events one by one,
parks what cannot be read and what the bus can never take, settles, and stops at the first record that it cannot get
done. It parks ten records a minute at most: if more are refused, they are not what is wrong. It sends
events by the library's own sink and moves records by the library's own adapter; what it decides by itself is what can
go wrong. Each of the others changes one decision.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.parked_keys import KeysFound
from dynamodb_outbox.core.record.states import PARKED, state_of
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, Presence, RequestFailed, Verified
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.testing.simulation.world import relay_handler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.world import FunctionWorld

    Handler = Callable[[Any, Any], Any]

_MARGIN_MS = 6_000
_PAUSE_MS = 200
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
            self.world.clock.sleep_ms(_PAUSE_MS)
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


# --- what goes wrong --------------------------------------------------------------------------------------------------


class EventIdAsIdentifier(HandWritten):
    """Names the record that failed by its eventID."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return {"batchItemFailures": [{"itemIdentifier": record["eventID"]} for record in failed]}


class FailedEntriesIgnored(HandWritten):
    """Takes a 200 for success."""

    def result(self, outcome: Answered | RequestFailed) -> Fault | None:
        """Read what the bus says."""
        return outcome.fault if isinstance(outcome, RequestFailed) else None


class GoingOn(HandWritten):
    """Goes on with the next record after one that failed."""

    tries = 1

    def goes_on(self) -> bool:
        """Go on, always."""
        return True


class HighestNumber(GoingOn):
    """Names the highest of the numbers that failed."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return super().answer(sorted(failed, key=self.place)[-1:])


class TextComparison(GoingOn):
    """Names the lowest of the numbers that failed, by comparing them as text."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        numbers = sorted(record["dynamodb"]["SequenceNumber"] for record in failed)
        return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}


class SettleBeforePublish(HandWritten):
    """Settles a record, and then publishes it."""

    def relay(self, record: Any, context: Any) -> None:
        """Settle a record, and publish it."""
        self.settle(self.image(record))
        self.publish(self.image(record), context)


class SettlingInItsOwnWay(HandWritten):
    """Lets every record expire, whatever its writer counts on."""

    def settle(self, image: Any) -> None:
        """Settle it as one that says nothing."""
        super().settle({name: value for name, value in image.items() if name != "ob_settle"})


class RaisingOnPartialFailure(HandWritten):
    """Raises when a part of the batch failed."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        if failed:
            raise RuntimeError(f"{len(failed)} records failed")
        return None


class ModifyNotFiltered(HandWritten):
    """Publishes changes of records too: its own settling, for instance."""

    def is_new(self, record: Any) -> bool:
        """Whether a stream record is published."""
        return bool(record["eventName"] != "REMOVE")


class RemoveNotFiltered(HandWritten):
    """Publishes records that TTL removed."""

    def is_new(self, record: Any) -> bool:
        """Whether a stream record is published."""
        return bool(record["eventName"] != "MODIFY")

    def image(self, record: Any) -> Any:
        """Return what is published."""
        return record["dynamodb"].get("NewImage") or record["dynamodb"]["OldImage"]


class DeadlineIgnored(HandWritten):
    """Tries until it works, however long that takes."""

    def has_time(self, context: Any) -> bool:  # noqa: ARG002 -- that it does not look is what is wrong
        """Say yes."""
        return True

    def send(self, event: Event, context: Any) -> Fault | None:
        """Send an event."""
        while True:
            fault = super().send(event, context)
            if fault is None or fault.kind is Kind.CONTENT:
                return fault
            self.world.clock.sleep_ms(_PAUSE_MS)


class SharedMemory(HandWritten):
    """Remembers in the table which events were accepted, without saying by whom."""

    def send(self, event: Event, context: Any) -> Fault | None:
        """Send an event."""
        table = self.world.client("dynamodb")
        key = {"pk": {"S": f"SENT#{event.id}"}, "sk": {"S": "SENT"}}
        if table.get_item(TableName=self.world.table, Key=key, ConsistentRead=True).get("Item"):
            return None
        fault = super().send(event, context)
        if fault is None:
            table.put_item(TableName=self.world.table, Item=key)
        return fault

    def is_done(self, record: Any, context: Any) -> bool:
        """Publish a record and settle it; trouble with the table is a reason to try again later."""
        try:
            return super().is_done(record, context)
        except TRANSPORT:
            return False


class SentMemory(HandWritten):
    """Remembers in its process what it sent, whatever came of it, and does not send that again."""

    def __init__(self, world: FunctionWorld) -> None:
        super().__init__(world)
        self.sent: set[str] = set()

    def send(self, event: Event, context: Any) -> Fault | None:
        """Send an event, once."""
        if event.id in self.sent:
            return None
        self.sent.add(event.id)
        return super().send(event, context)


class NewIds(HandWritten):
    """Gives each publication an id of its own."""

    def events(self, image: Any) -> Sequence[Event]:
        """Return the events of a record, each with a new id."""
        return [replace(event, id=self.world.entropy.bytes(8).hex()) for event in super().events(image)]


class StampedAnew(HandWritten):
    """Publishes events with the time of their publication."""

    def entry(self, prepared: Prepared) -> Any:
        """Return what is sent of an event, with the time of day."""
        return {**prepared.entry, "Time": datetime.fromtimestamp(self.world.clock.now_ms() / 1000, timezone.utc)}


class EmptyData(HandWritten):
    """Publishes events without their data."""

    def entry(self, prepared: Prepared) -> Any:
        """Return what is sent of an event, with nothing in it."""
        detail = json.loads(prepared.entry["Detail"])
        return {**prepared.entry, "Detail": json.dumps({**detail, "data": {}})}


class Impatient(HandWritten):
    """Parks whatever was not taken at once: troubles of the bus, as if the events were at fault."""

    codes = frozenset(("InternalFailure", "ThrottlingException"))
    """What is taken for a fault of the event."""

    def result(self, outcome: Answered | RequestFailed) -> Fault | None:
        """Read what the bus says."""
        fault = super().result(outcome)
        return replace(fault, kind=Kind.CONTENT) if fault is not None and fault.code in self.codes else fault


class TargetBlamed(Impatient):
    """Parks events when the bus is missing, or closed to the relay."""

    codes = frozenset(("AccessDeniedException", "ResourceNotFoundException"))


class PoisonNotParked(HandWritten):
    """Has nothing for an event that the bus can never accept, but to try it again."""

    def send(self, event: Event, context: Any) -> Fault | None:
        """Send an event."""
        if (fault := super().send(event, context)) is not None:
            raise NotDone(fault)
        return None


class ParkedAgain(HandWritten):
    """Takes an item that keeps what was parked for a record that is to be published."""

    def is_parked(self, record: Any) -> bool:  # noqa: ARG002 -- that it does not look is what is wrong
        """Say no."""
        return False


class RecordReversed(HandWritten):
    """Publishes the events of a record from the last to the first."""

    def events(self, image: Any) -> Sequence[Event]:
        """Return the events of a record, the last one first."""
        return super().events(image)[::-1]


class NumbersAsNumbers(HandWritten):
    """Names the record that failed by a number, where text is asked for."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return {"batchItemFailures": [{"itemIdentifier": self.place(record)} for record in failed]}


class NumbersAlone(HandWritten):
    """Names the record that failed, and not in an object."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return {"batchItemFailures": [record["dynamodb"]["SequenceNumber"] for record in failed]}


class Exiting(HandWritten):
    """Ends its process when a part of the batch failed."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        if failed:
            raise SystemExit(1)
        return None


class NeverContent(HandWritten):
    """Has the last record of a batch delivered again when all of them are done."""

    def handler(self, event: Any, context: Any) -> Any:
        """Publish the records of a batch."""
        answer = super().handler(event, context)
        last = event["Records"][-1]["dynamodb"]["SequenceNumber"]
        return answer if answer["batchItemFailures"] else {"batchItemFailures": [{"itemIdentifier": last}]}


class AnsweringTooEarly(HandWritten):
    """Starts to publish and answers without waiting for it."""

    def is_done(self, record: Any, context: Any) -> bool:
        """Start to publish a record, and call that done."""
        self.world.crew(1).start(lambda: super(AnsweringTooEarly, self).is_done(record, context))
        return True


def gate_removed(world: FunctionWorld) -> Handler:
    """Return the library's relay, which is told that order does not matter, where it does."""
    relay = Relay(
        EventBridge(world.destination, client=world.client("events")),
        layout=world.layout,
        client=world.client("dynamodb"),
        ordering="none",
        clock=world.clock,
        entropy=world.entropy,
        crew=world.crew(10),
    )
    return relay.lambda_handler


class _Trusting(EventBridge):
    """A sink that takes its bus to be there."""

    def verify(self) -> Verified:
        """Say so."""
        return Verified(Presence.OK)


class _Forgetful(DynamoParkedKeys):
    """Parks keys, and does not look which are parked."""

    def read(self, table: str, keys: Sequence[str]) -> KeysFound:  # noqa: ARG002
        """Say that none is."""
        return KeysFound(frozenset(), frozenset())


def verify_ignored(world: FunctionWorld) -> Handler:
    """Return the library's relay, with a sink that never looks whether its bus is there."""
    sink = _Trusting(world.destination, client=world.client("events"))
    return _relay(world, sink).lambda_handler


def keys_forgotten(world: FunctionWorld) -> Handler:
    """Return the library's relay, which parks keys, and forgets which from one invocation to the next."""
    relay = _relay(world, EventBridge(world.destination, client=world.client("events")))
    table = world.client("dynamodb")
    relay._parked_keys = _Forgetful(
        world.layout, lambda marking: DynamoRecordStates(world.layout, client=marking), client=table
    )
    return relay.lambda_handler


def _relay(world: FunctionWorld, sink: EventBridge) -> Relay:
    return Relay(
        sink,
        layout=world.layout,
        client=world.client("dynamodb"),
        ordering=world.ordering,
        on_poison=world.on_poison,
        clock=world.clock,
        entropy=world.entropy,
        crew=world.crew(10),
    )


def made(kind: type[HandWritten]) -> Callable[[FunctionWorld], Handler]:
    """Return what makes handlers of a kind."""
    return lambda world: kind(world).handler


def poison_not_parked(world: FunctionWorld) -> Handler:
    """Return a handler of `PoisonNotParked`; it has a name, by which a command finds it."""
    return PoisonNotParked(world).handler


WRONG: dict[str, tuple[Callable[[FunctionWorld], Handler], str]] = {
    "eventID as identifier": (made(EventIdAsIdentifier), "answers_name_the_batch"),
    "failed entries ignored": (made(FailedEntriesIgnored), "nothing_is_lost"),
    "going on after a failure": (made(GoingOn), "order_per_key"),
    "highest number": (made(HighestNumber), "checkpoint_follows_done"),
    "text comparison of sequence numbers": (made(TextComparison), "checkpoint_follows_done"),
    "settle before publish": (made(SettleBeforePublish), "settled_after_accepted"),
    "settles in its own way": (made(SettlingInItsOwnWay), "settled_as_it_says"),
    "raising on partial failure": (made(RaisingOnPartialFailure), "answers_after_partial_failure"),
    "MODIFY not filtered": (made(ModifyNotFiltered), "published_from_inserts"),
    "TTL REMOVE not filtered": (made(RemoveNotFiltered), "published_from_inserts"),
    "gate removed": (gate_removed, "order_per_key"),
    "deadline ignored": (made(DeadlineIgnored), "ends_in_time"),
    "memory shared between destinations": (made(SharedMemory), "nothing_is_lost"),
    "memory of what was only sent": (made(SentMemory), "nothing_is_lost"),
    "verify ignored, and the bus vanishes": (verify_ignored, "nothing_is_lost"),
    "parked keys forgotten": (keys_forgotten, "parked_keys_stay_parked"),
    "the library's relay, at two destinations": (relay_handler, "nothing_is_lost"),
    # and one for each invariant that none of these is about
    "new ids": (made(NewIds), "no_phantoms"),
    "stamped anew": (made(StampedAnew), "one_id_one_entry"),
    "poison not parked": (made(PoisonNotParked), "everything_ends"),
    "parked items published": (made(ParkedAgain), "everything_ends"),
    "record reversed": (made(RecordReversed), "order_in_record"),
    "data left out": (made(EmptyData), "entries_carry_their_event"),
    "troubles of the bus parked": (made(Impatient), "parked_only_what_cannot_pass"),
    "missing target parked": (made(TargetBlamed), "parked_only_what_cannot_pass"),
    "identifiers that are numbers": (made(NumbersAsNumbers), "answers_name_the_batch"),
    "identifiers without an object": (made(NumbersAlone), "answers_name_the_batch"),
    "exit on partial failure": (made(Exiting), "dies_of_a_crash_alone"),
    "again and again": (made(NeverContent), "everything_ends"),
    "answering too early": (made(AnsweringTooEarly), "nothing_after_the_end"),
}
"""Each with the invariant that it breaks."""

RIGHT: dict[str, Callable[[FunctionWorld], Handler]] = {
    "the library's relay": relay_handler,
    "the relay by hand": made(HandWritten),
}
