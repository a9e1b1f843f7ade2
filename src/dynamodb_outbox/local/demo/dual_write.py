"""The same service without an outbox: it writes to its table and publishes to its bus, in one order or the other.

This is meant to be as good as code of this kind gets. Changes are conditional transactions with the SDK's token, lost
races are tried again, events have stable ids, the results of PutEvents are read entry by entry and rejected entries are
sent again; a repeated command that finds its own change in the table publishes again, to make up for a death between.
What no care removes is the gap between the two steps: whoever stops there, or cannot go on, has done one of them.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from dynamodb_outbox.local.demo.names import (
    FLAGGED,
    META,
    PAID,
    PLACED,
    SOURCE,
    bus_of,
    customer_key,
    event_name,
    order_key,
    table_of,
)
from dynamodb_outbox.local.demo.writers import PublishFailed

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Order
    from dynamodb_outbox.local.demo.writers import Step, Verdict

__all__ = ["DualWriter"]

_SENDS = 5
_BACKOFF_S = 0.05
_FAILED = "ConditionalCheckFailed"


@dataclass(frozen=True)
class _Command:
    """One change of one order: the action on its row for the n-th commit, the events, how to know one's own row."""

    order: Order
    event_types: tuple[str, ...]
    request_id: str

    def events(self, n: int) -> list[dict[str, Any]]:
        signs = {PLACED: 1, PAID: -1}
        return [
            {
                "id": str(uuid.uuid5(uuid.NAMESPACE_URL, event_name(self.request_id, kind))),
                "type": kind,
                "name": event_name(self.request_id, kind),
                "order_id": self.order.order_id,
                "customer": self.order.customer,
                "cents": self.order.cents * signs.get(kind, 0),
                "n": n,
            }
            for kind in self.event_types
        ]

    def history(self, n: int) -> dict[str, Any]:
        names = [event_name(self.request_id, kind) for kind in self.event_types]
        return {"L": [{"M": {"name": {"S": name}, "n": {"N": str(n)}}} for name in names]}


class DualWriter:
    """One of the two dual-write lanes; `dynamodb` and `events` are boto3 clients, used from several threads."""

    def __init__(
        self, lane: Literal["write_then_publish", "publish_then_write"], *, dynamodb: Any, events: Any
    ) -> None:
        self._publish_first = lane == "publish_then_write"
        self._table = table_of(lane)
        self._bus = bus_of(lane)
        self._dynamodb = dynamodb
        self._events = events

    def place(self, order: Order, after_first_step: Step) -> Verdict:
        """Place an order; see `LaneWriter`."""
        types = (PLACED, FLAGGED) if order.flagged else (PLACED,)
        return self._run(_Command(order, types, order.request_id), after_first_step)

    def pay(self, order: Order) -> Verdict:
        """Pay an order; see `LaneWriter`."""
        return self._run(_Command(order, (PAID,), order.payment_id), lambda: None)

    def _run(self, command: _Command, after_first_step: Step) -> Verdict:
        while True:
            n = self._commits(command.order) + 1
            if self._publish_first:
                self._publish(command.events(n))
                after_first_step()
            written = self._write(command, n)
            if written is None:
                continue  # another command of this customer was faster: read again
            if written == 0:
                return "rejected"
            if not self._publish_first:
                after_first_step()
                self._publish(command.events(written))
            return "committed"

    def _commits(self, order: Order) -> int:
        key = {"pk": {"S": customer_key(order.customer)}, "sk": {"S": META}}
        item = self._dynamodb.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item", {})
        return int(item.get("version", {"N": "0"})["N"])

    def _write(self, command: _Command, n: int) -> int | None:
        """Commit; return which commit of the key it was, 0 when it is refused, None when the race was lost."""
        change = self._placing(command, n) if PLACED in command.event_types else self._paying(command, n)
        try:
            self._dynamodb.transact_write_items(TransactItems=[change, self._counting(command.order, n)])
        except ClientError as error:
            reasons = error.response.get("CancellationReasons")
            if reasons is None:
                raise
            if reasons[0]["Code"] == _FAILED:
                return _own_commit(command, reasons[0].get("Item", {}))
            if reasons[1]["Code"] == _FAILED:
                return None
            raise
        return n

    def _placing(self, command: _Command, n: int) -> dict[str, Any]:
        order = command.order
        item = {
            "pk": {"S": customer_key(order.customer)},
            "sk": {"S": order_key(order.order_id)},
            "request": {"S": command.request_id},
            "cents": {"N": str(order.cents)},
            "status": {"S": "PLACED"},
            "history": command.history(n),
        }
        return {
            "Put": {
                "TableName": self._table,
                "Item": item,
                "ConditionExpression": "attribute_not_exists(pk)",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def _paying(self, command: _Command, n: int) -> dict[str, Any]:
        return {
            "Update": {
                "TableName": self._table,
                "Key": {
                    "pk": {"S": customer_key(command.order.customer)},
                    "sk": {"S": order_key(command.order.order_id)},
                },
                "UpdateExpression": "SET #status = :paid, history = list_append(history, :history)",
                "ConditionExpression": "#status = :placed",
                "ExpressionAttributeNames": {"#status": "status"},
                "ExpressionAttributeValues": {
                    ":placed": {"S": "PLACED"},
                    ":paid": {"S": "PAID"},
                    ":history": command.history(n),
                },
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def _counting(self, order: Order, n: int) -> dict[str, Any]:
        condition = "attribute_not_exists(pk)" if n == 1 else "version = :before"
        before = {} if n == 1 else {":before": {"N": str(n - 1)}}
        return {
            "Update": {
                "TableName": self._table,
                "Key": {"pk": {"S": customer_key(order.customer)}, "sk": {"S": META}},
                "UpdateExpression": "SET version = :n",
                "ConditionExpression": condition,
                "ExpressionAttributeValues": {":n": {"N": str(n)}, **before},
            }
        }

    def _publish(self, events: list[dict[str, Any]]) -> None:
        entries = [
            {"EventBusName": self._bus, "Source": SOURCE, "DetailType": event["type"], "Detail": _compact(event)}
            for event in events
        ]
        code = ""
        for send in range(_SENDS):
            if send:
                time.sleep(_BACKOFF_S * 2 ** (send - 1))
            results = self._events.put_events(Entries=entries)["Entries"]
            refused = [(entry, one) for entry, one in zip(entries, results, strict=True) if "ErrorCode" in one]
            if not refused:
                return
            entries = [entry for entry, _ in refused]
            code = refused[0][1]["ErrorCode"]
        raise PublishFailed(code)


def _own_commit(command: _Command, found: dict[str, Any]) -> int:
    """Return which commit of the key made the row what this command wants it to be, 0 when another command did."""
    own = command.history(0)["L"][0]["M"]["name"]
    for entry in found.get("history", {"L": []})["L"]:
        if entry["M"]["name"] == own:
            return int(entry["M"]["n"]["N"])
    return 0


def _compact(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":"))
