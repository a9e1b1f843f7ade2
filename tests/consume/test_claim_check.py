"""Claim checks from end to end: written, relayed, delivered and consumed; and what a consumer does when that fails."""

from __future__ import annotations

import builtins
import hashlib
import json
import logging
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from dynamodb_outbox import ClaimCheck, Event, Inbox, Outbox, Relay
from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.errors import (
    ConfigurationError,
    PayloadAltered,
    PayloadMissing,
    PayloadUnavailable,
    UploadFailed,
)
from dynamodb_outbox.event import DataRef
from dynamodb_outbox.local.provision import create_bus, create_queue, create_table, route
from dynamodb_outbox.sinks import EventBridge
from scripted_s3 import ScriptedS3, s3_error

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Transaction

BUCKET = "payloads"
BIG = {"order_id": "1", "text": "é" * 400_000}


class Shop:
    """A writer, a relay, a bus, a queue and a consumer on the engine; `seen` is what its function was given."""

    def __init__(self, engine: Account, **options: Any) -> None:
        self.dynamodb = engine.client("dynamodb")
        self.streams = engine.client("dynamodbstreams")
        self.s3 = engine.client("s3")
        self.sqs = engine.client("sqs")
        events = engine.client("events")
        self.bucket = f"payloads-{engine.account}"  # names of buckets are shared by all accounts
        self.s3.create_bucket(Bucket=self.bucket)
        for table in ("shop", "billing"):
            create_table(self.dynamodb, table)
        create_bus(events, "orders")
        self.queue = create_queue(self.sqs, "billing")
        route(events, self.sqs, bus="orders", queue=self.queue, rule="all")
        self.check = ClaimCheck(self.bucket, client=self.s3)
        self.outbox = Outbox("shop", source="shop.orders", client=self.dynamodb, claim_check=self.check, **options)
        self.relay = Relay(EventBridge("orders", client=events), table="shop", client=self.dynamodb)
        self.inbox = Inbox("billing", consumer="invoices", client=self.dynamodb, claim_check=self.check)
        self.seen: list[Any] = []
        self.inbox.consumer(self._applied)

    def _applied(self, event: Event, tx: Transaction) -> None:
        self.seen.append(event.data)
        tx.put({"pk": f"DONE#{event.id}", "sk": "META"}, if_absent=True)

    def write(self, *data: object) -> None:
        """Commit an order with these events."""
        with self.outbox.transaction() as tx:
            tx.put({"pk": "ORDER#1", "sk": "META"}, overwrite=True)
            for each in data:
                tx.emit("order.placed", each)

    def relayed(self) -> list[dict[str, Any]]:
        """Relay what is in the stream; return the messages in the queue, as Lambda hands them over."""
        assert self.relay_all() == {"batchItemFailures": []}
        messages = self.sqs.receive_message(QueueUrl=self.queue.url, MaxNumberOfMessages=10, WaitTimeSeconds=2)
        return [
            {"messageId": each["MessageId"], "eventSource": "aws:sqs", "body": each["Body"]}
            for each in messages["Messages"]
        ]

    def relay_all(self) -> dict[str, Any]:
        """Relay what is in the stream; return the relay's answer."""
        stream = DynamoDbStream(self.streams, stream_arn(self.dynamodb, "shop"))
        records = [record for shard in stream.shards() for record in stream.open(shard.shard_id).read().records]
        return dict(self.relay.lambda_handler({"Records": records}, None))

    def objects(self) -> list[str]:
        """Return the keys in the bucket."""
        return [each["Key"] for each in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]


