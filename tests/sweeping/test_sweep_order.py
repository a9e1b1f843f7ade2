"""The order of a key's records: by version where two tell of one item, else by date."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.record.order import Dated, in_order

RECORDS = st.lists(
    st.builds(
        Dated,
        st.integers(0, 5),
        st.uuids().map(str),
        st.dictionaries(st.sampled_from("XYZ"), st.integers(1, 9).map(str), max_size=2),
    ),
    max_size=12,
)


def test_records_of_an_item_are_taken_by_version_whatever_their_dates() -> None:
    """The clock of the second writer is behind by more than the commits are apart."""
    records = [Dated(20, "a", {"X": "1"}), Dated(10, "b", {"X": "2"}), Dated(15, "c", {})]
    assert in_order(records) == [2, 0, 1]


def test_records_of_different_items_are_taken_by_date() -> None:
    """A version says nothing of another item's."""
    assert in_order([Dated(20, "a", {"X": "1"}), Dated(10, "b", {"Y": "9"})]) == [1, 0]


def test_a_record_of_several_items_waits_for_each_of_them() -> None:
    """It comes behind the older version of either."""
    records = [Dated(1, "both", {"X": "2", "Y": "2"}), Dated(9, "x", {"X": "1"}), Dated(8, "y", {"Y": "1"})]
    assert in_order(records) == [2, 1, 0]


def test_equal_dates_are_taken_by_name() -> None:
    """So two sweeps do the same."""
    assert in_order([Dated(1, "b", {}), Dated(1, "a", {})]) == [1, 0]


def test_versions_that_contradict_each_other_end_somewhere() -> None:
    """No table gives them; all records come all the same, each once, the oldest first."""
    records = [Dated(2, "a", {"X": "1", "Y": "2"}), Dated(1, "b", {"X": "2", "Y": "1"})]
    assert in_order(records) == [1, 0]


@given(RECORDS)
def test_each_record_comes_once_and_dates_decide_what_versions_leave_open(records: list[Dated]) -> None:
    """Without versions the order is that of dates; with them, that of versions for each item where they agree."""
    order = in_order(records)
    assert sorted(order) == list(range(len(records)))
    if not any(each.versions for each in records):
        assert order == sorted(order, key=lambda place: (records[place].at_ms, records[place].name))


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("XY")), max_size=12))
def test_versions_of_single_items_are_never_turned_round(found: list[tuple[int, str]]) -> None:
    """However the clocks of the writers go."""
    records = [Dated(at_ms, f"{n:02}", {item: f"{n:02}"}) for n, (at_ms, item) in enumerate(found)]
    order = in_order(records)
    for item in "XY":
        told = [place for place in order if item in records[place].versions]
        assert told == sorted(told)
