"""The fault bus in front of the engine: the engine's own services work through it, and events arrive."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.testing.faultbus import Duplicate, FaultBus, FaultPlan, Rejection

if TYPE_CHECKING:
    from conftest import Account


def test_events_published_through_the_bus_arrive_and_services_pass(engine: Account) -> None:
    """Accepted events reach a queue behind the engine's bus, doubled ones twice, in the client's own account."""
    plan = FaultPlan(seed=2, rejections=(Rejection(0.4, max_consecutive=2),), duplicates=(Duplicate(0.3),))
    with FaultBus(engine.url, plan) as bus:
        events, sqs, dynamodb = (
            local_client(name, bus.url, account=engine.account) for name in ("events", "sqs", "dynamodb")
        )
        queue = sqs.create_queue(QueueName="events")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.put_rule(Name="all", EventPattern=json.dumps({"source": ["shop"]}))
        events.put_targets(Rule="all", Targets=[{"Id": "1", "Arn": arn}])
        waiting = [
            {"Source": "shop", "DetailType": "t", "Detail": json.dumps({"specversion": "1.0", "id": str(n)})}
            for n in range(30)
        ]
        while waiting:
            batch, waiting = waiting[:10], waiting[10:]
            results = events.put_events(Entries=batch)["Entries"]
            waiting += [entry for entry, result in zip(batch, results, strict=True) if "ErrorCode" in result]
        assert dynamodb.list_tables()["TableNames"] == []
        expected = sorted(accepted.id or "" for accepted in bus.accepted)
        assert sorted(received(sqs, queue, len(expected))) == expected
        assert set(expected) == {str(n) for n in range(30)}
        assert len(expected) == 30 + bus.state().faults["duplicated"]
        assert bus.state().faults["entry_rejected"] > 0


def received(sqs: Any, queue: str, count: int) -> list[str]:
    """Return the CloudEvent ids from a queue: `count`, awaited for 10 s, and whatever comes in half a second after."""
    found: list[str] = []
    end = time.monotonic() + 10
    complete = False
    while time.monotonic() < end:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages", [])
        found += [json.loads(message["Body"])["detail"]["id"] for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        if not complete and len(found) >= count:
            complete, end = True, time.monotonic() + 0.5
        if not messages:
            time.sleep(0.02)
    return found