def failed(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer that sends these messages back."""
    return {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in messages]}


# --- the whole way ----------------------------------------------------------------------------------------------------


def test_large_data_arrives_whole(engine: Account) -> None:
    """800 KB of data, more than table, bus and queue take: the function gets all of it, once, and the object stays."""
    shop = Shop(engine)
    shop.write(BIG)
    messages = shop.relayed()
    (message,) = messages
    detail = json.loads(message["body"])["detail"]
    assert "data" not in detail
    assert len(message["body"]) < 2_000
    assert shop.inbox.lambda_handler({"Records": messages * 2}) == {"batchItemFailures": []}
    assert shop.seen[0] == BIG
    assert shop.objects() == [f"outbox/{detail['id']}"]
    assert shop.dynamodb.get_item(TableName="billing", Key={"pk": {"S": f"DONE#{detail['id']}"}, "sk": {"S": "META"}})[
        "Item"
    ]


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_records_are_relayed_as_plain_text(engine: Account, compression: Any) -> None:
    """Bus and consumer see nothing of the compression, in either form of a record, beside a claim check."""
    shop = Shop(engine, compression=compression)
    small = {"text": "abc" * 1_000}
    shop.write(small)
    shop.write(small, BIG, {"n": 1})
    stored = shop.dynamodb.scan(TableName="shop")["Items"]
    assert sorted(item.get("enc", {}).get("S", "") for item in stored) == ["", compression, compression]
    messages = shop.relayed()
    assert len(messages) == 4
    assert shop.inbox.lambda_handler({"Records": messages}) == {"batchItemFailures": []}
    assert sorted(map(json.dumps, shop.seen)) == sorted(map(json.dumps, [small, small, BIG, {"n": 1}]))


def test_a_relay_without_the_extra_publishes_later(
    engine: Account, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is held, so that the stream delivers it again; nothing is parked, and with the extra it goes on."""
    shop = Shop(engine, compression="zstd")
    shop.write({"text": "abc" * 1_000})
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", missing)
        held = shop.relay_all()
    assert len(held["batchItemFailures"]) == 1
    assert "dynamodb-outbox[zstd]" in caplog.text
    (record,) = (item for item in shop.dynamodb.scan(TableName="shop")["Items"] if "ob_v" in item)
    assert record["state"] == {"S": "pending"}
    assert len(shop.relayed()) == 1


def test_a_bucket_that_is_missing_commits_nothing(engine: Account) -> None:
    """The upload fails: no item, no record; when the bucket is there, the same transaction is committed."""
    shop = Shop(engine)
    shop.s3.delete_bucket(Bucket=shop.bucket)
    tx = shop.outbox.transaction()
    tx.put({"pk": "ORDER#1", "sk": "META"}, if_absent=True)
    event = tx.emit("order.placed", BIG)
    with pytest.raises(UploadFailed, match="NoSuchBucket"):
        tx.commit()
    assert shop.dynamodb.scan(TableName="shop")["Items"] == []
    shop.s3.create_bucket(Bucket=shop.bucket)
    tx.commit()
    assert shop.objects() == [f"outbox/{event.id}"]


def test_a_process_that_dies_between_upload_and_commit_leaves_an_object_alone(engine: Account) -> None:
    """Nothing was announced; the command, run again by another process, has an object of its own and is applied."""
    shop = Shop(engine)
    died = shop.outbox.transaction(idempotency_key="1")
    died.put({"pk": "ORDER#1", "sk": "META"}, if_absent=True)
    died.emit("order.placed", BIG)
    died.request()  # stores the data; the transaction is never sent
    assert len(shop.objects()) == 1
    assert shop.dynamodb.scan(TableName="shop")["Items"] == []
    shop.write(BIG)
    messages = shop.relayed()
    assert shop.inbox.lambda_handler({"Records": messages}) == {"batchItemFailures": []}
    assert shop.seen == [BIG]
    assert len(shop.objects()) == 2


def test_data_that_is_gone_or_altered_sends_the_message_back(engine: Account, caplog: pytest.LogCaptureFixture) -> None:
    """The function does not run, nothing is recorded, and once the object is back the same message is applied."""
    shop = Shop(engine)
    shop.write(BIG)
    messages = shop.relayed()
    (key,) = shop.objects()
    content = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    with caplog.at_level(logging.ERROR):
        assert shop.inbox.lambda_handler({"Records": messages}) == failed(messages)
        shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=content.replace(b'"1"', b'"2"'))
        assert shop.inbox.lambda_handler({"Records": messages}) == failed(messages)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ["no such object" in said or "SHA-256" in said for said in errors] == [True, True]
    assert "é" not in caplog.text
    assert (shop.seen, shop.dynamodb.scan(TableName="billing")["Items"]) == ([], [])
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=content)
    assert shop.inbox.lambda_handler({"Records": messages}) == {"batchItemFailures": []}
    assert shop.seen == [BIG]


# --- the consumer alone -----------------------------------------------------------------------------------------------


def claimed(s3: ScriptedS3, content: bytes = b"[1]", *, key: str = "outbox/1") -> Event:
    """Return an event whose data is in the scripted bucket."""
    s3.objects[BUCKET, key] = content
    return Event(
        id="1",
        type="order.placed",
        source="shop.orders",
        payload="",
        time=datetime(2026, 11, 29, tzinfo=timezone.utc),
        key="ORDER#1",
        dataref=DataRef(f"s3://{BUCKET}/{key}", hashlib.sha256(content).hexdigest()),
    )


