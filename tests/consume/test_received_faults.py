"""What an error about a delivered message says: which message, which attribute, what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.errors import InvalidMessage

GOOD: dict[str, Any] = {
    "specversion": "1.0",
    "id": "1",
    "type": "order.placed",
    "source": "shop.orders",
    "time": "2026-11-29T12:00:00Z",
    "data": {},
}
REFERENCE = {name: value for name, value in GOOD.items() if name != "data"} | {
    "dataref": "s3://payloads/outbox/1",
    "datasha256": "0" * 64,
}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (None, "a CloudEvents object is expected, not NoneType."),
        ([], "a CloudEvents object is expected, not list."),
        (GOOD | {"specversion": "0.3"}, "not a CloudEvent of version 1.0: specversion is missing or another."),
        (GOOD | {"subject": 5}, "the CloudEvent's subject is not text."),
        (GOOD | {"sequence": 5}, "the CloudEvent's sequence is not text."),
        (GOOD | {"type": ""}, "the CloudEvent has no type."),
        (GOOD | {"time": "now"}, "the CloudEvent's time cannot be read: not RFC 3339: 'now'."),
        ({name: value for name, value in GOOD.items() if name != "data"}, "the CloudEvent has no data."),
        (REFERENCE | {"dataref": ""}, "the CloudEvent has no dataref."),
        (REFERENCE | {"datasha256": 5}, "the CloudEvent's datasha256 is not text."),
        (
            REFERENCE | {"datasha256": ""},
            "the CloudEvent has a dataref without datasha256, so its data cannot be verified.",
        ),
    ],
)
def test_an_error_names_the_message_and_says_what_is_wrong(message: object, reason: str) -> None:
    """Whatever attribute it is about."""
    with pytest.raises(InvalidMessage) as caught:
        parse_cloudevent(message, "m-1")
    assert (caught.value.where, caught.value.reason) == ("m-1", reason)


def test_attributes_that_are_no_text_are_left_out() -> None:
    """CloudEvents allows numbers and booleans; an `Event` has text alone. Null means that it is not there."""
    event = parse_cloudevent(GOOD | {"a": "x", "b": 5, "c": True, "partitionkey": None, "subject": ""}, "m")
    assert event.attributes == {"a": "x"}
    assert (event.key, event.subject) == (None, "")
