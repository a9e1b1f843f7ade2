"""`commit()` against the same transaction built by hand: the same items, the same ids, the same request.

The rival does what a careful hand-written outbox does and no more: boto3's own serializer, the standard library's JSON,
a UUIDv7 for the transaction and one for the event, and a record with every attribute that this library stores. It
validates nothing, measures nothing and resolves nothing. That its request is ours, but for ids and times, is checked
before anything is measured.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import zlib
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeSerializer

from bench.clients import answered
from bench.rounds import compare
from dynamodb_outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rounds import Comparison

__all__ = ["measure"]

_TRANSACTIONS = 40
_ROUNDS = 10  # for each pair asked for: these rounds are short
_LINES = [{"sku": f"SKU-{number}", "quantity": number, "cents": 100 * number} for number in range(5)]
_MADE_ANEW = frozenset(("ts", "at", "sk", "id", "tx", "time"))

_serialize = TypeSerializer().serialize


def measure(pairs: int) -> Iterator[Comparison]:
    """Compare orders of five lines, one event each."""
    client = answered("dynamodb", "TransactWriteItems", lambda _: {})
    outbox = Outbox("shop", source="shop.orders", client=client)

    def ours() -> int:
        for number in range(_TRANSACTIONS):
            with outbox.transaction() as tx:
                tx.put({"pk": f"ORDER#{number}", "sk": "META", "cents": 1500, "lines": _LINES}, if_absent=True)
                tx.emit("order.placed", {"order_id": str(number), "cents": 1500, "lines": _LINES})
        return _TRANSACTIONS

    def by_hand() -> int:
        for number in range(_TRANSACTIONS):
            client.transact_write_items(**_request(number))
        return _TRANSACTIONS

    _check_equal(outbox)
    yield compare("commit()", "a hand-built call", "transaction", ours=ours, theirs=by_hand, pairs=_ROUNDS * pairs)


def _request(number: int) -> dict[str, Any]:
    key = f"ORDER#{number}"
    now = datetime.now(timezone.utc)
    at_ms = time.time_ns() // 1_000_000
    event_id, tx_id = _uuid7(at_ms), _uuid7(at_ms)
    order = {"pk": key, "sk": "META", "cents": 1500, "lines": _LINES}
    record = {
        "pk": key,
        "sk": f"OUTBOX#{event_id}",
        "ob_v": 1,
        "id": event_id,
        "key": key,
        "ts": at_ms // 1000,
        "at": at_ms,
        "tx": {"id": tx_id, "index": 0, "count": 1},
        "state": "pending",
        "ob_pending": f"{zlib.crc32(key.encode()) % 16:02d}",
        "region": "us-east-1",
        "type": "order.placed",
        "payload": json.dumps(
            {"order_id": str(number), "cents": 1500, "lines": _LINES}, ensure_ascii=False, separators=(",", ":")
        ),
        "source": "shop.orders",
        "time": f"{now.isoformat()[:-6]}Z",
    }
    return {
        "TransactItems": [
            {
                "Put": {
                    "TableName": "shop",
                    "Item": {name: _serialize(value) for name, value in item.items()},
                    "ConditionExpression": "attribute_not_exists(#ob_pk)",
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    "ExpressionAttributeNames": {"#ob_pk": "pk"},
                }
            }
            for item in (order, record)
        ],
        "ClientRequestToken": tx_id,
    }


def _uuid7(unix_ms: int) -> str:
    """Return a UUIDv7, as the standard library does from Python 3.14 on."""
    random = int.from_bytes(os.urandom(10), "big")
    high, low = random >> 68, random & ((1 << 62) - 1)
    return str(uuid.UUID(int=(unix_ms << 80) | (0x7 << 76) | (high << 64) | (0b10 << 62) | low))


def _check_equal(outbox: Outbox) -> None:
    """Refuse to measure unless both requests are the same but for what is made anew each time."""
    tx = outbox.transaction()
    tx.put({"pk": "ORDER#1", "sk": "META", "cents": 1500, "lines": _LINES}, if_absent=True)
    tx.emit("order.placed", {"order_id": "1", "cents": 1500, "lines": _LINES})
    ours, theirs = tx.request(), _request(1)
    for request in (ours, theirs):
        record = request["TransactItems"][1]["Put"]["Item"]
        for name in _MADE_ANEW:
            record[name] = {kind: type(content).__name__ for kind, content in record[name].items()}
        request["ClientRequestToken"] = len(request["ClientRequestToken"])
    if ours != theirs:
        raise RuntimeError(f"the rival sends something else:\n{ours}\n{theirs}")
