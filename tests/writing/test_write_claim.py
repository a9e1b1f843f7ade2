"""Claim checks on the writing side: the data of large events is stored first, then the transaction is sent."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from hypothesis import given
from hypothesis import strategies as st
from write_scripted import ITEM, World, lost
from write_world import LAYOUT, START_MS, new_id, some_event

from dynamodb_outbox import ClaimCheck, Event
from dynamodb_outbox.core.codec.claim import ClaimRule, verified
from dynamodb_outbox.core.codec.envelope import cloudevent, raw
from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.core.codec.size import entry_bytes
from dynamodb_outbox.core.limits import EVENTBRIDGE
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.errors import (
    CommitUnknown,
    ConfigurationError,
    EventTooLarge,
    InvalidEvent,
    InvalidMessage,
    InvalidRecord,
    NotCommitted,
    PayloadAltered,
    PayloadNotLoaded,
    PayloadUnavailable,
    UploadFailed,
)
from dynamodb_outbox.event import DataRef
from scripted_s3 import ScriptedS3, s3_error

BIG = {"lines": ["1.50"] * 100}
SHA = hashlib.sha256(b"[1]").hexdigest()
REF = DataRef("s3://payloads/outbox/1", SHA)
RULE = ClaimRule("payloads", "outbox/", threshold_bytes=500, max_bytes=1_000)


class Claimed(World):
    """An outbox with a claim check over scripted clients."""

    def __init__(self, *failures: BaseException | None, answers: tuple[Any, ...] = (), **options: Any) -> None:
        self.s3 = ScriptedS3(*failures)
        check = ClaimCheck("payloads", threshold_bytes=500, max_bytes=1_000, client=self.s3)
        super().__init__(*answers, claim_check=check, **options)
        self.s3.watched = self.client.requests

    def transaction(self, data: object = BIG) -> Any:
        """Return a transaction of one item and one event."""
        tx = self.outbox.transaction()
        tx.put(ITEM, if_absent=True)
        self.event = tx.emit("order.placed", data)
        return tx


def published(event: Event) -> int:
    """Return the bytes of an event as EventBridge counts them."""
    return entry_bytes({"Source": event.source, "DetailType": event.type, "Detail": cloudevent(event)}, EVENTBRIDGE)


# --- what is stored, and when -----------------------------------------------------------------------------------------


def test_data_is_stored_before_the_transaction_is_sent() -> None:
    """The object has the data byte for byte; the record has its place and its hash instead, as has the envelope."""
    world = Claimed()
    receipt = world.transaction().commit()
    event = world.event
    assert world.s3.sent_before == [0]
    assert receipt.event_ids == (event.id,)
    assert world.s3.objects == {("payloads", f"outbox/{event.id}"): event.payload.encode()}
    item = world.sent()[1]["Put"]["Item"]
    sha256 = hashlib.sha256(event.payload.encode()).hexdigest()
    assert (item["dataref"], item["datasha256"]) == (
        {"S": f"s3://payloads/outbox/{event.id}"},
        {"S": sha256},
    )
    assert "payload" not in item
    (relayed,) = decode(item, LAYOUT, source="?").events
    envelope = json.loads(cloudevent(relayed))
    assert "data" not in envelope
    assert (envelope["dataref"], envelope["datasha256"]) == (f"s3://payloads/outbox/{event.id}", sha256)
    assert event.data == BIG


def test_several_events_of_a_key_are_claimed_one_by_one() -> None:
    """Large ones go to objects of their own, small ones stay; the order is that of emit."""
    world = Claimed()
    tx = world.outbox.transaction()
    events = [tx.emit("t", data, key="K") for data in (BIG, {"n": 1}, BIG)]
    tx.commit()
    assert sorted(key for _, key in world.s3.objects) == sorted(f"outbox/{events[n].id}" for n in (0, 2))
    (member,) = world.sent()
    found = decode(member["Put"]["Item"], LAYOUT, source="?").events
    assert [event.id for event in found] == [event.id for event in events]
    assert [event.dataref is None for event in found] == [False, True, False]
    assert found[1].payload == '{"n":1}'


def test_the_threshold_is_about_the_published_form() -> None:
    """An event of exactly that many bytes is published with its data, one of a byte more by reference."""
    size = published(World().outbox.event("t", "", key="K"))
    for more, claimed in ((500 - size, False), (501 - size, True)):
        world = Claimed()
        (member,) = world.outbox.records([world.outbox.event("t", "x" * more, key="K")])
        assert ("dataref" in member["Put"]["Item"]) is claimed


def test_compression_does_not_move_the_threshold() -> None:
    """The size before compression decides, and an object is not compressed."""
    world = Claimed(compression="gzip")
    world.transaction().commit()
    item = world.sent()[1]["Put"]["Item"]
    assert "dataref" in item
    assert "enc" not in item
    assert list(world.s3.objects.values()) == [world.event.payload.encode()]


def test_an_event_beyond_the_limit_of_the_bus_is_claimed() -> None:
    """That is what it is for: without a claim check EventTooLarge, which names the way out."""
    data = "x" * 300_000
    with pytest.raises(EventTooLarge, match="claim_check"):
        World().outbox.records([World().outbox.event("t", data, key="K")])
    s3 = ScriptedS3()
    world = World(claim_check=ClaimCheck("payloads", client=s3))
    world.outbox.records([world.outbox.event("t", data, key="K")])
    assert len(s3.objects) == 1


def test_data_that_no_reader_would_hold_is_refused() -> None:
    """More than `max_bytes` is EventTooLarge, before anything is stored."""
    world = Claimed()
    Claimed().transaction("x" * 998).commit()
    with pytest.raises(EventTooLarge) as caught:
        world.transaction("x" * 999).commit()
    assert (caught.value.size, caught.value.limit) == (1_001, 1_000)
    assert world.s3.puts == []


def test_what_else_an_event_has_is_limited_as_ever() -> None:
    """Only the data goes to S3: attributes that are too large for the bus are EventTooLarge."""
    world = Claimed(max_event_bytes=2_000)
    tx = world.outbox.transaction()
    tx.emit("t", 1, key="K", attributes={"a": "x" * 2_000})
    with pytest.raises(EventTooLarge):
        tx.commit()
    assert world.s3.puts == []


def test_a_key_encrypts() -> None:
    """With `kms_key` S3 is told so; without, the bucket's setting holds."""
    for key, expected in (("alias/k", {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/k"}), (None, {})):
        s3 = ScriptedS3()
        check = ClaimCheck("payloads", threshold_bytes=1, client=s3, kms_key=key)
        world = World(claim_check=check)
        world.outbox.records([world.outbox.event("t", 1, key="K")])
        (put,) = s3.puts
        assert {name: put[name] for name in ("ServerSideEncryption", "SSEKMSKeyId") if name in put} == expected
        assert put["ContentType"] == "application/json"


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "retryable"),
    [
        (s3_error("SlowDown", 503), True),
        (s3_error("InternalError", 500), True),
        (EndpointConnectionError(endpoint_url="x"), True),
        (s3_error("AccessDenied", 403), False),
        (s3_error("NoSuchBucket", 404), False),
        (NoCredentialsError(), False),
    ],
)
def test_a_failed_upload_commits_nothing(failure: Exception, retryable: bool) -> None:
    """Nothing is sent to DynamoDB, the error says where and why, and commit() may be called again."""
    world = Claimed(failure)
    tx = world.transaction()
    with pytest.raises(UploadFailed) as caught:
        tx.commit()
    assert world.client.requests == []
    assert caught.value.retryable is retryable
    assert caught.value.uri == f"s3://payloads/outbox/{world.event.id}"
    with pytest.raises(NotCommitted):
        _ = tx.receipt
    assert tx.commit().event_ids == (world.event.id,)
    first, second = world.s3.puts
    assert first == second
    assert len(world.client.requests) == 1


def test_a_block_whose_upload_fails_can_be_committed_later() -> None:
    """Leaving the `with` raises; the transaction goes on from there, and no other one is in its way."""
    world = Claimed(s3_error("SlowDown", 503))
    with pytest.raises(UploadFailed), world.outbox.transaction() as tx:
        tx.emit("t", BIG, key="K")
    with world.outbox.transaction() as other:
        other.emit("t", 1, key="K")
    assert tx.commit().event_ids
    assert len(world.client.requests) == 2


def test_the_second_of_two_uploads_fails() -> None:
    """The first object is there and nothing refers to it; a repetition stores both again, with the same bytes."""
    world = Claimed(None, s3_error("SlowDown", 503))
    tx = world.outbox.transaction()
    for _ in range(2):
        tx.emit("t", BIG, key="K")
    with pytest.raises(UploadFailed):
        tx.commit()
    assert (len(world.s3.objects), world.client.requests) == (1, [])
    tx.commit()
    assert len(world.s3.objects) == 2
    assert world.s3.puts[0] == world.s3.puts[2]


def test_a_lost_answer_uploads_nothing_again() -> None:
    """What is stored stays stored: commit() called again only sends the same request."""
    world = Claimed(answers=(lost(),) * 100)
    world.client.items = [None] * 100
    tx = world.transaction()
    with pytest.raises(CommitUnknown):
        tx.commit()
    world.client.answers = iter(())
    tx.commit()
    assert len(world.s3.puts) == 1
    assert len({json.dumps(request, sort_keys=True) for request in world.client.requests}) == 1


def test_request_stores_the_data_and_writes_no_item() -> None:
    """Whoever has the request may send it; commit() after that stores nothing more."""
    world = Claimed(s3_error("SlowDown", 503))
    tx = world.transaction()
    with pytest.raises(UploadFailed):
        tx.request()
    request = tx.request()
    assert (len(world.s3.objects), world.client.requests) == (1, [])
    tx.commit()
    assert world.client.requests == [request]
    assert len(world.s3.puts) == 2


def test_records_are_returned_only_when_their_data_is_stored() -> None:
    """`records()` with an upload that fails raises, and nobody gets a record that refers to nothing."""
    world = Claimed(s3_error("SlowDown", 503))
    event = world.outbox.event("t", BIG, key="K")
    with pytest.raises(UploadFailed):
        world.outbox.records([event])
    assert len(world.outbox.records([event])) == 1


def test_nothing_is_stored_for_a_transaction_that_breaks_a_limit() -> None:
    """All limits are checked first."""
    world = Claimed()
    tx = world.outbox.transaction()
    for number in range(101):
        tx.emit("t", BIG, key=str(number))
    with pytest.raises(Exception, match="101 actions"):
        tx.commit()
    assert world.s3.puts == []


def test_a_command_is_known_by_its_data() -> None:
    """The fingerprint is about what was emitted: other data is another command, and equal data the same."""

    def fingerprint(data: object) -> Any:
        world = Claimed()
        tx = world.outbox.transaction(idempotency_key="1")
        tx.emit("t", data, key="K")
        return tx.request()["TransactItems"][-1]["Put"]["Item"]["ob_guard"]["M"]["fingerprint"]

    assert fingerprint(BIG) == fingerprint(dict(BIG)) != fingerprint({**BIG, "n": 1})


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"bucket": ""}, "bucket"),
        ({"bucket": "No_Bucket"}, "bucket"),
        ({"bucket": "arn:aws:s3:::b"}, "bucket"),
        ({"bucket": "a/b"}, "bucket"),
        ({"bucket": None}, "bucket"),
        ({"prefix": ""}, "prefix"),
        ({"prefix": "a b/"}, "prefix"),
        ({"prefix": "é/"}, "prefix"),
        ({"prefix": "x" * 513}, "prefix"),
        ({"threshold_bytes": 0}, "threshold_bytes"),
        ({"threshold_bytes": True}, "threshold_bytes"),
        ({"threshold_bytes": 2**20}, "threshold_bytes"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": 6 * 1024**3}, "max_bytes"),
        ({"kms_key": ""}, "kms_key"),
        ({"client": "s3"}, "client"),
    ],
)
def test_arguments_that_cannot_work(arguments: dict[str, Any], named: str) -> None:
    """Each is a ConfigurationError that names it, when the claim check is made."""
    with pytest.raises(ConfigurationError, match=named):
        ClaimCheck(**{"bucket": "payloads", **arguments})


