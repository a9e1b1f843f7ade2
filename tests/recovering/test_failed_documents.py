"""What an on-failure destination has received, read back; anything else is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.eventsource.commands import Condition, Discard
from dynamodb_outbox.core.eventsource.failures import failed_batch
from dynamodb_outbox.core.eventsource.on_failure import Mapped, failure_metadata, failure_object
from dynamodb_outbox.core.eventsource.records import stream_record
from dynamodb_outbox.errors import InvalidMessage

ARN = "arn:aws:dynamodb:us-east-1:000000000001:table/shop/stream/1"
MAPPED = Mapped("m", "arn:aws:lambda:us-east-1:000000000001:function:relay", ARN)
NUMBERS = st.lists(st.integers(1, 10**30), min_size=1, max_size=5, unique=True).map(sorted)


def body(number: int) -> dict[str, Any]:
    """Return a stream record."""
    change = {"Keys": {"pk": {"S": "é"}}, "SequenceNumber": str(number), "ApproximateCreationDateTime": 1_800_000_000}
    return {"eventID": f"e{number}", "eventName": "INSERT", "dynamodb": change}


def documents(numbers: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a queue gets about records, and what a bucket does."""
    records = tuple(stream_record(body(number)) for number in numbers)
    discard = Discard(Condition.RETRIES_EXHAUSTED, records, 3, None)
    facts: dict[str, Any] = {"shard_id": "shardId-1", "request_id": "r", "now_ms": 1_800_000_000_000}
    return failure_metadata(discard, MAPPED, **facts), failure_object(discard, MAPPED, **facts)


@given(NUMBERS)
def test_what_is_made_here_is_read_back(numbers: list[int]) -> None:
    """From a queue without the records, from a bucket with them, and out of a topic's notification."""
    message, stored = documents(numbers)
    found = failed_batch(json.dumps(message), "m1")
    assert (found.where, found.stream_arn, found.shard_id) == ("m1", ARN, "shardId-1")
    assert (int(found.start), int(found.end), found.size) == (numbers[0], numbers[-1], len(numbers))
    assert (found.records, found.condition) == (None, "RetryAttemptsExhausted")
    assert found.arrived == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:00Z")
    assert failed_batch(json.dumps({"Type": "Notification", "Message": json.dumps(message)}), "m1") == found
    assert failed_batch(json.dumps(stored), "m1").records == tuple(map(body, numbers))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no JSON object"),
        ('{"Type": "Notification", "Message": "hello"}', "notification's message is no JSON"),
        ('{"KinesisBatchInfo": {}}', "no DDBStreamBatchInfo"),
        ('{"DDBStreamBatchInfo": []}', "no DDBStreamBatchInfo"),
    ],
)
def test_what_is_no_such_document_is_told(text: str, says: str) -> None:
    """With what it lacks."""
    with pytest.raises(InvalidMessage, match=says) as caught:
        failed_batch(text, "message 1")
    assert caught.value.where == "message 1"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("shardId", None, "shardId .* no text"),
        ("streamArn", "", "streamArn .* no text"),
        ("startSequenceNumber", 7, "startSequenceNumber .* no sequence number"),
        ("endSequenceNumber", "x", "endSequenceNumber .* no sequence number"),
    ],
)
def test_a_document_that_does_not_say_where_its_records_are_is_told(name: str, value: Any, says: str) -> None:
    """Which of the facts it lacks."""
    message, _ = documents([1])
    info = {**message["DDBStreamBatchInfo"], name: value}
    with pytest.raises(InvalidMessage, match=says):
        failed_batch(json.dumps({**message, "DDBStreamBatchInfo": info}), "m")


@pytest.mark.parametrize("payload", ["{", "{}", '{"Records": {}}', {"Records": [1]}, 7])
def test_a_payload_without_records_is_told(payload: Any) -> None:
    """It is not taken for one that was left out, for then the stream would be asked."""
    message, _ = documents([1])
    with pytest.raises(InvalidMessage, match="its payload"):
        failed_batch(json.dumps({**message, "payload": payload}), "m")


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([1, 2, 3], None),
        ([3, 1, 2, 4], None),
        ([], "carries 0 of 3"),
        ([1, 2], "carries 2 of 3"),
        ([1, 2, 2], "first record, or its last"),
        ([2, 3, 4], "first record, or its last"),
        ([None, "x", True], "first record, or its last"),
    ],
)
def test_a_document_lacks_what_it_names_and_does_not_carry(there: list[Any], says: str | None) -> None:
    """By the number of its records, and by those of the first and the last."""
    message, _ = documents([1, 2, 3])
    records = [{"dynamodb": {"SequenceNumber": number if number is None else str(number)}} for number in there]
    lacks = failed_batch(json.dumps({**message, "payload": {"Records": records}}), "o").lacks
    assert (lacks is None) if says is None else (says in str(lacks))
    assert failed_batch(json.dumps(message), "m").lacks is None


def test_what_is_told_and_not_needed_may_be_missing() -> None:
    """The size, the condition, the times."""
    message, _ = documents([1])
    info = {name: message["DDBStreamBatchInfo"][name] for name in ("shardId", "streamArn")}
    info |= {"startSequenceNumber": "1", "endSequenceNumber": "1", "batchSize": True}
    found = failed_batch(json.dumps({"DDBStreamBatchInfo": info, "requestContext": 7}), "m")
    assert (found.size, found.condition, found.arrived) == (0, "", ("", ""))
