"""What an on-failure destination has received, read back: which records of a stream were given up, and where they are.

The inverse of `on_failure`. What comes from a queue is taken for nothing that it does not say in full: a document of
another kind (an invocation that was not a stream's, somebody's own message) is InvalidMessage, and left where it is. A
topic's notification that wraps the document is opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.records import is_sequence_number
from dynamodb_outbox.errors import InvalidMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FailedBatch", "failed_batch"]

_TEXTS = ("shardId", "streamArn")
_NUMBERS = ("startSequenceNumber", "endSequenceNumber")


@dataclass(frozen=True)
class FailedBatch:
    """Records that a mapping gave up: those of a shard from the sequence number `start` to `end`, `size` of them.

    where       the message or object that says so
    condition   why they were given up, by AWS's name
    arrived     when the first and the last one were written, as the document has it
    records     the records themselves, where the document carries them; None: it does not
    """

    where: str
    stream_arn: str
    shard_id: str
    start: str
    end: str
    size: int
    condition: str
    arrived: tuple[str, str]
    records: tuple[Mapping[str, Any], ...] | None = None

    @property
    def lacks(self) -> str | None:
        """What the document names and does not carry, in words; None: nothing, or it carries no records at all."""
        if self.records is None:
            return None
        if len(self.records) < self.size:
            return f"the document carries {len(self.records)} of {self.size} records"
        numbers = [number for record in self.records if (number := _number(record)) is not None]
        if not numbers or min(numbers) > int(self.start) or max(numbers) < int(self.end):
            return "the document does not carry its first record, or its last"
        return None


def failed_batch(text: str, where: str) -> FailedBatch:
    """Return what a document says. Raises InvalidMessage for what is none of a stream's."""
    document = _object(text, where, "the document")
    if document.get("Type") == "Notification" and isinstance(document.get("Message"), str):
        document = _object(document["Message"], where, "the notification's message")
    info = document.get("DDBStreamBatchInfo")
    if not isinstance(info, dict):
        raise InvalidMessage(where, "it has no DDBStreamBatchInfo: it tells of no records of a DynamoDB stream.")
    if wrong := next((name for name in _TEXTS if not _is_text(info.get(name))), None):
        raise InvalidMessage(where, f"{wrong} of its DDBStreamBatchInfo is missing, or no text.")
    if wrong := next((name for name in _NUMBERS if not is_sequence_number(info.get(name))), None):
        raise InvalidMessage(where, f"{wrong} of its DDBStreamBatchInfo is missing, or no sequence number.")
    size = info.get("batchSize")
    context = document.get("requestContext")
    condition = context.get("condition") if isinstance(context, dict) else None
    return FailedBatch(
        where,
        info["streamArn"],
        info["shardId"],
        info["startSequenceNumber"],
        info["endSequenceNumber"],
        size if isinstance(size, int) and not isinstance(size, bool) else 0,
        condition if isinstance(condition, str) else "",
        (_arrival(info, "First"), _arrival(info, "Last")),
        _records(document, where),
    )


def _records(document: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...] | None:
    payload = document.get("payload")
    if payload is None:
        return None
    event = _object(payload, where, "its payload") if isinstance(payload, str) else payload
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InvalidMessage(where, "its payload has no Records.")
    return tuple(records)


def _number(record: Mapping[str, Any]) -> int | None:
    change = record.get("dynamodb")
    number = change.get("SequenceNumber") if isinstance(change, dict) else None
    return int(str(number)) if is_sequence_number(number) else None


def _object(text: str, where: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidMessage(where, f"{what} is no JSON.") from None
    if not isinstance(found, dict):
        raise InvalidMessage(where, f"{what} is no JSON object.")
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _arrival(info: Mapping[str, Any], which: str) -> str:
    return str(info.get(f"approximateArrivalOf{which}Record") or "")
