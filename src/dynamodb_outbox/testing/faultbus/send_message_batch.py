"""SQS SendMessageBatch: JSON 1.0, `X-Amz-Target: AmazonSQS.SendMessageBatch`, results by the entries' Ids.

That is the protocol of every SDK since the end of 2023; the query protocol of older ones is passed through. An error
names its code twice: in the body as the model has it, and in a header as the query protocol had it, which is the one
that boto3 shows as `Error.Code`. The two differ for the codes below [the `awsQueryError` traits of the service's
model].
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.faultbus import by_id, json_entries
from dynamodb_outbox.testing.faultbus.exchange import Answer, json_answer
from dynamodb_outbox.testing.faultbus.json_entries import objects, read, text
from dynamodb_outbox.testing.faultbus.protocol import Batch, Entry, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.testing.faultbus.exchange import Request

__all__ = ["SendMessageBatch"]

_CONTENT_TYPE = "application/x-amz-json-1.0"
_SERVER_ERROR = 500
_ASKS = {"AmazonSQS.GetQueueAttributes": "QueueUrl", "AmazonSQS.GetQueueUrl": "QueueName"}
_QUERY_CODES = {
    "BatchEntryIdsNotDistinct": "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
    "BatchRequestTooLong": "AWS.SimpleQueueService.BatchRequestTooLong",
    "EmptyBatchRequest": "AWS.SimpleQueueService.EmptyBatchRequest",
    "InvalidBatchEntryId": "AWS.SimpleQueueService.InvalidBatchEntryId",
    "KmsAccessDenied": "KMS.AccessDeniedException",
    "KmsDisabled": "KMS.DisabledException",
    "KmsInvalidKeyUsage": "KMS.InvalidKeyUsageException",
    "KmsInvalidState": "KMS.InvalidStateException",
    "KmsNotFound": "KMS.NotFoundException",
    "KmsOptInRequired": "KMS.OptInRequired",
    "KmsThrottled": "KMS.ThrottlingException",
    "QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue",
    "TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
    "UnsupportedOperation": "AWS.SimpleQueueService.UnsupportedOperation",
}


class SendMessageBatch:
    """`BatchProtocol` of SendMessageBatch."""

    @property
    def operation(self) -> str:
        """`SendMessageBatch`."""
        return "SendMessageBatch"

    def matches(self, request: Request) -> bool:
        """Whether the request's target is SendMessageBatch."""
        return request.header("x-amz-target") == "AmazonSQS.SendMessageBatch"

    def asked(self, request: Request) -> str | None:
        """Return the queue of a GetQueueAttributes or a GetQueueUrl."""
        field = _ASKS.get(request.header("x-amz-target"))
        return None if field is None else text(read(request.body), field)

    def parse(self, body: bytes) -> Batch | None:
        """Return the entries, None unless the Ids are distinct."""
        document = read(body)
        queue = text(document, "QueueUrl") or ""
        entries = by_id.entries_of(objects(document, "Entries"), queue, "MessageBody")
        return None if entries is None else Batch(entries, document)

    def body(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """Return the request's document with only these entries."""
        return json_entries.with_entries(batch, indexes)

    def verdicts(self, body: bytes, entries: Sequence[Entry]) -> tuple[Verdict, ...] | None:
        """Read `Successful` and `Failed`."""
        document = read(body)
        return by_id.verdicts(objects(document, "Successful"), objects(document, "Failed"), entries)

    def rejection(self, entry: Entry, code: str, *, sender_fault: bool) -> Verdict:
        """Return an entry of `Failed`."""
        return by_id.rejection(entry, code, sender_fault=sender_fault)

    def swallowed(self, entry: Entry) -> Verdict | None:  # noqa: ARG002 - the same for all
        """Return None: a queue that is not there is an error of the whole request."""
        return None

    def answer(self, verdicts: Sequence[Verdict]) -> Answer:
        """Return the 200 answer."""
        return json_answer(200, by_id.split(verdicts), content_type=_CONTENT_TYPE)

    def error(self, status: int, code: str, message: str) -> Answer:
        """Return a JSON 1.0 error, with the code of the query protocol beside."""
        answer = json_answer(
            status, {"__type": f"com.amazonaws.sqs#{code}", "message": message}, content_type=_CONTENT_TYPE
        )
        whose = "Receiver" if status >= _SERVER_ERROR else "Sender"
        header = ("x-amzn-query-error", f"{_QUERY_CODES.get(code, code)};{whose}")
        return replace(answer, headers=(*answer.headers, header))

    def not_found(self, destination: str) -> Answer:  # noqa: ARG002 - AWS does not name it
        """Return the answer to any request for a queue that is not there."""
        return self.error(400, "QueueDoesNotExist", "The specified queue does not exist.")
