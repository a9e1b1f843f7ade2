"""What is published of a key: the first of its pending records, in order, and never another's."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from sweep_world import LAYOUT, MIN_AGE, MINUTE, NOW_MS, number_of, record, uuid

from dynamodb_outbox.core.record.place import place_of
from dynamodb_outbox.core.sweeping.ages import Ages
from dynamodb_outbox.core.sweeping.choice import Choice, choose
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem

AGES = Ages.of(NOW_MS, MIN_AGE, 0)
HERE = "eu-west-1"


def chosen(*items: WireItem, here: str | None = HERE, layout: Layout = LAYOUT, **options: Any) -> Choice:
    """Return what is chosen of items that are five minutes old, or older."""
    return choose(items, layout, here, AGES, **options)


def numbers(choice: Choice) -> list[int]:
    """Return the numbers of the chosen records."""
    return [number_of(item) for item in choice.records]


def test_records_come_by_date() -> None:
    """Whatever order they were read in."""
    choice = chosen(record(2, age_ms=7 * MINUTE), record(1, age_ms=9 * MINUTE), record(3, age_ms=6 * MINUTE))
    assert (numbers(choice), choice.young, choice.more) == ([1, 2, 3], 0, False)


def test_nothing_is_published_behind_a_record_that_is_too_young() -> None:
    """The second version of an item is older by its writer's clock than the first one: both wait."""
    first = record(1, age_ms=MINUTE, subject="X", sequence="01")
    second = record(2, age_ms=20 * MINUTE, subject="X", sequence="02")
    before = record(3, age_ms=30 * MINUTE)
    choice = chosen(first, second, before)
    assert (numbers(choice), choice.young) == ([3], 2)


def test_the_versions_of_a_record_of_several_events_count() -> None:
    """They stand in its array; the first version of each item is the one that waits."""
    time = datetime(2026, 1, 1, tzinfo=timezone.utc)
    events = [
        Event(uuid(90 + n), "t", "s", "{}", time, key="A", subject=subject, sequence=sequence)
        for n, (subject, sequence) in enumerate([("Y", "07"), ("X", "03"), ("X", "02"), ("Z", None)])
    ]
    later = record(2, age_ms=30 * MINUTE, events=events)
    earlier = record(1, age_ms=20 * MINUTE, subject="X", sequence="01")
    assert numbers(chosen(later, earlier)) == [1, 2]


def test_a_record_that_cannot_be_read_comes_by_date() -> None:
    """It is parked when its turn comes, as by the relay."""
    broken = record(1, age_ms=20 * MINUTE, payload={"S": "no JSON"}, subject="X", sequence="09")
    assert numbers(chosen(record(2, subject="X", sequence="01"), broken)) == [1, 2]


@pytest.mark.parametrize(
    "more",
    [
        {"state": {"S": "parked"}, "ob_pending": {"S": "parked"}},
        {"state": {"S": "published"}},
        {"state": {"S": "discarded"}},
    ],
)
def test_what_is_no_longer_pending_is_left_alone(more: dict[str, Any]) -> None:
    """And counted nowhere: it is done. A record with an unknown state is pending, as for the relay."""
    assert chosen(record(1, **more)) == Choice()
    assert numbers(chosen(record(1, state={"S": "odd"}))) == [1]


def test_records_of_other_regions_are_left_to_them() -> None:
    """One that names no Region is this one's; where the table's own is not known, all are."""
    there = record(1, region={"S": "us-east-1"})
    nowhere = record(2, region=None)
    choice = chosen(there, nowhere, record(3))
    assert (sorted(numbers(choice)), choice.elsewhere) == ([2, 3], 1)
    assert numbers(chosen(there, here=None)) == [1]


@pytest.mark.parametrize(
    "more",
    [
        {"sk": {"S": f"MAIL#{uuid(1)}"}},
        {"ob_columns": {"S": "0123456789abcdef"}},
        {"sk": {"S": f"OUTBOX#B#{uuid(1)}"}},
    ],
)
def test_records_of_other_layouts_are_left_to_their_own_sweepers(more: dict[str, Any]) -> None:
    """Another prefix, other columns, a longer prefix that begins with this one."""
    choice = chosen(record(1, **more), record(2))
    assert (numbers(choice), choice.others) == ([2], 1)


def test_the_columns_of_the_layout_are_followed() -> None:
    """State, date and Region have other names, and the record says by which columns it was written."""
    layout = Layout(columns={"at": "made", "state": "st", "region": "where", "id": "rid", "key": "k"}, index_shards=1)
    old, young = record(1, layout=layout), record(2, layout=layout, age_ms=0)
    choice = chosen(young, old, layout=layout)
    assert (numbers(choice), choice.young) == ([1], 1)
    assert chosen({**old, "where": {"S": "us-east-1"}}, layout=layout).elsewhere == 1
    assert chosen({**old, "st": {"S": "published"}}, layout=layout) == Choice()
    assert chosen(old).others == 1


def test_a_row_that_another_program_put_into_the_index_is_swept() -> None:
    """Its `state` and `region` mean anything; the relay reads it as it is."""
    row: WireItem = {
        "pk": {"S": "A"},
        "sk": {"S": f"OUTBOX#{uuid(7)}"},
        "type": {"S": "t"},
        "payload": {"S": "{}"},
        "ts": {"N": "1"},
        "state": {"S": "published"},
        "region": {"S": "mars-1"},
        "ob_pending": {"S": "00"},
        "at": {"N": f"{NOW_MS - MIN_AGE}"},
    }
    assert numbers(chosen(row)) == [7]
    assert chosen({**row, "ob_state": {"S": "published"}}) == Choice()


def test_a_date_ahead_is_taken_for_just_old_enough() -> None:
    """Behind what is old, before what is young; and one without a date likewise."""
    ahead = record(1, age_ms=-60 * MINUTE)
    undated = record(4, age_ms=0, at=None)
    choice = chosen(ahead, record(2), record(3, age_ms=0), undated)
    assert numbers(choice)[0] == 2
    assert sorted(numbers(choice)) == [1, 2, 4]
    assert choice.young == 1


def test_what_this_sweep_has_published_is_not_published_again() -> None:
    """Though it could not be settled."""
    one, other = record(1), record(2, age_ms=6 * MINUTE)
    assert numbers(chosen(one, other, but={place_of(one, LAYOUT)})) == [2]


def test_the_last_minutes_of_an_incomplete_read_are_left_to_the_next_one() -> None:
    """What was not read may come before them. Where nothing else is there they are published."""
    items = [record(n, age_ms=(30 - n) * MINUTE) for n in range(12)]
    assert (numbers(chosen(*items)), chosen(*items).more) == (list(range(12)), False)
    part = chosen(*items, complete=False)
    assert (numbers(part), part.more) == (list(range(7)), True)
    burst = [record(n, age_ms=10 * MINUTE + n) for n in range(3)]
    assert numbers(chosen(*burst, complete=False)) == [2, 1, 0]
    assert chosen(complete=False) == Choice(more=True)
