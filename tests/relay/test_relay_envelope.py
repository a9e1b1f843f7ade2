"""Envelopes: the published form of an event."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.envelope import (
    ENVELOPES,
    RESERVED_ATTRIBUTES,
    cloudevent,
    parse_rfc3339,
    raw,
    rfc3339,
)
from dynamodb_outbox.errors import InvalidEvent
from dynamodb_outbox.event import Event

NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, timezone.utc)
texts = st.text(min_size=1)
optional = st.none() | texts


events = st.builds(
    Event,
    id=texts,
    type=texts,
    source=texts,
    payload=st.just('{"n":1.10}'),
    time=st.just(NOON),
    key=optional,
    subject=optional,
    sequence=optional,
    attributes=st.dictionaries(st.text("abc09", min_size=1), st.text()),
)


@given(events)
@settings(deadline=None)
def test_a_cloudevent_says_what_the_event_says(event: Event) -> None:
    """Whatever the texts contain, the envelope is one JSON object with exactly these members, data last."""
    found: dict[str, Any] = json.loads(cloudevent(event))
    expected = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": "2026-01-31T12:00:00.250000Z",
        "subject": event.subject,
        "partitionkey": event.key,
        "sequence": event.sequence,
        **event.attributes,
        "datacontenttype": "application/json",
        "data": {"n": 1.1},
    }
    assert found == {name: value for name, value in expected.items() if value is not None}
    assert list(found)[-1] == "data"
    assert cloudevent(event).endswith(',"data":{"n":1.10}}')


def test_raw_is_the_payload_as_it_is() -> None:
    """Not a byte is touched."""
    assert raw(Event("1", "t", "s", '{ "n": 1.10 }', NOON)) == '{ "n": 1.10 }'
    assert set(ENVELOPES) == {"cloudevents", "raw"}


@pytest.mark.parametrize("name", [*sorted(RESERVED_ATTRIBUTES), "Upper", "with-dash", "", "é"])
def test_an_attribute_cannot_take_the_place_of_a_field(name: str) -> None:
    """Reserved and malformed names are refused, so that no attribute forges a field of the envelope."""
    with pytest.raises(InvalidEvent, match="attributes"):
        cloudevent(Event("1", "t", "s", "{}", NOON, attributes={name: "x"}))


@pytest.mark.parametrize("value", [1, None])
def test_an_attribute_is_text(value: Any) -> None:
    """Other values are refused."""
    with pytest.raises(InvalidEvent, match="text is needed"):
        cloudevent(Event("1", "t", "s", "{}", NOON, attributes={"a": value}))


def test_a_time_without_a_zone_is_refused() -> None:
    """Otherwise the machine's own zone would decide."""
    with pytest.raises(InvalidEvent, match="no time zone"):
        rfc3339(datetime(2026, 1, 1))  # noqa: DTZ001 -- the point of the test


@given(st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 30)), st.integers(-1439, 1439))  # noqa: DTZ001 -- bounds
@settings(deadline=None)
def test_times_come_back(moment: datetime, minutes: int) -> None:
    """Written in UTC and read again, in whatever zone they were given."""
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = rfc3339(zoned)
    assert text.endswith("Z")
    assert parse_rfc3339(text) == zoned


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31t12:00:00.1z", "2026-01-31T12:00:00.100000Z"),
        ("2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.123456Z"),
        ("2026-01-31T14:00:00+02:00", "2026-01-31T12:00:00Z"),
    ],
)
def test_times_of_other_writers_are_read(text: str, expected: str) -> None:
    """Any number of fraction digits, any offset, on every Python."""
    assert rfc3339(parse_rfc3339(text)) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-31", "2026-02-30T12:00:00Z", "2026-01-31T12:00:00", "0001-01-01T00:00:00+14:00"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """A ValueError, whatever is wrong with it."""
    with pytest.raises(ValueError, match=r".+"):
        parse_rfc3339(text)
