"""Stored records, back into events."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_layouts import NOON, event

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.record.by_hand import id_by_keys
from dynamodb_outbox.core.record.decode import decode, ordering_key
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout

LAYOUT = Layout()
Image = dict[str, dict[str, Any]]


def by_hand(**changes: dict[str, Any] | None) -> Image:
    """Return a row as hand-written code stores it, with changes; None takes an attribute away."""
    image: dict[str, dict[str, Any] | None] = {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": "OUTBOX#5f0c1a52-6f0e-4c53-9a3f-0d6a3f2b8f10"},
        "type": {"S": "order.placed"},
        "payload": {"S": '{"order_id":"1","total_cents":1250}'},
        "ts": {"N": "1769860800"},
        **changes,
    }
    return {name: value for name, value in image.items() if value is not None}


def ours(*events: Event, **changes: dict[str, Any] | None) -> Image:
    """Return a record as this library's writer stores it, with changes."""
    draft = RecordDraft("0197-id", "ORDER#1", events or (event(),), 0, 1)
    image: dict[str, Any] = {**encode_record(draft, Origin("tx", 1769860800123, "eu-west-1"), LAYOUT), **changes}
    return {name: value for name, value in image.items() if value is not None}


def test_a_hand_written_row_is_relayed_as_it_is() -> None:
    """Id from the sort key, key from the partition, time from ts, source from the reader's setting."""
    record = decode(by_hand(), LAYOUT, source="shop")
    assert record.events == (
        Event(
            id="5f0c1a52-6f0e-4c53-9a3f-0d6a3f2b8f10",
            type="order.placed",
            source="shop",
            payload='{"order_id":"1","total_cents":1250}',
            time=datetime(2026, 1, 31, 12, 0, 0, 0, timezone.utc),
            key="ORDER#1",
        ),
    )
    assert record.key == "ORDER#1"


def test_a_plain_record_comes_back_as_its_event() -> None:
    """What the writer put in comes out, field for field."""
    record = decode(ours(), LAYOUT, source="unused")
    assert record.events == (event(),)
    assert record.key == "ORDER#1"


def test_a_record_without_the_optional_fields_comes_back_too() -> None:
    """Subject, sequence and attributes may be absent."""
    bare = event(subject=None, sequence=None, attributes={})
    assert decode(ours(bare), LAYOUT, source="unused").events == (bare,)


texts = st.text(min_size=1, max_size=20)
payloads = st.sampled_from(
    ('{"n":1.10}', "[]", "1e5", '"\\u00e9"', '{"a":{"b":[1,2,{"c":null}]}}', "-0.0", '{"x":"]},{"}')
)
drawn_events = st.lists(
    st.builds(
        Event,
        id=texts,
        type=texts,
        source=texts,
        payload=payloads,
        time=st.datetimes(min_value=datetime(1970, 1, 1)).map(lambda t: t.replace(tzinfo=timezone.utc)),  # noqa: DTZ001
        key=st.just("ORDER#1"),
        subject=st.none() | texts,
        sequence=st.none() | texts,
        attributes=st.dictionaries(st.text("abc", min_size=1), st.text(max_size=5), max_size=2),
    ),
    min_size=2,
    max_size=5,
    unique_by=lambda one: one.id,
)


@given(drawn_events)
@settings(deadline=None, max_examples=50)
def test_several_events_come_back_in_order_with_their_digits(events: list[Event]) -> None:
    """Reading what the writer wrote gives the same events, payload text for payload text."""
    assert decode(ours(*events), LAYOUT, source="unused").events == tuple(events)


@pytest.mark.parametrize(
    "payload",
    [
        '{"a":1},"id":"forged","x":{"b":1}', '{"a":1}}', "{'a':1}", '{"a":NaN}', '{"a":1,"a":2}', '{"a":', "", "x",
    ],
)  # fmt: skip
def test_a_payload_cannot_forge_an_envelope(payload: str) -> None:
    """Text that is not one strict JSON value never gets into an envelope."""
    with pytest.raises(InvalidRecord, match="payload"):
        decode(by_hand(payload={"S": payload}), LAYOUT, source="shop")


