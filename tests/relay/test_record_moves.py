"""Requests that move records of other layouts: other names, other keys, no sort key."""

from __future__ import annotations

from typing import Any

import pytest
from relay_layouts import COLUMNS

from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import needs_no_parking, state_of
from dynamodb_outbox.layout import Layout

WHY = Parking("Bad", "never", at_ms=5_000, events=(1,))
RENAMED = Layout(columns=COLUMNS)
BINARY = Layout(pk_type="B")
ALONE = Layout(placement="table", sk=None)


def test_settling_names_the_keys_that_there_are() -> None:
    """One, or two; binary as bytes, though Lambda's image has text."""
    alone = moves.settle("t", {"pk": {"S": "OUTBOX#1"}}, ALONE, now_ms=0)
    assert alone["Statement"].endswith('WHERE "pk"=? AND "ob_state" IS MISSING')
    assert alone["Parameters"] == [{"S": "published"}, {"N": "604800"}, {"S": "OUTBOX#1"}]
    both = moves.settle("t", {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}, BINARY, now_ms=0)
    assert both["Statement"].endswith('WHERE "pk"=? AND "sk"=? AND "ob_state" IS MISSING')
    assert both["Parameters"][2:] == [{"B": b"\x00\x01"}, {"S": "OUTBOX#1"}]


def test_the_state_is_under_the_name_that_the_layout_gives_it() -> None:
    """An attribute called `state` is then the table's own."""
    ours: dict[str, Any] = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "ob_v": {"N": "1"}, "c_state": {"S": "pending"}}
    statement = moves.settle("t", ours | {"state": {"S": "OPEN"}}, RENAMED, now_ms=0)
    assert 'SET "c_state"=?' in statement["Statement"]
    assert statement["Parameters"][-1] == {"S": "pending"}
    assert state_of(ours | {"state": {"S": "published"}}, RENAMED) == "pending"
    parked = ours | {"c_state": {"S": "parked"}, "c_parked_events": {"NS": ["1", "2"]}}
    assert state_of(parked, RENAMED) == "parked"
    assert needs_no_parking(parked, frozenset("1"), RENAMED)
    assert not needs_no_parking(parked, frozenset("3"), RENAMED)
    assert needs_no_parking(ours | {"c_state": {"S": "parked"}}, None, RENAMED)


def test_parking_writes_the_layouts_names() -> None:
    """Into a record of ours, into a row that is there, and when events are added."""
    ours = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "ob_v": {"N": "1"}, "c_state": {"S": "pending"}}
    request = moves.park("t", ours, RENAMED, WHY)
    assert request["ExpressionAttributeNames"] == {"#pk": "pk", "#state": "c_state"}
    assert request["Item"] == ours | {
        "c_id": {"S": "1"},
        "c_key": {"S": "A"},
        "c_at": {"N": "5000"},
        "c_state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
        "c_parked_at": {"N": "5000"},
        "c_parked_code": {"S": "Bad"},
        "c_parked_reason": {"S": "never"},
        "c_parked_events": {"NS": ["1"]},
    }
    there = moves.park_there("t", {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, RENAMED, WHY)
    written = set(there["ExpressionAttributeNames"].values())
    assert {"ob_state", "c_id", "c_parked_events", "ob_pending"} <= written
    assert not {"id", "key", "at", "state", "parked_at"} & written
    more = moves.park_more("t", request["Item"], RENAMED, WHY)
    assert set(more["ExpressionAttributeNames"].values()) == {
        "c_state", "c_parked_at", "c_parked_code", "c_parked_reason", "c_parked_events",
    }  # fmt: skip


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


HASH = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"  # of "1"


@pytest.mark.parametrize(
    ("layout", "image", "keys"),
    [
        (Layout(pk_type="N"), {"pk": {"N": "7"}, "sk": {"S": "OUTBOX#1"}}, [("sk", "OUTBOX#1#parked")]),
        (BINARY, {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}, [("sk", "OUTBOX#1#parked")]),
        (ALONE, {"pk": {"S": "OUTBOX#1"}}, [("pk", "OUTBOX#1#parked")]),
        (ALONE, {"pk": {"S": "x" * 2041}}, [("pk", "x" * 2041 + "#parked")]),
        (ALONE, {"pk": {"S": "x" * 2042}}, []),
        (Layout(select={}, sk_type="N"), {"pk": {"S": "1"}, "sk": {"N": "7"}}, [("pk", f"OUTBOX#{HASH}#parked")]),
    ],
)
def test_what_stands_for_a_record_has_a_key_that_can_hold_it(
    layout: Layout, image: dict[str, Any], keys: list[tuple[str, str]]
) -> None:
    """The sort key where it is text, else the partition key; what is too long is hashed."""
    found = moves.apart_keys(image, layout)
    record = keys_of(image, layout.keys)
    changed = [next(name for name in key if key[name] != record[name]) for key in found]
    assert [(name, key[name]["S"]) for name, key in zip(changed, found, strict=True)][: len(keys)] == keys
    for key in found:
        request = moves.park_apart("t", key, image, layout, WHY)
        item = request["Item"]
        assert moves.stands_for(item, image, layout)
        assert not moves.stands_for(key, image, layout)
        assert ("parked_pk" in item) is (key["pk"] != record["pk"])
        assert ("parked_sk" in item) is (layout.sk is not None)


def test_what_stands_for_one_record_stands_for_no_other() -> None:
    """Both keys are compared, under the names that the layout gives."""
    layout = Layout(select={}, sk_type="N", columns={"parked_pk": "p", "parked_sk": "s"})
    one = {"pk": {"S": "1"}, "sk": {"N": "7"}}
    item = moves.park_apart("t", moves.apart_keys(one, layout)[0], one, layout, WHY)["Item"]
    assert (item["p"], item["s"]) == ({"S": "1"}, {"N": "7"})
    assert moves.stands_for(item, one, layout)
    assert not moves.stands_for(item, one | {"pk": {"S": "2"}}, layout)
    assert not moves.stands_for(item, one | {"sk": {"N": "8"}}, layout)
    binary = {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}
    apart = moves.park_apart("t", moves.apart_keys(binary, BINARY)[0], binary, BINARY, WHY)["Item"]
    assert moves.stands_for(apart, binary, BINARY)
    assert not moves.stands_for(apart, binary | {"pk": {"B": "AAI="}}, BINARY)


@pytest.mark.parametrize("options", [{"pk_type": "N", "sk_type": "N"}, {"pk_type": "B", "sk_type": "N"}])
def test_keys_without_text_leave_no_place_beside_a_record(options: dict[str, Any]) -> None:
    """Nothing could be told from a record there."""
    image = {"pk": {"N": "1"} if options["pk_type"] == "N" else {"B": "AAE="}, "sk": {"N": "1"}}
    assert moves.apart_keys(image, Layout(select={}, **options)) == ()
    alone = Layout(placement="table", sk=None, pk_type=options["pk_type"], select={})
    assert moves.apart_keys({"pk": image["pk"]}, alone) == ()
