"""What makes a record unreadable, told to the letter: whoever looks at a parked record has only that to go by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynamodb_outbox.core.record.decode import decode, ordering_key, record_id
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.layout import Layout

ROW: dict[str, Any] = {
    "pk": {"S": "ORDER#1"},
    "sk": {"S": "OUTBOX#1"},
    "type": {"S": "t"},
    "payload": {"S": "{}"},
    "ts": {"N": "1"},
}
PLAIN = ROW | {"ob_v": {"N": "1"}, "key": {"S": "K"}, "source": {"S": "s"}, "time": {"S": "2026-01-02T03:04:05Z"}}
ELEMENT: dict[str, Any] = {"id": "a", "type": "t", "source": "s", "time": "2026-01-02T03:04:05Z", "data": 1}
SHA = "0" * 64


def several(*elements: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that make a record one of several events."""
    return {"events": {"S": json.dumps(elements)}}


def without(element: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an element without some of its members."""
    return {name: value for name, value in element.items() if name not in names}


@pytest.mark.parametrize(
    ("image", "changes", "reason"),
    [
        (ROW, {"type": {"N": "1"}}, "attribute 'type' is missing, empty, NULL or not of type S."),
        (ROW, {"payload": {"S": ""}}, "attribute 'payload' is missing, empty, NULL or not of type S."),
        (
            ROW,
            {"payload": {"S": "{} {}"}},
            "its payload is not JSON that can be published: something follows the value (character 2).",
        ),
        (
            ROW,
            {"ts": {"S": "1"}},
            (
                "attribute 'ts' is not a number (N) of seconds since 1970; for text say "
                "Layout(columns={'time': 'ts', 'ts': 'outbox_ts'})."
            ),
        ),
        (
            ROW,
            {"ts": {"N": "1e99"}},
            "attribute 'ts' is not a number (N) of seconds since 1970: it is outside the years 1 to 9999.",
        ),
        (
            ROW,
            {"ts": {"NULL": True}},
            "attribute 'ts' is missing, NULL, or not a number (N) of seconds since 1970.",
        ),
        (ROW, {"sk": {"S": "OUTBOX#"}}, "the sort key has no id after 'OUTBOX#'."),
        (PLAIN, {"ob_v": {"N": "2"}}, "its schema (ob_v) is not 1: a newer relay is needed."),
        (PLAIN, {"key": {"N": "1"}}, "attribute 'key' is missing, empty, NULL or not of type S."),
        (PLAIN, {"source": {"S": ""}}, "attribute 'source' is missing, empty, NULL or not of type S."),
        (PLAIN, {"subject": {"N": "1"}}, "attribute 'subject' is missing, empty, NULL or not of type S."),
        (PLAIN, {"seq": {"N": "1"}}, "attribute 'seq' is missing, empty, NULL or not of type S."),
        (PLAIN, {"payload": {"S": "1,2"}}, "its payload is not one JSON value."),
        (PLAIN, {"time": {"S": "now"}}, "its time, or that of one of its events, is not RFC 3339."),
        (PLAIN, {"attributes": {"S": "x"}}, "attribute 'attributes' is not of type M."),
        (
            PLAIN,
            {"attributes": {"M": {"id": {"S": "x"}}}},
            "attributes has the name 'id', which belongs to the envelope itself.",
        ),
        (
            PLAIN,
            {"attributes": {"M": {"a": {"N": "1"}}}},
            "attributes has nothing as the value of 'a'; text is needed.",
        ),
        (PLAIN, {"enc": {"S": "gzip"}}, "attribute 'payload' is missing or not of type B, and enc is there."),
        (PLAIN, {"enc": {"S": "gzip"}, "payload": {"B": "%"}}, "attribute 'payload' is not base64."),
        (PLAIN, {"enc": {"S": "gzip"}, "payload": {"B": b"abc"}}, "attribute 'payload' is not gzip."),
        (PLAIN, {"events": {"S": "[]"}}, "events is empty."),
        (PLAIN, {"events": {"S": "{}"}}, "events is not an array of events: '[' is expected (character 0)."),
        (PLAIN, several(ELEMENT, ELEMENT), "two of its events have the same id."),
        (PLAIN, several(without(ELEMENT, "id")), "one of its events has no id."),
        (PLAIN, several(ELEMENT | {"type": ""}), "one of its events has no type."),
        (PLAIN, several(ELEMENT | {"source": 5}), "source of one of its events is not text."),
        (PLAIN, several(ELEMENT | {"subject": 5}), "subject of one of its events is not text."),
        (PLAIN, several(ELEMENT | {"sequence": 5}), "sequence of one of its events is not text."),
        (PLAIN, several(without(ELEMENT, "time")), "one of its events has no time."),
        (PLAIN, several(ELEMENT | {"time": "now"}), "its time, or that of one of its events, is not RFC 3339."),
        (PLAIN, several(ELEMENT | {"attributes": []}), "attributes of one of its events is not an object."),
        (
            PLAIN,
            several(ELEMENT | {"attributes": {"A": "x"}}),
            "attributes has the name 'A'; CloudEvents takes lower-case letters and digits only.",
        ),
        (PLAIN, several(without(ELEMENT, "data")), "one of its events has no data."),
        (PLAIN, several(without(ELEMENT, "data") | {"dataref": "s3://b/k"}), "one of its events has no datasha256."),
        (
            PLAIN,
            several(without(ELEMENT, "data") | {"dataref": "s3://b/k", "datasha256": "x"}),
            "datasha256 is not a SHA-256 in hex.",
        ),
        (
            PLAIN,
            several(without(ELEMENT, "data") | {"dataref": "", "datasha256": SHA}),
            "one of its events has no dataref.",
        ),
    ],
)
def test_a_fault_names_the_record_and_what_is_wrong(
    image: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    """Which attribute, of what; the record by its key."""
    changed = image | changes
    with pytest.raises(InvalidRecord) as caught:
        decode(changed, Layout(), source="shop")
    assert caught.value.reason == reason
    assert caught.value.where == f"ORDER#1/{changed['sk']['S']}"


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        ({"S": "2026-02-30T12:00:00Z"}, "not a time as text (S): there is no such day."),
        ({"S": "noon"}, "not a time as text (S): it does not begin with a date as YYYY-MM-DD."),
    ],
)
def test_the_time_of_a_row_by_hand_is_told_with_the_rule_that_it_breaks(time: dict[str, Any], reason: str) -> None:
    """By its column."""
    with pytest.raises(InvalidRecord) as caught:
        decode(ROW | {"happened": time}, Layout(columns={"time": "happened"}), source="shop")
    assert caught.value.reason == f"attribute 'happened' is {reason}"


def test_a_time_that_is_no_number_is_told_as_none() -> None:
    """In the column of seconds."""
    with pytest.raises(InvalidRecord) as caught:
        decode(ROW | {"ts": {"N": "x"}}, Layout(), source="shop")
    assert caught.value.reason == "attribute 'ts' is not a number (N) of seconds since 1970: it is no number."


def test_a_reference_beside_data_is_not_looked_at() -> None:
    """The two are the same; so is a record whose events have both."""
    plain = PLAIN | {"dataref": {"S": "s3://b/k"}, "datasha256": {"S": "x"}}
    assert decode(plain, Layout(), source="shop").events[0].dataref is None
    both = PLAIN | several(ELEMENT | {"dataref": "s3://b/k", "datasha256": "x"})
    (event,) = decode(both, Layout(), source="shop").events
    assert (event.dataref, event.payload) == (None, "1")


@pytest.mark.parametrize("more", [{}, {"enc": {"S": "gzip"}}])
def test_a_record_without_data_is_a_fault_of_it(more: dict[str, Any]) -> None:
    """No payload, and nothing that stands for one: told like any other fault."""
    image = {name: value for name, value in PLAIN.items() if name != "payload"} | more
    with pytest.raises(InvalidRecord, match="attribute 'payload' is missing") as caught:
        decode(image, Layout(), source="shop")
    assert caught.value.where == "ORDER#1/OUTBOX#1"


def test_an_id_is_text() -> None:
    """Where the keys carry none, and the attribute holds something else, there is none."""
    layout = Layout(select={"kind": "event"})
    image: dict[str, Any] = PLAIN | {"sk": {"S": "5"}}
    assert record_id(image | {"id": {"S": "7"}}, layout) == "7"
    for other in ({"S": ""}, {"S": 7}, {"N": "7"}):
        assert record_id(image | {"id": other}, layout) is None
    assert record_id(PLAIN | {"sk": {"S": "OUTBOX#"}}, layout) is None


def test_the_key_of_what_cannot_be_read() -> None:
    """Its `key` where that is text, else its partition; of a row by hand always that."""
    assert ordering_key(PLAIN, Layout()) == "K"
    assert ordering_key(PLAIN | {"key": {"N": "1"}}, Layout()) == "ORDER#1"
    assert ordering_key({name: PLAIN[name] for name in PLAIN if name != "key"}, Layout()) == "ORDER#1"
    assert ordering_key(ROW | {"key": {"S": "K"}}, Layout()) == "ORDER#1"
    assert ordering_key(PLAIN | {"key": {"S": 5}}, Layout()) == "ORDER#1"


def test_a_partition_that_begins_like_a_record_is_the_key_all_the_same() -> None:
    """The prefix is taken off only where partitions are records' own."""
    row = ROW | {"pk": {"S": "OUTBOX#K"}}
    assert decode(row, Layout(), source="shop").key == "OUTBOX#K"
    assert decode(row, Layout(own_partition=True), source="shop").key == "K"
