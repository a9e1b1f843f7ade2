"""The on-failure destination of a mapping: what its event source gave up, in a bucket or a queue, as AWS has it.

A bucket has the records; a queue says where they are in the stream, and hides what it has handed out until that is
deleted or its time is over. The clients of "s3" and "sqs", by which an operator reads that, are here too.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.on_failure import Mapped, failure_metadata, failure_object, object_key
from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.network import NO_TROUBLES
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.records import TABLE_CONFIG
from dynamodb_outbox.testing.simulation.stream import STREAM_ARN
from dynamodb_outbox.testing.simulation.table import REGION

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.commands import Discard
    from dynamodb_outbox.testing.simulation.kernel import Kernel
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process

__all__ = ["BUCKET_URI", "QUEUE_URL", "BucketClient", "Message", "OnFailure", "QueueClient"]

_BUCKET = "relay-failed"
BUCKET_URI = f"s3://{_BUCKET}/aws/lambda/"
QUEUE_URL = "https://sqs.simulation.invalid/000000000000/relay-failed"
_QUEUE_ARN = f"arn:aws:sqs:{REGION}:000000000000:relay-failed"
_FUNCTION_ARN = f"arn:aws:lambda:{REGION}:000000000000:function:"


@dataclass
class Message:
    """A message of the queue, hidden until a time; each time that it is handed out it has another receipt."""

    message_id: str
    body: str
    hidden_until_ms: int = 0
    receipt: str = ""


class OnFailure:
    """What has been given up, by the names of objects and in the order of messages: both, for who reads one of them."""

    def __init__(self, kernel: Kernel) -> None:
        self.objects: dict[str, str] = {}
        self.messages: list[Message] = []
        self._kernel = kernel
        self._kept = 0

    def keep(self, destination: str, shard: str, discard: Discard) -> None:
        """Take in what the source of a destination gave up."""
        self._kept += 1
        unique = f"00000000-0000-4000-8000-{self._kept:012x}"
        now_ms = START_MS + self._kernel.now_ms
        mapped = Mapped(destination, f"{_FUNCTION_ARN}{destination}", STREAM_ARN)
        named: dict[str, Any] = {"shard_id": shard, "request_id": unique, "now_ms": now_ms}
        self.objects[object_key(destination, shard, now_ms, unique)] = json.dumps(
            failure_object(discard, mapped, **named)
        )
        self.messages.append(Message(unique, json.dumps(failure_metadata(discard, mapped, **named))))


class BucketClient(SimulatedClient):
    """boto3's client of "s3", as far as the objects of an on-failure destination are read."""

    def __init__(self, network: Network, process: Process, kept: OnFailure) -> None:
        super().__init__(network, process, service="s3", where="bucket", region=REGION, config=TABLE_CONFIG)
        self._kept = kept

    def list_objects_v2(self, **request: Any) -> dict[str, Any]:
        """ListObjectsV2, of one page."""
        _, prefix = self._arguments("ListObjectsV2", request, "Bucket", "Prefix")

        def act() -> dict[str, Any]:
            return {"Contents": [{"Key": name} for name in sorted(self._kept.objects) if name.startswith(prefix)]}

        return self._call("ListObjectsV2", act, NO_TROUBLES)

    def get_object(self, **request: Any) -> dict[str, Any]:
        """GetObject."""
        _, name = self._arguments("GetObject", request, "Bucket", "Key")
        return self._call("GetObject", lambda: {"Body": io.BytesIO(self._kept.objects[name].encode())}, NO_TROUBLES)


class QueueClient(SimulatedClient):
    """boto3's client of "sqs", as far as the messages of an on-failure destination are worked on."""

    def __init__(self, network: Network, process: Process, kept: OnFailure) -> None:
        super().__init__(network, process, service="sqs", where="queue", region=REGION, config=TABLE_CONFIG)
        self._kept = kept
        self._handed_out = 0

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        """GetQueueAttributes: the ARN."""
        return self._call("GetQueueAttributes", lambda: {"Attributes": {"QueueArn": _QUEUE_ARN}}, NO_TROUBLES)

    def receive_message(self, **request: Any) -> dict[str, Any]:
        """ReceiveMessage; it does not wait."""
        most, hold_s = request["MaxNumberOfMessages"], request["VisibilityTimeout"]

        def act() -> dict[str, Any]:
            now_ms = self._network.kernel.now_ms
            seen = [one for one in self._kept.messages if one.hidden_until_ms <= now_ms][:most]
            for one in seen:
                self._handed_out += 1
                one.hidden_until_ms = now_ms + 1_000 * hold_s
                one.receipt = f"{self._process.name}/{self._handed_out}"
            return {"Messages": [_message(one) for one in seen]}

        return self._call("ReceiveMessage", act, NO_TROUBLES)

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        """DeleteMessageBatch."""
        receipts = {entry["ReceiptHandle"] for entry in request["Entries"]}

        def act() -> dict[str, Any]:
            self._kept.messages = [one for one in self._kept.messages if one.receipt not in receipts]
            return {}

        return self._call("DeleteMessageBatch", act, NO_TROUBLES)

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        """ChangeMessageVisibilityBatch."""
        hold_s = {entry["ReceiptHandle"]: entry["VisibilityTimeout"] for entry in request["Entries"]}

        def act() -> dict[str, Any]:
            for one in self._kept.messages:
                if one.receipt in hold_s:
                    one.hidden_until_ms = self._network.kernel.now_ms + 1_000 * hold_s[one.receipt]
            return {}

        return self._call("ChangeMessageVisibilityBatch", act, NO_TROUBLES)


def _message(one: Message) -> dict[str, Any]:
    return {"MessageId": one.message_id, "ReceiptHandle": one.receipt, "Body": one.body, "MD5OfBody": ""}
