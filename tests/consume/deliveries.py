"""What sources deliver, in the shapes that AWS documents, around events of this project.

Lambda developer guide: "Using Lambda with Amazon SQS" (standard and FIFO example events), "... with Amazon SNS", "...
with Kinesis", "... with DynamoDB". SNS developer guide: "Amazon SNS message and JSON formats", "raw message delivery".
EventBridge user guide: "Events structure", "Pipes sources" (SQS, Kinesis, DynamoDB), "Pipes batching and concurrency".
DynamoDB developer guide: "Kinesis Data Streams for DynamoDB" (record format).
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:billing"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders"
STREAM = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
TABLE_STREAM = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-11-29T00:00:00.000"
TIME = "2026-11-29T12:00:00Z"
AT_MS = 1_795_953_600_000

FAILING = "order.failing"
"""The type of events whose function raises."""


def order(number: int, event_type: str = "order.placed", **fields: Any) -> Event:
    """Return an event of order `number`."""
    return Event(
        id=f"0193766f-0000-7000-8000-{number:012d}",
        type=event_type,
        source="shop.orders",
        payload=json.dumps({"order_id": str(number), "cents": 100}, separators=(",", ":")),
        time=datetime(2026, 11, 29, 12, tzinfo=timezone.utc),
        key=f"ORDER#{number}",
        **fields,
    )


# --- what is inside ---------------------------------------------------------------------------------------------------


def from_rule(event: Event) -> dict[str, Any]:
    """Return what an EventBridge rule delivers of a relayed event."""
    return bridged(json.loads(cloudevent(event)), event.type, event.source)


def bridged(detail: Any, detail_type: str = "order.placed", source: str = "shop.orders") -> dict[str, Any]:
    """Return an event of EventBridge."""
    return {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": detail_type,
        "source": source,
        "account": "123456789012",
        "time": "2026-11-29T12:00:01Z",
        "region": "eu-west-1",
        "resources": [],
        "detail": detail,
    }


def notification(message: str) -> dict[str, Any]:
    """Return what SNS makes of a message, without raw delivery."""
    return {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Message": message,
        "Timestamp": "2026-11-29T12:00:02.345Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLEw6JRN",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123.pem",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
        "MessageAttributes": {"type": {"Type": "String", "Value": "order.placed"}},
    }


def image(*events: Event) -> dict[str, Any]:
    """Return the record that a writer makes of events of one key."""
    draft = RecordDraft(events[0].id, events[0].key or "", events, 0, 1)
    return dict(encode_record(draft, Origin("0193766f-0000-7000-8000-ffffffffffff", AT_MS, "eu-west-1"), Layout()))


# --- records of sources -----------------------------------------------------------------------------------------------


def sqs_record(body: str, at: int, *, arn: str = QUEUE, group: str | None = None) -> dict[str, Any]:
    """Return a message as Lambda's mapping and pipes give it."""
    attributes = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": "1795953603000",
        "SenderId": "AIDAIENQZJOLO23YVJ4VO",
        "ApproximateFirstReceiveTimestamp": "1795953603010",
    }
    if group is not None:
        attributes |= {"SequenceNumber": f"1885{at:016d}", "MessageGroupId": group, "MessageDeduplicationId": str(at)}
    return {
        "messageId": f"059f36b4-87a3-44ab-83d2-{at:012d}",
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
        "body": body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": "eu-west-1",
    }


def sns_record(message: str) -> dict[str, Any]:
    """Return a notification as SNS invokes a function with it; two of its names are spelled otherwise than in SQS."""
    told = notification(message)
    told["SigningCertUrl"], told["UnsubscribeUrl"] = told.pop("SigningCertURL"), told.pop("UnsubscribeURL")
    return {"EventVersion": "1.0", "EventSubscriptionArn": f"{TOPIC}:1", "EventSource": "aws:sns", "Sns": told}


def kinesis_record(data: str, at: int) -> dict[str, Any]:
    """Return a record as Lambda's mapping gives it."""
    flat = kinesis_pipe_record(data, at)
    inner = ("kinesisSchemaVersion", "partitionKey", "sequenceNumber", "data", "approximateArrivalTimestamp")
    return {"kinesis": {name: flat.pop(name) for name in inner}, **flat}


def kinesis_pipe_record(data: str, at: int) -> dict[str, Any]:
    """Return a record as a pipe gives it."""
    number = f"4959033827149025660855969253836157109592157598913658{at:04d}"
    return {
        "kinesisSchemaVersion": "1.0",
        "partitionKey": "1",
        "sequenceNumber": number,
        "data": base64.b64encode(data.encode()).decode(),
        "approximateArrivalTimestamp": 1795953603.987,
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": f"shardId-000000000006:{number}",
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": "arn:aws:iam::123456789012:role/lambda-role",
        "awsRegion": "eu-west-1",
        "eventSourceARN": STREAM,
    }


def change_record(new: dict[str, Any] | None, at: int, name: str = "INSERT") -> dict[str, Any]:
    """Return a change of a table as its stream gives it, to a mapping and to a pipe alike."""
    keys = {"pk": {"S": "X"}, "sk": {"S": "Y"}} if new is None else {each: new[each] for each in ("pk", "sk")}
    return {
        "eventID": f"c4ca4238a0b923820dcc509a6f75{at:04d}",
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1795953603.0,
            "Keys": keys,
            **({} if new is None else {"NewImage": new}),
            "SequenceNumber": f"44215840000000001747340{at:04d}",
            "SizeBytes": 26,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": TABLE_STREAM,
    }


