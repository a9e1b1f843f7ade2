"""The states of a stored record, and the requests that move it."""

from __future__ import annotations

from typing import Any, cast

import botocore.session
import pytest

from dynamodb_outbox.core.record.moves import Parking, park, park_more, park_there, settle
from dynamodb_outbox.core.record.states import MOVES, WAYS, move_of, needs_no_parking, needs_no_settling, state_of
from dynamodb_outbox.layout import Layout

IMAGE: dict[str, Any] = {
    "pk": {"S": "ORDER#1"},
    "sk": {"S": "OUTBOX#1"},
    "type": {"S": "t"},
    "payload": {"S": "{}"},
    "ts": {"N": "1"},
}
PENDING = IMAGE | {"ob_v": {"N": "1"}, "state": {"S": "pending"}, "ob_pending": {"S": "03"}, "at": {"N": "1000"}}
WHY = Parking("MalformedDetail", "not JSON", at_ms=5_000)


def test_the_moves_there_are() -> None:
    """Nothing leaves published or discarded, and nothing becomes pending again."""
    states = ("pending", "published", "parked", "discarded")
    pairs = {("pending", "published"), ("pending", "parked"), ("parked", "published"), ("parked", "discarded")}
    assert pairs == set(MOVES)
    for before in states:
        for after in states:
            if (before, after) in pairs:
                move = move_of({"ob_v": {"N": "1"}, "state": {"S": before}}, after, Layout())
                assert (move.before, move.state) == (before, {"S": after})
            else:
                with pytest.raises(ValueError, match=f"from {before} to {after}"):
                    move_of({"ob_v": {"N": "1"}, "state": {"S": before}}, after, Layout())


@pytest.mark.parametrize("state", ["published", "discarded"])
def test_a_request_is_made_only_for_a_move_that_there_is(state: str) -> None:
    """Settling and parking start from the image: one that is published or discarded goes nowhere."""
    image = PENDING | {"state": {"S": state}}
    with pytest.raises(ValueError, match=state):
        settle("shop", image, Layout(), now_ms=0)
    with pytest.raises(ValueError, match=state):
        park("shop", image, Layout(), WHY)


def test_settling_expects_the_state_it_saw() -> None:
    """Published, with a TTL in seconds, out of the index, on condition of the state in the image."""
    statement = settle("shop", PENDING | {"keep_s": {"N": "3600"}}, Layout(), now_ms=10_999)
    assert statement == {
        "Statement": 'UPDATE "shop" SET "state"=? SET "expires_at"=? REMOVE "ob_pending" '
        'WHERE "pk"=? AND "sk"=? AND "state"=? AND "ob_again" IS MISSING AND "at"=? AND "payload"=?',
        "Parameters": [
            {"S": "published"},
            {"N": "3610"},
            {"S": "ORDER#1"},
            {"S": "OUTBOX#1"},
            {"S": "pending"},
            PENDING["at"],
            PENDING["payload"],
        ],
    }


@pytest.mark.parametrize(
    ("settle_", "statement", "first"),
    [
        ("expire", 'UPDATE "shop" SET "state"=? SET "expires_at"=? REMOVE "ob_pending"', ["published", "604810"]),
        ("mark", 'UPDATE "shop" SET "state"=? REMOVE "ob_pending"', ["published"]),
        ("delete", 'DELETE FROM "shop"', []),
        ("something new", 'UPDATE "shop" SET "state"=? REMOVE "ob_pending"', ["published"]),
    ],
)
@pytest.mark.parametrize("relay", ["expire", "mark", "delete", "none"])
def test_a_record_is_settled_as_it_says(relay: Any, settle_: str, statement: str, first: list[str]) -> None:
    """Whatever the layout of the relay says; what is not understood takes nothing away."""
    said = settle("shop", PENDING | {"ob_settle": {"S": settle_}}, Layout(settle=relay), now_ms=10_999)
    where = ' WHERE "pk"=? AND "sk"=? AND "state"=? AND "ob_again" IS MISSING AND "at"=? AND "payload"=?'
    assert said["Statement"] == statement + where
    values = [next(iter(value.values())) for value in said["Parameters"]]
    assert values == [*first, "ORDER#1", "OUTBOX#1", "pending", PENDING["at"]["N"], PENDING["payload"]["S"]]


@pytest.mark.parametrize("relay", ["expire", "mark", "delete", "none"])
def test_a_hand_written_row_is_settled_as_its_relay_says(relay: Any) -> None:
    """Its writer says nothing of the kind; what it has under that name counts for nothing."""
    layout = Layout(settle=relay)
    row = IMAGE | {"ob_settle": {"S": "delete"}}
    assert needs_no_settling(row, layout) is (relay == "none")
    if relay != "none":
        begins = {"expire": 'UPDATE "shop" SET "ob_state"=? SET', "mark": 'UPDATE "shop" SET "ob_state"=? REMOVE'}
        assert settle("shop", row, layout, now_ms=0)["Statement"].startswith(begins.get(relay, "DELETE"))


