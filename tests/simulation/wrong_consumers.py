"""Consumers with one thing wrong each, all by name; and a right one that is written by hand.

Each counts the events of a key, and tells so by an event of its own, as `consumer_handler` does.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from dynamodb_outbox import Inbox, Outbox
from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.core.codec.values import serialize_item
from dynamodb_outbox.errors import ConditionFailed
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.testing.simulation.consuming.world import consumer_handler, count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox import Event, Transaction
    from dynamodb_outbox.testing.simulation import ConsumerWorld

    Handler = Callable[[Any, Any], Any]

DONE: dict[str, Any] = {"batchItemFailures": []}


class ByHand:
    """A consumer without an inbox: it remembers what it applied in a record of its own, in the same transaction."""

    def __init__(self, world: ConsumerWorld) -> None:
        self.world = world
        self.client = world.client("dynamodb")
        self.outbox = Outbox(
            world.table,
            source="totals",
            layout=world.layout,
            client=self.client,
            clock=world.clock,
            entropy=world.entropy,
        )

    def handler(self, batch: Any, _: Any) -> dict[str, Any]:
        """Apply each message; those that fail come again."""
        failed = [record["messageId"] for record in batch["Records"] if not self.done(record)]
        return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}

    def done(self, record: Mapping[str, Any]) -> bool:
        """Return whether a message is done."""
        event = event_of(record)
        if self.is_remembered(self.memory(event, record)):
            return True
        try:
            self.apply(event, record)
        except Exception:  # noqa: BLE001 -- whatever it was, the message comes again
            return False
        return True

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """Apply an event."""
        with self.outbox.transaction() as tx:
            self.remember(event, record, tx)
            self.effect(event, tx)

    def effect(self, event: Event, tx: Transaction) -> None:
        """Add the effect of an event to a transaction, with the event that tells of it."""
        count(event, tx, self.client, self.world.table)

    def remember(self, event: Event, record: Mapping[str, Any], tx: Transaction) -> None:
        """Add the memory of an event to a transaction."""
        tx.put(self.memory(event, record), if_absent=True)

    def memory(self, event: Event, record: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG002 -- for others
        """Return the item that says that an event was applied."""
        return {"pk": f"DONE#{event.id}", "sk": "META"}

    def is_remembered(self, memory: Mapping[str, str]) -> bool:
        """Look whether an event was applied; where nobody can say so, the transaction finds out."""
        try:
            found = self.client.get_item(
                TableName=self.world.table, Key=serialize_item(dict(memory)), ConsistentRead=True
            )
        except TRANSPORT:
            return False
        return "Item" in found


def event_of(record: Mapping[str, Any]) -> Event:
    """Return the event in a message."""
    return parse_cloudevent(json.loads(record["body"])["detail"], record["messageId"])


class AcknowledgesFirst(ByHand):
    """Has the messages acknowledged, and applies them side by side with that."""

    def handler(self, batch: Any, _: Any) -> dict[str, Any]:
        """Begin, and answer."""
        crew = self.world.crew(10)
        for record in batch["Records"]:
            crew.start(partial(self.done, record))
        return DONE


class RemembersOutside(ByHand):
    """Writes down what it has applied when it has been applied."""

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """In two steps."""
        with self.outbox.transaction() as tx:
            self.effect(event, tx)
        self.client.put_item(TableName=self.world.table, Item=serialize_item(self.memory(event, record)))


class RemembersBefore(ByHand):
    """Writes down what it has applied before it has been applied."""

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """In two steps."""
        self.client.put_item(TableName=self.world.table, Item=serialize_item(self.memory(event, record)))
        with self.outbox.transaction() as tx:
            self.effect(event, tx)


class RemembersDeliveries(ByHand):
    """Takes a message for what is to be applied once."""

    def memory(self, event: Event, record: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG002 -- that is wrong
        """Return the item that says that a message was applied."""
        return {"pk": f"DONE#{record['messageId']}", "sk": "META"}


class RemembersByItself(ByHand):
    """Keeps what it has applied in its own memory."""

    def __init__(self, world: ConsumerWorld) -> None:
        super().__init__(world)
        self._known: set[str] = set()

    def is_remembered(self, memory: Mapping[str, str]) -> bool:
        """Look at home."""
        return memory["pk"] in self._known

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """Apply, and remember."""
        with self.outbox.transaction() as tx:
            self.effect(event, tx)
        self._known.add(self.memory(event, record)["pk"])


class CancelledIsDuplicate(ByHand):
    """Takes every transaction that was cancelled for one that there had been before."""

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """Apply, with the SDK alone."""
        transaction = self.outbox.transaction()
        self.remember(event, record, transaction)
        self.effect(event, transaction)
        try:
            self.client.transact_write_items(**transaction.request())
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionCanceledException":
                raise


class ConditionIsDuplicate(ByHand):
    """Takes every condition that failed for the one on its memory."""

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """Apply, whichever of the actions is at fault."""
        try:
            super().apply(event, record)
        except ConditionFailed:
            return


class DuplicatesFail(ByHand):
    """Takes a duplicate for a failure."""

    def is_remembered(self, memory: Mapping[str, str]) -> bool:  # noqa: ARG002 -- that is wrong
        """Look at nothing."""
        return False


class OverwritesTotals(ByHand):
    """Writes a total that it has counted on from one that somebody else may have changed meanwhile."""

    def effect(self, event: Event, tx: Transaction) -> None:
        """Count, without a condition."""
        key = {"pk": f"TOTAL#{event.key}", "sk": "META"}
        there = self.client.get_item(TableName=self.world.table, Key=serialize_item(key), ConsistentRead=True)
        total = int(there["Item"]["total"]["N"]) if "Item" in there else 0
        tx.put({**key, "total": total + 1, "applied": event.id}, overwrite=True)
        tx.emit("total.changed", {"of": event.id}, key=event.key)


class _Silent:
    """A transaction that takes no events."""

    def __init__(self, tx: Transaction) -> None:
        self.put, self.update = tx.put, tx.update

    def emit(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class TellsLater(ByHand):
    """Commits its own event when the effect has been committed."""

    def effect(self, event: Event, tx: Transaction) -> None:
        """Count, and tell nobody."""
        count(event, cast("Any", _Silent(tx)), self.client, self.world.table)

    def apply(self, event: Event, record: Mapping[str, Any]) -> None:
        """In two transactions."""
        super().apply(event, record)
        with self.outbox.transaction() as tx:
            tx.emit("total.changed", {"of": event.id}, key=event.key)


class TellsUnderOneKey(ByHand):
    """Gives all of its own events the same key, which is nothing's."""

    def effect(self, event: Event, tx: Transaction) -> None:
        """Apply, and tell."""
        tx.put({"pk": f"SEEN#{event.id}", "sk": "META", "applied": event.id}, if_absent=True)
        tx.emit("seen", {"of": event.id}, key="everything")


