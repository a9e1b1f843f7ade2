"""Requests that move a record, each as a whole: what is not written here is not sent."""

from __future__ import annotations

from typing import Any

import pytest

from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.apart import apart_keys, stands_for
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.place import key_text, key_value
from dynamodb_outbox.core.record.states import move_of, needs_no_parking, state_of
from dynamodb_outbox.layout import Layout

LAYOUT = Layout()
ALONE = Layout(sk=None, placement="table")
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
WHY_BY_HAND = {name if name == "ob_pending" else f"ob_{name}": value for name, value in WHY.items()}
SAME_ROW = "attribute_not_exists(#s0) AND #s1 = :s1 AND #s2 = :s2 AND #s3 = :s3"
SAME_ROW_NAMES = {"#s0": "ob_again", "#s1": "type", "#s2": "ts", "#s3": "payload"}
SAME_ROW_VALUES: dict[str, Any] = {":s1": {"S": "t"}, ":s2": {"N": "1"}, ":s3": {"S": "{}"}}
SAME_NAMES = {"#s0": "ob_again", "#s1": "id", "#s2": "at", "#s3": "payload"}
SAME_VALUES: dict[str, Any] = {":s1": {"S": "1"}, ":s2": {"N": "1000"}, ":s3": {"S": "{}"}}
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
        "ConditionExpression": f"attribute_exists(#pk) AND attribute_not_exists(#state) AND {SAME_ROW}",
        "ExpressionAttributeNames": SAME_ROW_NAMES
        | {
            "#pk": "pk",
            "#state": "ob_state",
            "#ttl": "expires_at",
            "#0": "ob_pending",
            "#1": "ob_parked_at",
            "#2": "ob_parked_code",
            "#3": "ob_parked_reason",
            "#4": "ob_parked_events",
            "#5": "ob_state",
            "#6": "id",
            "#7": "key",
            "#8": "at",
        },
        "ExpressionAttributeValues": SAME_ROW_VALUES
        | {
            ":0": {"S": "parked"},
            ":1": {"N": "5000"},
            ":2": {"S": "Bad"},
            ":3": {"S": "never"},
            ":4": {"NS": ["2", "10"]},
            ":5": {"S": "parked"},
            ":6": {"S": "ORDER%231#1"},
            ":7": {"S": "ORDER#1"},
            ":8": {"N": "5000"},
        },
    }


def test_parking_a_record_whose_state_somebody_wrote_keeps_to_what_was_found() -> None:
    """Id, key and time stay as they are in it; the state must still be the one found, whatever it is."""
    request = moves.park_there("shop", OURS | {"state": {"S": "odd"}, "at": {"S": "x"}}, LAYOUT, ALL)
    assert request["ConditionExpression"] == (
        "attribute_exists(#pk) AND #state = :found AND attribute_not_exists(#s0) AND #s1 = :s1 AND #s2 = :s2"
    )
    assert request["ExpressionAttributeNames"] == {
        "#s0": "ob_again",
        "#s1": "id",
        "#s2": "payload",
        "#pk": "pk",
        "#state": "state",
        "#ttl": "expires_at",
        "#0": "ob_pending",
        "#1": "parked_at",
        "#2": "parked_code",
        "#3": "parked_reason",
        "#4": "state",
        "#5": "at",
    }
    assert request["ExpressionAttributeValues"] == {
        ":s1": {"S": "1"},
        ":s2": {"S": "{}"},
        ":found": {"S": "odd"},
        ":0": {"S": "parked"},
        ":1": {"N": "5000"},
        ":2": {"S": "Bad"},
        ":3": {"S": "never"},
        ":4": {"S": "parked"},
        ":5": {"N": "5000"},
    }
    with pytest.raises(ValueError, match="published"):
        moves.park_there("shop", OURS | {"state": {"S": "published"}}, LAYOUT, ALL)


