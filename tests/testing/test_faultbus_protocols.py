"""How the fault bus reads and writes batches, without a network."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.testing.faultbus.protocol import Batch, Verdict
from dynamodb_outbox.testing.faultbus.publish_batch import PublishBatch
from dynamodb_outbox.testing.faultbus.send_message_batch import SendMessageBatch

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
FIELDS = st.dictionaries(
    st.sampled_from(["Message", "Subject", "MessageAttributes.entry.1.Name", "New.member.2"]), TEXTS, max_size=4
)
ENTRIES = st.lists(FIELDS, min_size=1, max_size=11)
PREFIX = "PublishBatchRequestEntries.member."


def form(entries: list[dict[str, str]], **others: str) -> bytes:
    """Return a PublishBatch form; the Ids are the entries' indexes."""
    fields = {f"{PREFIX}{n}.{name}": value for n, one in enumerate(entries, 1) for name, value in one.items()}
    ids = {f"{PREFIX}{n}.Id": str(n - 1) for n in range(1, len(entries) + 1)}
    return urlencode({"Action": "PublishBatch", **others, **fields, **ids}).encode()


def parsed(body: bytes) -> Batch:
    """Return the batch of a body that must be one."""
    batch = PublishBatch().parse(body)
    assert batch is not None
    return batch


@given(ENTRIES, TEXTS, st.data())
@settings(deadline=None)
def test_form_for_some_entries_has_just_these_and_everything_else(
    entries: list[dict[str, str]], topic: str, data: st.DataObject
) -> None:
    """Entries keep all their fields and their order, are numbered from 1, and the form's other fields stay."""
    body = form(entries, TopicArn=topic, Version="2010-03-31")
    batch = parsed(body)
    assert [entry.detail for entry in batch.entries] == [one.get("Message", "") for one in entries]
    assert {entry.destination for entry in batch.entries} == {topic}
    indexes = sorted(data.draw(st.sets(st.integers(0, len(entries) - 1), min_size=1)))
    some = PublishBatch().body(batch, indexes)
    assert [entry.raw for entry in parsed(some).entries] == [batch.entries[index].raw for index in indexes]
    assert parsed(some).document == {"Action": "PublishBatch", "TopicArn": topic, "Version": "2010-03-31"}
    numbers = {int(name.split(".")[2]) for name, _ in parse_qsl(some.decode()) if name.startswith(PREFIX)}
    assert numbers == set(range(1, len(indexes) + 1))


def test_form_with_bytes_that_are_no_text_is_kept() -> None:
    """What is not UTF-8 goes on byte for byte, and has an identity."""
    batch = parsed(
        b"Action=PublishBatch&PublishBatchRequestEntries.member.1.Id=a&" + PREFIX.encode() + b"1.Message=%FF"
    )
    assert batch.entries[0].identity.startswith("sha256:")
    assert b"=%FF" in PublishBatch().body(batch, [0])


def test_entries_are_in_the_order_of_their_numbers() -> None:
    """A form may list its fields in any order: member 10 is the last of ten."""
    names = [f"{PREFIX}{number}.Id={number}" for number in (10, 2, 1, 9, 3, 4, 8, 5, 6, 7)]
    assert [entry.raw["Id"] for entry in parsed("&".join(names).encode()).entries] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize(
    "body", [b"", b"\xff=%", b"Action=PublishBatch", (PREFIX + "x.Id=a").encode(), (PREFIX + "1.Message=a").encode()]
)
def test_form_without_entries_that_have_ids_is_no_batch(body: bytes) -> None:
    """Nothing to decide about: such a request is passed through."""
    assert PublishBatch().parse(body) is None


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"Entries": []},
        {"Entries": {}},
        {"Entries": [1]},
        {"Entries": [{}]},
        {"Entries": [{"Id": 1}]},
        {"Entries": [{"Id": "a"}, {"Id": "a"}]},
    ],
)
def test_document_without_entries_that_have_ids_is_no_batch(document: object) -> None:
    """Nothing to decide about: such a request is passed through."""
    assert SendMessageBatch().parse(json.dumps(document).encode()) is None


def test_document_keeps_what_is_not_an_entry() -> None:
    """A request for some of the entries keeps its other fields and the entries' own fields, known or not."""
    document = {"QueueUrl": "q", "New": 1, "Entries": [{"Id": "a", "MessageBody": "x", "New": [1]}, {"Id": "b"}]}
    protocol = SendMessageBatch()
    batch = protocol.parse(json.dumps(document).encode())
    assert batch is not None
    assert json.loads(protocol.body(batch, [0, 1])) == document
    assert json.loads(protocol.body(batch, [0])) == {
        **document,
        "Entries": [{"Id": "a", "MessageBody": "x", "New": [1]}],
    }
    assert [(entry.destination, entry.detail) for entry in batch.entries] == [("q", "x"), ("q", "")]


def test_entry_is_known_by_its_event_then_by_what_it_is_deduplicated_by() -> None:
    """The identity is the CloudEvent id, without one the MessageDeduplicationId, without either a hash of the text."""
    event = json.dumps({"specversion": "1.0", "id": "e", "partitionkey": "k"})
    entries = [
        {"Id": "1", "MessageBody": event, "MessageDeduplicationId": "d", "MessageGroupId": "g"},
        {"Id": "2", "MessageBody": '{"id": "e"}', "MessageDeduplicationId": "d", "MessageGroupId": "g"},
        {"Id": "3", "MessageBody": "x"},
        {"Id": "4", "MessageBody": "x"},
    ]
    batch = SendMessageBatch().parse(json.dumps({"QueueUrl": "q", "Entries": entries}).encode())
    assert batch is not None
    first, second, third, fourth = batch.entries
    assert (first.identity, first.id, first.key, first.group, first.deduplication_id) == ("e", "e", "k", "g", "d")
    assert (second.identity, second.id, second.key) == ("d", None, "g")
    assert third.identity == fourth.identity
    assert third.identity.startswith("sha256:")


def test_answer_of_sns_is_xml_whatever_the_texts_are() -> None:
    """Codes and messages are escaped, and both lists are there even when empty."""
    answer = PublishBatch().answer([Verdict({"Id": "a", "Code": "<&>", "SenderFault": True}, "<&>")])
    root = ET.fromstring(answer.body)  # noqa: S314 - our own answer
    (failed,) = root.iterfind("{*}PublishBatchResult/{*}Failed/{*}member")
    assert [(field.tag.rpartition("}")[2], field.text) for field in failed] == [
        ("Id", "a"),
        ("Code", "<&>"),
        ("SenderFault", "true"),
    ]
    assert root.find("{*}PublishBatchResult/{*}Successful") is not None


@pytest.mark.parametrize(("status", "whose"), [(400, "Sender"), (503, "Receiver")])
def test_errors_say_whose_fault_they_are(status: int, whose: str) -> None:
    """As in the query protocol: a 4xx is the sender's, a 5xx the receiver's."""
    root = ET.fromstring(PublishBatch().error(status, "C", "m").body)  # noqa: S314 - our own answer
    assert root.findtext("{*}Error/{*}Type") == whose
    assert dict(SendMessageBatch().error(status, "C", "m").headers)["x-amzn-query-error"] == f"C;{whose}"
