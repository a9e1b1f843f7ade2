"""Relays that are wrong in what they publish, what they take for published, and what they park and settle."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hand_written import HandWritten, NotDone, made

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.sdk.errors import TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hand_written import Handler

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.world import FunctionWorld


class FailedEntriesIgnored(HandWritten):
    """Takes a 200 for success."""

    def result(self, outcome: Answered | RequestFailed) -> Fault | None:
        """Read what the bus says."""
        return outcome.fault if isinstance(outcome, RequestFailed) else None


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


PUBLICATIONS: dict[str, tuple[Callable[[FunctionWorld], Handler], str]] = {
    "failed entries ignored": (made(FailedEntriesIgnored), "nothing_is_lost"),
    "settle before publish": (made(SettleBeforePublish), "settled_after_accepted"),
    "settles in its own way": (made(SettlingInItsOwnWay), "settled_as_it_says"),
    "MODIFY not filtered": (made(ModifyNotFiltered), "published_from_inserts"),
    "TTL REMOVE not filtered": (made(RemoveNotFiltered), "published_from_inserts"),
    "memory shared between destinations": (made(SharedMemory), "nothing_is_lost"),
    "memory of what was only sent": (made(SentMemory), "nothing_is_lost"),
    "new ids": (made(NewIds), "no_phantoms"),
    "stamped anew": (made(StampedAnew), "one_id_one_entry"),
    "data left out": (made(EmptyData), "entries_carry_their_event"),
    "troubles of the bus parked": (made(Impatient), "parked_only_what_cannot_pass"),
    "missing target parked": (made(TargetBlamed), "parked_only_what_cannot_pass"),
    "poison not parked": (made(PoisonNotParked), "everything_ends"),
    "parked items published": (made(ParkedAgain), "everything_ends"),
    "record reversed": (made(RecordReversed), "order_in_record"),
}
"""Each with the invariant that it breaks."""
