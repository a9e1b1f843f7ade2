"""The demo's consumer, as a service would have it: a function on a queue behind the bus.

Its effects are made to be counted: each is a row of its own under a fresh name, so that an event applied twice leaves
two rows, and each adds to the customer's balance, so that the balance must be the sum of the rows.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from dynamodb_outbox.consume.inbox import Inbox

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.outbox import Transaction

__all__ = ["handler"]

inbox = Inbox(os.environ["BILLING_TABLE"], consumer="billing")


@inbox.consumer
def book(event: Event, tx: Transaction) -> None:
    """Book what the event says the customer owes, or has paid."""
    account = f"CUSTOMER#{event.data['customer']}"
    cents = event.data["cents"]
    tx.put({"pk": account, "sk": f"EFFECT#{uuid.uuid4()}", "event": event.id, "cents": cents}, if_absent=True)
    tx.update({"pk": account, "sk": "BALANCE"}, add={"cents": cents})


handler = inbox.lambda_handler
