"""A consumer's table on the engine, and a sink for what is rejected, for the tests of an inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deliveries import WAYS, order
from remembering import Noted

from dynamodb_outbox import Inbox
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.sinks import (
    Prepared,
    Presence,
    SinkLimits,
    Verified,
)

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Event


TABLE = "billing"


DONE: dict[str, Any] = {"batchItemFailures": []}


class Desk:
    """A consumer's table on the engine, and what stands in it."""

    def __init__(self, engine: Account) -> None:
        self.client = engine.client("dynamodb")
        self.noted = Noted()
        create_table(self.client, TABLE)

    def inbox(self, **options: Any) -> Inbox:
        """Return an inbox on the table."""
        return Inbox(TABLE, consumer="invoices", client=self.client, observer=self.noted, **options)

    def put(self, pk: str, **attributes: Any) -> None:
        """Store an item."""
        item = {"pk": {"S": pk}, "sk": {"S": "META"}, **{name: {"N": str(n)} for name, n in attributes.items()}}
        self.client.put_item(TableName=TABLE, Item=item)

    def read(self, pk: str) -> dict[str, int]:
        """Return an item's numbers."""
        found = self.client.get_item(TableName=TABLE, Key={"pk": {"S": pk}, "sk": {"S": "META"}}).get("Item", {})
        return {name: int(value["N"]) for name, value in found.items() if "N" in value}

    def partitions(self) -> list[str]:
        """Return the partition keys of all items."""
        return sorted(item["pk"]["S"] for item in self.client.scan(TableName=TABLE)["Items"])


INBOX_RECORD = f"INBOX#invoices#shop.orders#{order(1).id}"


def delivered(*events: Event) -> dict[str, Any]:
    """Return a batch of SQS behind a rule."""
    return dict(WAYS["SQS behind a rule"].of(*events))


class Sink:
    """A sink that gives what it was made with."""

    name = "attic"
    limits = SinkLimits(10, 1_000, 1_000)
    request_ms = 1_000

    def __init__(self, prepared: Any = None, outcome: Any = None) -> None:
        self.prepared = prepared or Prepared({}, 1)
        self.outcome = outcome
        self.published: list[Any] = []

    def prepare(self, event: Event) -> Any:
        """Give what was given."""
        del event
        return self.prepared

    def publish(self, entries: Any) -> Any:
        """Give what was given."""
        self.published.append(entries)
        return self.outcome

    def verify(self) -> Verified:
        """Find it there."""
        return Verified(Presence.OK)
