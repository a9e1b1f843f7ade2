"""The demo's consumer, as a service would have it: a function on a queue behind the bus, with an outbox of its own.

Its effects are made to be counted: each is a row of its own under a fresh name, so that an event applied twice leaves
two rows, and each adds to an invoice, so that the invoices must be the sum of the rows. With each it emits an event of
its own; the row lists it, as rows of orders list theirs. It works on one event at a time, so that the turn of each says
in which order they were committed.
"""

from __future__ import annotations

import os
import time
import uuid
from itertools import count
from typing import TYPE_CHECKING

from dynamodb_outbox.consume.inbox import Inbox
from dynamodb_outbox.local.demo.names import INVOICE, INVOICED, LAYOUT, customer_key, event_name

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.outbox import Transaction

__all__ = ["handler"]

inbox = Inbox(os.environ["BILLING_TABLE"], consumer="billing", layout=LAYOUT)
_turns = count(time.time_ns())  # after those of any process before this one


@inbox.consumer
def book(event: Event, tx: Transaction) -> None:
    """Change the invoice by what the event says the customer owes, or has paid, and tell of it."""
    order_id, customer, cents = (event.data[name] for name in ("order_id", "customer", "cents"))
    account, name, n = customer_key(customer), event_name(event.data["name"], INVOICED), next(_turns)
    effect = {"event": event.id, "cents": cents, "history": [{"name": name, "n": n}]}
    tx.put({"pk": account, "sk": f"EFFECT#{uuid.uuid4()}", **effect}, if_absent=True)
    tx.update({"pk": account, "sk": f"{INVOICE}{order_id}"}, add={"cents": cents})
    tx.emit(INVOICED, {"name": name, "order_id": order_id, "customer": customer, "cents": cents, "n": n})


handler = inbox.lambda_handler
