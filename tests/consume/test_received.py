"""What was published comes back as the same event, and what is not an event is refused with the reason."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.envelope import RESERVED_ATTRIBUTES, cloudevent
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.errors import InvalidMessage
from dynamodb_outbox.event import Event

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1) | st.decimals(allow_nan=False, allow_infinity=False, places=3)
data = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
names = st.from_regex(r"[a-z0-9]{1,10}", fullmatch=True).filter(lambda name: name not in RESERVED_ATTRIBUTES)
events = st.builds(
    Event,
    id=texts,
    type=texts,
    source=texts,
    payload=data.map(dump_payload),
    time=st.datetimes(timezones=st.just(timezone.utc)),
    key=st.none() | texts,
    subject=st.none() | texts,
    sequence=st.none() | texts,
    attributes=st.dictionaries(names, texts, max_size=3),
)

GOOD: dict[str, Any] = {
    "specversion": "1.0",
    "id": "1",
    "type": "order.placed",
    "source": "shop.orders",
    "time": "2026-11-29T12:00:00Z",
    "data": {"cents": 5},
}


@given(events)
def test_an_event_comes_back_as_it_was_published(event: Event) -> None:
    """Envelope and back is the identity, digits and every kind of text included."""
    back = parse_cloudevent(json.loads(cloudevent(event), parse_float=Decimal), "m")
    assert back.data == event.data
    assert back == event


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T12:00:00Z", datetime(2026, 11, 29, 12, tzinfo=timezone.utc)),
        ("2026-11-29t12:00:00z", datetime(2026, 11, 29, 12, tzinfo=timezone.utc)),
        ("2026-11-29T12:00:00.5Z", datetime(2026, 11, 29, 12, 0, 0, 500000, tzinfo=timezone.utc)),
        ("2026-11-29T12:00:00.123456789Z", datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=timezone.utc)),
        ("2026-11-29T14:30:00+02:30", datetime(2026, 11, 29, 12, tzinfo=timezone.utc)),
    ],
)
def test_times_of_other_writers_are_read(text: str, expected: datetime) -> None:
    """Any RFC 3339 time is read, on every Python, and comes out in UTC."""
    time = parse_cloudevent({**GOOD, "time": text}, "m").time
    assert time == expected
    assert time.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": None}, "no id"),
        ({"id": ""}, "no id"),
        ({"id": 7}, "id is not text"),
        ({"type": None}, "no type"),
        ({"source": None}, "no source"),
        ({"time": None}, "no time"),
        ({"time": "yesterday"}, "not RFC 3339"),
        ({"time": "2026-11-29T12:00:00"}, "not RFC 3339"),
        ({"time": "2026-13-29T12:00:00Z"}, "time cannot be read"),
        ({"time": "0001-01-01T00:00:00+05:00"}, "out of range"),
        ({"partitionkey": 5}, "partitionkey is not text"),
    ],
)
def test_a_malformed_event_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    """The error names the message and the attribute; nothing is made up in place of what is missing."""
    with pytest.raises(InvalidMessage, match=said) as caught:
        parse_cloudevent({**GOOD, **change}, "m-1")
    assert caught.value.where == "m-1"


@pytest.mark.parametrize(
    "text",
    ['{"a":1e400}', '{"a":123456789012345678901234567890}', '"\\ud800"', "[" * 300 + "]" * 300, "0.10", "null", "1"],
)
def test_data_of_other_writers_is_taken_as_it_is(text: str) -> None:
    """What the relay publishes for a hand-written outbox reaches the consumer, also what our writer refuses."""
    event = parse_cloudevent({**GOOD, "data": json.loads(text, parse_float=Decimal)}, "m")
    assert event.data == json.loads(text, parse_float=Decimal)


def test_an_event_without_data_is_refused() -> None:
    """A claim check or a binary payload is not taken for empty data."""
    with pytest.raises(InvalidMessage, match="no data"):
        parse_cloudevent({name: value for name, value in GOOD.items() if name != "data"}, "m")


@pytest.mark.parametrize("message", [None, [], "text", 5])
def test_what_is_not_an_object_is_refused(message: object) -> None:
    """Only a JSON object can be a CloudEvent."""
    with pytest.raises(InvalidMessage, match="object is expected"):
        parse_cloudevent(message, "m")
