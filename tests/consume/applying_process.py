"""A process that applies one event when it is told to, and prints whether it did: `applying_process.py URL ACCOUNT`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from deliveries import order

from dynamodb_outbox import Inbox
from dynamodb_outbox.local.client import local_client

if TYPE_CHECKING:
    from dynamodb_outbox import Event, Transaction


def main(url: str, account: str) -> None:
    """Wait for a line on standard input, then apply."""
    inbox = Inbox("billing", consumer="invoices", client=local_client("dynamodb", url, account=account))

    @inbox.on("order.placed")
    def count(event: Event, tx: Transaction) -> None:
        tx.update({"pk": f"INVOICE#{event.data['order_id']}", "sk": "META"}, add={"applied": 1})
        tx.emit("invoice.made", {"order_id": event.data["order_id"]})

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(f"{inbox.apply(order(1))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
