"""Requests that move records of other layouts: other names, other keys, no sort key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.apart import apart_keys, stands_for
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import needs_no_parking, state_of
from dynamodb_outbox.layout import Layout
from other_names import OTHER_NAMES

WHY = Parking("Bad", "never", at_ms=5_000, events=(1,))
RENAMED = Layout(columns=OTHER_NAMES)
BINARY = Layout(pk_type="B")
ALONE = Layout(placement="table", sk=None)


def test_settling_names_the_keys_that_there_are() -> None:
    """One, or two; binary as bytes, though Lambda's image has text."""
    alone = moves.settle("t", {"pk": {"S": "OUTBOX#1"}}, ALONE, now_ms=0)
    assert alone["Statement"].endswith('WHERE "pk"=? AND "ob_state" IS MISSING AND "ob_again" IS MISSING')
    assert alone["Parameters"] == [{"S": "published"}, {"N": "604800"}, {"S": "OUTBOX#1"}]
    both = moves.settle("t", {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}, BINARY, now_ms=0)
    assert both["Statement"].endswith('WHERE "pk"=? AND "sk"=? AND "ob_state" IS MISSING AND "ob_again" IS MISSING')
    assert both["Parameters"][2:] == [{"B": b"\x00\x01"}, {"S": "OUTBOX#1"}]


def test_the_state_is_under_the_name_that_the_layout_gives_it() -> None:
    """An attribute called `state` is then the table's own."""
    ours: dict[str, Any] = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "ob_v": {"N": "1"}, "x_state": {"S": "pending"}}
    statement = moves.settle("t", ours | {"state": {"S": "OPEN"}}, RENAMED, now_ms=0)
    assert 'SET "x_state"=?' in statement["Statement"]
    assert statement["Parameters"][-1] == {"S": "pending"}
    assert state_of(ours | {"state": {"S": "published"}}, RENAMED) == "pending"
    parked = ours | {"x_state": {"S": "parked"}, "x_parked_events": {"NS": ["1", "2"]}}
    assert state_of(parked, RENAMED) == "parked"
    assert needs_no_parking(parked, frozenset("1"), RENAMED)
    assert not needs_no_parking(parked, frozenset("3"), RENAMED)
    assert needs_no_parking(ours | {"x_state": {"S": "parked"}}, None, RENAMED)


