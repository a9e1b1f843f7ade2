"""Messages of SQS: from what ReceiveMessage gives to what Lambda gives a function, and which may be worked on at once.

The event that Lambda makes of messages has other names and forms than the API; whoever stands in for Lambda makes the
same [LDG, BC].
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["lambda_record", "units"]


def lambda_record(message: Mapping[str, Any], arn: str, region: str) -> dict[str, Any]:
    """Return a message of ReceiveMessage, as boto3 reads it, as a record of Lambda's SQS event."""
    record = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": region,
    }
    if "MD5OfMessageAttributes" in message:
        record["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return record


def units(records: Sequence[Mapping[str, Any]], *, fifo: bool) -> list[list[Mapping[str, Any]]]:
    """Return records by what may be worked on side by side: each alone, or of a FIFO queue each group, in its order."""
    if not fifo:
        return [[record] for record in records]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["attributes"].get("MessageGroupId", ""), []).append(record)
    return list(groups.values())


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    form: dict[str, Any] = {"stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
    if "StringValue" in value:
        form["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        form["binaryValue"] = base64.b64encode(value["BinaryValue"]).decode("ascii")
    return form
