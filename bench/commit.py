"""`commit()` against the same transaction built by hand: the item and the event through boto3's serializer and JSON."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

from boto3.dynamodb.types import TypeSerializer

from bench.clients import answered
from bench.rounds import compare
from dynamodb_outbox import Outbox

if TYPE_CHECKING:
    from bench.rounds import Comparison

__all__ = ["measure"]

_TRANSACTIONS = 400
_LINES = [{"sku": f"SKU-{number}", "quantity": number, "cents": 100 * number} for number in range(5)]


def measure(pairs: int) -> Comparison:
    """Compare orders of five lines, one event each."""
    client = answered("dynamodb", "TransactWriteItems", lambda _: {})
    outbox = Outbox("shop", source="shop.orders", client=client)
    serialize = TypeSerializer().serialize

    def ours() -> int:
        for number in range(_TRANSACTIONS):
            with outbox.transaction() as tx:
                tx.put({"pk": f"ORDER#{number}", "sk": "META", "cents": 1500, "lines": _LINES}, if_absent=True)
                tx.emit("order.placed", {"order_id": str(number), "cents": 1500, "lines": _LINES})
        return _TRANSACTIONS

    def by_hand() -> int:
        for number in range(_TRANSACTIONS):
            event_id = str(uuid.uuid4())
            order = {"pk": f"ORDER#{number}", "sk": "META", "cents": 1500, "lines": _LINES}
            event = {
                "pk": f"ORDER#{number}",
                "sk": f"OUTBOX#{event_id}",
                "type": "order.placed",
                "payload": json.dumps({"order_id": str(number), "cents": 1500, "lines": _LINES}),
                "ts": int(time.time()),
            }
            client.transact_write_items(
                ClientRequestToken=str(uuid.uuid4()),
                TransactItems=[
                    {
                        "Put": {
                            "TableName": "shop",
                            "Item": {name: serialize(value) for name, value in item.items()},
                            "ConditionExpression": "attribute_not_exists(pk)",
                            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                        }
                    }
                    for item in (order, event)
                ],
            )
        return _TRANSACTIONS

    return compare("commit()", "a hand-built call", "transaction", ours=ours, theirs=by_hand, pairs=pairs)
