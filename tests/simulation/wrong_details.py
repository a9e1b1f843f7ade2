"""More relays with one thing wrong each: in what they read of an answer, put into an entry, park, and settle.

As those of `wrong_answers` and `wrong_publications`, made of the same one with nothing wrong.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hand_written import HandWritten, NotDone, made

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.eventbridge import ENTRY_CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.world import FunctionWorld


class NotReadDropped(HandWritten):
    """Leaves out records that it cannot read."""

    def cannot_be_read(self, image: Any) -> bool:  # noqa: ARG002 -- that nothing is done about it is what is wrong
        """Do nothing."""
        return True


class NotSentDropped(HandWritten):
    """Leaves out events that its sink does not take."""

    def cannot_be_sent(self, fault: Fault) -> Fault | None:  # noqa: ARG002 -- as above
        """Count as accepted."""
        return None


class OtherType(HandWritten):
    """Publishes all events under one type."""

    def entry(self, prepared: Prepared) -> Any:
        """Return what is sent of an event."""
        return {**prepared.entry, "DetailType": "event"}


class OtherSource(HandWritten):
    """Publishes all events as its own."""

    def entry(self, prepared: Prepared) -> Any:
        """Return what is sent of an event."""
        return {**prepared.entry, "Source": "relay"}


class KeysLeftOut(HandWritten):
    """Publishes events without their keys."""

    def events(self, image: Any) -> Sequence[Event]:
        """Return the events of a record, without the key."""
        return [replace(event, key=None) for event in super().events(image)]


class Unparking(HandWritten):
    """Writes a record as it was when one of its events was parked."""

    def relay(self, record: Any, context: Any) -> None:
        """Publish a record; write it back when something of it was parked."""
        image = self.image(record)
        if self.publish(image, context):
            with suppress(*TRANSPORT):
                self.world.client("dynamodb").put_item(TableName=self.world.table, Item=image)
        else:
            self.settle(image)


class ParkedPublished(HandWritten):
    """Marks every record as published, whether an event of it was parked or not."""

    def relay(self, record: Any, context: Any) -> None:
        """Publish a record and mark it."""
        image = self.image(record)
        self.publish(image, context)
        with suppress(*TRANSPORT):
            self.world.client("dynamodb").update_item(
                TableName=self.world.table,
                Key={name: image[name] for name in ("pk", "sk")},
                UpdateExpression="SET #state = :published",
                ConditionExpression="attribute_exists(#pk)",
                ExpressionAttributeNames={"#state": "state", "#pk": "pk"},
                ExpressionAttributeValues={":published": {"S": "published"}},
            )


class Relenting(HandWritten):
    """Reads some codes of the bus as another class of fault, or as none; `kind` is what it takes them for."""

    codes: frozenset[str]
    kind: Kind | None

    def result(self, outcome: Answered | RequestFailed) -> Fault | None:
        """Read what the bus says."""
        fault = super().result(outcome)
        if fault is None or fault.code not in self.codes:
            return fault
        return None if self.kind is None else replace(fault, kind=self.kind)


class UnknownCodeAccepted(Relenting):
    """Takes a code that it does not know for success."""

    codes, kind = frozenset(("EntryNotAcceptedException",)), None


class NoResultAccepted(Relenting):
    """Takes an entry for accepted of which the bus does not say that it was refused."""

    codes, kind = frozenset(("NoResult",)), None


class CountIgnored(Relenting):
    """Takes an entry for accepted though the answer contradicts itself."""

    codes, kind = frozenset(("InconsistentAnswer",)), None


class EntryOfTargetBlamed(Relenting):
    """Parks single entries which the bus says are not allowed."""

    codes = frozenset(code for code, kind in ENTRY_CODES.items() if kind is Kind.TARGET) - {"AccessDeniedException"}
    kind = Kind.CONTENT


class PoisonRetried(Relenting):
    """Tries again for ever what the bus refuses for its arguments, or its redaction."""

    codes, kind = frozenset(("InvalidArgument", "RedactionFailure")), Kind.TRANSIENT


class ParkingWithoutLimit(HandWritten):
    """Parks whatever is refused, however much that is."""

    most_parks = 1_000_000


class SettleInTheAnswer(HandWritten):
    """Has a record delivered again that was published, because it could not be settled."""

    def settle(self, image: Any) -> None:
        """Settle a record. Raises NotDone."""
        settled = self.states.settle(self.world.table, [image], self.world.clock.now_ms())
        if settled.again or settled.failed:
            raise NotDone


class NeverSettling(HandWritten):
    """Publishes, and leaves the table alone."""

    def settle(self, image: Any) -> None:
        """Do nothing."""


class EveryRegion(HandWritten):
    """Publishes what other Regions of a global table have published, too."""

    def is_from_here(self, record: Any) -> bool:  # noqa: ARG002 -- that it does not look is what is wrong
        """Say yes."""
        return True


DETAILS: dict[str, tuple[Callable[[FunctionWorld], Callable[[Any, Any], Any]], str]] = {
    "unreadable dropped": (made(NotReadDropped), "nothing_is_lost"),
    "unsendable dropped": (made(NotSentDropped), "nothing_is_lost"),
    "another type": (made(OtherType), "entries_carry_their_event"),
    "another source": (made(OtherSource), "entries_carry_their_event"),
    "keys left out": (made(KeysLeftOut), "entries_carry_their_event"),
    "parked made pending": (made(Unparking), "parked_stays_parked"),
    "parked made published": (made(ParkedPublished), "parked_stays_parked"),
    "unknown code accepted": (made(UnknownCodeAccepted), "nothing_is_lost"),
    "no result accepted": (made(NoResultAccepted), "nothing_is_lost"),
    "count of failures ignored": (made(CountIgnored), "nothing_is_lost"),
    "entries not allowed parked": (made(EntryOfTargetBlamed), "parked_only_what_cannot_pass"),
    "arguments refused, tried for ever": (made(PoisonRetried), "everything_ends"),
    "parks without a limit": (made(ParkingWithoutLimit), "parks_are_limited"),
    "settle in the answer": (made(SettleInTheAnswer), "answers_name_what_is_open"),
    "never settles": (made(NeverSettling), "settled_in_the_end"),
    "every Region": (made(EveryRegion), "no_phantoms"),
}
"""Each with the invariant that it breaks."""
