"""What things are called in the demo: tables, buses, and the words in keys and events.

An event has a name besides its id: the command it belongs to and its type; for an event of the consumer's own, the name
of the event that it follows from, and its type. A row lists the names of the events that
were committed with it, so that what should have been published can be read off the table, whoever gave out the ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Lane, Order

__all__ = [
    "BALANCE",
    "CONSUMER_TABLE",
    "FLAGGED",
    "INVOICE",
    "INVOICED",
    "INVOICES_BUS",
    "LAYOUT",
    "LEDGER_QUEUE",
    "LEDGER_TABLE",
    "META",
    "PAID",
    "PLACED",
    "QUEUE",
    "SOURCE",
    "bus_of",
    "customer_key",
    "event_name",
    "event_names",
    "order_key",
    "table_of",
]

SOURCE = "shop.orders"
CONSUMER_TABLE = "billing"
QUEUE = "billing"
INVOICES_BUS = "invoices"
LEDGER_TABLE = "ledger"
LEDGER_QUEUE = "ledger"
LAYOUT = Layout(version="version")
META = "META"
BALANCE = "BALANCE"
INVOICE = "INVOICE#"

PLACED = "order.placed"
FLAGGED = "order.flagged"
PAID = "order.paid"
INVOICED = "invoice.changed"


def table_of(lane: Lane) -> str:
    """Return the name of a lane's table."""
    return f"orders-{lane.replace('_', '-')}"


def bus_of(lane: Lane) -> str:
    """Return the name of a lane's event bus."""
    return f"orders-{lane.replace('_', '-')}"


def event_name(cause: str, event_type: str) -> str:
    """Return the name of the event of this type that a command emits, or that an event has as its consequence."""
    return f"{cause}/{event_type}"


def event_names(order: Order) -> list[str]:
    """Return the names of the events that an order must have committed in the end, in order."""
    if order.fault == "loses":
        return []
    names = [event_name(order.request_id, PLACED)]
    if order.flagged:
        names.append(event_name(order.request_id, FLAGGED))
    if order.paid:
        names.append(event_name(order.payment_id, PAID))
    return names


def customer_key(customer: int) -> str:
    """Return the partition that a customer's orders live in, which is the ordering key of their events."""
    return f"CUSTOMER#{customer}"


def order_key(order_id: str) -> str:
    """Return the sort key of an order."""
    return f"ORDER#{order_id}"