def test_parking_writes_the_layouts_names() -> None:
    """Into a record of ours, into a row that is there, and when events are added."""
    ours = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "ob_v": {"N": "1"}, "x_state": {"S": "pending"}}
    request = moves.park("t", ours, RENAMED, WHY)
    assert request["ExpressionAttributeNames"] == {"#pk": "pk", "#state": "x_state", "#s0": "ob_again"}
    assert request["Item"] == ours | {
        "x_id": {"S": "1"},
        "x_key": {"S": "A"},
        "x_at": {"N": "5000"},
        "x_state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
        "x_parked_at": {"N": "5000"},
        "x_parked_code": {"S": "Bad"},
        "x_parked_reason": {"S": "never"},
        "x_parked_events": {"NS": ["1"]},
    }
    there = moves.park_there("t", {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, RENAMED, WHY)
    written = set(there["ExpressionAttributeNames"].values())
    assert {"ob_state", "x_id", "ob_parked_events", "ob_parked_at", "ob_pending"} <= written
    assert not {"id", "key", "at", "state", "parked_at", "x_parked_at"} & written
    more = moves.park_more("t", request["Item"], RENAMED, WHY)
    assert set(more["ExpressionAttributeNames"].values()) == {
        "x_state", "x_parked_at", "x_parked_code", "x_parked_reason", "x_parked_events",
        "x_id", "x_at", "ob_again",
    }  # fmt: skip


def test_the_columns_of_a_hand_written_row_stay_what_they_are_when_it_is_parked() -> None:
    """Whatever they are called; what is added has names of this library's."""
    own: dict[str, Any] = {"parked_at": {"S": "mine"}, "parked_code": {"N": "7"}, "parked_reason": {"BOOL": True}}
    own |= {"parked_events": {"L": []}, "id": {"N": "5"}, "key": {"S": "k"}, "at": {"N": "7"}, "state": {"S": "x"}}
    row = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}} | own
    item = moves.park("t", row, Layout(), WHY)["Item"]
    assert {name: item[name] for name in row} == row
    added = {name for name in item if name not in row}
    assert added == {"ob_state", "ob_pending"} | {f"ob_parked_{name}" for name in ("at", "code", "reason", "events")}
    there = moves.park_there("t", row, Layout(), WHY)
    assert set(there["ExpressionAttributeNames"].values()) == added | {"pk", "expires_at", "ob_again"}
    more = moves.park_more("t", item, Layout(), WHY)
    assert set(more["ExpressionAttributeNames"].values()) == added - {"ob_pending"} | {"ob_again"}
    assert needs_no_parking(item, frozenset("1"), Layout())
    assert not needs_no_parking(item, frozenset("2"), Layout())


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        ({}, False),
        ({"at": {"N": "7"}}, False),
        ({"at": {"S": "2026-01-31"}}, True),
        ({"at": {"NULL": True}}, True),
        ({"at": {"S": "x"}, "ob_v": {"N": "1"}}, False),
    ],
)
def test_a_row_with_another_use_for_the_index_key_is_parked_apart(changes: dict[str, Any], apart: bool) -> None:
    """What it has there is its writer's; in a record of ours it is a fault, and mended."""
    assert moves.stands_alone({"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, **changes}, Layout()) is apart


def test_what_stands_for_a_record_says_which_columns_it_has() -> None:
    """As records do."""
    layout = Layout(columns={"at": "sent"})
    row = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}
    item = moves.park_apart("t", apart_keys(row, layout)[0], row, layout, WHY)["Item"]
    assert item["ob_columns"] == {"S": layout.columns_digest}


@pytest.mark.parametrize(
    ("image", "seconds"),
    [
        ({}, 60),
        ({"keep_s": {"N": "5"}}, 60),
        ({"ob_v": {"N": "1"}}, 604_800),
        ({"ob_v": {"N": "1"}, "keep_s": {"N": "3600"}}, 3600),
        ({"ob_v": {"N": "1"}, "keep_s": {"S": "3600"}}, 604_800),
        ({"ob_v": {"N": "1"}, "keep_s": {"N": "-1"}}, 604_800),
        ({"ob_v": {"N": "1"}, "keep_s": {"N": "1E+100"}}, 604_800),
    ],
)
def test_a_record_is_kept_for_as_long_as_its_writer_said(image: dict[str, Any], seconds: int) -> None:
    """A commit whose answer was lost looks for it until then, whatever the relay's layout says; rows do not say it."""
    layout = Layout(published_for=timedelta(minutes=1))
    keys = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}
    assert moves.settle("t", keys | image, layout, now_ms=10_999)["Parameters"][1] == {"N": str(10 + seconds)}


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"ts": {"N": "7.5"}}, "7500"),
        ({"created": {"S": "1970-01-01T00:00:09.123Z"}}, "9123"),
        ({"sent": {"N": "11"}, "ts": {"N": "7"}}, "11"),
        ({"ts": {"S": "?"}}, "5000"),
        ({}, "5000"),
    ],
)
def test_a_row_whose_time_may_be_in_the_index_key_gets_its_own_time_there(changes: dict[str, Any], at: str) -> None:
    """Read again, it must not have happened when it was parked."""
    layout = Layout(columns={"at": "sent", "time": "created"})
    image = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, **changes}
    assert moves.park("t", image, layout, WHY)["Item"]["sent"] == {"N": at}