def test_an_outbox_takes_a_claim_check_that_fits() -> None:
    """Of the right type, and with a threshold that leaves no gap below the limit of events."""
    with pytest.raises(ConfigurationError, match="a ClaimCheck is needed"):
        World(claim_check="payloads")
    with pytest.raises(ConfigurationError, match="threshold"):
        World(claim_check=ClaimCheck("payloads", threshold_bytes=501), max_event_bytes=500)
    World(claim_check=ClaimCheck("payloads", threshold_bytes=500), max_event_bytes=500)
    with pytest.raises(ConfigurationError, match="'s3'"):
        ClaimCheck("payloads", client=World().client)
    assert repr(ClaimCheck("payloads")) == "ClaimCheck('payloads', prefix='outbox/')"


# --- the pure parts ---------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_a_record_with_references_comes_back(refs: list[bool]) -> None:
    """Whichever of its events are claimed, a record is read as it was written."""
    events = tuple(
        some_event(new_id(number), key="K", **({"payload": "", "dataref": REF} if claimed else {}))
        for number, claimed in enumerate(refs)
    )
    draft = RecordDraft(new_id(0), "K", events, 0, 1)
    assert decode(encode_record(draft, Origin(new_id(9), START_MS, None), LAYOUT), LAYOUT, source="?").events == events


