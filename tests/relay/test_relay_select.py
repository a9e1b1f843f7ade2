"""Which stream records are relayed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dynamodb_outbox.core.relay.select import select, table_of
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, InvalidRecord
from dynamodb_outbox.layout import Layout

LAYOUT = Layout()
ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-01-31T12:00:00.000"


def stream_record(number: str = "100", *, name: str = "INSERT", sk: str = "OUTBOX#1", **image: Any) -> dict[str, Any]:
    """Return a stream record as Lambda hands it over."""
    keys = {"pk": {"S": "ORDER#1"}, "sk": {"S": sk}}
    return {
        "eventID": "e",
        "eventName": name,
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "eventSourceARN": ARN,
        "dynamodb": {
            "Keys": keys,
            "NewImage": {**keys, "type": {"S": "t"}, **image},
            "SequenceNumber": number,
            "StreamViewType": "NEW_IMAGE",
        },
    }


def numbers(*records: dict[str, Any]) -> list[str]:
    """Return the sequence numbers of what is selected."""
    return [one.sequence_number for one in select(records, LAYOUT).records]


def test_an_inserted_record_is_selected_with_its_table() -> None:
    """The image is what will be published; the table's name comes from the stream's ARN."""
    (one,) = select([stream_record(state={"S": "pending"})], LAYOUT).records
    assert one.image["state"] == {"S": "pending"}
    assert one.table == "shop"


@pytest.mark.parametrize(
    "record",
    [
        stream_record(name="MODIFY"),
        stream_record(name="REMOVE"),
        stream_record(name="REMOVE") | {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}},
        stream_record(sk="META"),
        stream_record(sk="outbox#1"),
        stream_record(ob_v={"N": "1"}, state={"S": "parked"}),
        stream_record(ob_state={"S": "parked"}),
        stream_record(ob_v={"N": "1"}, state={"S": "published"}),
        stream_record(ob_state={"S": "published"}),
        stream_record(ob_v={"N": "1"}, state={"S": "discarded"}),
        stream_record(ob_state={"S": "discarded"}),
        stream_record(ob_v={"N": "1"}, region={"S": "us-east-1"}),
        {"eventName": "MODIFY"},
        {"eventName": "REMOVE", "eventSource": "aws:dynamodb"},
    ],
)
def test_what_is_not_relayed(record: dict[str, Any]) -> None:
    """Changes, removals, other items, copies that were parked or published, another Region's records."""
    assert numbers(record) == []


@pytest.mark.parametrize(
    "image",
    [
        {},
        {"state": {"S": "NEW"}},
        {"state": {"N": "1"}},
        {"state": {"S": "published"}},
        {"state": {"S": "parked"}},
        {"state": {"S": "discarded"}},
        {"region": {"S": "us-east-1"}},
        {"region": {"M": {}}},
        {"region": {"L": []}},
        {"ob_v": {"N": "1"}},
        {"ob_v": {"N": "1"}, "region": {"N": "1"}},
    ],
)
def test_attributes_that_hand_written_rows_use_for_themselves_do_not_hide_them(image: Any) -> None:
    """Only the states of this library, and only the Region of its own records, leave a record out."""
    assert numbers(stream_record(**image)) == ["100"]


def test_sequence_numbers_are_compared_as_numbers() -> None:
    """They vary in length: 9 comes before 10."""
    assert numbers(stream_record("10"), stream_record("9"), stream_record("100000000000000000000001")) == [
        "9",
        "10",
        "100000000000000000000001",
    ]


def test_a_missing_image_is_said_so() -> None:
    """A KEYS_ONLY stream fails the invocation with that reason, not with KeyError."""
    record = stream_record()
    del record["dynamodb"]["NewImage"]
    record["dynamodb"]["StreamViewType"] = "KEYS_ONLY"
    with pytest.raises(ImageMissing, match="KEYS_ONLY"):
        select([stream_record(), record], LAYOUT)


def test_a_missing_image_of_something_else_does_not_matter() -> None:
    """Removals and other items carry nothing that the relay needs."""
    record = stream_record(sk="META")
    del record["dynamodb"]["NewImage"]
    assert numbers(record) == []
    assert select([record], Layout(placement="table")).strangers == 0


def test_another_layout_is_an_error_and_not_silence() -> None:
    """If the key names differ, every record would look like no record."""
    with pytest.raises(ConfigurationError, match=r"'pk' \(S\), 'sk' \(S\), the layout says 'PK' \(S\)"):
        select([stream_record()], Layout(pk="PK", sk="SK"))


