"""Orders kept with PynamoDB, and their events with an outbox: one TransactWriteItems for both.

PynamoDB makes the operations of its models, `outbox.records()` those that carry the events, and PynamoDB's connection
sends them together. So models, their conditions and their version attributes stay as they are.

The records live in the outbox's own table or, as here, in that of the models; the relay reads that table's stream.
"""

from __future__ import annotations

import uuid

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.connection import Connection
from pynamodb.models import Model

from dynamodb_outbox import Event, Outbox

TABLE = "shop"


class Order(Model):
    """An order, and whether it is paid."""

    class Meta:
        """Where orders are."""

        table_name = TABLE

    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True, default="META")
    cents = NumberAttribute()
    status = UnicodeAttribute(default="OPEN")
    version = VersionAttribute()


outbox = Outbox(TABLE, source="shop.orders")


def place_order(order_id: str, cents: int) -> Order:
    """Store a new order and announce it. Raises pynamodb.exceptions.TransactWriteError when there is one already."""
    order = Order(f"ORDER#{order_id}", cents=cents)
    save(order, outbox.event("order.placed", {"order_id": order_id, "cents": cents}, key=order.pk))
    return order


def pay_order(order: Order) -> None:
    """Mark an order as paid and announce it. Raises TransactWriteError when somebody changed it in the meantime."""
    order.status = "PAID"
    save(order, outbox.event("order.paid", {"order_id": order.pk.removeprefix("ORDER#")}, key=order.pk))


def save(order: Order, *events: Event) -> None:
    """Write an order and its events, or neither.

    The request has one token, so PynamoDB's own retries of it cannot write twice. The model's version attribute is its
    condition: an order that was changed since it was read, or that exists where a new one is saved, is not overwritten.
    """
    put = order.get_save_kwargs_from_instance()
    Connection().transact_write_items(
        condition_check_items=[],
        delete_items=[],
        put_items=[put, *(member["Put"] for member in outbox.records(events))],
        update_items=[],
        client_request_token=str(uuid.uuid4()),
    )
    order.update_local_version_attribute()