def test_a_row_that_has_no_id_is_parked_under_its_key() -> None:
    """An operator has to see it, unreadable as it is."""
    item = moves.park("t", {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#"}}, Layout(), WHY)["Item"]
    assert item["id"] == {"S": "OUTBOX#"}
    layout = Layout(columns={"id": "uid"})
    item = moves.park("t", {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "uid": {"N": "1"}}, layout, WHY)["Item"]
    assert item["uid"] == {"N": "1"}


SORT_KEY = "OUTBOX#" + "x" * 1010
"""The longest with room for `#parked`."""
HASHES = {
    "1": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
    "OUTBOX#1": "c8174d81bd0412c89bf999e6b748f92870ed3ef2af0a37753cbc2f40edac19f4",
    SORT_KEY: "88865cda339f840b428d26f307360c87fdc6ea1aad69eb3922897fe7818fad7c",
    SORT_KEY + "x": "562196c64136bb3f7ad87858af48e9f0a9363b818ef52b2cd6d1d255c641cb29",
    "x" * 2041: "c2862a8a9d0a5796150cbf60f985f103ca545ad0c903d098bdac288dc8db2ab3",
    "x" * 2042: "d5fc55847ba0a4651e58d7a61e61fd3f53fde8efb1b054aad7edc919438cfcb6",
}
"""SHA-256 of what records have in the key that what stands for them has another value in."""


def hashed(text: str) -> str:
    """Return what is the key of what stands for a record when the record's own has no room for more."""
    return f"OUTBOX#{HASHES[text]}#parked"


@pytest.mark.parametrize(
    ("layout", "image", "keys"),
    [
        (Layout(pk_type="N"), {"pk": {"N": "7"}, "sk": {"S": "OUTBOX#1"}}, ["OUTBOX#1#parked", hashed("OUTBOX#1")]),
        (BINARY, {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}, ["OUTBOX#1#parked", hashed("OUTBOX#1")]),
        (Layout(), {"pk": {"S": "A"}, "sk": {"S": SORT_KEY}}, [f"{SORT_KEY}#parked", hashed(SORT_KEY)]),
        (Layout(), {"pk": {"S": "A"}, "sk": {"S": SORT_KEY + "x"}}, [hashed(SORT_KEY + "x")]),
        (ALONE, {"pk": {"S": "OUTBOX#1"}}, ["OUTBOX#1#parked", hashed("OUTBOX#1")]),
        (ALONE, {"pk": {"S": "x" * 2041}}, ["x" * 2041 + "#parked", hashed("x" * 2041)]),
        (ALONE, {"pk": {"S": "x" * 2042}}, [hashed("x" * 2042)]),
        (Layout(select={}, sk_type="N"), {"pk": {"S": "1"}, "sk": {"N": "7"}}, [hashed("1")]),
    ],
)
def test_what_stands_for_a_record_has_a_key_that_can_hold_it(
    layout: Layout, image: dict[str, Any], keys: list[str]
) -> None:
    """The sort key where it is text, else the partition key; what is too long is hashed, and begins as records do."""
    found = apart_keys(image, layout)
    record = keys_of(image, layout.keys)
    changed = "pk" if layout.sk is None or layout.sk_type == "N" else "sk"
    assert list(found) == [record | {changed: {"S": key}} for key in keys]
    for key in found:
        request = moves.park_apart("t", key, image, layout, WHY)
        item = request["Item"]
        assert stands_for(item, image, layout)
        assert not stands_for(key, image, layout)
        assert ("parked_pk" in item) is (key["pk"] != record["pk"])
        assert ("parked_sk" in item) is (layout.sk is not None)


def test_what_stands_for_one_record_stands_for_no_other() -> None:
    """Both keys are compared, under the names that the layout gives."""
    layout = Layout(select={}, sk_type="N", columns={"parked_pk": "p", "parked_sk": "s"})
    one = {"pk": {"S": "1"}, "sk": {"N": "7"}}
    item = moves.park_apart("t", apart_keys(one, layout)[0], one, layout, WHY)["Item"]
    assert (item["p"], item["s"]) == ({"S": "1"}, {"N": "7"})
    assert stands_for(item, one, layout)
    assert not stands_for(item, one | {"pk": {"S": "2"}}, layout)
    assert not stands_for(item, one | {"sk": {"N": "8"}}, layout)
    binary = {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}
    apart = moves.park_apart("t", apart_keys(binary, BINARY)[0], binary, BINARY, WHY)["Item"]
    assert stands_for(apart, binary, BINARY)
    assert not stands_for(apart, binary | {"pk": {"B": "AAI="}}, BINARY)


@pytest.mark.parametrize("options", [{"pk_type": "N", "sk_type": "N"}, {"pk_type": "B", "sk_type": "N"}])
def test_keys_without_text_leave_no_place_beside_a_record(options: dict[str, Any]) -> None:
    """Nothing could be told from a record there."""
    image = {"pk": {"N": "1"} if options["pk_type"] == "N" else {"B": "AAE="}, "sk": {"N": "1"}}
    assert apart_keys(image, Layout(select={}, **options)) == ()
    alone = Layout(placement="table", sk=None, pk_type=options["pk_type"], select={})
    assert apart_keys({"pk": image["pk"]}, alone) == ()
