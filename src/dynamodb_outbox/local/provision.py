"""Tables, buses and queues of a local run, made by API.

Each function may be called again: what is there already is used, unless it is different from what was asked for. The
clients are boto3's; against AWS they would make the same things.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.schema import AT, ID, KEY, PENDING_INDEX
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["AlreadyDifferent", "Queue", "RouteRefused", "create_bus", "create_queue", "create_table", "route"]


class AlreadyDifferent(OutboxError):
    """`name` exists already and differs from what was asked for in `what`."""

    def __init__(self, name: str, what: str, found: object, wanted: object) -> None:
        self.name = name
        self.what = what
        self.found = found
        self.wanted = wanted
        super().__init__(f"{name} exists already with {what} {found}, not {wanted}: remove it, or take another name")


class RouteRefused(OutboxError):
    """EventBridge did not accept the queue as a target of `rule`; `entries` is its answer."""

    def __init__(self, rule: str, entries: Sequence[Mapping[str, Any]]) -> None:
        self.rule = rule
        self.entries = tuple(entries)
        super().__init__(f"rule {rule}: EventBridge refused the target: {json.dumps(self.entries)}")


@dataclass(frozen=True)
class Queue:
    """A queue's address and name."""

    url: str
    arn: str


def create_table(
    client: Any, table: str, *, layout: Layout | None = None, view_type: str | None = "NEW_IMAGE"
) -> str | None:
    """Create a table of this layout: keys, stream, TTL, the sparse index of pending records. Return the stream's ARN.

    `client` is a `dynamodb` client; `view_type` None makes no stream (and returns None). Returns when the table is
    active. Raises AlreadyDifferent when it exists with other keys or another stream.
    """
    layout = layout or Layout()
    try:
        client.create_table(**_table(table, layout, view_type))
    except client.exceptions.ResourceInUseException:
        _compare(client.describe_table(TableName=table)["Table"], table, layout, view_type)
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
    ttl = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        client.update_time_to_live(
            TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": layout.ttl}
        )
    elif ttl.get("AttributeName") != layout.ttl:
        raise AlreadyDifferent(table, "the TTL attribute", ttl.get("AttributeName"), layout.ttl)
    arn = client.describe_table(TableName=table)["Table"].get("LatestStreamArn")
    return str(arn) if arn and view_type is not None else None


def create_bus(client: Any, bus: str) -> None:
    """Create an event bus; `client` is an `events` client."""
    try:
        client.create_event_bus(Name=bus)
    except client.exceptions.ResourceAlreadyExistsException:
        return


def create_queue(client: Any, queue: str, *, visibility_timeout_s: int = 30) -> Queue:
    """Create a standard queue; `client` is an `sqs` client.

    `visibility_timeout_s` is how long a message that was received and not deleted stays hidden, 0 to 43,200. Raises
    AlreadyDifferent when the queue exists with another one.
    """
    wanted = str(visibility_timeout_s)
    try:
        url = client.create_queue(QueueName=queue, Attributes={"VisibilityTimeout": wanted})["QueueUrl"]
    except client.exceptions.QueueNameExists:
        url = client.get_queue_url(QueueName=queue)["QueueUrl"]
    names = ["QueueArn", "VisibilityTimeout"]
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    if found["VisibilityTimeout"] != wanted:
        raise AlreadyDifferent(queue, "a visibility time-out of", found["VisibilityTimeout"], wanted)
    return Queue(url, found["QueueArn"])


def route(
    events: Any, sqs: Any, *, bus: str, queue: Queue, rule: str, pattern: Mapping[str, Any] | None = None
) -> None:
    """Send the bus's events that match `pattern` (None: every event) to the queue, by a rule of that name.

    `events` and `sqs` are clients. The queue's policy is set to let this rule send to it, and replaces another policy.
    """
    chosen = {"source": [{"prefix": ""}]} if pattern is None else pattern
    arn = events.put_rule(Name=rule, EventBusName=bus, EventPattern=json.dumps(chosen), State="ENABLED")["RuleArn"]
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": queue.arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": arn}},
            }
        ],
    }
    sqs.set_queue_attributes(QueueUrl=queue.url, Attributes={"Policy": json.dumps(policy)})
    answer = events.put_targets(Rule=rule, EventBusName=bus, Targets=[{"Id": "queue", "Arn": queue.arn}])
    if answer.get("FailedEntryCount"):
        raise RouteRefused(rule, answer["FailedEntries"])


def _table(table: str, layout: Layout, view_type: str | None) -> dict[str, Any]:
    at = layout.column(AT)
    types = {**layout.keys.types, PENDING_INDEX: "S", at: "N"}
    request: dict[str, Any] = {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()],
        "KeySchema": _keys(layout.pk, layout.sk),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": layout.index,
                "KeySchema": _keys(PENDING_INDEX, at),
                "Projection": {
                    "ProjectionType": "INCLUDE",
                    "NonKeyAttributes": [layout.column(ID), layout.column(KEY)],
                },
            }
        ],
    }
    if view_type is not None:
        request["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view_type}
    return request


def _keys(partition: str, sort: str | None) -> list[dict[str, str]]:
    keys = [{"AttributeName": partition, "KeyType": "HASH"}]
    return keys if sort is None else [*keys, {"AttributeName": sort, "KeyType": "RANGE"}]


def _compare(found: Mapping[str, Any], table: str, layout: Layout, view_type: str | None) -> None:
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    ordered = sorted(found["KeySchema"], key=lambda key: str(key["KeyType"]))  # HASH, RANGE
    keys = [(key["AttributeName"], types[key["AttributeName"]]) for key in ordered]
    wanted = list(layout.keys.types.items())
    if keys != wanted:
        raise AlreadyDifferent(table, "the keys", keys, wanted)
    view = found.get("StreamSpecification", {}).get("StreamViewType")
    if view != view_type:
        raise AlreadyDifferent(table, "the stream view type", view, view_type)
