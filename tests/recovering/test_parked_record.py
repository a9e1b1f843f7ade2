"""A parked record as an item tells of it, and the order of those of a key; without an engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parked_shell import PARKING, ours, row

from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.apart import apart_keys, copy_key
from dynamodb_outbox.core.record.parked import Held, held, home_of, in_key_order, is_parked_here
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.layout import Layout

LAYOUTS = {
    "default": Layout(),
    "own partition": Layout(own_partition=True),
    "no sort key": Layout(placement="table", sk=None),
    "numbers": Layout(pk_type="N"),
    "columns": Layout(
        columns={"at": "made", "id": "rid", "key": "k", "state": "st", "parked_code": "pc", "type": "kind"}
    ),
}


def found(item: Any, layout: Layout, record: Any = None) -> Held:
    """Return what is made of an item."""
    home = home_of(item, layout)
    assert is_parked_here(item, home, record or {}, layout)
    return held(item, home, record or {}, layout, source="shop")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_parked_record_says_what_it_was_and_why(name: str) -> None:
    """In place and beside: the same id, key and events, for each layout."""
    layout = LAYOUTS[name]
    image = ours(layout)
    in_place = moves.park("shop", image, layout, PARKING)["Item"]
    key = copy_key(image, layout)
    assert key is not None
    beside = moves.park_copy("shop", key, image, layout, PARKING)["Item"]
    kinds = []
    for item in (in_place, beside):
        one = found(item, layout)
        kinds.append(one.record.kind)
        assert keys_of(one.image, layout.keys) == keys_of(image, layout.keys)
        assert (one.record.id, one.record.key, one.record.code) == (image[layout.column("id")]["S"], "7", "Bad")
        assert [(event.id, event.refused) for event in one.record.events] == [(one.record.id, True)]
        assert (one.record.reason, one.record.parked_ms, one.record.attempts) == ("never", PARKING.at_ms, 1)
    assert kinds == ["in place", "beside"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_stands_for_a_record_leads_to_it(name: str) -> None:
    """And tells its id and key also when it is gone."""
    layout = LAYOUTS[name]
    image = ours(layout)
    key = apart_keys(image, layout)[0]
    item = moves.park_apart("shop", key, image, layout, PARKING)["Item"]
    home = home_of(item, layout)
    assert home == keys_of(image, layout.keys)
    one, gone = found(item, layout, image), found(item, layout)
    assert (one.record.kind, one.image, one.record.gone) == ("apart", image, False)
    assert (gone.record.id, gone.record.key, gone.record.gone) == (one.record.id, "7", True)
    assert gone.record.events == ()


@pytest.mark.parametrize(
    "change",
    [
        {"state": {"S": "published"}},
        {"ob_pending": {"S": "00"}},
        {"ob_columns": {"S": "0000000000000000"}},
        {"sk": {"S": "OTHER#1"}},
        {"id": {"S": "another"}},
    ],
)
def test_what_is_no_parked_record_of_this_layout_is_passed_over(change: Any) -> None:
    """Settled since, pending again, of other columns, of another prefix."""
    layout = Layout()
    item = moves.park("shop", ours(layout), layout, PARKING)["Item"] | change
    assert not is_parked_here(item, home_of(item, layout), {}, layout)


def test_marks_that_nobody_can_read_are_told_as_none() -> None:
    """A number that is none, a text that is missing."""
    layout = Layout()
    item = moves.park("shop", ours(layout), layout, PARKING)["Item"]
    for name in ("parked_at", "parked_code", "parked_reason"):
        del item[name]
    item |= {"at": {"N": "1E+200"}, "parked_attempts": {"N": "7.0"}}
    record = found(item, layout).record
    assert (record.parked_ms, record.code, record.reason, record.written_ms, record.attempts) == (None, "", "", None, 7)


def test_a_record_that_is_refused_again_is_noted_once_more() -> None:
    """On condition that it is still parked, and the same one; by the names of a hand-written row, too."""
    request = moves.refuse_again("shop", {**row(), "ob_state": {"S": "parked"}}, Layout(), PARKING)
    assert request["UpdateExpression"].startswith("SET #attempts = if_not_exists(#attempts, :one) + :one")
    assert request["ExpressionAttributeNames"]["#attempts"] == "ob_parked_attempts"
    assert request["ExpressionAttributeValues"][":found"] == {"S": "parked"}
    assert "#state = :found" in request["ConditionExpression"]


def test_a_pending_record_is_not_discarded() -> None:
    """The table of states has no such move."""
    with pytest.raises(ValueError, match="no record moves from pending to discarded"):
        moves.discard("shop", ours(Layout()), Layout(), reason="no", now_ms=1)
    parked = moves.park("shop", ours(Layout()), Layout(), PARKING)["Item"]
    request = moves.discard("shop", parked, Layout(), reason="x" * 300, now_ms=5)
    assert request["ExpressionAttributeValues"][":2"] == {"S": "x" * 256}
    assert request["ExpressionAttributeValues"][":0"] == {"S": "discarded"}
    assert state_of({**parked, "state": {"S": "discarded"}}, Layout()) == "discarded"


@given(st.permutations(range(5)), st.lists(st.integers(1, 3), min_size=5, max_size=5))
def test_records_of_an_item_are_taken_by_version_whatever_their_dates(order: list[int], dates: list[int]) -> None:
    """In whatever order they are found."""
    layout = Layout()
    records = [
        ours(layout, n, at={"N": str(dates[n])}, seq={"S": f"{n:05d}"}, subject={"S": "order/7"}) for n in range(5)
    ]
    all_of_them = [found(moves.park("shop", records[n], layout, PARKING)["Item"], layout) for n in order]
    assert [one.record.id[-1] for one in in_key_order(all_of_them, layout)] == ["0", "1", "2", "3", "4"]


def test_records_without_versions_are_taken_by_date_and_keys_by_their_first_ones() -> None:
    """Of equal dates by their sort keys."""
    layout = Layout()
    made = [(1, "A", 30), (2, "B", 10), (3, "A", 20), (4, "A", 20)]
    items = [ours(layout, n, key={"S": key}, at={"N": str(at)}) for n, key, at in made]
    all_of_them = [found(moves.park("shop", item, layout, PARKING)["Item"], layout) for item in items]
    assert [one.record.id[-1] for one in in_key_order(all_of_them, layout)] == ["3", "4", "1", "2"]