def test_a_payload_of_a_record_that_claims_the_schema_cannot_forge_an_envelope_either() -> None:
    """Writers in other languages may build text by hand."""
    with pytest.raises(InvalidRecord, match="one JSON value"):
        decode(ours(payload={"S": '{"a":1},"id":"forged","x":{"b":1}'}), LAYOUT, source="shop")


def test_fields_of_a_foreign_row_are_quoted_in_the_envelope() -> None:
    """A type or a key with quotes in it stays a text."""
    image = by_hand(type={"S": '","id":"forged'}, pk={"S": '"}'})
    (read,) = decode(image, LAYOUT, source="shop").events
    found = json.loads(cloudevent(read))
    assert (found["id"], found["type"], found["partitionkey"]) == (read.id, '","id":"forged', '"}')


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sk": {"S": "OUTBOX#"}}, "no id"),
        ({"type": None}, "'type' is missing"),
        ({"type": {"N": "1"}}, "'type' is missing, empty, NULL or not of type S"),
        ({"type": {"NULL": True}}, "'type' is missing, empty, NULL or"),
        ({"payload": None}, "'payload' is missing"),
        ({"payload": {"NULL": True}}, "'payload' is missing, empty, NULL or"),
        ({"payload": {"L": []}}, r"'payload' is of type L; S \(JSON text\) or M is needed"),
        ({"payload": {"S": '"\\ud800"'}}, "half of a surrogate pair"),
        ({"ts": None}, r"'ts' is missing, NULL, or not a number \(N\) of seconds since 1970\."),
        ({"ts": {"NULL": True}}, "'ts' is missing, NULL, or not"),
        ({"ts": {"S": ""}}, r"'ts' is not a number \(N\) of seconds since 1970\."),
        ({"ts": {"S": "x"}}, r"for text say Layout\(columns=\{'time': 'ts', 'ts': 'outbox_ts'\}\)"),
        ({"ts": {"N": "soon"}}, "'ts'"),
        ({"ts": {"N": "1e30"}}, "'ts'"),
        ({"ts": {"N": "NaN"}}, "'ts'"),
        ({"ts": {"N": ["1"]}}, "'ts'"),
        ({"ts": {"N": "1e999999999"}}, "'ts'"),
        ({"ts": {"N": "900000000000"}}, "seconds since 1970: it is outside the years 1 to 9999"),
    ],
)
def test_a_malformed_row_is_refused_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    """The error names the record and what is wrong; the payload is not in it."""
    with pytest.raises(InvalidRecord, match=reason) as caught:
        decode(by_hand(**changes), LAYOUT, source="shop")
    assert caught.value.where.startswith("ORDER#1/OUTBOX#")
    assert "total_cents" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ob_v": {"N": "2"}}, "newer relay"),
        ({"key": None}, "'key'"),
        ({"source": None}, "'source'"),
        ({"time": {"S": "noon"}}, "RFC 3339"),
        ({"time": {"S": "2026-02-30T12:00:00.000000Z"}}, "RFC 3339"),
        ({"time": {"S": "2026-W05-6T12:00:00.000000Z"}}, "RFC 3339"),
        ({"time": {"S": "2026-01-31x12:00:00,000000Z"}}, "RFC 3339"),
        ({"subject": {"N": "1"}}, "'subject'"),
        ({"attributes": {"S": "x"}}, "not of type M"),
        ({"attributes": {"M": {"id": {"S": "forged"}}}}, "belongs to the envelope"),
        ({"attributes": {"M": {"n": {"N": "1"}}}}, "text is needed"),
        ({"events": {"S": "[]"}}, "empty"),
        ({"events": {"S": "{}"}}, "not an array"),
        ({"events": {"S": '[{"id":"1","type":"t","source":"s","time":"2026-01-01T00:00:00Z"}]'}}, "no data"),
        ({"events": {"S": '[{"type":"t","source":"s","time":"2026-01-01T00:00:00Z","data":1}]'}}, "no id"),
        ({"events": {"S": '[{"id":1,"type":"t","source":"s","time":"2026-01-01T00:00:00Z","data":1}]'}}, "id of one"),
        ({"events": {"S": '[{"id":"1","id":"2","data":1}]'}}, "twice"),
        (
            {
                "events": {
                    "S": '[{"id":"1","type":"t","source":"s","time":"2026-01-01T00:00:00Z","data":1,"attributes":[]}]'
                }
            },
            "not an object",
        ),
    ],
)
def test_a_record_that_breaks_the_schema_is_refused(changes: dict[str, Any], reason: str) -> None:
    """Each rule of the schema is held."""
    with pytest.raises(InvalidRecord, match=reason):
        decode(ours(**changes), LAYOUT, source="shop")


