"""The relay against plain boto3 sending the same requests one after the other, with no regard to order or results."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from bench.clients import answer, answered
from bench.rounds import compare
from dynamodb_outbox import Outbox, Relay
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from bench.rounds import Comparison

__all__ = ["measure"]

_EVENTS = 1000
_STREAM = "arn:aws:dynamodb:us-east-1:000000000000:table/shop/stream/2026-01-01T00:00:00.000"


class _Context:
    """What Lambda tells a function, of which the relay reads the time that is left."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def measure(pairs: int) -> Comparison:
    """Compare one batch of 1,000 records of as many keys; the relay also settles each of them."""
    published: list[dict[str, Any]] = []
    settlements: list[dict[str, Any]] = []

    def accept(request: dict[str, Any]) -> dict[str, Any]:
        published.extend(request["Entries"])
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in request["Entries"]]}

    def settled(request: dict[str, Any]) -> dict[str, Any]:
        settlements.append(request)
        return {"Responses": [{"TableName": "shop"} for _ in request["Statements"]]}

    events = answered("events", "PutEvents", accept)
    answer(events, "DescribeEventBus", lambda request: {"Name": request["Name"], "Arn": "arn"})
    table = answered("dynamodb", "BatchExecuteStatement", settled)
    relay = Relay(EventBridge("orders", client=events), client=table)
    writer = Outbox("shop", source="shop.orders", client=answered("dynamodb", "TransactWriteItems", lambda _: {}))
    rounds = itertools.count()
    batch = {"Records": [_record(writer, number) for number in range(_EVENTS)]}

    def ours() -> int:
        published.clear()
        settlements.clear()
        stream = f"{_STREAM}{next(rounds):03d}"  # another one each time: what it remembers, it would not send again
        for record in batch["Records"]:
            record["eventSourceARN"] = stream
        said = relay.lambda_handler(batch, _Context())
        assert said == {"batchItemFailures": []}  # noqa: S101 - a benchmark of failures would be worth nothing
        assert len(published) == _EVENTS  # noqa: S101
        return _EVENTS

    ours()
    updates = list(settlements)
    entries = [{**entry, "Time": datetime.fromtimestamp(entry["Time"], timezone.utc)} for entry in published]

    def plain() -> int:
        for start in range(0, _EVENTS, 10):
            events.put_events(Entries=entries[start : start + 10])
        for request in updates:
            table.batch_execute_statement(**request)
        return _EVENTS

    return compare("relay", "plain boto3 sending the same requests", "event", ours=ours, theirs=plain, pairs=pairs)


def _record(writer: Outbox, number: int) -> dict[str, Any]:
    tx = writer.transaction()
    tx.put({"pk": f"ORDER#{number}", "sk": "META"}, if_absent=True)
    tx.emit("order.placed", {"order_id": str(number), "cents": 1500, "note": "x" * 300})
    image = next(action["Put"]["Item"] for action in tx.request()["TransactItems"] if "ob_v" in action["Put"]["Item"])
    return {
        "eventID": f"{number:032x}",
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "eventSourceARN": _STREAM,
        "awsRegion": "us-east-1",
        "dynamodb": {
            "SequenceNumber": str(number + 1),
            "StreamViewType": "NEW_IMAGE",
            "Keys": {name: image[name] for name in ("pk", "sk")},
            "NewImage": image,
        },
    }