def keyed(keys: dict[str, Any], **image: Any) -> dict[str, Any]:
    """Return a stream record with other keys."""
    record = stream_record(**image)
    record["dynamodb"]["Keys"] = keys
    record["dynamodb"]["NewImage"] = {**image, **keys}
    return record


@pytest.mark.parametrize(
    ("layout", "keys", "told"),
    [
        (
            Layout(pk_type="N"),
            {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}},
            r"'pk' \(S\), 'sk' \(S\), the layout says 'pk' \(N",
        ),
        (Layout(), {"pk": {"N": "1"}, "sk": {"S": "OUTBOX#1"}}, r"'pk' \(N\)"),
        (Layout(), {"pk": {"S": "OUTBOX#1"}}, r"'pk' \(S\), the layout says 'pk' \(S\), 'sk' \(S\)"),
        (Layout(own_partition=True, sk=None), {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, r"says 'pk' \(S\)\."),
        (Layout(pk_type="N"), {"pk": {"N": "x"}, "sk": {"S": "OUTBOX#1"}}, r"'pk' \(N\)"),
        (Layout(pk_type="B"), {"pk": {"B": None}, "sk": {"S": "OUTBOX#1"}}, r"'pk' \(B\)"),
        (Layout(pk_type="B"), {"pk": {"B": ""}, "sk": {"S": "OUTBOX#1"}}, r"'pk' \(B\)"),
        (Layout(), {"pk": {"S": 5}, "sk": {"S": "OUTBOX#1"}}, r"'pk' \(S\)"),
        (Layout(), {"pk": "A", "sk": {"S": "OUTBOX#1"}}, r"'pk' \(A\)"),
        (Layout(), {"pk": 1, "sk": {"S": "OUTBOX#1"}}, r"'pk' \(\?\)"),
        (Layout(), {}, r"attributes none"),
        (Layout(), ["pk"], r"attributes none"),
    ],
)
def test_keys_of_other_names_or_types_than_the_layouts_are_an_error(layout: Layout, keys: Any, told: str) -> None:
    """Its records would look like none, or be settled under keys that there are not."""
    record = stream_record()
    record["dynamodb"]["Keys"] = keys
    with pytest.raises(ConfigurationError, match=told):
        select([record], layout)


@pytest.mark.parametrize(
    ("layout", "keys"),
    [
        (Layout(pk_type="N"), {"pk": {"N": "7"}, "sk": {"S": "OUTBOX#1"}}),
        (Layout(pk_type="B"), {"pk": {"B": "AAE="}, "sk": {"S": "OUTBOX#1"}}),
        (Layout(own_partition=True, sk=None), {"pk": {"S": "OUTBOX#1"}}),
        (Layout(select={}, sk_type="N"), {"pk": {"S": "A"}, "sk": {"N": "1"}}),
    ],
)
def test_keys_of_every_type_are_taken(layout: Layout, keys: dict[str, Any]) -> None:
    """Whatever the layout says they are."""
    (one,) = select([keyed(keys)], layout).records
    assert one.image == keys


def test_what_select_asks_for_is_looked_for_in_the_image() -> None:
    """Other items, guards and what was parked meanwhile are passed over."""
    layout = Layout(select={"kind": "EVENT"})
    event = {"kind": {"S": "EVENT"}}
    keys = {"pk": {"S": "A"}, "sk": {"S": "1"}}
    records = [
        keyed(keys),
        keyed(keys, kind={"S": "OTHER"}),
        keyed({"pk": {"S": "IDEMP#1"}, "sk": {"S": "GUARD"}}, **event, ob_v={"N": "1"}),
        keyed(keys, **event, ob_state={"S": "parked"}),
        keyed(keys, **event),
    ]
    assert [dict(one.image) for one in select(records, layout).records] == [keys | event]


WAITING: dict[str, Any] = {"ob_v": {"N": "1"}, "ob_pending": {"S": "03"}, "state": {"S": "pending"}}


def misfits(layout: Layout, *records: dict[str, Any]) -> list[str]:
    """Return the reasons of the misfits, where nothing else is selected."""
    selection = select(records, layout)
    assert selection.records == ()
    return [one.reason for one in selection.misfits]