@pytest.mark.parametrize("changes", [{"at": {"N": "1.5"}}, {"at": None}, {"region": {"S": ""}}, {"tx": None}])
def test_what_concerns_the_table_alone_does_not_hold_an_event_back(changes: dict[str, Any]) -> None:
    """The index key, the Region and the transaction are no part of what is published."""
    assert decode(ours(**changes), LAYOUT, source="shop").events == (event(),)


@pytest.mark.parametrize(
    "image",
    [
        by_hand(payload={"S": '{"card":31415926,"card":1}'}),
        by_hand(payload={"S": '{"card":31415926'}),
        by_hand(payload={"S": '{"card":"31415926\t"}'}),
        by_hand(payload={"S": '{"card":31415926}31415926'}),
        by_hand(payload={"S": '{"card":Secret}'}),
        ours(payload={"S": '{"card":31415926}}'}),
        ours(time={"S": "31415926"}),
        ours(events={"S": '[{"id":"1","data":{"card":31415926]'}),
        ours(events={"S": '[{"id":"1","data":' + "31415926" * 1000 + "}]"}),
        ours(events={"S": '[{"id":"1","data":"31415926\\x"}]'}),
    ],
)
def test_no_reason_repeats_the_payload(image: Image) -> None:
    """A reason is logged and stored with the parked record: it says where, never what."""
    with pytest.raises(InvalidRecord) as caught:
        decode(image, LAYOUT, source="shop")
    assert not {"31415926", "Secret"} & set(re.findall(r"31415926|Secret", str(caught.value)))


def test_two_events_with_one_id_are_refused() -> None:
    """A consumer would apply only one of them."""
    with pytest.raises(InvalidRecord, match="same id"):
        decode(ours(event("1"), event("1")), LAYOUT, source="shop")


def test_a_time_in_another_form_is_read() -> None:
    """Writers in other languages may give an offset, or fewer digits."""
    record = decode(ours(time={"S": "2026-01-31T13:00:00.25+01:00"}), LAYOUT, source="shop")
    assert record.events[0].time == NOON


def test_even_an_unreadable_record_has_an_ordering_key() -> None:
    """The key attribute where our writers put one, else the partition."""
    assert ordering_key(ours(key={"S": "OTHER"}), LAYOUT) == "OTHER"
    assert ordering_key(ours(key={"N": "1"}), LAYOUT) == "ORDER#1"
    assert ordering_key(by_hand(key={"S": "theirs"}), LAYOUT) == "ORDER#1"


def test_ids_that_are_unique_in_a_partition_alone_are_told_apart() -> None:
    """A consumer would take the second for a repetition of the first."""
    ids = [
        decode(by_hand(pk={"S": partition}, sk={"S": sort_key}), LAYOUT, source="shop").events[0].id
        for partition, sort_key in (
            ("ORDER#1", "OUTBOX#0001"),
            ("ORDER#2", "OUTBOX#0001"),
            ("A", "OUTBOX#B#1"),
            ("A#B", "OUTBOX#1"),
            ("A%23B", "OUTBOX#1"),
        )
    ]
    assert ids == ["ORDER%231#0001", "ORDER%232#0001", "A#B#1", "A%23B#1", "A%2523B#1"]


@given(st.lists(st.tuples(st.text("a#%2", min_size=1), st.text("a#%2", min_size=1)), unique=True, max_size=9))
def test_no_two_rows_share_an_id(keys: list[tuple[str, str]]) -> None:
    """Whatever characters stand in their keys."""
    assert len({id_by_keys(*key) for key in keys}) == len(keys)


def test_an_id_stays_short_enough_for_a_consumer_to_keep() -> None:
    """A long one is hashed, the same each time."""
    first = id_by_keys("p" * 500, "1" * 12)
    assert len(first) == 64
    assert first == id_by_keys("p" * 500, "1" * 12) != id_by_keys("p" * 500, "1" * 13)
    assert id_by_keys("p" * 500, "1" * 11) == "p" * 500 + "#" + "1" * 11
