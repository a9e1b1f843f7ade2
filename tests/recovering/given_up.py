"""A mapping whose function fails: what its on-failure destination has then, in a bucket, or in a queue."""

from __future__ import annotations

import json
import secrets
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.eventsource.answers import FunctionFailed
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.local.checkpoint import CheckpointFile
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.on_failure import FailureDirectory, mapped
from dynamodb_outbox.local.provision import create_queue
from dynamodb_outbox.local.source import EventSource
from dynamodb_outbox.process.stop import StopFlag
from dynamodb_outbox.recover import FailedBatches
from fake_streams import FakeStreams
from source_steps import Recorder, run_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from conftest import Account
    from sweep_shell import Shop


def given_up(engine: Account, shop: Shop, records: int, where: Path, *, batch_size: int = 100) -> list[dict[str, Any]]:
    """Let the local event source give up that many records; return its documents, with the records in them."""
    stream = DynamoDbStream(engine.client("dynamodbstreams"), str(shop.stream))
    config = MappingConfig(maximum_retry_attempts=0, batch_size=batch_size)
    function = Recorder(*[FunctionFailed("ValueError", "no")] * records)
    kept = FailureDirectory(where, mapped(stream.arn, "relay", account=engine.account, region=REGION))
    stop = StopFlag()
    try:
        checkpoint = CheckpointFile(where / "checkpoint", stream.arn)
        source = EventSource(stream, function, checkpoint, stop, config=config, on_failure=kept)
        run_until(source, lambda: sum(map(len, function.batches)) >= records and len(_documents(where)) > 0)
        run_until(source, lambda: sum(each["DDBStreamBatchInfo"]["batchSize"] for each in _documents(where)) >= records)
    finally:
        stop.close()
    return _documents(where)


def _documents(where: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(where.rglob("aws/lambda/**/*")) if path.is_file()]


class Streams(FakeStreams):
    """A stream that answers from a script, and looks like a client of boto3's."""

    meta = SimpleNamespace(config=Config(), region_name=REGION, endpoint_url=None)


class Destination:
    """A queue and a bucket of an account, and redrives of what is in them."""

    def __init__(self, engine: Account, shop: Shop) -> None:
        self.shop = shop
        self.sqs, self.s3 = engine.client("sqs"), engine.client("s3")
        self.streams = engine.client("dynamodbstreams")
        self.queue = create_queue(self.sqs, "failed").url
        self.bucket = f"failed-{engine.account}"
        self.s3.create_bucket(Bucket=self.bucket)

    def send(self, document: Mapping[str, Any] | str) -> None:
        """Put a document into the queue: what a queue gets has no payload."""
        if not isinstance(document, str):
            document = json.dumps({name: value for name, value in document.items() if name != "payload"})
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=document)

    def store(self, document: Mapping[str, Any] | str, name: str | None = None) -> str:
        """Put a document into the bucket; return its URI."""
        key = f"aws/lambda/m/{secrets.token_hex(4) if name is None else name}"
        body = document if isinstance(document, str) else json.dumps(document)
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body.encode())
        return f"s3://{self.bucket}/{key}"

    def redrive(self, bus: Any, **options: Any) -> FailedBatches:
        """Return what redrives, with clients of the account."""
        clients = {"client": self.shop.client, "sqs_client": self.sqs, "s3_client": self.s3}
        options.setdefault("streams_client", self.streams)
        return FailedBatches(bus, table="shop", layout=self.shop.layout, **clients, **options)

    def waiting(self) -> int:
        """Return how many messages the queue has that can be received at once."""
        names = ["ApproximateNumberOfMessages"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return int(found[names[0]])