@pytest.mark.parametrize(
    "layout", [Layout(prefix="EVENT#"), Layout(select={"kind": "EVENT"}), Layout(select={"pk": {"prefix": "E"}})]
)
@pytest.mark.parametrize("mark", ["ob_pending", "ob_settle"])
def test_a_record_of_another_layout_is_a_misfit_and_not_silence(layout: Layout, mark: str) -> None:
    """Nobody would ever publish it; the advice names both ways out. One that nothing settles is in no index."""
    image = {**WAITING, "ob_settle": {"S": "none"}}
    del image["ob_settle" if mark == "ob_pending" else "ob_pending"]
    (reason,) = misfits(layout, stream_record(**image))
    assert re.search(r"Layout of the writer.*stream_filter", reason)


@pytest.mark.parametrize(
    ("sk", "image"),
    [
        ("OUTBOX#1#parked", WAITING | {"ob_pending": {"S": "parked"}}),
        ("GUARD", {"ob_v": {"N": "1"}, "ob_guard": {"M": {}}}),
        ("OUTBOX#1", WAITING | {"ob_guard": {"M": {}}}),
        ("META", {"ob_pending": {"S": "03"}}),
        ("OUTBOX#1", {"ob_v": {"N": "1"}, "state": {"S": "published"}}),
        ("OUTBOX#1", {"ob_v": {"N": "1"}, "state": {"S": "published"}, "ob_settle": {"S": "mark"}}),
        ("OUTBOX#1", WAITING | {"ob_pending": {"S": "parked"}, "ob_settle": {"S": "none"}}),
    ],
)
@pytest.mark.parametrize(
    "layout", [Layout(prefix="EVENT#"), Layout(select={"kind": "EVENT"}), Layout(columns={"type": "kind"})]
)
def test_what_waits_for_no_relay_is_passed_over(layout: Layout, sk: str, image: dict[str, Any]) -> None:
    """Guards, what stands for a parked record, copies of what was published, items of the user's."""
    assert misfits(layout, stream_record(sk=sk, **image)) == []


@pytest.mark.parametrize(
    "layout",
    [Layout(), Layout(select={}), Layout(placement="table", select={"type": "t"}), Layout(columns={"type": "kind"})],
)
@pytest.mark.parametrize("image", [{"ob_v": {"N": "1"}}, {}, WAITING, WAITING | {"ob_columns": {"S": "other"}}])
def test_a_guard_is_no_record_whatever_tells_records(layout: Layout, image: dict[str, Any]) -> None:
    """Its keys may be those of a record by this layout, where another layout wrote it; nor is it a stranger."""
    record = stream_record(**image, ob_guard={"M": {}})
    assert misfits(layout, record) == []
    assert select([record], layout).strangers == 0


def test_other_columns_than_the_writers_make_a_misfit() -> None:
    """On either side: the event would be another one. A record that was parked or published waits for nobody."""
    layout = Layout(columns={"type": "kind"})
    theirs = WAITING | {"ob_columns": {"S": layout.columns_digest}}
    assert len(select([stream_record(**theirs)], layout).records) == 1
    for image, read_by in ((theirs, LAYOUT), (WAITING, layout), (theirs, Layout(columns={"type": "sort"}))):
        (reason,) = misfits(read_by, stream_record(**image))
        assert re.search(r"other column names.*Layout of the writer.*filter on `ob_columns`", reason)
        assert misfits(read_by, stream_record(**image | {"ob_pending": {"S": "parked"}})) == []
        published = {name: value for name, value in image.items() if name != "ob_pending"}
        assert misfits(read_by, stream_record(**published | {"state": {"S": "published"}})) == []
    assert len(select([stream_record(ob_columns={"S": "?"})], layout).records) == 1


@pytest.mark.parametrize(
    ("layout", "sk", "image"),
    [
        (Layout(), "OUTBOX#B#7", {"id": {"S": "7"}}),
        (Layout(prefix="E"), "EV#7", {"id": {"S": "7"}}),
        (Layout(prefix="E", select={"type": "t"}), "EV#7", {"id": {"S": "7"}}),
        (Layout(prefix="E", columns={"id": "uid"}), "EV#7", {"uid": {"S": "7"}, "id": {"S": "V#7"}}),
    ],
)
def test_a_record_whose_key_tells_another_id_is_a_misfit(layout: Layout, sk: str, image: dict[str, Any]) -> None:
    """The prefix of its writer begins with this layout's; published it would be another event."""
    record = WAITING | {"ob_columns": {"S": layout.columns_digest}} if layout.columns else WAITING
    (reason,) = misfits(layout, stream_record(sk=sk, **record, **image))
    assert re.search(r"another id.*Layout of the writer.*prefixes", reason)
    parked = record | image | {"state": {"S": "parked"}, "ob_pending": {"S": "parked"}}
    assert misfits(layout, stream_record(sk=sk, **parked)) == []


