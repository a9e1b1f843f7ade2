"""The fault bus in front of the engine: the engine's own services work through it, and events arrive."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.testing.faultbus import Duplicate, FaultBus, FaultPlan, Rejection, Reset

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


ONCE = Config(retries={"total_max_attempts": 1, "mode": "standard"})


@pytest.mark.parametrize("through", ["sns", "sqs"])
def test_fifo_messages_are_accepted_again_and_delivered_once_in_order(engine: Account, through: str) -> None:
    """Lost answers and second copies are acceptances to the evidence; the engine drops what it has had."""
    plan = FaultPlan(
        seed=3,
        rejections=(Rejection(0.2, max_consecutive=2),),
        resets=(Reset(0.3, "after", max_consecutive=1), Reset(0.2, "before", max_consecutive=1)),
        duplicates=(Duplicate(0.3),),
    )
    with FaultBus(engine.url, plan) as bus:
        sns, sqs = (local_client(name, bus.url, account=engine.account, config=ONCE) for name in ("sns", "sqs"))
        queue, destination = fifo(sns, sqs, through)
        for number in range(40):
            one = {
                "Id": "0",
                "MessageGroupId": "g",
                "MessageDeduplicationId": str(number),
                "Message" if through == "sns" else "MessageBody": json.dumps({"specversion": "1.0", "id": str(number)}),
            }
            while not taken(sns if through == "sns" else sqs, destination, one):
                pass
        expected = [str(number) for number in range(40)]
        assert in_order(sqs, queue, 40) == expected
        accepted = [one.id or "" for one in bus.accepted]
        assert list(dict.fromkeys(accepted)) == expected
        assert len(accepted) > 40
        assert {(one.destination, one.group, one.key) for one in bus.accepted} == {(destination, "g", "g")}
        assert {"entry_rejected", "reset_before", "reset_after", "duplicated"} <= set(bus.state().faults)
        assert "upstream_failed" not in bus.state().faults


def test_destination_that_the_engine_does_not_have(engine: Account) -> None:
    """The engine's own refusal of a batch comes back as it is, and is on record."""
    with FaultBus(engine.url) as bus:
        sns, sqs = (local_client(name, bus.url, account=engine.account, config=ONCE) for name in ("sns", "sqs"))
        with pytest.raises(sns.exceptions.NotFoundException):
            taken(sns, f"arn:aws:sns:us-east-1:{engine.account}:nowhere", {"Id": "0", "Message": "x"})
        with pytest.raises(ClientError, match="NonExistentQueue"):
            taken(sqs, f"{bus.url}/{engine.account}/nowhere", {"Id": "0", "MessageBody": "x"})
        assert [fault.kind for fault in bus.faults] == ["upstream_error"] * 2
        assert bus.accepted == ()


def test_long_poll_waits_at_the_engine_while_others_publish(engine: Account) -> None:
    """A receiver that was there first gets the message that is sent later, through the same bus."""
    with FaultBus(engine.url) as bus, ThreadPoolExecutor(1) as pool:
        sqs = local_client("sqs", bus.url, account=engine.account)
        queue = sqs.create_queue(QueueName="events")["QueueUrl"]
        polled = pool.submit(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=5)
        time.sleep(0.1)
        assert taken(sqs, queue, {"Id": "0", "MessageBody": "late"})
        assert polled.result(timeout=8)["Messages"][0]["Body"] == "late"


def fifo(sns: Any, sqs: Any, through: str) -> tuple[str, str]:
    """Make a FIFO queue, and for SNS a FIFO topic before it; return the queue's URL and the destination."""
    queue = sqs.create_queue(QueueName="events.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    if through == "sqs":
        return queue, queue
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name="events.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
    return queue, topic


def taken(client: Any, destination: str, one: dict[str, str]) -> bool:
    """Publish a batch of one; return whether it is known to be accepted."""
    try:
        if "Message" in one:
            answer = client.publish_batch(TopicArn=destination, PublishBatchRequestEntries=[one])
        else:
            answer = client.send_message_batch(QueueUrl=destination, Entries=[one])
    except ConnectionClosedError:
        return False
    return bool(answer.get("Successful"))


def in_order(sqs: Any, queue: str, count: int) -> list[str]:
    """Return the CloudEvent ids from a FIFO queue as they come: `count`, awaited for 10 s, and any that are left."""
    found: list[str] = []
    end = time.monotonic() + 10
    while time.monotonic() < end:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        found += [json.loads(message["Body"])["id"] for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        if not messages and len(found) >= count:
            break
    return found


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
