"""The service with an outbox: each change and its events are one transaction, and the service knows no bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import ConditionFailed
from dynamodb_outbox.local.demo.names import (
    FLAGGED,
    LAYOUT,
    META,
    PAID,
    PLACED,
    SOURCE,
    customer_key,
    event_name,
    order_key,
    table_of,
)
from dynamodb_outbox.outbox import Outbox

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Order
    from dynamodb_outbox.local.demo.writers import Step, Verdict
    from dynamodb_outbox.outbox import Transaction

__all__ = ["OutboxWriter"]


class OutboxWriter:
    """The outbox's lane; `dynamodb` is a boto3 client, used from several threads. See `LaneWriter`."""

    def __init__(self, *, dynamodb: Any) -> None:
        self._table = table_of("outbox")
        self._dynamodb = dynamodb
        self._outbox = Outbox(self._table, source=SOURCE, layout=LAYOUT, client=dynamodb)

    def place(self, order: Order, after_first_step: Step) -> Verdict:
        """Place an order: the row, the customer's counter and the events, or nothing."""
        types = (PLACED, FLAGGED) if order.flagged else (PLACED,)
        row = {"pk": customer_key(order.customer), "sk": order_key(order.order_id)}
        while True:
            n = self._commits(order) + 1
            history = [{"name": event_name(order.request_id, kind), "n": n} for kind in types]
            content = {"request": order.request_id, "cents": order.cents, "status": "PLACED", "history": history}
            try:
                # The fingerprint says what the command is, whichever commit of the customer it becomes.
                with self._outbox.transaction(
                    idempotency_key=order.request_id, fingerprint=f"place {order.order_id} for {order.cents}"
                ) as tx:
                    tx.put({**row, **content}, if_absent=True)
                    self._count(tx, order, n)
                    for kind in types:
                        self._emit(tx, order, kind, order.request_id, n)
            except ConditionFailed as failure:
                if _lost_race(failure):
                    continue
                return "rejected"
            after_first_step()
            return "committed"

    def pay(self, order: Order) -> Verdict:
        """Pay an order: a change of its row, on the condition that it is not paid yet."""
        row = {"pk": customer_key(order.customer), "sk": order_key(order.order_id)}
        while True:
            n = self._commits(order) + 1
            history = [*self._history(row), {"name": event_name(order.payment_id, PAID), "n": n}]
            try:
                with self._outbox.transaction(
                    idempotency_key=order.payment_id, fingerprint=f"pay {order.order_id}"
                ) as tx:
                    tx.update(
                        row,
                        set={"status": "PAID", "history": history},
                        condition="#status = :placed",
                        names={"#status": "status"},
                        values={":placed": "PLACED"},
                    )
                    self._count(tx, order, n)
                    self._emit(tx, order, PAID, order.payment_id, n)
            except ConditionFailed as failure:
                if _lost_race(failure):
                    continue
                return "rejected"
            return "committed"

    def _count(self, tx: Transaction, order: Order, n: int) -> None:
        """Make this the customer's n-th commit; the condition fails when another command was faster."""
        counter = {"pk": customer_key(order.customer), "sk": META}
        if n == 1:
            tx.put(counter, if_absent=True)
        else:
            tx.update(counter, if_version=n - 1)

    def _emit(self, tx: Transaction, order: Order, kind: str, request_id: str, n: int) -> None:
        cents = {PLACED: order.cents, PAID: -order.cents}.get(kind, 0)
        data = {"name": event_name(request_id, kind), "order_id": order.order_id, "customer": order.customer}
        tx.emit(kind, {**data, "cents": cents, "n": n})

    def _commits(self, order: Order) -> int:
        item = self._read({"pk": customer_key(order.customer), "sk": META})
        return int(item.get("version", {"N": "0"})["N"])

    def _history(self, row: dict[str, str]) -> list[dict[str, Any]]:
        entries = self._read(row).get("history", {"L": []})["L"]
        return [{"name": entry["M"]["name"]["S"], "n": int(entry["M"]["n"]["N"])} for entry in entries]

    def _read(self, key: dict[str, str]) -> dict[str, Any]:
        wire = {name: {"S": value} for name, value in key.items()}
        found = self._dynamodb.get_item(TableName=self._table, Key=wire, ConsistentRead=True)
        item: dict[str, Any] = found.get("Item", {})
        return item


def _lost_race(failure: ConditionFailed) -> bool:
    """Whether the customer's counter had moved, and nothing else was in the way."""
    return all(META in one.action for one in failure.failures)