@pytest.mark.parametrize(
    ("layout", "sk", "image"),
    [
        (Layout(), "OUTBOX#7", {"id": {"S": "7"}}),
        (Layout(), "OUTBOX#7", {}),
        (Layout(prefix="EV#", select={"type": "t"}), "E7", {"id": {"S": "7"}}),
        (Layout(columns={"id": "uid"}), "OUTBOX#7", {"uid": {"S": "7"}, "id": {"S": "5"}}),
    ],
)
def test_a_record_whose_key_tells_its_id_is_selected(layout: Layout, sk: str, image: dict[str, Any]) -> None:
    """Or says nothing else, or tells none; a column that is called `id` is another thing where ids have another."""
    record = WAITING | {"ob_columns": {"S": layout.columns_digest}} if layout.columns else WAITING
    assert len(select([stream_record(sk=sk, **record, **image)], layout).records) == 1
    assert len(select([stream_record(sk="OUTBOX#7", id={"S": "row"})], LAYOUT).records) == 1


def test_misfits_are_in_the_order_of_the_stream_and_end_what_comes_before_them() -> None:
    """So that a batch from both sides of a change does not stay for ever."""
    other = stream_record("9", **WAITING, ob_columns={"S": "other"})
    later = stream_record("11", **WAITING, ob_columns={"S": "other"})
    selection = select([stream_record("10", **WAITING), later, other, stream_record("8", **WAITING)], LAYOUT)
    assert [one.sequence_number for one in selection.records] == ["8", "10"]
    assert [one.sequence_number for one in selection.misfits] == ["9", "11"]
    assert [one.table for one in selection.misfits] == ["shop", "shop"]
    assert [one.sequence_number for one in selection.before(selection.misfits[0])] == ["8"]
    assert [one.sequence_number for one in selection.before(selection.misfits[1])] == ["8", "10"]


ABROAD: dict[str, Any] = {"S": "us-east-1"}


@pytest.mark.parametrize(
    ("layout", "image", "left"),
    [
        (Layout(prefix="EVENT#"), {"region": ABROAD}, True),
        (Layout(columns={"type": "kind"}), {"region": ABROAD}, True),
        (Layout(columns={"region": "made_in"}), {"region": ABROAD}, True),
        (Layout(columns={"region": "made_in"}), {"made_in": ABROAD}, True),
        (LAYOUT, {"sk": "OUTBOX#B#7", "id": {"S": "7"}, "region": ABROAD}, True),
        (Layout(prefix="EVENT#"), {"region": {"S": "eu-west-1"}}, False),
        (Layout(prefix="EVENT#"), {"region": {"S": "north"}}, False),
        (Layout(prefix="EVENT#"), {"region": {"N": "1"}}, False),
        (Layout(prefix="EVENT#"), {"made_in": ABROAD}, False),
        (Layout(columns={"region": "made_in"}), {"made_in": ABROAD, "region": {"S": "eu-west-1"}}, False),
        (Layout(columns={"region": "made_in"}), {"made_in": {"S": "Spain"}, "region": ABROAD}, True),
    ],
)
def test_a_misfit_of_another_region_is_left_to_that(layout: Layout, image: dict[str, Any], left: bool) -> None:
    """By the name that this layout or the schema has for the Region, and only where it looks like one."""
    selection = select([stream_record(**{**WAITING, **image})], layout)
    assert selection.records == ()
    assert selection.elsewhere == ({("us-east-1", "eu-west-1"): 1} if left else {})
    assert len(selection.misfits) == (0 if left else 1)


def test_a_misfit_of_a_stream_without_a_region_is_left_to_nobody() -> None:
    """An emulator's may have none, or one that no writer is in."""
    for here in (None, "local"):
        record = stream_record(**WAITING, region=ABROAD) | {"awsRegion": here}
        assert len(misfits(Layout(prefix="EVENT#"), record)) == 1


@pytest.mark.parametrize("image", [{"region": "us-east-1"}, {"region": None}, {"sk": {"S": "META"}}])
def test_a_misfit_is_found_by_the_keys_of_the_stream_record(image: dict[str, Any]) -> None:
    """Its image has not been looked at, and may be anything."""
    record = stream_record()
    record["dynamodb"]["NewImage"] = WAITING | image
    (one,) = select([record], Layout(prefix="EVENT#")).misfits
    assert (one.image["pk"], one.image["sk"]) == ({"S": "ORDER#1"}, {"S": "OUTBOX#1"})


