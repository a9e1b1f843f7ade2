"""FIFO destinations: what is redriven is not taken for what they have had within five minutes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parked_shell import parked_of

from dynamodb_outbox.sinks import Sqs
from sweep_shell import Shop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Account
    from dynamodb_outbox.event import Event


def test_an_event_that_a_fifo_queue_has_just_had_is_delivered_again(engine: Account) -> None:
    """One of a record of two was accepted when the other was refused; both are redriven at once."""
    shop, sqs = Shop(engine), engine.client("sqs")
    attributes = {"FifoQueue": "true"}
    url = sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)["QueueUrl"]
    with shop.outbox.transaction() as tx:
        good, bad = (tx.emit("order.placed", {"n": n}, key="A") for n in range(2))

    def refusing(one: Event) -> Mapping[str, str]:
        return {"not a name": "x"} if one.id == bad.id else {}

    shop.sweeper(Sqs(url, client=sqs, attributes=refusing)).sweep()
    assert len(shop.index("parked")) == 1
    assert parked_of(shop).redrive(Sqs(url, client=sqs), all=True).is_complete
    received: list[Any] = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages"):
        received += [json.loads(message["Body"])["id"] for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert received == [good.id, good.id, bad.id]
