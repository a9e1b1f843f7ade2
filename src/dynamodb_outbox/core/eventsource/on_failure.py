"""What an on-failure destination receives about records that were given up, in AWS's own form [LDG, REC].

A queue or a topic receives metadata alone: where in the stream the records are, for as long as the stream still has
them. A bucket receives the records too, as `payload`: the whole event, as JSON text inside of the JSON. So only what a
bucket holds can be redriven after a day.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.commands import Discard

__all__ = ["Mapped", "failure_metadata", "failure_object", "object_key"]

_VERSION = "1.0"
_EXECUTED_VERSION = "$LATEST"
_STATUS = 200  # of the invocation: also when the function failed


@dataclass(frozen=True)
class Mapped:
    """Which mapping it is: its id, the function's ARN, and the stream's."""

    mapping_id: str
    function_arn: str
    stream_arn: str


def failure_metadata(
    discard: Discard, mapped: Mapped, *, shard_id: str, request_id: str, now_ms: int
) -> dict[str, Any]:
    """Return the document for an SQS or SNS destination. `request_id` names the invocation.

    `now_ms` is wall-clock time. `responseContext` is left out when no invocation ended (records that grew too old
    before the first); its `functionError` is None when the function returned, and reported the failures itself.
    """
    document: dict[str, Any] = {
        "requestContext": {
            "requestId": request_id,
            "functionArn": mapped.function_arn,
            "condition": discard.condition.value,
            "approximateInvokeCount": discard.invocations,
        }
    }
    if discard.response is not None:
        document["responseContext"] = {
            "statusCode": _STATUS,
            "executedVersion": _EXECUTED_VERSION,
            "functionError": discard.response.function_error,
        }
    return document | {
        "version": _VERSION,
        "timestamp": _text(now_ms, "milliseconds"),
        "DDBStreamBatchInfo": {
            "shardId": shard_id,
            "startSequenceNumber": discard.start,
            "endSequenceNumber": discard.end,
            "approximateArrivalOfFirstRecord": _text(discard.records[0].arrived_ms, "seconds"),
            "approximateArrivalOfLastRecord": _text(discard.records[-1].arrived_ms, "seconds"),
            "batchSize": len(discard.records),
            "streamArn": mapped.stream_arn,
        },
    }


def failure_object(discard: Discard, mapped: Mapped, *, shard_id: str, request_id: str, now_ms: int) -> dict[str, Any]:
    """Return the document for an S3 destination: the metadata, and as `payload` the text of the whole event."""
    metadata = failure_metadata(discard, mapped, shard_id=shard_id, request_id=request_id, now_ms=now_ms)
    event = {"Records": [record.body for record in discard.records]}
    return metadata | {"payload": json.dumps(event, separators=(",", ":"), ensure_ascii=False)}


def object_key(mapping_id: str, shard_id: str, now_ms: int, unique: str) -> str:
    """Return the name of an object of an S3 destination; `unique` is a random UUID."""
    moment = _moment(now_ms)
    return f"aws/lambda/{mapping_id}/{shard_id}/{moment:%Y/%m/%d}/{moment:%Y-%m-%dT%H.%M.%S}-{unique}"


def _moment(at_ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=at_ms)


def _text(at_ms: int, precision: str) -> str:
    return _moment(at_ms).isoformat(timespec=precision).replace("+00:00", "Z")