def test_a_record_that_nothing_settles_is_written_to_once_it_is_in_the_index() -> None:
    """Pending as its writer made it, never; parked, or put into the index by somebody, it expires."""
    waiting = {name: value for name, value in PENDING.items() if name != "ob_pending"} | {"ob_settle": {"S": "none"}}
    assert needs_no_settling(waiting, Layout())
    with pytest.raises(ValueError, match="nothing is written"):
        settle("shop", waiting, Layout(), now_ms=0)
    parked = waiting | {"state": {"S": "parked"}, "ob_pending": {"S": "parked"}}
    for seen in (waiting | {"ob_pending": {"S": "00"}}, parked, IMAGE | {"ob_pending": {"S": "parked"}}):
        assert not needs_no_settling(seen, Layout(settle="none"))
        assert 'SET "expires_at"=? REMOVE "ob_pending"' in settle("shop", seen, Layout(), now_ms=0)["Statement"]


def test_parking_alone_writes_an_item_that_is_gone() -> None:
    """By the table of moves, and by the requests of those who make them."""
    assert [pair for pair, move in MOVES.items() if move.creates] == [("pending", "parked")]
    assert {pair: move.index for pair, move in MOVES.items() if move.index} == {("pending", "parked"): "parked"}
    assert "attribute_not_exists" in park("shop", PENDING, Layout(), WHY)["ConditionExpression"]
    assert "attribute_exists" in park_there("shop", PENDING, Layout(), WHY)["ConditionExpression"]
    assert park_more("shop", PENDING, Layout(), WHY)["ConditionExpression"].startswith("#state = :parked AND ")


def test_a_record_that_nothing_settles_is_parked_without_its_ttl() -> None:
    """And with what the index needs, as any other."""
    waiting = {name: value for name, value in PENDING.items() if name != "ob_pending"} | {"ob_settle": {"S": "none"}}
    item = park("shop", waiting | {"expires_at": {"N": "7"}}, Layout(settle="none"), WHY)["Item"]
    assert "expires_at" not in item
    assert (item["ob_pending"], item["ob_settle"]) == ({"S": "parked"}, {"S": "none"})


def test_the_ways_of_settling_are_those_of_the_layout() -> None:
    """By the same names; only the one in which nothing is written has the TTL from the start."""
    for way in WAYS:
        assert Layout(settle=cast("Any", way)).settle == way
    assert [name for name, way in WAYS.items() if not way.writes] == ["none"]
    assert [name for name, way in WAYS.items() if not way.stays] == ["delete"]


def test_no_statement_is_longer_than_dynamodb_takes() -> None:
    """8,192 characters [BC], with the longest names that a layout and a table can have, all of them to be quoted."""
    quotes = {what: '"' * 254 + letter for what, letter in (("pk", "p"), ("sk", "s"), ("ttl", "t"))}
    named = ("state", "id", "at", "payload", "type", "ts", "time")
    columns = {name: '"' * 253 + f"x{place}" for place, name in enumerate(named)}
    layout = Layout(**cast("Any", quotes), columns=columns)
    text, number = {"S": "x"}, {"N": "1"}
    image: dict[str, Any] = {quotes["pk"]: {"S": "k"}, quotes["sk"]: {"S": "OUTBOX#1"}, "ob_again": text}
    image |= {columns[name]: number if name in ("ts", "at") else text for name in columns}
    service = botocore.session.get_session().get_service_model("dynamodb")
    for seen in (image, image | {"ob_v": number}):
        statement = settle("t" * 1024, seen, layout, now_ms=0)["Statement"]
        assert 5_000 < len(statement) < service.shape_for("PartiQLStatement").metadata["max"]


def test_settling_a_hand_written_row_expects_no_state() -> None:
    """It has none; and names of the layout are quoted."""
    image = {"p k": {"S": "a"}, 's"k': {"S": "OUTBOX#1"}}
    statement = settle("shop", image, Layout(pk="p k", sk='s"k'), now_ms=0)
    assert statement["Statement"].endswith(
        'WHERE "p k"=? AND "s""k"=? AND "ob_state" IS MISSING AND "ob_again" IS MISSING'
    )
    assert len(statement["Parameters"]) == 4


def test_parking_writes_the_whole_record() -> None:
    """In the index partition of parked records, without a TTL, with the reason; the rest as it was."""
    request = park("shop", PENDING | {"expires_at": {"N": "9"}}, Layout(), WHY)
    assert request["Item"] == PENDING | {
        "id": {"S": "1"},
        "key": {"S": "ORDER#1"},
        "state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
        "parked_at": {"N": "5000"},
        "parked_code": {"S": "MalformedDetail"},
        "parked_reason": {"S": "not JSON"},
    }
    same = "attribute_not_exists(#s0) AND #s1 = :s1 AND #s2 = :s2"
    assert request["ConditionExpression"] == f"attribute_not_exists(#pk) OR #state = :was AND {same}"
    assert request["ExpressionAttributeValues"] == {
        ":was": {"S": "pending"},
        ":s1": PENDING["at"],
        ":s2": PENDING["payload"],
    }