class AppliesTheFirst(ByHand):
    """Writes into each effect what the first event said."""

    def __init__(self, world: ConsumerWorld) -> None:
        super().__init__(world)
        self._payload = ""

    def effect(self, event: Event, tx: Transaction) -> None:
        """Apply, and tell."""
        self._payload = self._payload or event.payload
        seen = {"pk": f"SEEN#{event.id}", "sk": "META", "applied": event.id, "data": self._payload}
        tx.put(seen, if_absent=True)
        tx.emit("seen", {"of": event.id}, key=event.key)


class RaisesForOne(ByHand):
    """Raises where one of its messages failed, though others are done."""

    def handler(self, batch: Any, context: Any) -> dict[str, Any]:
        """Apply each, and answer for all."""
        answer = super().handler(batch, context)
        if answer["batchItemFailures"]:
            raise ValueError(answer)
        return answer


class HangsAtFirst(ByHand):
    """Takes longer than it has over each message that comes for the first time."""

    def handler(self, batch: Any, context: Any) -> dict[str, Any]:
        """Apply each, and wait."""
        answer = super().handler(batch, context)
        if any(record["attributes"]["ApproximateReceiveCount"] == "1" for record in batch["Records"]):
            self.world.clock.sleep_ms(1_000_000)
        return answer