def consumer(engine: Account, s3: ScriptedS3 | None, **options: Any) -> tuple[Inbox, list[Any]]:
    """Return an inbox over the scripted bucket, and the data its function has seen."""
    client = engine.client("dynamodb")
    create_table(client, "billing")
    check = None if s3 is None else ClaimCheck(BUCKET, client=s3, **options)
    inbox = Inbox("billing", consumer="invoices", client=client, claim_check=check)
    seen: list[Any] = []

    @inbox.consumer
    def see(event: Event, tx: Transaction) -> None:
        seen.append(event.data)
        tx.put({"pk": f"DONE#{event.id}", "sk": "META"}, if_absent=True)

    return inbox, seen


@pytest.mark.parametrize(
    ("failure", "error", "retryable"),
    [
        (s3_error("NoSuchKey", 404), PayloadMissing, False),
        (s3_error("NoSuchBucket", 404), PayloadUnavailable, False),
        (s3_error("AccessDenied", 403), PayloadUnavailable, False),
        (s3_error("SlowDown", 503), PayloadUnavailable, True),
        (ReadTimeoutError(endpoint_url="x"), PayloadUnavailable, True),
    ],
)
def test_a_failed_read_says_which_kind_it_was(
    engine: Account, failure: Exception, error: type[PayloadMissing | PayloadUnavailable], retryable: bool
) -> None:
    """Typed, with the place; the next delivery reads again."""
    s3 = ScriptedS3(failure)
    inbox, seen = consumer(engine, s3)
    event = claimed(s3)
    with pytest.raises(error) as caught:
        inbox.apply(event)
    assert (caught.value.uri, caught.value.retryable, seen) == (f"s3://{BUCKET}/outbox/1", retryable, [])
    assert inbox.apply(event)
    assert seen == [[1]]


def test_an_object_that_is_larger_than_allowed_is_not_held(engine: Account) -> None:
    """The bound is exact, and no more than a byte beyond it is read."""
    s3 = ScriptedS3()
    inbox, seen = consumer(engine, s3, max_bytes=5)
    with pytest.raises(PayloadUnavailable, match="max_bytes"):
        inbox.apply(claimed(s3, b"[1234]"))
    assert inbox.apply(claimed(s3, b"[123]"))
    assert seen == [[123]]


def test_a_hash_that_differs_is_not_applied(engine: Account) -> None:
    """What is there was not stored for this event."""
    s3 = ScriptedS3()
    inbox, seen = consumer(engine, s3)
    event = claimed(s3)
    s3.objects[BUCKET, "outbox/1"] = b"[2]"
    with pytest.raises(PayloadAltered):
        inbox.apply(event)
    assert seen == []


def test_a_message_cannot_choose_what_is_read(engine: Account) -> None:
    """A reference beside the prefix is refused without a read, even when its hash is right."""
    s3 = ScriptedS3()
    inbox, _ = consumer(engine, s3)
    with pytest.raises(PayloadUnavailable, match="no other place"):
        inbox.apply(claimed(s3, key="secrets/1"))
    assert s3.gets == []


def test_an_inbox_without_a_claim_check_says_what_it_needs(engine: Account) -> None:
    """The message goes back; events with their data are none of it."""
    inbox, seen = consumer(engine, None)
    event = claimed(ScriptedS3())
    with pytest.raises(PayloadUnavailable, match="claim_check"):
        inbox.apply(event)
    assert inbox.apply(replace(event, payload="[5]"))
    assert seen == [[5]]
    with pytest.raises(ConfigurationError, match="claim_check"):
        Inbox("billing", consumer="c", claim_check=cast("Any", "payloads"))


def test_what_was_published_is_what_was_written(engine: Account) -> None:
    """Data of any size around the threshold comes through, by one way or the other."""
    shop = Shop(engine)
    base = len(cloudevent(shop.outbox.event("order.placed", "", key="ORDER#1")))
    data = ["x" * (200_000 - base + more) for more in (-200, -80, 0, 200)]
    for each in data:
        shop.write(each)
    assert shop.inbox.lambda_handler({"Records": shop.relayed()}) == {"batchItemFailures": []}
    assert sorted(map(len, shop.seen)) == sorted(map(len, data))
    assert 0 < len(shop.objects()) < len(data)
