"""Records of a batch that was given up, read from a stream that is scripted; and what has come of them since."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from given_up import Streams
from parked_shell import PARKING, ours, row

from dynamodb_outbox.core.eventsource.failures import FailedBatch
from dynamodb_outbox.core.record import moves, schema
from dynamodb_outbox.core.record.apart import apart_keys, copy_key
from dynamodb_outbox.core.record.place import key_fault, place_of
from dynamodb_outbox.core.relay.select import Selected
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord, StreamRefused, StreamUnavailable
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover.failed_reading import Fetched, Fetching
from fake_streams import page, refusal
from source_steps import SteadyClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.recover.parked_reading import Reading

BATCH = FailedBatch("m", "arn:aws:dynamodb:eu-west-1:1:table/shop/stream/1", "s", "3", "6", 4, "", ("", ""))
TRIMMED: Any = (refusal("TrimmedDataAccessException"),)


class Table:
    """Items that are there."""

    def __init__(self, layout: Layout, *items: WireItem) -> None:
        self.layout = layout
        self.there = {place_of(item, layout): item for item in items}

    def items(self, keys: Sequence[WireItem]) -> dict[tuple[str, ...], WireItem]:
        """Return those that are asked for."""
        places = {place_of(key, self.layout) for key in keys}
        return {place: item for place, item in self.there.items() if place in places}


def fetching(*answers: Any, layout: Layout | None = None, items: Sequence[WireItem] = ()) -> Fetching:
    """Return what fetches, over a script."""
    streams = Streams(*answers)
    table = Table(Layout(sk=None, placement="table") if layout is None else layout, *items)
    return Fetching(cast("Reading", table), lambda: streams, SteadyClock())


def numbers(fetched: Fetched) -> list[int]:
    """Return the sequence numbers of records."""
    return [int(record["dynamodb"]["SequenceNumber"]) for record in fetched.records]


@pytest.mark.parametrize(
    ("answers", "found", "lost"),
    [
        ([page(3, 4), page(), page(5, 6, 7)], [3, 4, 5, 6], None),
        ([page(3, 6)], [3, 6], None),
        ([TRIMMED, page(5, 6, 7)], [5, 6], "trimmed"),
        ([TRIMMED, page(8, 9)], [], "trimmed"),
        ([TRIMMED, *[page()] * 101], [], "trimmed"),
        ([page(3, 7)], [3], "its last record is not there"),
        ([page(3, 4, following=None)], [3, 4], "the shard ends before"),
        ([(refusal("ResourceNotFoundException"),)], [], "trimmed"),
        ([page(3), refusal("ThrottlingException"), refusal("InternalServerError", 500), page(6)], [3, 6], None),
    ],
)
def test_a_range_is_read_to_its_end(answers: list[Any], found: list[int], lost: str | None) -> None:
    """Over pages, also empty ones, and throttling; what is missing is told, and the rest is there all the same."""
    fetched = fetching(*answers).fetch(BATCH)
    assert numbers(fetched) == found
    assert (fetched.lost is None) if lost is None else (lost in str(fetched.lost))


def test_records_with_other_keys_than_the_layouts_are_refused() -> None:
    """None would be a record by this layout, and their document would be taken for done."""
    record = {"eventName": "INSERT", "dynamodb": {"SequenceNumber": "3", "Keys": {"customer": {"S": "C#1"}}}}
    batch = replace(BATCH, records=(record,))
    with pytest.raises(ConfigurationError, match="its items are 'customer', those of the layout 'pk' and 'sk'"):
        fetching(layout=Layout()).fetch(batch)


@pytest.mark.parametrize(
    "keys",
    [{}, {"a": "x"}, {"a": None}, {"a": {"S": 5}}, {"a": {"S": "OUTBOX#1"}, "b": {}}, {"a": {"S": "1", "N": "1"}}],
)
def test_what_no_table_has_for_keys_is_an_invalid_record(keys: Any) -> None:
    """Whatever their names: the document is left, and others go on."""
    record = {"eventName": "INSERT", "dynamodb": {"SequenceNumber": "3", "Keys": keys}}
    with pytest.raises(InvalidRecord, match="has Keys that no item has"):
        fetching(layout=Layout()).fetch(replace(BATCH, records=(record,)))


@pytest.mark.parametrize(("image", "said"), [({"ob_v": {"N": "1"}}, "pk='b', sk='a'"), ({}, "pk=..., sk=...")])
def test_which_key_is_which_is_told_of_a_record_of_ours_alone(image: Any, said: str) -> None:
    """A row of somebody else's may have the prefix in its partition key; the wrong advice would give it another id."""
    keys = {"a": {"S": "OUTBOX#7"}, "b": {"S": "2026-01-01"}}
    record = {"eventName": "INSERT", "dynamodb": {"SequenceNumber": "3", "Keys": keys, "NewImage": {**keys, **image}}}
    with pytest.raises(ConfigurationError, match=re.escape(f"Layout({said})")):
        fetching(layout=Layout()).fetch(replace(BATCH, records=(record,)))