def test_an_envelope_with_a_reference_comes_back() -> None:
    """A consumer has the event with its reference; its data raises, saying what loads it, until it is fetched."""
    event = some_event(key="K", payload="", dataref=REF)
    received = parse_cloudevent(json.loads(cloudevent(event)), "m")
    assert received == event
    with pytest.raises(PayloadNotLoaded, match="claim_check") as caught:
        _ = received.data
    assert caught.value.uri == REF.uri
    assert verified(received, REF, b"[1]").data == [1]
    assert cloudevent(verified(received, REF, b"[1]")) == cloudevent(event)


def test_data_beside_a_reference_is_taken() -> None:
    """CloudEvents allows both, and says that they are the same."""
    message = json.loads(cloudevent(some_event(payload="[1]"))) | {"dataref": "https://elsewhere.example/1"}
    received = parse_cloudevent(message, "m")
    assert (received.payload, received.dataref) == ("[1]", None)


@pytest.mark.parametrize(
    "change", [{"datasha256": None}, {"datasha256": ""}, {"datasha256": 5}, {"dataref": ""}, {"dataref": 5}]
)
def test_a_reference_that_cannot_be_verified_is_no_message(change: dict[str, Any]) -> None:
    """Without a hash, or without a place, there is no data to be had."""
    message = json.loads(cloudevent(some_event(payload="", dataref=REF))) | change
    with pytest.raises(InvalidMessage):
        parse_cloudevent(message, "m")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dataref": {"S": ""}}, "dataref"),
        ({"dataref": {"N": "1"}}, "dataref"),
        ({"datasha256": {"S": "X" * 64}}, "SHA-256"),
        ({"datasha256": {"S": SHA.upper()}}, "SHA-256"),
        ({"datasha256": {"S": SHA + "\n"}}, "SHA-256"),
    ],
)
def test_a_record_with_a_broken_reference_is_invalid(change: dict[str, Any], reason: str) -> None:
    """It can never be published so that a consumer could use it."""
    draft = RecordDraft(new_id(0), "K", (some_event(key="K", payload="", dataref=REF),), 0, 1)
    image = encode_record(draft, Origin(new_id(9), START_MS, None), LAYOUT)
    with pytest.raises(InvalidRecord, match=reason):
        decode({**image, **change}, LAYOUT, source="?")
    del image["datasha256"]
    with pytest.raises(InvalidRecord, match="datasha256"):
        decode(image, LAYOUT, source="?")


