"""Requests that move a record, each as a whole: what is not written here is not sent."""

from __future__ import annotations

from typing import Any

import pytest

from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.place import key_text, key_value
from dynamodb_outbox.core.record.schema import apart_texts, hashed_apart
from dynamodb_outbox.core.record.states import moved, needs_no_parking, state_of
from dynamodb_outbox.layout import Layout

LAYOUT = Layout()
KEY: dict[str, Any] = {"pk": {"S": "ORDER#1"}, "sk": {"S": "OUTBOX#1"}}
ROW = KEY | {"type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"}}
OURS = ROW | {"ob_v": {"N": "1"}, "id": {"S": "1"}, "key": {"S": "K"}, "at": {"N": "1000"}, "state": {"S": "pending"}}
SOME = Parking("Bad", "never", at_ms=5_000, events=(10, 2))
ALL = Parking("Bad", "never", at_ms=5_000)
WHY: dict[str, Any] = {
    "ob_pending": {"S": "parked"},
    "parked_at": {"N": "5000"},
    "parked_code": {"S": "Bad"},
    "parked_reason": {"S": "never"},
}
IF_ABSENT: dict[str, Any] = {
    "ConditionExpression": "attribute_not_exists(#pk)",
    "ExpressionAttributeNames": {"#pk": "pk"},
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}


def test_parking_a_row_that_is_there_adds_to_it() -> None:
    """Id, key, time, state and reason beside the writer's own columns; its TTL goes; no state may have come between."""
    assert moves.park_there("shop", ROW, LAYOUT, SOME) == {
        "TableName": "shop",
        "Key": KEY,
        "UpdateExpression": "SET #0 = :0, #1 = :1, #2 = :2, #3 = :3, #4 = :4, #5 = :5, #6 = :6, #7 = :7, #8 = :8 "
        "REMOVE #ttl",
        "ConditionExpression": "attribute_exists(#pk) AND attribute_not_exists(#state)",
        "ExpressionAttributeNames": {
            "#pk": "pk",
            "#state": "ob_state",
            "#ttl": "expires_at",
            "#0": "id",
            "#1": "key",
            "#2": "at",
            "#3": "ob_pending",
            "#4": "parked_at",
            "#5": "parked_code",
            "#6": "parked_reason",
            "#7": "parked_events",
            "#8": "ob_state",
        },
        "ExpressionAttributeValues": {
            ":0": {"S": "ORDER%231#1"},
            ":1": {"S": "ORDER#1"},
            ":2": {"N": "5000"},
            ":3": {"S": "parked"},
            ":4": {"N": "5000"},
            ":5": {"S": "Bad"},
            ":6": {"S": "never"},
            ":7": {"NS": ["2", "10"]},
            ":8": {"S": "parked"},
        },
    }


def test_parking_a_record_whose_state_somebody_wrote_keeps_to_what_was_found() -> None:
    """Id, key and time stay as they are in it; the state must still be the one found, whatever it is."""
    request = moves.park_there("shop", OURS | {"state": {"S": "odd"}, "at": {"S": "x"}}, LAYOUT, ALL)
    assert request["ConditionExpression"] == "attribute_exists(#pk) AND #state = :found"
    assert request["ExpressionAttributeNames"] == {
        "#pk": "pk",
        "#state": "state",
        "#ttl": "expires_at",
        "#0": "at",
        "#1": "ob_pending",
        "#2": "parked_at",
        "#3": "parked_code",
        "#4": "parked_reason",
        "#5": "state",
    }
    assert request["ExpressionAttributeValues"] == {
        ":found": {"S": "odd"},
        ":0": {"N": "5000"},
        ":1": {"S": "parked"},
        ":2": {"N": "5000"},
        ":3": {"S": "Bad"},
        ":4": {"S": "never"},
        ":5": {"S": "parked"},
    }
    with pytest.raises(ValueError, match="published"):
        moves.park_there("shop", OURS | {"state": {"S": "published"}}, LAYOUT, ALL)


def test_parking_a_record_of_ours_writes_it_whole() -> None:
    """If it is gone, or still in the state of the image."""
    assert moves.park("shop", OURS | {"expires_at": {"N": "9"}}, LAYOUT, SOME) == {
        "TableName": "shop",
        "Item": OURS | WHY | {"state": {"S": "parked"}, "parked_events": {"NS": ["2", "10"]}},
        **IF_ABSENT,
        "ConditionExpression": "attribute_not_exists(#pk) OR #state = :was",
        "ExpressionAttributeNames": {"#pk": "pk", "#state": "state"},
        "ExpressionAttributeValues": {":was": {"S": "pending"}},
    }
    without = {name: value for name, value in OURS.items() if name != "state"}
    assert moves.park("shop", without, LAYOUT, ALL) == {
        "TableName": "shop",
        "Item": OURS | WHY | {"state": {"S": "parked"}},
        **IF_ABSENT,
    }