@pytest.mark.parametrize(
    ("layout", "image", "strangers"),
    [
        (Layout(placement="table"), {}, 1),
        (Layout(placement="table", select={"kind": "EVENT"}), {}, 1),
        (Layout(placement="table"), {"ob_v": {"N": "1"}}, 0),
        (Layout(placement="table", select={}), {}, 0),
        (Layout(), {}, 0),
    ],
)
def test_items_of_a_table_of_records_that_are_none_are_counted(
    layout: Layout, image: dict[str, Any], strangers: int
) -> None:
    """Most likely they are records that the layout does not tell; guards are none of them."""
    assert select([stream_record(sk="META", **image)], layout).strangers == strangers


def test_without_an_image_select_cannot_tell() -> None:
    """A stream of keys alone is the set-up's fault, whatever the item was."""
    record = stream_record(sk="META")
    del record["dynamodb"]["NewImage"]
    with pytest.raises(ImageMissing):
        select([record], Layout(select={"kind": "EVENT"}))


def test_an_image_without_its_keys_is_an_error() -> None:
    """It is settled by them."""
    record = stream_record()
    del record["dynamodb"]["NewImage"]["pk"]
    with pytest.raises(InvalidRecord, match="other key attributes"):
        select([record], LAYOUT)


def test_the_region_and_the_state_may_have_other_names() -> None:
    """Columns of the table's own that are called like ours say nothing."""
    layout = Layout(columns={"region": "made_in", "state": "outbox_state"})
    ours: dict[str, Any] = {"ob_v": {"N": "1"}, "region": {"S": "us-east-1"}, "state": {"S": "parked"}}
    ours["ob_columns"] = {"S": layout.columns_digest}
    assert len(select([stream_record(**ours)], layout).records) == 1
    assert select([stream_record(**ours, outbox_state={"S": "parked"})], layout).records == ()
    elsewhere = select([stream_record(**ours, made_in={"S": "us-east-2"})], layout).elsewhere
    assert elsewhere == {("us-east-2", "eu-west-1"): 1}


def test_records_of_another_region_are_counted() -> None:
    """By the Region they were written in, and the stream's."""
    records = [stream_record(ob_v={"N": "1"}, region={"S": name}) for name in ("us-east-1", "us-east-1", "eu-west-1")]
    selection = select(records, LAYOUT)
    assert selection.elsewhere == {("us-east-1", "eu-west-1"): 2}
    assert len(selection.records) == 1


@pytest.mark.parametrize("image", [["pk"], {"pk": "ORDER#1"}, {"pk": {}}, {"pk": {"S": "a", "N": "1"}}])
def test_an_image_that_is_no_item_is_an_error(image: Any) -> None:
    """With the record's position."""
    record = stream_record()
    record["dynamodb"]["NewImage"] = image
    with pytest.raises(InvalidRecord, match=r"Records\[0\]"):
        select([record], LAYOUT)


@pytest.mark.parametrize("change", [None, {}, {"SequenceNumber": "x"}, {"SequenceNumber": "²"}, {"SequenceNumber": 1}])
def test_what_is_no_stream_record_is_an_error(change: Any) -> None:
    """Another source behind the function is told apart at once."""
    with pytest.raises(InvalidRecord, match=r"Records\[0\]"):
        select([{"eventName": "INSERT", "dynamodb": change}], LAYOUT)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"eventSource": "aws:sqs"}, "aws:sqs"),
        ({"eventSource": "aws:kinesis", "eventName": "aws:kinesis:record"}, "aws:kinesis"),
        ({"eventSource": "aws:s3", "eventName": "ObjectCreated:Put"}, "aws:s3"),
        ({"eventSource": None, "EventSource": "aws:sns", "eventName": None}, "aws:sns"),
        ({"eventSource": "aws:kinesis", "eventName": "INSERT"}, "aws:kinesis"),
        ({"eventName": "Insert"}, "'Insert'"),
        ({"eventName": None}, "None"),
        ({"eventSource": None, "eventName": None}, "nobody"),
    ],
)
def test_records_of_another_source_are_an_error_that_names_it(changes: dict[str, Any], named: str) -> None:
    """None of them may count as done."""
    with pytest.raises(ConfigurationError, match=named):
        select([stream_record(), stream_record() | changes], LAYOUT)


@pytest.mark.parametrize(
    ("arn", "table"), [(ARN, "shop"), (None, None), ("", None), ("arn:aws:sqs:x", None), (":table/", None), (5, None)]
)
def test_the_table_of_a_stream(arn: Any, table: str | None) -> None:
    """Its name stands in the ARN."""
    assert table_of(arn) == table
