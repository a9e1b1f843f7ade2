"""Tables, buses, topics and queues of a local run, made by API.

Each function may be called again: what is there already is used, unless it is different from what was asked for. The
clients are boto3's; against AWS they would make the same things.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record.table import table_of
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "AlreadyDifferent",
    "Queue",
    "RouteRefused",
    "create_bus",
    "create_queue",
    "create_table",
    "create_topic",
    "route",
    "subscribe",
]


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
    active. Raises AlreadyDifferent when it exists with other keys, another stream or TTL attribute, or without this
    index; further indexes are left alone.
    """
    layout = layout or Layout()
    wanted = _table(table, layout, view_type)
    try:
        client.create_table(**wanted)
    except client.exceptions.ResourceInUseException:
        _compare(client.describe_table(TableName=table)["Table"], wanted, layout.index)
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

    `events` and `sqs` are clients. The queue's policy lets this rule send to it from then on, and whom it let before.
    """
    chosen = {"source": [{"prefix": ""}]} if pattern is None else pattern
    arn = events.put_rule(Name=rule, EventBusName=bus, EventPattern=json.dumps(chosen), State="ENABLED")["RuleArn"]
    _allow(sqs, queue, "events.amazonaws.com", arn)
    answer = events.put_targets(Rule=rule, EventBusName=bus, Targets=[{"Id": "queue", "Arn": queue.arn}])
    if answer.get("FailedEntryCount"):
        raise RouteRefused(rule, answer["FailedEntries"])


def create_topic(client: Any, topic: str) -> str:
    """Create a topic, a FIFO one when its name ends in `.fifo`, and return its ARN; `client` is an `sns` client."""
    attributes = {"FifoTopic": "true"} if topic.endswith(".fifo") else {}
    return str(client.create_topic(Name=topic, Attributes=attributes)["TopicArn"])


def subscribe(sns: Any, sqs: Any, *, topic: str, queue: Queue) -> None:
    """Send the messages of a topic (its ARN) to the queue, as they are: with raw delivery, so without SNS's envelope.

    `sns` and `sqs` are clients. The queue's policy lets this topic send to it from then on, and whom it let before.
    """
    _allow(sqs, queue, "sns.amazonaws.com", topic)
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue.arn, Attributes={"RawMessageDelivery": "true"})


def _allow(sqs: Any, queue: Queue, service: str, source: str) -> None:
    """Let a rule or a topic send to a queue, besides those that may."""
    attributes = sqs.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["Policy"]).get("Attributes", {})
    policy = json.loads(attributes.get("Policy") or '{"Version": "2012-10-17", "Statement": []}')
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sqs:SendMessage",
        "Resource": queue.arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": source}},
    }
    if statement in policy["Statement"]:
        return
    policy["Statement"].append(statement)
    sqs.set_queue_attributes(QueueUrl=queue.url, Attributes={"Policy": json.dumps(policy)})


def _table(table: str, layout: Layout, view_type: str | None) -> dict[str, Any]:
    needs = table_of(layout)
    request: dict[str, Any] = {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in needs.types.items()],
        "KeySchema": _keys(needs.partition, needs.sort),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": needs.index.name,
                "KeySchema": _keys(needs.index.partition, needs.index.sort),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(needs.index.projected)},
            }
        ],
    }
    if view_type is not None:
        request["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view_type}
    return request


def _keys(partition: str, sort: str | None) -> list[dict[str, str]]:
    keys = [{"AttributeName": partition, "KeyType": "HASH"}]
    return keys if sort is None else [*keys, {"AttributeName": sort, "KeyType": "RANGE"}]


def _compare(found: Mapping[str, Any], wanted: Mapping[str, Any], index: str) -> None:
    said = _facts(found, index)
    for what, value in _facts(wanted, index).items():
        if said[what] != value:
            raise AlreadyDifferent(wanted["TableName"], what, said[what], value)


def _facts(table: Mapping[str, Any], index: str) -> dict[str, object]:
    """Return what a table's description, or the request that makes the table, says of it."""
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    indexes = {each["IndexName"]: each for each in table.get("GlobalSecondaryIndexes", ())}
    return {
        "the keys": _typed(table["KeySchema"], types),
        f"the index {index!r}": _index(indexes[index], types) if index in indexes else "(none)",
        "the stream view type": table.get("StreamSpecification", {}).get("StreamViewType"),
    }


def _index(index: Mapping[str, Any], types: Mapping[str, str]) -> object:
    projection = index["Projection"]
    projected = sorted(projection.get("NonKeyAttributes", ()))
    return {"keys": _typed(index["KeySchema"], types), "projected": projected or projection["ProjectionType"]}


def _typed(keys: Sequence[Mapping[str, str]], types: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return names and types, the partition key's first."""
    ordered = sorted(keys, key=lambda key: str(key["KeyType"]))  # HASH, RANGE
    return [(key["AttributeName"], types[key["AttributeName"]]) for key in ordered]