def test_parking_a_row_that_is_gone_writes_it_whole() -> None:
    """Only where nothing is, for what is there may be newer than the image."""
    own: dict[str, Any] = {"id": {"S": "ORDER%231#1"}, "key": {"S": "ORDER#1"}, "at": {"N": "5000"}}
    assert moves.park("shop", ROW | {"ob_state": {"S": "odd"}}, LAYOUT, ALL) == {
        "TableName": "shop",
        "Item": ROW | own | WHY | {"ob_state": {"S": "parked"}},
        **IF_ABSENT,
    }


def test_what_stands_for_a_record_says_for_which() -> None:
    """Its own key, the record's sort key, and what an operator and the index need."""
    key = KEY | {"sk": {"S": "OUTBOX#1#parked"}}
    item = key | WHY | {
        "ob_v": {"N": "1"},
        "parked_sk": {"S": "OUTBOX#1"},
        "id": {"S": "1"},
        "key": {"S": "K"},
        "at": {"N": "1000"},
        "state": {"S": "parked"},
        "parked_events": {"NS": ["2", "10"]},
    }  # fmt: skip
    assert moves.park_apart("shop", key, OURS, LAYOUT, SOME) == {"TableName": "shop", "Item": item, **IF_ABSENT}
    assert moves.stands_for(item, OURS, LAYOUT)
    assert not moves.stands_for(item | {"parked_sk": {"S": "OUTBOX#2"}}, OURS, LAYOUT)
    assert not moves.stands_for({name: item[name] for name in item if name != "ob_v"}, OURS, LAYOUT)
    assert not moves.stands_for(item | {"pk": {"S": "ORDER#2"}}, OURS, LAYOUT)


def test_adding_to_a_parked_record() -> None:
    """The newest reason, the positions beside those that are there; only while it is parked."""
    names = {
        "#0": "parked_at",
        "#1": "parked_code",
        "#2": "parked_reason",
        "#state": "state",
        "#events": "parked_events",
    }
    values: dict[str, Any] = {
        ":0": {"N": "5000"},
        ":1": {"S": "Bad"},
        ":2": {"S": "never"},
        ":parked": {"S": "parked"},
    }
    request = {
        "TableName": "shop",
        "Key": KEY,
        "UpdateExpression": "SET #0 = :0, #1 = :1, #2 = :2 ADD #events :events",
        "ConditionExpression": "#state = :parked",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values | {":events": {"NS": ["2", "10"]}},
    }
    assert moves.park_more("shop", OURS, LAYOUT, SOME) == request
    assert moves.park_more("shop", ROW, LAYOUT, ALL) == request | {
        "UpdateExpression": "SET #0 = :0, #1 = :1, #2 = :2 REMOVE #events",
        "ExpressionAttributeNames": names | {"#state": "ob_state"},
        "ExpressionAttributeValues": values,
    }


def test_taking_the_ttl_away() -> None:
    """From a record that is there, in the state found; an empty list of values is refused, so there is none."""
    request: dict[str, Any] = {
        "TableName": "shop",
        "Key": KEY,
        "UpdateExpression": "REMOVE #ttl",
        "ConditionExpression": "attribute_exists(#pk) AND #state = :found",
        "ExpressionAttributeNames": {"#pk": "pk", "#state": "state", "#ttl": "expires_at"},
        "ExpressionAttributeValues": {":found": {"S": "pending"}},
    }
    assert moves.without_ttl("shop", OURS, LAYOUT) == request
    del request["ExpressionAttributeValues"]
    assert moves.without_ttl("shop", ROW, LAYOUT) == request | {
        "ConditionExpression": "attribute_exists(#pk) AND attribute_not_exists(#state)",
        "ExpressionAttributeNames": {"#pk": "pk", "#state": "ob_state", "#ttl": "expires_at"},
    }


def test_reading_and_restoring() -> None:
    """A read is consistent and takes the key alone; a record is restored as it was, without its TTL, where none is."""
    assert moves.read("shop", OURS, LAYOUT) == {"TableName": "shop", "Key": KEY, "ConsistentRead": True}
    image = OURS | {"expires_at": {"N": "9"}, "raw": {"B": "AAE="}}
    item = OURS | {"raw": {"B": b"\x00\x01"}}
    assert moves.restore("shop", image, LAYOUT) == {"TableName": "shop", "Item": item, **IF_ABSENT}


