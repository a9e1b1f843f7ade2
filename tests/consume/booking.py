"""A consumer whose effects are made to be counted, for processes of their own: `outbox consume booking:inbox`.

Each effect is a row under a fresh name, so that an event that is applied twice leaves two, and counts in the total of
its key, in the version that was read, so that those who work side by side get in each other's way.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from dynamodb_outbox import Inbox, Layout

if TYPE_CHECKING:
    from dynamodb_outbox import Event, Transaction

TABLE = "billing"
LAYOUT = Layout(version="version")


class _Told:
    """Says on standard output what became of each message, a line each."""

    def observe(self, fact: object) -> None:
        """Say it now: the process may be killed at any time."""
        os.write(1, f"{type(fact).__name__}\n".encode())


_once = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}, max_pool_connections=16)
_client: Any = boto3.client("dynamodb", config=_once)

inbox = Inbox(
    TABLE,
    consumer="booking",
    layout=LAYOUT,
    client=_client,
    read_first=os.environ.get("READ_FIRST") == "1",
    observer=_Told(),
)


@inbox.consumer
def book(event: Event, tx: Transaction) -> None:
    """Write a row and the total of the key, and tell of the event."""
    total = {"pk": f"TOTAL#{event.key}", "sk": "META"}
    wire = {name: {"S": value} for name, value in total.items()}
    there = _client.get_item(TableName=TABLE, Key=wire, ConsistentRead=True).get("Item")
    if there is None:
        tx.put({**total, "count": 1}, if_absent=True)
    else:
        tx.update(total, set={"count": int(there["count"]["N"]) + 1}, if_version=int(there["version"]["N"]))
    tx.put({"pk": f"EFFECT#{uuid.uuid4()}", "sk": "META", "event": event.id}, if_absent=True)
    tx.emit("effect.made", {"of": event.id}, key=event.key)
