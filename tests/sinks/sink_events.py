"""Events, destinations and clients for the tests of sinks."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from botocore.config import Config

from dynamodb_outbox.event import Event
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.sinks import Fault, Prepared, Sns, Sqs

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
ACCOUNT = "123456789012"
TOPIC = f"arn:aws:sns:eu-west-1:{ACCOUNT}:orders"
QUEUE = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders"
URL = f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/orders"
UUID = "019c0000-0000-7000-8000-000000000001"


def event(payload: str = '{"n":1}', **changes: Any) -> Event:
    """Return an event with changes."""
    fields: dict[str, Any] = {"id": UUID, "type": "order.placed", "source": "shop", "time": NOON, "key": "ORDER#1"}
    return Event(payload=payload, **{**fields, **changes})


def client(service: str) -> Any:
    """Return a client that never gets as far as a network."""
    config = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1})
    return local_client(service, "http://127.0.0.1:1", config=config)


def prepared(sink: Any, one: Event) -> Prepared:
    """Return the entry of an event that passes the local checks."""
    found = sink.prepare(one)
    assert isinstance(found, Prepared), found
    return found


def fault_of(sink: Any, one: Event) -> Fault:
    """Return the fault that the local checks find."""
    found = sink.prepare(one)
    assert isinstance(found, Fault), found
    return found


def both(**options: Any) -> list[Sns | Sqs]:
    """Return a sink of either service with the same options."""
    return [Sns(TOPIC, **options), Sqs(URL, **options)]


def body_of(entry: Any) -> str:
    """Return an entry's text."""
    return str(entry["Message"] if "Message" in entry else entry["MessageBody"])
