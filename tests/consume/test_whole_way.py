"""From a bus to a consumer over real wrappers: those that the engine makes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deliveries import order
from remembering import Remembering

from dynamodb_outbox.adapters.queues import SqsMessages
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.local.provision import create_bus, create_queue
from dynamodb_outbox.sinks import EventBridge, Sns

if TYPE_CHECKING:
    from conftest import Account


@pytest.mark.parametrize("raw", ["true", "false"])
def test_an_event_arrives_by_a_topic_behind_a_rule_and_by_the_topic_alone(engine: Account, raw: str) -> None:
    """With raw delivery and without; the same event by both ways is applied once."""
    events, sns, sqs = (engine.client(service) for service in ("events", "sns", "sqs"))
    create_bus(events, "orders")
    queue = create_queue(sqs, "billing")
    topic = sns.create_topic(Name="orders")["TopicArn"]
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=queue.arn,
        Attributes={"RawMessageDelivery": raw},
        ReturnSubscriptionArn=True,
    )
    pattern = json.dumps({"source": [{"prefix": ""}]})
    events.put_rule(Name="all", EventBusName="orders", EventPattern=pattern, State="ENABLED")
    events.put_targets(Rule="all", EventBusName="orders", Targets=[{"Id": "1", "Arn": topic}])
    for sink in (EventBridge("orders", client=events), Sns(topic, client=sns)):
        prepared: Any = sink.prepare(order(1))
        sink.publish([prepared.entry])
    consumer = Remembering()
    consumer.consumer(lambda event: None)  # noqa: ARG005 -- that it arrives is the case
    messages = SqsMessages(queue.url, sqs)
    records: list[Any] = []
    for _ in range(10):
        records += messages.receive(10, 1, 30)
        if len(records) == 2:
            break
    assert {"Signature" in record["body"] for record in records} == {raw == "false"}
    assert consumer.lambda_handler({"Records": records}) == {"batchItemFailures": []}
    assert consumer.applied == [order(1)]
    assert any(record["body"] == cloudevent(order(1)) for record in records) is (raw == "true")
