"""The demo's consumer, as a service would have it: a function on a queue behind the bus, with an outbox of its own.

Its effects are made to be counted: each is a row of its own under a fresh name, so that an event applied twice leaves
two rows, and each adds to an invoice and to the customer's balance, so that these must be the sum of the rows. With
each it emits an event of its own; the row lists it, as rows of orders list theirs.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

from boto3.session import Session
from botocore.config import Config

from dynamodb_outbox.consume.inbox import Inbox
from dynamodb_outbox.local.demo.names import BALANCE, INVOICED, LAYOUT, customer_key, event_name

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.outbox import Transaction

__all__ = ["handler"]

_TABLE = os.environ["BILLING_TABLE"]
_once = Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 1})
_client: Any = Session().client("dynamodb", config=_once)

inbox = Inbox(_TABLE, consumer="billing", layout=LAYOUT, client=_client)


@inbox.consumer
def book(event: Event, tx: Transaction) -> None:
    """Change the invoice and the balance by what the event says the customer owes, or has paid, and tell of it."""
    order_id, customer, cents = (event.data[name] for name in ("order_id", "customer", "cents"))
    account = customer_key(customer)
    n = _commits(account) + 1
    name = event_name(event.data["name"], INVOICED)
    effect = {"event": event.id, "cents": cents, "history": [{"name": name, "n": n}]}
    tx.put({"pk": account, "sk": f"EFFECT#{uuid.uuid4()}", **effect}, if_absent=True)
    tx.update({"pk": account, "sk": f"INVOICE#{order_id}"}, add={"cents": cents})
    balance = {"pk": account, "sk": BALANCE}
    if n == 1:
        tx.put({**balance, "cents": cents}, if_absent=True)
    else:
        tx.update(balance, add={"cents": cents}, if_version=n - 1)
    tx.emit(INVOICED, {"name": name, "order_id": order_id, "customer": customer, "cents": cents, "n": n})


def _commits(account: str) -> int:
    key = {"pk": {"S": account}, "sk": {"S": BALANCE}}
    found = _client.get_item(TableName=_TABLE, Key=key, ConsistentRead=True).get("Item", {})
    return int(found.get("version", {"N": "0"})["N"])


handler = inbox.lambda_handler
