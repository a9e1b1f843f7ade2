"""A relay and a consumer with one mistake each, for the demo to find out. They run in processes of their own."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from dynamodb_outbox.layout import Layout
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from collections.abc import Mapping

Answer = dict[str, list[dict[str, str]]]

LAYOUT = Layout(version="version")


class Deaf:
    """An EventBridge client that takes every HTTP 200 for success: the results of the single entries are not read."""

    def __init__(self) -> None:
        once = Config(connect_timeout=0.5, read_timeout=1, retries={"total_max_attempts": 1})
        self._client = boto3.client("events", config=once)
        self.meta = self._client.meta

    def put_events(self, **request: Any) -> dict[str, Any]:
        """Publish, and hide what was rejected."""
        answer: dict[str, Any] = self._client.put_events(**request)
        entries = [{"EventId": entry.get("EventId", "none")} for entry in answer["Entries"]]
        return {**answer, "FailedEntryCount": 0, "Entries": entries}


def _bus() -> str:
    return os.environ.get("ORDERS_BUS", "none")


_sound = Relay(EventBridge(_bus()), layout=LAYOUT)

without_reading_results = Relay(EventBridge(_bus(), client=Deaf()), layout=LAYOUT).lambda_handler

without_the_gate = Relay(EventBridge(_bus()), layout=LAYOUT, ordering="none").lambda_handler


def with_the_highest_number(event: Mapping[str, Any], context: Any) -> Answer:
    """Answer with the highest sequence number where the lowest of those that are not done is wanted."""
    answer = _sound.lambda_handler(event, context)
    if answer["batchItemFailures"]:
        numbers = [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]
        answer = {"batchItemFailures": [{"itemIdentifier": max(numbers, key=int)}]}
    return answer


def without_the_inbox(event: Mapping[str, Any], _context: Any) -> Answer:
    """Apply whatever is delivered, as often as it is delivered."""
    client = boto3.client("dynamodb")
    table = os.environ["BILLING_TABLE"]
    for record in event["Records"]:
        detail = json.loads(record["body"])["detail"]
        account = {"S": f"CUSTOMER#{detail['data']['customer']}"}
        cents = {"N": str(detail["data"]["cents"])}
        effect = {"pk": account, "sk": {"S": f"EFFECT#{uuid.uuid4()}"}, "event": {"S": detail["id"]}, "cents": cents}
        balance = {
            "TableName": table,
            "Key": {"pk": account, "sk": {"S": "BALANCE"}},
            "UpdateExpression": "ADD cents :cents",
            "ExpressionAttributeValues": {":cents": cents},
        }
        client.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": effect}}, {"Update": balance}])
    return {"batchItemFailures": []}


def that_parks_everything(event: Mapping[str, Any], _context: Any) -> Answer:
    """Publish nothing, and leave it all to an operator."""
    client = boto3.client("dynamodb")
    for record in event["Records"]:
        client.update_item(
            TableName=os.environ["ORDERS_TABLE"],
            Key=record["dynamodb"]["Keys"],
            UpdateExpression="SET #state = :parked, ob_pending = :parked",
            ExpressionAttributeNames={"#state": "state"},
            ExpressionAttributeValues={":parked": {"S": "parked"}},
        )
    return {"batchItemFailures": []}