class GivesUp(ByHand):
    """Acknowledges what has failed twice."""

    def done(self, record: Mapping[str, Any]) -> bool:
        """Apply a message, or let it be."""
        return super().done(record) or int(record["attributes"]["ApproximateReceiveCount"]) > 1


def inbox_that_forgets(world: ConsumerWorld) -> Handler:
    """Return an inbox that remembers what it has applied for a minute."""
    client = world.client("dynamodb")
    inbox = Inbox(
        world.table,
        consumer="totals",
        layout=world.layout,
        client=client,
        remember=timedelta(minutes=1),
        clock=world.clock,
        entropy=world.entropy,
    )
    inbox.consumer(lambda event, tx: count(event, tx, client, world.table))
    return inbox.lambda_handler


def inbox_named_anew(world: ConsumerWorld) -> Handler:
    """Return an inbox that has another name in each instance."""
    client = world.client("dynamodb")
    name = f"totals-{world.entropy.bytes(4).hex()}"
    inbox = Inbox(
        world.table, consumer=name, layout=world.layout, client=client, clock=world.clock, entropy=world.entropy
    )
    inbox.consumer(lambda event, tx: count(event, tx, client, world.table))
    return inbox.lambda_handler


def inbox_by_delivery(world: ConsumerWorld) -> Handler:
    """Return an inbox that is given the event of each message under an id of the message's own."""
    client = world.client("dynamodb")
    inbox = Inbox(
        world.table, consumer="totals", layout=world.layout, client=client, clock=world.clock, entropy=world.entropy
    )
    inbox.consumer(lambda event, tx: count(replace(event, id=event.id.partition("/")[0]), tx, client, world.table))

    def handler(batch: Any, _: Any) -> dict[str, Any]:
        failed = []
        for record in batch["Records"]:
            event = event_of(record)
            try:
                inbox.apply(replace(event, id=f"{event.id}/{record['messageId']}"))
            except Exception:  # noqa: BLE001 -- it comes again
                failed.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failed}

    return handler


def by_hand(consumer: type[ByHand]) -> Callable[[ConsumerWorld], Handler]:
    """Return what makes a handler of a class of consumers."""
    return lambda world: consumer(world).handler


WRONG_CONSUMERS: dict[str, tuple[Callable[[ConsumerWorld], Handler], str]] = {
    "acknowledges before it commits": (by_hand(AcknowledgesFirst), "acknowledged_after_applied"),
    "remembers outside of the transaction": (by_hand(RemembersOutside), "applied_once"),
    "remembers before the transaction": (by_hand(RemembersBefore), "applied_in_the_end"),
    "remembers deliveries": (by_hand(RemembersDeliveries), "applied_once"),
    "remembers by itself": (by_hand(RemembersByItself), "applied_once"),
    "an inbox by delivery": (inbox_by_delivery, "applied_once"),
    "an inbox that is named anew": (inbox_named_anew, "applied_once"),
    "takes what is cancelled for a duplicate": (by_hand(CancelledIsDuplicate), "applied_in_the_end"),
    "takes any condition for a duplicate": (by_hand(ConditionIsDuplicate), "applied_in_the_end"),
    "takes a duplicate for a failure": (by_hand(DuplicatesFail), "acknowledged_in_the_end"),
    "overwrites totals": (by_hand(OverwritesTotals), "effects_add_up"),
    "tells later": (by_hand(TellsLater), "own_events_once"),
    "tells under one key": (by_hand(TellsUnderOneKey), "effects_say_what_is_so"),
    "applies the first": (by_hand(AppliesTheFirst), "effects_say_what_is_so"),
    "raises for one": (by_hand(RaisesForOne), "answers_after_partial_failure"),
    "gives up": (by_hand(GivesUp), "acknowledged_after_applied"),
    "an inbox that forgets": (inbox_that_forgets, "applied_once"),
    "hangs at first": (by_hand(HangsAtFirst), "ends_in_time"),
}
"""Each with the invariant that it breaks."""

RIGHT_CONSUMERS: dict[str, Callable[[ConsumerWorld], Handler]] = {
    "the library's inbox": consumer_handler,
    "the consumer by hand": by_hand(ByHand),
}