def test_a_stream_that_gives_no_answer_is_no_loss() -> None:
    """Nor is one that may not be read, or that has pages without an end: the batch is left for another time."""
    for answers in ([refusal("ThrottlingException")] * 4, [page()] * 101):
        with pytest.raises(StreamUnavailable):
            fetching(*answers).fetch(BATCH)
    with pytest.raises(StreamRefused):
        fetching(refusal("AccessDeniedException")).fetch(BATCH)


def judged(image: WireItem, layout: Layout, *items: WireItem) -> str:
    """Return what has come of a record, by the items that are there."""
    (found,) = fetching(layout=layout, items=items).judge([Selected("1", image, "shop")], layout)
    return found


def test_the_table_says_what_has_come_of_a_record() -> None:
    """By the same record, in a later state; another one under its keys says nothing."""
    layout = Layout()
    image = ours(layout)
    assert judged(image, layout, image) == "waits"
    for state in ("published", "parked", "discarded"):
        assert judged(image, layout, {**image, "state": {"S": state}}) == "settled"
    assert judged(image, layout, {**image, "at": {"N": "7"}, "state": {"S": "published"}}) == "waits"


@pytest.mark.parametrize("state", ["parked", "published", "discarded"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_what_stands_for_a_record_elsewhere_says_what_has_come_of_it(state: str, by_hand: bool) -> None:
    """Parked apart, with the record as it was or gone; or whole, beside another one under its keys."""
    layout = Layout()
    image = row() if by_hand else ours(layout)
    other: Any = {**image, "payload": {"S": '{"n":7}'}}
    apart, beside = _apart(image, layout, state), _beside(image, layout, state)
    for items in ([image, apart], [apart], [other, beside], [beside]):
        assert judged(image, layout, *items) == "settled"
    again = {**image, "ob_again": {"S": "2"}}
    assert judged(again, layout, again, apart) == "waits"  # what stands for the one before it
    assert judged(other, layout, other, beside) == "waits"


def test_of_many_records_each_is_judged_by_what_stands_for_it() -> None:
    """Over the hundred keys that one request takes."""
    layout = Layout()
    images = [row(number) for number in range(250)]
    items = [*images, *(_apart(image, layout, "parked") for image in images[::2])]
    fetches = fetching(layout=layout, items=items)
    found = fetches.judge([Selected(str(n), image, "shop") for n, image in enumerate(images)], layout)
    assert found == ["settled", "waits"] * 125


def _apart(image: WireItem, layout: Layout, state: str) -> WireItem:
    key = apart_keys(image, layout)[0]
    return {**moves.park_apart("shop", key, image, layout, PARKING)["Item"], "state": {"S": state}}


def _beside(image: WireItem, layout: Layout, state: str) -> WireItem:
    key = copy_key(image, layout)
    assert key is not None
    item: WireItem = moves.park_copy("shop", key, image, layout, PARKING)["Item"]
    return {**item, layout.column(schema.state_name(image)): {"S": state}}


LATE = 1_800_000_000_000
"""What the clock says."""
WEEK_S = 7 * 24 * 3600


@pytest.mark.parametrize(
    ("settle", "age_s", "becomes"),
    [
        ("expire", 60, "waits"),
        ("expire", WEEK_S + 60, "gone"),
        ("delete", 60, "gone"),
        ("mark", WEEK_S + 60, "waits"),
        ("none", WEEK_S + 60, "waits"),
    ],
)
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_record_that_is_not_there_was_published_if_that_is_what_removes_it(
    settle: Any, age_s: int, becomes: str, by_hand: bool
) -> None:
    """Settled by deleting, or longer ago than published ones are kept; a TTL from the start says nothing."""
    layout = Layout(settle=settle)
    written = LATE - 1000 * age_s
    if by_hand:
        image = row(ts={"N": str(written // 1000)})
    else:
        image = ours(layout, at={"N": str(written)}, ob_settle={"S": settle})
        if settle == "none":
            del image["ob_pending"]
    assert judged(image, layout) == becomes


def test_a_record_that_does_not_say_when_it_was_written_waits() -> None:
    """Nothing says that it was published."""
    image = ours(Layout())
    assert judged({**image, "at": {"S": "noon"}}, Layout()) == "waits"


def test_items_of_others_in_a_stream_of_keys_alone_are_not_looked_for() -> None:
    """They are no records by their keys; what is there of records is taken as their image."""
    layout = Layout()
    image = ours(layout)

    def bare(**keys: Any) -> dict[str, Any]:
        return {"eventName": "INSERT", "dynamodb": {"Keys": keys, "SequenceNumber": "1"}}

    records = (
        bare(pk=image["pk"], sk=image["sk"]),
        bare(pk=image["pk"], sk={"S": "META"}),
        {"eventName": "MODIFY", "dynamodb": {"Keys": {"pk": image["pk"], "sk": image["sk"]}}},
        {"eventName": "INSERT"},
    )
    batch = FailedBatch("m", BATCH.stream_arn, "s", "1", "1", 4, "", ("", ""), records)
    fetched = fetching(layout=layout, items=[image]).fetch(batch)
    assert fetched.lost is None
    assert fetched.records[0]["dynamodb"]["NewImage"] == image
    assert fetched.records[1:] == records[1:]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"pk": "x", "sk": "y"}, "'pk' is no value of type S"),
        ({"pk": [1], "sk": [2]}, "'pk' is no value of type S"),
        ({"pk": {"S": "x"}, "sk": {"N": "1"}}, "'sk' is no value of type S"),
        ({"pk": {"S": 5}, "sk": {"S": "OUTBOX#1"}}, "'pk' is no value of type S"),
        ({"pk": {"S": ""}, "sk": {"S": "OUTBOX#1"}}, "'pk' is no key"),
        ({"pk": {"S": "\ud800"}, "sk": {"S": "OUTBOX#1"}}, "'pk' is no key"),
        ({"pk": {"S": "é" * 1025}, "sk": {"S": "OUTBOX#1"}}, "2,048 bytes"),
        ({"pk": {"S": "x" * 2048}, "sk": {"S": "OUTBOX#" + "1" * 1018}}, "1,024 bytes"),
    ],
)
def test_keys_that_no_item_has_are_refused_before_anything_is_read(keys: Any, says: str) -> None:
    """A request with one of them would fail for all."""
    records = ({"eventName": "INSERT", "dynamodb": {"Keys": keys, "SequenceNumber": "3"}},)
    with pytest.raises(InvalidRecord, match=says):
        fetching(layout=Layout()).fetch(FailedBatch("m", BATCH.stream_arn, "s", "3", "3", 1, "", ("", ""), records))


@pytest.mark.parametrize(
    ("kind", "text", "fits"),
    [
        ("N", "12.50", True), ("N", "x", False), ("N", "1E+200", False), ("N", "NaN", False),
        ("B", "AAE=", True), ("B", "=", False), ("B", "", False),
    ],
)  # fmt: skip
def test_keys_that_are_numbers_or_bytes_are_such(kind: Any, text: str, fits: bool) -> None:
    """By DynamoDB's own ranges; what is no key of this table is not judged here."""
    layout = Layout(pk_type=kind)
    assert (key_fault({"pk": {kind: text}, "sk": {"S": "OUTBOX#1"}}, layout) is None) == fits
    assert key_fault({"other": {"S": "x"}}, layout) is None