def test_parking_a_hand_written_row_gives_it_what_the_index_needs() -> None:
    """Id, key and time; it stays a hand-written row."""
    request = park("shop", IMAGE, Layout(), WHY)
    assert request["Item"]["at"] == {"N": "5000"}
    assert request["Item"]["id"] == {"S": "ORDER%231#1"}
    assert "ob_v" not in request["Item"]
    assert request["ConditionExpression"] == "attribute_not_exists(#pk)"


def test_parking_repairs_an_index_key_of_the_wrong_type() -> None:
    """Otherwise DynamoDB would refuse the write, and the record would block its key."""
    assert park("shop", PENDING | {"at": {"S": "x"}}, Layout(), WHY)["Item"]["at"] == {"N": "5000"}


def test_binary_of_a_stream_record_is_written_as_binary() -> None:
    """A stream record in JSON carries it as base64 text, at any depth."""
    image = IMAGE | {
        "b": {"B": "AAE="},
        "bs": {"BS": ["AAE=", b"\x02"]},
        "m": {"M": {"l": {"L": [{"B": b"\x00\x01"}, {"B": "AAE="}]}}},
    }
    item = park("shop", image, Layout(), WHY)["Item"]
    assert item["b"] == {"B": b"\x00\x01"}
    assert item["bs"] == {"BS": [b"\x00\x01", b"\x02"]}
    assert item["m"] == {"M": {"l": {"L": [{"B": b"\x00\x01"}, {"B": b"\x00\x01"}]}}}


def test_a_reason_is_shortened_to_fit_the_head_room() -> None:
    """2 KB are kept free in each record; parking must not need more."""
    parking = Parking("c" * 1000, "é" * 10_000, 0, tuple(range(100)))
    item = park("shop", PENDING, Layout(), parking)["Item"]
    assert len(item["parked_code"]["S"]) + len(item["parked_reason"]["S"].encode()) < 1024
    assert item["parked_events"] == {"NS": [str(position) for position in range(100)]}
    assert "parked_events" not in park("shop", PENDING, Layout(), Parking("c", "r", 0, tuple(range(101))))["Item"]


def test_parking_more_adds_to_a_parked_record_alone() -> None:
    """The positions are added to those that are there; all of them means no list."""
    some = park_more("shop", PENDING, Layout(), Parking("c", "r", 1, (10, 2)))
    assert some["UpdateExpression"].endswith("ADD #events :events")
    assert some["ExpressionAttributeValues"][":events"] == {"NS": ["2", "10"]}
    assert some["ConditionExpression"] == ("#state = :parked AND attribute_not_exists(#s0) AND #s1 = :s1 AND #s2 = :s2")
    assert park_more("shop", PENDING, Layout(), WHY)["UpdateExpression"].endswith("REMOVE #events")


@pytest.mark.parametrize(
    ("item", "events", "superfluous"),
    [
        ({"state": {"S": "published"}}, None, True),
        ({"state": {"S": "discarded"}}, None, True),
        ({"state": {"S": "parked"}}, None, True),
        ({"state": {"S": "parked"}}, {"1"}, True),
        ({"state": {"S": "parked"}, "parked_events": {"NS": ["1", "2"]}}, {"1"}, True),
        ({"state": {"S": "parked"}, "parked_events": {"NS": ["1", "2"]}}, {"3"}, False),
        ({"state": {"S": "parked"}, "parked_events": {"NS": ["1", "2"]}}, None, False),
        ({"state": {"S": "pending"}}, None, False),
        ({}, None, False),
    ],
)
def test_what_makes_a_park_superfluous(item: Any, events: set[str] | None, superfluous: bool) -> None:
    """A record that was published, discarded, or parked for at least these events."""
    wanted = None if events is None else frozenset(events)
    assert needs_no_parking(item | {"ob_v": {"N": "1"}}, wanted, Layout()) is superfluous
    by_hand = {f"ob_{name}": value for name, value in item.items()}
    assert needs_no_parking(by_hand | {"state": {"S": "published"}}, wanted, Layout()) is superfluous


def test_an_unknown_state_counts_as_pending() -> None:
    """A column of the same name in a hand-written row means nothing here."""
    assert state_of({"state": {"S": "NEW"}}, Layout()) == state_of({}, Layout()) == "pending"


@pytest.mark.parametrize(
    ("image", "state"),
    [
        ({"state": {"S": "parked"}}, "pending"),
        ({"ob_state": {"S": "parked"}}, "parked"),
        ({"ob_v": {"N": "1"}, "state": {"S": "parked"}}, "parked"),
        ({"ob_v": {"N": "1"}, "ob_state": {"S": "parked"}}, "pending"),
    ],
)
def test_a_state_of_the_writer_of_a_row_is_none_of_ours(image: Any, state: str) -> None:
    """Ours stands in `state` in our records alone, and in `ob_state` in the others."""
    assert state_of(image, Layout()) == state
