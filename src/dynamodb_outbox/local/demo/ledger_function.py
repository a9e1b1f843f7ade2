"""The demo's second consumer: it enters into the ledger what the first one said of its invoices.

Its effects are made to be counted like those of the first.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from dynamodb_outbox.consume.inbox import Inbox
from dynamodb_outbox.local.demo.names import BALANCE, INVOICED, customer_key

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.outbox import Transaction

__all__ = ["handler"]

inbox = Inbox(os.environ["LEDGER_TABLE"], consumer="ledger")


@inbox.on(INVOICED)
def enter(event: Event, tx: Transaction) -> None:
    """Enter a change of an invoice."""
    account, cents = customer_key(event.data["customer"]), event.data["cents"]
    tx.put({"pk": account, "sk": f"EFFECT#{uuid.uuid4()}", "event": event.id, "cents": cents}, if_absent=True)
    tx.update({"pk": account, "sk": BALANCE}, add={"cents": cents})


handler = inbox.lambda_handler