def test_the_envelope_raw_cannot_carry_a_reference() -> None:
    """It would publish nothing: the sink refuses the event, and it is parked with that reason."""
    with pytest.raises(InvalidEvent, match="cloudevents"):
        raw(some_event(payload="", dataref=REF))


@pytest.mark.parametrize("name", ["dataref", "datasha256"])
def test_an_attribute_cannot_pretend_to_be_one(name: str) -> None:
    """The two names are the envelope's own."""
    with pytest.raises(InvalidEvent, match=name):
        World().outbox.event("t", 1, key="K", attributes={name: "s3://elsewhere/1"})


@pytest.mark.parametrize(
    ("content", "sha256"),
    [
        (b"[2]", SHA),
        (b"", SHA),
        (b"\xff", hashlib.sha256(b"\xff").hexdigest()),
        (b"1,2", hashlib.sha256(b"1,2").hexdigest()),
    ],
)
def test_other_data_is_not_taken(content: bytes, sha256: str) -> None:
    """A hash that differs, and content that is no JSON though its hash agrees."""
    with pytest.raises(PayloadAltered) as caught:
        verified(some_event(), DataRef(REF.uri, sha256), content)
    assert caught.value.uri == REF.uri


@pytest.mark.parametrize(
    "uri",
    [
        "s3://other/outbox/1",
        "s3://payloads/secrets/1",
        "s3://payloads/outbox/",
        "s3://payloads/",
        "s3://payloadsx/outbox/1",
        "S3://payloads/outbox/1",
        "https://payloads.s3.amazonaws.com/outbox/1",
        "",
    ],
)
def test_no_other_place_is_read(uri: str) -> None:
    """A message cannot make a consumer read another bucket or another prefix than its own."""
    assert RULE.key_of(REF) == "outbox/1"
    with pytest.raises(PayloadUnavailable, match="no other place"):
        RULE.key_of(DataRef(uri, SHA))
