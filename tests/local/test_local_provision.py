"""What a local run needs, made by API."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import (
    AlreadyDifferent,
    Queue,
    RouteRefused,
    create_bus,
    create_queue,
    create_table,
    create_topic,
    route,
    subscribe,
)

if TYPE_CHECKING:
    from conftest import Account


def test_a_table_has_the_layouts_keys_stream_ttl_and_index(engine: Account) -> None:
    """The names are the layout's; the index holds what has its partition attribute, and nothing else."""
    client = engine.client("dynamodb")
    layout = Layout(pk="entity", sk="range", ttl="dies", index="waiting")
    arn = create_table(client, "shop", layout=layout)
    described = client.describe_table(TableName="shop")["Table"]
    assert arn == described["LatestStreamArn"]
    assert described["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    ttl = client.describe_time_to_live(TableName="shop")["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "dies")
    for sk, extra in (("1", {"ob_pending": {"S": "03"}, "at": {"N": "7"}, "key": {"S": "k"}}), ("2", {})):
        client.put_item(
            TableName="shop", Item={"entity": {"S": "a"}, "range": {"S": sk}, "payload": {"S": "{}"}, **extra}
        )
    found = client.query(
        TableName="shop",
        IndexName="waiting",
        KeyConditionExpression="ob_pending = :p AND #at < :t",
        ExpressionAttributeNames={"#at": "at"},
        ExpressionAttributeValues={":p": {"S": "03"}, ":t": {"N": "8"}},
    )["Items"]
    [item] = found
    assert item["range"] == {"S": "1"}
    assert item["key"] == {"S": "k"}
    assert "payload" not in item


@pytest.mark.parametrize(
    ("layout", "keys"),
    [
        (Layout(sk=None, own_partition=True), [("pk", "HASH", "S")]),
        (Layout(pk_type="N"), [("pk", "HASH", "N"), ("sk", "RANGE", "S")]),
        (
            Layout(pk="id", columns={"id": "uid", "at": "sent", "key": "about"}),
            [("id", "HASH", "S"), ("sk", "RANGE", "S")],
        ),
        (Layout(select={}, pk_type="B", sk_type="N"), [("pk", "HASH", "B"), ("sk", "RANGE", "N")]),
    ],
)
def test_a_table_follows_its_layout(engine: Account, layout: Layout, keys: list[tuple[str, str, str]]) -> None:
    """Types, no sort key, and the columns in the index; made twice it is the same table."""
    client = engine.client("dynamodb")
    assert create_table(client, "shop", layout=layout) == create_table(client, "shop", layout=layout)
    found = client.describe_table(TableName="shop")["Table"]
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    assert [(key["AttributeName"], key["KeyType"], types[key["AttributeName"]]) for key in found["KeySchema"]] == keys
    (index,) = found["GlobalSecondaryIndexes"]
    at = layout.column("at")
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["ob_pending", at]
    assert types[at] == "N"
    assert set(index["Projection"]["NonKeyAttributes"]) == {layout.column("id"), layout.column("key")}


