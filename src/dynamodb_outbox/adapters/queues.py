"""An SQS queue that is read by whoever works on its messages: `ports.MessageQueue`.

Batches of DeleteMessage and ChangeMessageVisibility answer 200 with a result for each entry, some of which may be
failures. None of them is tried again here: a message that was not deleted comes again, which is what "at least once"
means, and one that was not held any longer does too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.core.consuming.messages import lambda_record
from dynamodb_outbox.errors import QueueRefused, QueueUnavailable
from dynamodb_outbox.sdk.clients import OwnClient
from dynamodb_outbox.sdk.errors import FAILS, TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["SqsMessages"]

_LONGEST_POLL_S = 20
_CONFIG = Config(
    connect_timeout=2,
    read_timeout=_LONGEST_POLL_S + 5,
    retries={"total_max_attempts": 2, "mode": "standard"},
    tcp_keepalive=True,
    max_pool_connections=50,
)


class SqsMessages:
    """The queue at `url`; `client` is a boto3 client of "sqs", made on first use when none is given.

    Permissions: `sqs:ReceiveMessage`, `sqs:DeleteMessage`, `sqs:ChangeMessageVisibility`, `sqs:GetQueueAttributes`.
    """

    def __init__(self, url: str, client: Any = None) -> None:
        self._url = url
        self._client = OwnClient("sqs", _CONFIG, client)
        self._arn: str | None = None

    @property
    def fifo(self) -> bool:
        """Whether the queue is FIFO: the names of those end so."""
        return self._url.endswith(".fifo")

    def receive(self, most: int, wait_s: int, hold_s: int) -> Sequence[Mapping[str, Any]]:
        """Wait for messages. Raises QueueUnavailable, QueueRefused, ConfigurationError."""
        arn = self._known_arn()
        answer = self._called(
            self._client.get().receive_message,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=hold_s,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        region = str(self._client.get().meta.region_name)
        return [lambda_record(message, arn, region) for message in answer.get("Messages", [])]

    def hold(self, records: Sequence[Mapping[str, Any]], hold_s: int) -> Sequence[str]:
        """Change the visibility of messages; return why some were not."""
        entries = [{**each, "VisibilityTimeout": hold_s} for each in _entries(records)]
        return self._failures(lambda client: client.change_message_visibility_batch, entries)

    def delete(self, records: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Delete messages; return why some were not."""
        return self._failures(lambda client: client.delete_message_batch, _entries(records))

    def _known_arn(self) -> str:
        if self._arn is None:
            answer = self._called(self._client.get().get_queue_attributes, AttributeNames=["QueueArn"])
            found = answer.get("Attributes", {}).get("QueueArn")
            if found is None:
                raise QueueUnavailable("the answer to GetQueueAttributes has no QueueArn")
            self._arn = str(found)
        return self._arn

    def _failures(self, operation: Callable[[Any], Any], entries: list[dict[str, Any]]) -> Sequence[str]:
        try:
            answer = operation(self._client.get())(QueueUrl=self._url, Entries=entries)
        except FAILS as error:
            return [str(said(error))]
        return [f"{each.get('Code')}: {each.get('Message', '')}" for each in answer.get("Failed") or ()]

    def _called(self, operation: Any, **request: Any) -> Any:
        try:
            return operation(QueueUrl=self._url, **request)
        except TRANSPORT as error:
            what = said(error)
            if may_pass(error):
                raise QueueUnavailable(str(what)) from error
            reason = f"{what.message.rstrip('. ')} ({self._client.place})" if what.status else what.message
            raise QueueRefused(self._url, what.code, reason) from error


def _entries(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"Id": str(at), "ReceiptHandle": record["receiptHandle"]} for at, record in enumerate(records)]
