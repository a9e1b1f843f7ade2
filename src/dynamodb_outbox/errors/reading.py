"""Errors of those who read: records, messages, the data of claimed events, streams."""

from __future__ import annotations

from dynamodb_outbox.errors.root import ConfigurationError, OutboxError

__all__ = [
    "BucketUnavailable",
    "ImageMissing",
    "InvalidFilter",
    "InvalidMessage",
    "InvalidRecord",
    "PayloadAltered",
    "PayloadError",
    "PayloadMissing",
    "PayloadNotLoaded",
    "PayloadUnavailable",
    "StreamMissing",
    "StreamRefused",
    "StreamUnavailable",
    "TableUnavailable",
    "UnhandledEvent",
    "UploadFailed",
]


class InvalidRecord(OutboxError):
    """A stored record cannot be read as events: `where` is its key, `reason` what is wrong with it."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"record {where}: {reason}")


class ImageMissing(OutboxError):
    """A stream record has no NewImage: the stream's view type does not carry what the relay publishes."""

    def __init__(self, view_type: str) -> None:
        self.view_type = view_type
        super().__init__(
            f"the stream's view type is {view_type}, so its records do not carry the item. The relay needs NEW_IMAGE "
            "or NEW_AND_OLD_IMAGES; a view type cannot be changed: disable the stream and enable it with the right one."
        )


class TableUnavailable(OutboxError):
    """The records' table, or its index, does not answer as it should: `table` names it, `reason` is what was said.

    `retryable`: the same may succeed later; else something is missing that has to be set up, or a permission.
    """

    def __init__(self, table: str, reason: str, *, retryable: bool) -> None:
        self.table = table
        self.reason = reason
        self.retryable = retryable
        super().__init__(f"table {table!r}: {reason}")


class InvalidMessage(OutboxError):
    """A delivered message cannot be read as an event: `where` names the message, `reason` says what is wrong."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"message {where}: {reason}")


class UnhandledEvent(OutboxError):
    """A consumer was given an event that none of its functions takes."""

    def __init__(self, event_type: str, consumer: str) -> None:
        self.event_type = event_type
        self.consumer = consumer
        super().__init__(
            f"consumer {consumer!r} has no function for {event_type!r} events. Add one with @inbox.on({event_type!r}), "
            "or narrow the rule that feeds the queue: what is not handled goes back to the queue and, in the end, to "
            "its dead-letter queue."
        )


class UploadFailed(OutboxError):
    """The data of an event could not be stored under `uri`; `reason` is what the store said.

    Nothing was committed: data is stored before the transaction is sent. `commit()` may be called again on the same
    transaction, and stores the same bytes under the same name; `retryable` says whether that can succeed by itself.
    """

    def __init__(self, uri: str, reason: str, *, retryable: bool) -> None:
        self.uri = uri
        self.reason = reason
        self.retryable = retryable
        advice = (
            "Call commit() again."
            if retryable
            else "The writer needs s3:PutObject there, and kms:GenerateDataKey where a key encrypts."
        )
        super().__init__(f"nothing was committed: storing {uri} failed ({reason}). {advice}")


class PayloadError(OutboxError):
    """The data of an event cannot be had from where the event says it is, `uri`; `reason` says why."""

    def __init__(self, uri: str, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"the data at {uri}: {reason}")


class PayloadNotLoaded(PayloadError):
    """The data of an event is in an object and has not been fetched. The inbox fetches it; a relay never does."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, "it is not loaded; an Inbox(..., claim_check=ClaimCheck(bucket)) fetches it.")


class PayloadMissing(PayloadError):
    """There is no such object: it was deleted, or a lifecycle rule removed it before the event was consumed."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            uri,
            "there is no such object. A lifecycle rule must keep objects for longer than queues, dead-letter queues, "
            "parked records and replays keep their events.",
        )


class PayloadAltered(PayloadError):
    """The object is not what the writer stored: its SHA-256 is another, or it is no JSON text."""


class PayloadUnavailable(PayloadError):
    """The data could not be fetched, or may not be. `retryable` says whether the same call may succeed later."""

    def __init__(self, uri: str, reason: str, *, retryable: bool = False) -> None:
        super().__init__(uri, reason)
        self.retryable = retryable


class BucketUnavailable(OutboxError):
    """Objects cannot be listed, or one cannot be read: `uri` says which, `reason` what S3 said.

    `retryable` says whether the same call may succeed later.
    """

    def __init__(self, uri: str, reason: str, *, retryable: bool) -> None:
        self.uri = uri
        self.reason = reason
        self.retryable = retryable
        super().__init__(f"{uri}: {reason}")


class StreamMissing(OutboxError):
    """There is no such stream: `name` is the table's or the stream's."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(
            f"{name}: {reason}. Create the table with a stream, or enable it, and look the stream up again"
        )


class StreamUnavailable(OutboxError):
    """The stream gave no answer, or asked to slow down. The same call may be made again."""

    retryable = True

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the stream cannot be read at the moment: {reason}")


class StreamRefused(OutboxError):
    """The stream refuses the request, and will again: `code` is AWS's (AccessDeniedException, …)."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"the stream refuses to be read: {code}: {reason}")


class InvalidFilter(ConfigurationError):
    """A filter pattern that cannot be honoured: `path` says where, `operator` which one (empty when it is not that)."""

    def __init__(self, path: str, reason: str, operator: str = "") -> None:
        self.path = path
        self.operator = operator
        self.reason = reason
        super().__init__(f"filter {path}: {reason}")