def test_making_everything_twice_changes_nothing(engine: Account) -> None:
    """What is there already is used, with its data."""
    tables, events, queues = (engine.client(name) for name in ("dynamodb", "events", "sqs"))
    first = create_table(tables, "shop")
    tables.put_item(TableName="shop", Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
    assert create_table(tables, "shop") == first
    assert tables.scan(TableName="shop")["Count"] == 1
    create_bus(events, "orders")
    create_bus(events, "orders")
    queue = create_queue(queues, "invoices")
    assert create_queue(queues, "invoices") == queue
    for _ in range(2):
        route(events, queues, bus="orders", queue=queue, rule="all")
    assert len(events.list_targets_by_rule(Rule="all", EventBusName="orders")["Targets"]) == 1


def test_what_differs_is_refused(engine: Account) -> None:
    """Another key, index, stream, TTL attribute or time-out than asked for is an error that names it."""
    tables, queues = engine.client("dynamodb"), engine.client("sqs")
    create_table(tables, "shop")
    assert create_table(tables, "plain", view_type=None) is None
    create_queue(queues, "invoices", visibility_timeout_s=5)
    with pytest.raises(AlreadyDifferent, match="the keys"):
        create_table(tables, "shop", layout=Layout(pk="entity"))
    with pytest.raises(AlreadyDifferent, match="the keys"):
        create_table(tables, "shop", layout=Layout(pk_type="N"))
    with pytest.raises(AlreadyDifferent, match="the keys"):
        create_table(tables, "shop", layout=Layout(sk=None, own_partition=True))
    with pytest.raises(AlreadyDifferent, match="stream view type"):
        create_table(tables, "shop", view_type="NEW_AND_OLD_IMAGES")
    with pytest.raises(AlreadyDifferent, match="stream view type"):
        create_table(tables, "plain")
    with pytest.raises(AlreadyDifferent, match="TTL attribute"):
        create_table(tables, "shop", layout=Layout(ttl="dies"))
    for layout in (Layout(index="waiting"), Layout(columns={"at": "sent"}), Layout(columns={"id": "uid"})):
        with pytest.raises(AlreadyDifferent, match=f"the index '{layout.index}'"):
            create_table(tables, "shop", layout=layout)
    with pytest.raises(AlreadyDifferent, match="visibility time-out") as caught:
        create_queue(queues, "invoices", visibility_timeout_s=6)
    assert (caught.value.name, caught.value.found, caught.value.wanted) == ("invoices", "5", "6")


def received(client: Any, queue: Queue, *, wanted: int) -> list[dict[str, Any]]:
    """Return the bodies of the first messages, waiting for them up to 10 s."""
    bodies: list[dict[str, Any]] = []
    deadline = time.monotonic() + 10
    while len(bodies) < wanted and time.monotonic() < deadline:
        answer = client.receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        bodies += [json.loads(message["Body"]) for message in answer.get("Messages", [])]
    return bodies


def test_events_reach_the_queue_that_their_rule_names(engine: Account) -> None:
    """Without a pattern every event of the bus, with one those that match."""
    events, queues = engine.client("events"), engine.client("sqs")
    create_bus(events, "orders")
    everything, placed = create_queue(queues, "everything"), create_queue(queues, "placed")
    route(events, queues, bus="orders", queue=everything, rule="everything")
    route(events, queues, bus="orders", queue=placed, rule="placed", pattern={"detail-type": ["order.placed"]})
    entries = [
        {"Source": "shop", "DetailType": kind, "Detail": "{}", "EventBusName": "orders"}
        for kind in ("order.placed", "order.paid")
    ]
    assert events.put_events(Entries=entries)["FailedEntryCount"] == 0
    assert {body["detail-type"] for body in received(queues, everything, wanted=2)} == {"order.placed", "order.paid"}
    assert [body["detail-type"] for body in received(queues, placed, wanted=1)] == ["order.placed"]
    policy = queues.get_queue_attributes(QueueUrl=placed.url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert "events.amazonaws.com" in policy


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_messages_of_a_topic_reach_the_queue_as_they_are(engine: Account, name: str) -> None:
    """Without an envelope of SNS; beside the events of a bus, which keep their permission. Made twice is made once."""
    events, sns, queues = (engine.client(service) for service in ("events", "sns", "sqs"))
    create_bus(events, "orders")
    queue = create_queue(queues, "billing")
    topic = create_topic(sns, name)
    assert create_topic(sns, name) == topic
    for _ in range(2):
        route(events, queues, bus="orders", queue=queue, rule="all")
        subscribe(sns, queues, topic=topic, queue=queue)
    fifo = {"MessageGroupId": "k", "MessageDeduplicationId": "1"} if name.endswith(".fifo") else {}
    sns.publish(TopicArn=topic, Message='{"id": "1"}', **fifo)
    assert received(queues, queue, wanted=1) == [{"id": "1"}]
    policy = queues.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    services = [statement["Principal"]["Service"] for statement in json.loads(policy)["Statement"]]
    assert services == ["events.amazonaws.com", "sns.amazonaws.com"]


def test_a_target_that_is_not_accepted_is_an_error() -> None:
    """PutTargets reports failures inside a successful answer; they are read."""

    class Refusing:
        def put_rule(self, **_request: Any) -> dict[str, str]:
            return {"RuleArn": "arn"}

        def put_targets(self, **_request: Any) -> dict[str, Any]:
            return {"FailedEntryCount": 1, "FailedEntries": [{"ErrorCode": "LimitExceeded"}]}

        def get_queue_attributes(self, **_request: Any) -> dict[str, Any]:
            return {}

        def set_queue_attributes(self, **_request: Any) -> None:
            return None

    client = Refusing()
    with pytest.raises(RouteRefused, match="LimitExceeded") as caught:
        route(client, client, bus="b", queue=Queue("url", "arn"), rule="all")
    assert caught.value.rule == "all"