def test_parking_a_record_of_ours_writes_it_whole() -> None:
    """If it is gone, or still in the state of the image."""
    assert moves.park("shop", OURS | {"expires_at": {"N": "9"}}, LAYOUT, SOME) == {
        "TableName": "shop",
        "Item": OURS | WHY | {"state": {"S": "parked"}, "parked_events": {"NS": ["2", "10"]}},
        **IF_ABSENT,
        "ConditionExpression": f"attribute_not_exists(#pk) OR #state = :was AND {SAME_ROW}",
        "ExpressionAttributeNames": SAME_NAMES | {"#pk": "pk", "#state": "state"},
        "ExpressionAttributeValues": SAME_VALUES | {":was": {"S": "pending"}},
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
        "Item": ROW | own | WHY_BY_HAND | {"ob_state": {"S": "parked"}},
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
    assert stands_for(item, OURS, LAYOUT)
    assert not stands_for(item | {"parked_sk": {"S": "OUTBOX#2"}}, OURS, LAYOUT)
    assert not stands_for({name: item[name] for name in item if name != "ob_v"}, OURS, LAYOUT)
    assert not stands_for(item | {"pk": {"S": "ORDER#2"}}, OURS, LAYOUT)


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
        "ConditionExpression": f"#state = :parked AND {SAME_ROW}",
        "ExpressionAttributeNames": SAME_NAMES | names,
        "ExpressionAttributeValues": SAME_VALUES | values | {":events": {"NS": ["2", "10"]}},
    }
    assert moves.park_more("shop", OURS, LAYOUT, SOME) == request
    assert moves.park_more("shop", ROW, LAYOUT, ALL) == request | {
        "UpdateExpression": "SET #0 = :0, #1 = :1, #2 = :2 REMOVE #events",
        "ExpressionAttributeNames": SAME_ROW_NAMES | {name: f"ob_{attribute}" for name, attribute in names.items()},
        "ExpressionAttributeValues": SAME_ROW_VALUES | values,
    }


def test_taking_the_ttl_away() -> None:
    """From the record that is there, in the state found; an empty list of values is refused, so there is none."""
    request: dict[str, Any] = {
        "TableName": "shop",
        "Key": KEY,
        "UpdateExpression": "REMOVE #ttl",
        "ConditionExpression": f"attribute_exists(#pk) AND #state = :found AND {SAME_ROW}",
        "ExpressionAttributeNames": SAME_NAMES | {"#pk": "pk", "#state": "state", "#ttl": "expires_at"},
        "ExpressionAttributeValues": SAME_VALUES | {":found": {"S": "pending"}},
    }
    assert moves.without_ttl("shop", OURS, LAYOUT) == request
    del request["ExpressionAttributeValues"]
    assert moves.without_ttl("shop", KEY, LAYOUT) == request | {
        "ConditionExpression": "attribute_exists(#pk) AND attribute_not_exists(#state) AND attribute_not_exists(#s0)",
        "ExpressionAttributeNames": {"#s0": "ob_again", "#pk": "pk", "#state": "ob_state", "#ttl": "expires_at"},
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
        'WHERE "pk"=? AND "sk"=? AND "state"=? AND "ob_again" IS MISSING AND "id"=? AND "at"=? AND "payload"=?',
        "Parameters": [
            {"S": "published"},
            {"N": str(1_700_000_000 + 7 * 24 * 60 * 60)},
            {"S": "ORDER#1"},
            {"S": "OUTBOX#1"},
            {"S": "pending"},
            {"S": "1"},
            {"N": "1000"},
            {"S": "{}"},
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
    assert move_of(item, "published", LAYOUT).state == {"S": "published"}


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
    hashed = "OUTBOX#454ccab1def5d0422d04debfcb246bd9257013c3779518e6b08c1a7087f8c381#parked"
    assert apart_keys(KEY | {"sk": {"S": "OUTBOX#é"}}, LAYOUT) == (
        KEY | {"sk": {"S": "OUTBOX#é#parked"}},
        KEY | {"sk": {"S": hashed}},
    )


@pytest.mark.parametrize(("layout", "name", "most"), [(LAYOUT, "sk", 1_024), (ALONE, "pk", 2_048)])
def test_a_record_parked_apart_keeps_within_the_bytes_of_its_key(layout: Layout, name: str, most: int) -> None:
    """Of a sort key 1,024, of a partition key alone 2,048: what is longer is hashed."""
    carried = "OUTBOX#é" + "x" * (most - 16)
    fits, longer = ({"pk": {"S": "A"}, name: {"S": text}} for text in (carried, carried + "x"))
    assert [len(key[name]["S"].encode()) for key in apart_keys(fits, layout)] == [most, 78]
    assert [len(key[name]["S"].encode()) for key in apart_keys(longer, layout)] == [78]


def test_a_partition_that_is_text_stands_in_for_a_sort_key_that_is_none() -> None:
    """By its hash alone; the sort key stays."""
    layout = Layout(sk_type="N", select={"kind": "event"})
    hashed = "OUTBOX#fada5d235b5eeba6be04f80c2d1678a3802d90768548bff45f846837fa70914e#parked"
    assert apart_keys(KEY | {"sk": {"N": "7"}}, layout) == ({"pk": {"S": hashed}, "sk": {"N": "7"}},)


def test_a_number_of_38_digits_is_a_key() -> None:
    """One more is none."""
    most = "1" * 38
    assert key_value(most, "N") == {"N": most}
    assert key_text({"N": "0." + most}) == "0." + most
    assert key_text({"N": "1E-130"}) == "0." + "0" * 129 + "1"
    assert key_text({"N": "9E+125"}) == "9" + "0" * 125
    with pytest.raises(ValueError, match="more than 38 digits"):
        key_value(most + "1", "N")
