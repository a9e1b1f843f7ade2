"""The relay against plain boto3 sending the same requests one after the other, with no regard to order or results.

The relay uses the clients that it makes itself, boto3 those that people make of it: what it saves by its settings is a
part of the figure. What is left to it with the rival's own clients is a figure of its own.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from bench.clients import NOWHERE, answer, answered, own_client, usual_client
from bench.rounds import compare
from dynamodb_outbox import Outbox, Relay
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.rounds import Comparison

__all__ = ["Context", "measure", "stream_record"]

_EVENTS = 1000
_STREAM = "arn:aws:dynamodb:us-east-1:000000000000:table/shop/stream/2026-01-01T00:00:00.000"


class Context:
    """What Lambda tells a function, of which the relay reads the time that is left."""

    def get_remaining_time_in_millis(self) -> int:
        """Return a minute, always."""
        return 60_000


def measure(pairs: int) -> Iterator[Comparison]:
    """Compare one batch of 1,000 records of as many keys; the relay also settles each of them."""
    usual = _Services(usual_client)
    own, same = _relayed(_Services(own_client)), _relayed(usual)
    same()
    entries = [{**entry, "Time": datetime.fromtimestamp(entry["Time"], timezone.utc)} for entry in usual.published]
    updates = list(usual.settlements)

    def plain() -> int:
        usual.forget()
        for start in range(0, _EVENTS, 10):
            usual.events.put_events(Entries=entries[start : start + 10])
        for request in updates:
            usual.table.batch_execute_statement(**request)
        return _EVENTS

    rival = "plain boto3 sending the same requests"
    yield compare("relay", rival, "event", ours=own, theirs=plain, pairs=pairs)
    yield compare("relay with the rival's clients", rival, "event", ours=same, theirs=plain, pairs=pairs)


class _Services:
    """Clients of both services, answered inside the process, and what they were asked for."""

    def __init__(self, client: Callable[[str, str], Any]) -> None:
        self.published: list[dict[str, Any]] = []
        self.settlements: list[dict[str, Any]] = []
        self.events, self.table = client("events", NOWHERE), client("dynamodb", NOWHERE)
        answer(self.events, "PutEvents", self._accept)
        answer(self.events, "DescribeEventBus", lambda request: {"Name": request["Name"], "Arn": "arn"})
        answer(self.table, "BatchExecuteStatement", self._settle)

    def forget(self) -> None:
        """Forget what was asked for."""
        self.published.clear()
        self.settlements.clear()

    def _accept(self, request: dict[str, Any]) -> dict[str, Any]:
        self.published.extend(request["Entries"])
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in request["Entries"]]}

    def _settle(self, request: dict[str, Any]) -> dict[str, Any]:
        self.settlements.append(request)
        return {"Responses": [{"TableName": "shop"} for _ in request["Statements"]]}


def _relayed(services: _Services) -> Callable[[], int]:
    """Return a round of the relay over these clients."""
    relay = Relay(EventBridge("orders", client=services.events), client=services.table)
    writer = Outbox("shop", source="shop.orders", client=answered("dynamodb", "TransactWriteItems", lambda _: {}))
    batch = {"Records": [stream_record(writer, number) for number in range(_EVENTS)]}
    rounds = itertools.count()

    def ours() -> int:
        services.forget()
        stream = f"{_STREAM}{next(rounds):03d}"  # another one each time: what it remembers, it would not send again
        for record in batch["Records"]:
            record["eventSourceARN"] = stream
        if relay.lambda_handler(batch, Context()) != {"batchItemFailures": []} or len(services.published) != _EVENTS:
            raise RuntimeError("the relay did not publish everything")
        return _EVENTS

    return ours


def stream_record(writer: Outbox, number: int, *, key: int | None = None) -> dict[str, Any]:
    """Return the stream record of the event with this number; `key` is that of its order, a key of its own if None."""
    tx = writer.transaction()
    tx.put({"pk": f"ORDER#{number if key is None else key}", "sk": "META"}, if_absent=True)
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
