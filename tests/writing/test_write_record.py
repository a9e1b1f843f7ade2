"""Records and guards as they are stored."""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_world import LAYOUT, START_MS, new_id, some_event

from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.guards import encode_guard
from dynamodb_outbox.core.record.schema import index_shard
from dynamodb_outbox.layout import RECORD_ATTRIBUTES, Layout

ORIGIN = Origin(new_id(1), START_MS + 999, "eu-west-1")
texts = st.text(alphabet=st.characters(codec="utf-8"))


def test_one_event_is_the_plain_form() -> None:
    """One event is stored in attributes of the record, under the event's own id, and has no TTL while it is pending."""
    event = some_event(new_id(7), key="ORDER#1", subject="META", attributes={"traceparent": "00-1"}, sequence="1")
    item = encode_record(RecordDraft(event.id, "ORDER#1", (event,), 0, 1), ORIGIN, LAYOUT)
    assert item == {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": f"OUTBOX#{event.id}"},
        "ob_v": {"N": "1"},
        "id": {"S": event.id},
        "key": {"S": "ORDER#1"},
        "type": {"S": "order.placed"},
        "payload": {"S": '{"n":1}'},
        "source": {"S": "shop.orders"},
        "subject": {"S": "META"},
        "seq": {"S": "1"},
        "time": {"S": "2026-01-02T03:04:05Z"},
        "attributes": {"M": {"traceparent": {"S": "00-1"}}},
        "ts": {"N": str(START_MS // 1000)},
        "at": {"N": str(START_MS + 999)},
        "tx": {"M": {"id": {"S": ORIGIN.tx}, "index": {"N": "0"}, "count": {"N": "1"}}},
        "region": {"S": "eu-west-1"},
        "state": {"S": "pending"},
        "ob_pending": {"S": index_shard("ORDER#1", 16)},
    }


def test_what_is_not_there_is_left_out() -> None:
    """An event without subject, sequence and attributes, from an unknown Region, stores none of these."""
    event = some_event(key="K")
    item = encode_record(RecordDraft(event.id, "K", (event,), 0, 1), Origin("t", START_MS, None), LAYOUT)
    assert {"subject", "seq", "attributes", "region", "events", LAYOUT.ttl}.isdisjoint(item)


def test_a_record_is_its_callers_to_change() -> None:
    """Nothing in it is shared with records that are made later, by the same layout."""
    layout = Layout(select={"entity": "OUTBOX"})
    event = some_event(key="K", attributes={"traceparent": "00-1"})
    draft = RecordDraft(event.id, "K", (event,), 0, 1)
    first: dict[str, Any] = encode_record(draft, ORIGIN, layout)
    expected = encode_record(draft, ORIGIN, layout)
    for value in first.values():
        value.clear()
    assert encode_record(draft, ORIGIN, layout) == expected
    assert expected["entity"] == {"S": "OUTBOX"}


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (timedelta(days=7), None),
        (timedelta(days=1), {"N": "86400"}),
        (timedelta(minutes=1, milliseconds=1), {"N": "61"}),
        (timedelta(days=7, milliseconds=1), {"N": "604801"}),
    ],
)
def test_a_record_says_how_long_it_is_to_be_kept(kept: timedelta, said: dict[str, str] | None) -> None:
    """Where that is not what any relay does; never less than the writer counts on."""
    event = some_event(key="K")
    item = encode_record(RecordDraft(event.id, "K", (event,), 0, 1), ORIGIN, Layout(published_for=kept))
    assert item.get("keep_s") == said


SHARD_OF_K = {"S": index_shard("K", 16)}