def change_in_kinesis(new: dict[str, Any], at: int, name: str = "INSERT") -> str:
    """Return the JSON by which a table's change stands in a Kinesis stream: without a number of its own."""
    return json.dumps(
        {
            "awsRegion": "eu-west-1",
            "eventID": f"b015b5f0-c095-4b50-8ad0-{at:012d}",
            "eventName": name,
            "userIdentity": None,
            "recordFormat": "application/json",
            "tableName": "shop",
            "dynamodb": {
                "ApproximateCreationDateTime": 1795953603012995,
                "Keys": {each: new[each] for each in ("pk", "sk")},
                "NewImage": new,
                "SizeBytes": 99,
                "ApproximateCreationDateTimePrecision": "MICROSECOND",
            },
            "eventSource": "aws:dynamodb",
        }
    )


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """One way of events to a function.

    carry    wraps an event, a foreign object, or a malformed text, up to what the source itself takes
    deliver  makes what the function is given of several such
    names    makes the names by which an answer calls these records; None: there is no partial answer
    onwards  "each": a failure touches nothing else; "rest": everything after it comes again
    lowest   whether an answer names the first that failed alone
    table    whether what is carried is a change of a table, so that a foreign object is an item that is no record
    """

    carry: Callable[[Any], Any]
    deliver: Callable[[Sequence[Any]], Any]
    names: Callable[[Any], str] | None
    onwards: str = "each"
    lowest: bool = False
    table: bool = False

    def of(self, *inside: Any) -> Any:
        """Return what the function is given of these events, foreign objects (dicts) and malformed texts."""
        return self.deliver([self.carry(each) for each in inside])


def _json(inside: Any) -> str:
    if isinstance(inside, Event):
        return cloudevent(inside)
    return inside if isinstance(inside, str) else json.dumps(inside)


def _rule(inside: Any) -> str:
    if isinstance(inside, Event):
        return json.dumps(from_rule(inside))
    return inside if isinstance(inside, str) else json.dumps(bridged(inside, "Object Created", "aws.s3"))


def _rule_object(inside: Any) -> Any:
    return bridged({"x": 1}, "Malformed") if isinstance(inside, str) else json.loads(_rule(inside))


def _change(inside: Any) -> dict[str, Any]:
    if isinstance(inside, Event):
        return image(inside)
    row = image(order(0))
    if isinstance(inside, str):
        return {**row, "payload": {"S": inside}}
    return {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}}  # an item that is no record


def _mapped(make: Callable[[Any, int], Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda inside: {"Records": [make(each, at) for at, each in enumerate(inside)]}


def _piped(make: Callable[[Any, int], Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda inside: [make(each, at) for at, each in enumerate(inside)]


def message_id(record: Any) -> str:
    """Return the name of an SQS message in an answer."""
    return str(record["messageId"])


def event_id(record: Any) -> str:
    """Return the name of a stream's record in an answer to a pipe."""
    return str(record["eventID"])


WAYS = {
    "SQS, sent there by the relay": Way(_json, _mapped(sqs_record), message_id),
    "SQS behind a rule": Way(_rule, _mapped(sqs_record), message_id),
    "SQS behind SNS": Way(lambda inside: json.dumps(notification(_json(inside))), _mapped(sqs_record), message_id),
    "SQS behind SNS, raw": Way(_json, _mapped(sqs_record), message_id),
    "SQS behind SNS behind a rule": Way(
        lambda inside: json.dumps(notification(_rule(inside))), _mapped(sqs_record), message_id
    ),
    "SQS behind SNS behind a rule, raw": Way(_rule, _mapped(sqs_record), message_id),
    "SNS": Way(_json, lambda inside: {"Records": [sns_record(each) for each in inside]}, None),
    "SNS behind a rule": Way(_rule, lambda inside: {"Records": [sns_record(each) for each in inside]}, None),
    "EventBridge": Way(_rule_object, lambda inside: inside[0] if inside else {"Records": []}, None),
    "Kinesis": Way(_json, _mapped(kinesis_record), lambda it: it["kinesis"]["sequenceNumber"], "rest", lowest=True),
    "Kinesis behind a table": Way(
        lambda inside: change_in_kinesis(_change(inside), 1),
        _mapped(kinesis_record),
        lambda it: it["kinesis"]["sequenceNumber"],
        "rest",
        lowest=True,
        table=True,
    ),
    "DynamoDB stream": Way(
        _change, _mapped(change_record), lambda it: it["dynamodb"]["SequenceNumber"], "rest", lowest=True, table=True
    ),
    "pipe from SQS": Way(_rule, _piped(sqs_record), message_id),
    "pipe from Kinesis": Way(_json, _piped(kinesis_pipe_record), event_id, "rest"),
    "pipe from a DynamoDB stream": Way(_change, _piped(change_record), event_id, "rest", table=True),
    "pipe with a template": Way(_rule_object, list, None),
}
"""Each way of events to a function, by what one would call it."""