def test_settling_is_one_statement() -> None:
    """Names are quoted; the TTL counts in whole seconds from the time of the settle."""
    assert moves.settle('s"hop', OURS, LAYOUT, now_ms=1_700_000_000_999) == {
        "Statement": 'UPDATE "s""hop" SET "state"=? SET "expires_at"=? REMOVE "ob_pending" '
        'WHERE "pk"=? AND "sk"=? AND "state"=?',
        "Parameters": [
            {"S": "published"},
            {"N": str(1_700_000_000 + 7 * 24 * 60 * 60)},
            {"S": "ORDER#1"},
            {"S": "OUTBOX#1"},
            {"S": "pending"},
        ],
    }


@pytest.mark.parametrize(("count", "named"), [(1, True), (100, True), (101, False), (0, True)])
def test_a_hundred_positions_are_named(count: int, named: bool) -> None:
    """More do not fit the head-room of a record, and become all."""
    positions = Parking("c", "r", 0, tuple(range(count))).positions
    assert positions == (frozenset(map(str, range(count))) if named else None)


def test_code_and_reason_are_cut() -> None:
    """At 64 and 256 characters."""
    item = moves.park("shop", OURS, LAYOUT, Parking("c" * 65, "r" * 257, 0))["Item"]
    assert item["parked_code"] == {"S": "c" * 64}
    assert item["parked_reason"] == {"S": "r" * 256}


# --- states and keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        {"ob_v": {"N": "1"}},
        {"ob_v": {"N": "1"}, "state": {"S": "Published"}},
        {"ob_v": {"N": "1"}, "state": {"S": "something new"}},
        {"ob_v": {"N": "1"}, "state": {"N": "1"}},
        {"state": {"S": "published"}},
        {"state": {"S": "published"}, "ob_state": {"S": "cancelled"}},
    ],
)
def test_what_is_no_later_state_is_pending(item: dict[str, Any]) -> None:
    """An unknown word, another type, and the `state` of a hand-written row, which is its writer's."""
    assert state_of(item, LAYOUT) == "pending"
    assert moved(item, "published", LAYOUT) == {"S": "published"}


@pytest.mark.parametrize(
    ("parked_events", "events", "superfluous"),
    [
        (None, None, True),
        (None, {"0"}, True),
        ({"NS": ["0", "2"]}, {"0", "2"}, True),
        ({"NS": ["0", "2"]}, {"2"}, True),
        ({"NS": ["0", "2"]}, {"1", "2"}, False),
        ({"NS": ["0", "2"]}, None, False),
        ({"S": "0"}, {"0"}, False),
    ],
)
def test_a_park_is_superfluous_when_its_events_are_parked(
    parked_events: dict[str, Any] | None, events: set[str] | None, superfluous: bool
) -> None:
    """All of them, or exactly these, or more; an attribute of another type says nothing about any."""
    item: dict[str, Any] = {"ob_v": {"N": "1"}, "state": {"S": "parked"}}
    item |= {} if parked_events is None else {"parked_events": parked_events}
    assert needs_no_parking(item, None if events is None else frozenset(events), LAYOUT) is superfluous


def test_what_stands_apart_has_a_key_that_fits() -> None:
    """Behind the record's own, counted in bytes of UTF-8, or by its hash."""
    hashed = hashed_apart("OUTBOX#é", "OUTBOX#")
    assert hashed == "OUTBOX#454ccab1def5d0422d04debfcb246bd9257013c3779518e6b08c1a7087f8c381#parked"
    assert apart_texts("OUTBOX#é", "OUTBOX#", 16) == ("OUTBOX#é#parked", hashed)
    assert apart_texts("OUTBOX#é", "OUTBOX#", 15) == (hashed,)


def test_a_record_parked_apart_keeps_within_the_bytes_of_a_sort_key() -> None:
    """1,024 bytes: what is longer is hashed."""
    fits: dict[str, Any] = KEY | {"sk": {"S": "OUTBOX#" + "x" * 1010}}
    assert [len(key["sk"]["S"]) for key in moves.apart_keys(fits, LAYOUT)] == [1024, 78]
    longer: dict[str, Any] = KEY | {"sk": {"S": "OUTBOX#" + "x" * 1011}}
    assert [len(key["sk"]["S"]) for key in moves.apart_keys(longer, LAYOUT)] == [78]


def test_a_number_of_38_digits_is_a_key() -> None:
    """One more is none."""
    most = "1" * 38
    assert key_value(most, "N") == {"N": most}
    assert key_text({"N": "0." + most}) == "0." + most
    assert key_text({"N": "1E-130"}) == "0." + "0" * 129 + "1"
    assert key_text({"N": "9E+125"}) == "9" + "0" * 125
    with pytest.raises(ValueError, match="more than 38 digits"):
        key_value(most + "1", "N")