@pytest.mark.parametrize(
    ("settle", "kept", "marks"),
    [
        ("expire", 7, {"ob_pending": SHARD_OF_K}),
        ("expire", 1, {"ob_pending": SHARD_OF_K, "keep_s": {"N": "86400"}}),
        ("mark", 1, {"ob_pending": SHARD_OF_K, "ob_settle": {"S": "mark"}}),
        ("delete", 1, {"ob_pending": SHARD_OF_K, "ob_settle": {"S": "delete"}}),
        ("none", 7, {"ob_settle": {"S": "none"}, "expires_at": {"N": str(ORIGIN.at_ms // 1000 + 604_800)}}),
        (
            "none",
            1,
            {
                "ob_settle": {"S": "none"},
                "keep_s": {"N": "86400"},
                "expires_at": {"N": str(ORIGIN.at_ms // 1000 + 86_400)},
            },
        ),
    ],
)
def test_a_record_says_what_becomes_of_it(settle: Any, kept: int, marks: dict[str, Any]) -> None:
    """In the index where a relay takes it out again, and with a TTL from the start where none does."""
    event = some_event(key="K")
    layout = Layout(settle=settle, published_for=timedelta(days=kept))
    item = encode_record(RecordDraft(event.id, "K", (event,), 0, 1), ORIGIN, layout)
    names = ("ob_pending", "ob_settle", "keep_s", "expires_at")
    assert {name: item[name] for name in names if name in item} == marks
    assert item["state"] == {"S": "pending"}


def test_a_record_says_which_columns_it_has() -> None:
    """One fixed vector, so that relays in other languages agree; nothing where all names are the schema's."""
    event = some_event(key="K")
    draft = RecordDraft(event.id, "K", (event,), 0, 1)
    said = hashlib.sha256(b"payload\0body\0type\0kind\0").hexdigest()[:16]
    layout = Layout(columns={"type": "kind", "id": "id", "payload": "body"})
    assert encode_record(draft, ORIGIN, layout)["ob_columns"] == {"S": said}
    assert "ob_columns" not in encode_record(draft, ORIGIN, Layout(columns={"id": "id"}))


@given(st.lists(st.tuples(texts, st.dictionaries(texts, st.decimals(-1000, 1000, places=2))), min_size=2, max_size=5))
def test_several_events_are_a_json_array_in_order(drafts: list[tuple[str, dict[str, Any]]]) -> None:
    """Several events of a key share a record: whole, in order, with every digit; none of them is in an attribute."""
    events = tuple(
        some_event(new_id(i), type=kind or "t", payload=dump_payload(data), subject=kind or None, sequence=str(i))
        for i, (kind, data) in enumerate(drafts)
    )
    item = encode_record(RecordDraft(new_id(99), "K", events, 1, 2), ORIGIN, LAYOUT)
    assert {"type", "payload", "source", "subject", "seq", "time", "attributes"}.isdisjoint(item)
    assert item["id"] == {"S": new_id(99)}
    assert item["sk"] == {"S": f"OUTBOX#{new_id(99)}"}
    stored = json.loads(item["events"]["S"], parse_float=Decimal)
    assert [each["id"] for each in stored] == [event.id for event in events]
    assert [each["type"] for each in stored] == [event.type for event in events]
    assert [each.get("subject") for each in stored] == [event.subject for event in events]
    assert [each["sequence"] for each in stored] == [event.sequence for event in events]
    assert [each["data"] for each in stored] == [data for _, data in drafts]
    for event in events:
        assert f'"data":{event.payload}}}' in item["events"]["S"]


def test_attributes_of_one_among_several_events() -> None:
    """Extension attributes travel with their event."""
    events = (some_event(new_id(1), attributes={"a": 'x"y'}), some_event(new_id(2)))
    stored = json.loads(encode_record(RecordDraft(new_id(3), "K", events, 0, 1), ORIGIN, LAYOUT)["events"]["S"])
    assert stored[0]["attributes"] == {"a": 'x"y'}
    assert "attributes" not in stored[1]


def test_names_come_from_the_layout() -> None:
    """Key attributes, prefix and number of shards are the layout's."""
    layout = Layout(pk="hash", sk="range", prefix="EV#", index_shards=1)
    event = some_event(key="K")
    item = encode_record(RecordDraft(event.id, "K", (event,), 0, 1), ORIGIN, layout)
    assert item["hash"] == {"S": "K"}
    assert item["range"] == {"S": f"EV#{event.id}"}
    assert item["ob_pending"] == {"S": "00"}
    assert "pk" not in item


@given(texts.filter(bool), st.integers(1, 1000))
def test_a_shard_is_the_same_everywhere(key: str, shards: int) -> None:
    """A key's index partition is its CRC-32 modulo the shards, in two digits or more: any language can do it."""
    shard = index_shard(key, shards)
    assert int(shard) == zlib.crc32(key.encode()) % shards
    assert len(shard) == max(2, len(str(int(shard))))


def test_a_known_shard() -> None:
    """One fixed vector, so that a change of the function, which would strand pending records, cannot pass unseen."""
    assert index_shard("123456789", 1000) == str(0xCBF43926 % 1000)
    assert index_shard("CUSTOMER#1", 16) == f"{zlib.crc32(b'CUSTOMER#1') % 16:02d}"


def test_keys_spread_over_the_shards() -> None:
    """Keys that differ in a number only reach every shard."""
    assert len({index_shard(f"CUSTOMER#{n}", 16) for n in range(200)}) == 16


def test_a_guard_remembers_what_was_done() -> None:
    """The guard holds fingerprint, event ids, versions and the transaction, and ends by TTL in epoch seconds."""
    version = {"table": {"S": "shop"}, "pk": {"S": "ORDER#1"}, "sk": {"S": "META"}, "version": {"N": "3"}}
    guard = encode_guard(
        {"pk": {"S": "IDEMP#1"}, "sk": {"S": "GUARD"}},
        fingerprint="f",
        event_ids=["e1", "e2"],
        versions={("shop", "ORDER#1", "META"): 3},
        origin=ORIGIN,
        layout=Layout(ttl="ttl"),
        keep_s=int(timedelta(days=1).total_seconds()),
    )
    assert guard == {
        "pk": {"S": "IDEMP#1"},
        "sk": {"S": "GUARD"},
        "ob_v": {"N": "1"},
        "ob_guard": {
            "M": {
                "fingerprint": {"S": "f"},
                "event_ids": {"L": [{"S": "e1"}, {"S": "e2"}]},
                "versions": {"L": [{"M": version}]},
                "tx": {"S": ORIGIN.tx},
                "at": {"N": str(START_MS + 999)},
            }
        },
        "ttl": {"N": str(START_MS // 1000 + 86_400)},
    }


def test_every_attribute_is_a_known_name() -> None:
    """A layout refuses key attributes named like these; so every attribute written must be on that list."""
    event = some_event(key="K", subject="s", sequence="1", attributes={"a": "b"})
    both = (event, some_event(new_id(2)))
    written = set(encode_record(RecordDraft(event.id, "K", (event,), 0, 1), ORIGIN, LAYOUT))
    other = Layout(published_for=timedelta(days=1), columns={"type": "ts", "ts": "type"})
    written |= set(encode_record(RecordDraft(event.id, "K", (event,), 0, 1), ORIGIN, other))
    written |= set(encode_record(RecordDraft(new_id(3), "K", both, 0, 1), ORIGIN, LAYOUT))
    written |= set(encode_guard({}, fingerprint="", event_ids=[], versions={}, origin=ORIGIN, layout=LAYOUT, keep_s=1))
    assert written - {"pk", "sk", LAYOUT.ttl} <= RECORD_ATTRIBUTES


def test_time_is_in_utc() -> None:
    """A time in another zone is stored in UTC."""
    event = some_event(key="K", time=datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=timezone(timedelta(hours=2))))
    item = encode_record(RecordDraft(event.id, "K", (event,), 0, 1), ORIGIN, LAYOUT)
    assert item["time"] == {"S": "2026-01-02T01:04:05.000060Z"}


@given(
    st.lists(
        st.tuples(st.none() | texts.filter(bool), st.dictionaries(texts, st.decimals(-1000, 1000, places=2) | texts)),
        min_size=1,
        max_size=4,
    ),
    texts.filter(bool),
)
def test_a_record_is_read_back_as_the_same_events(drafts: list[tuple[str | None, dict[str, Any]]], key: str) -> None:
    """What the writer stores and the relay reads are the same events: fields, payload text, order."""
    events = tuple(
        some_event(new_id(i), payload=dump_payload(data), subject=text, sequence=text, key=key)
        if text is None
        else some_event(new_id(i), payload=dump_payload(data), subject=text, attributes={"a": text}, key=key)
        for i, (text, data) in enumerate(drafts)
    )
    record_id = events[0].id if len(events) == 1 else new_id(99)
    record = decode(encode_record(RecordDraft(record_id, key, events, 0, 1), ORIGIN, LAYOUT), LAYOUT, source="unused")
    assert list(record.events) == list(events)
    assert record.key == key


@pytest.mark.parametrize("key", ["CUSTOMER#1", "é"])
def test_the_record_lives_in_its_keys_partition(key: str) -> None:
    """The partition key of a record is the ordering key."""
    event = some_event(key=key)
    assert encode_record(RecordDraft(event.id, key, (event,), 0, 1), ORIGIN, LAYOUT)["pk"] == {"S": key}
