"""Records under other names, keys and forms: written and read back, ours and hand-written ones."""

from __future__ import annotations

import ast
import decimal
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_layouts import NOON, a_key, as_lambda, event, layouts, stream_record

from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.decode import decode, ordering_key, record_id
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.guards import encode_guard
from dynamodb_outbox.core.record.place import guard_keys, is_record, record_keys
from dynamodb_outbox.core.relay.select import select
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.event import DataRef, Event
from dynamodb_outbox.layout import RECORD_ATTRIBUTES, Layout
from other_names import OTHER_NAMES

UUID = "5f0c1a52-6f0e-4c53-9a3f-0d6a3f2b8f10"
ORIGIN = Origin("tx", 1769860800123, "eu-west-1")


def stored(layout: Layout, *events: Event) -> dict[str, Any]:
    """Return a record of these events as a stream of Lambda's has it."""
    record_id = events[0].id if len(events) == 1 else "0197-record"
    draft = RecordDraft(record_id, a_key(layout), events, 0, 1)
    image: dict[str, Any] = as_lambda(dict(encode_record(draft, ORIGIN, layout)))
    return image


values = st.integers(-9, 9) | st.text("x'é\n", max_size=3)
payloads = st.dictionaries(st.text("ab", min_size=1), values, max_size=3)
refs = st.none() | st.just(DataRef("s3://b/k", "0" * 64))


@given(layouts(), st.lists(st.tuples(payloads, refs), min_size=1, max_size=3))
@settings(deadline=None)
def test_what_is_written_by_a_layout_is_read_by_it(layout: Layout, drafts: list[tuple[dict[str, Any], Any]]) -> None:
    """Selected, with the same events, key and id, whatever the table looks like."""
    events = tuple(
        event(
            f"id-{i}",
            key=a_key(layout),
            dataref=ref,
            # names in their order: a map keeps none
            payload="" if ref else dump_payload(dict(sorted(data.items()))),
        )
        for i, (data, ref) in enumerate(drafts)
    )
    image = stored(layout, *events)
    (selected,) = select([stream_record(image, layout)], layout).records
    record = decode(selected.image, layout, source="unused")
    assert record.events == events
    assert record.key == ordering_key(image, layout) == a_key(layout)
    assert record_id(image, layout) == (events[0].id if len(events) == 1 else "0197-record")


@given(layouts())
@settings(deadline=None)
def test_a_records_attributes_have_the_layouts_names(layout: Layout) -> None:
    """All of them; and the schema's names are got back from them."""
    image = stored(layout, event(key=a_key(layout)))
    known = {layout.column(name) for name in RECORD_ATTRIBUTES} | set(layout.keys.types) | set(layout.marks)
    assert set(image) <= known
    assert image[layout.column("type")] == {"S": "order.placed"}
    assert ("M" if layout.payload_format == "map" else "S") in image[layout.column("payload")]
    found = schema.canonical(image, layout)
    assert found["type"] == {"S": "order.placed"}
    assert found["id"] == {"S": "0197-id"}
    fields = {name: value for name, value in found.items() if name in RECORD_ATTRIBUTES}
    assert schema.canonical(schema.renamed(fields, layout), layout) == fields


def test_a_column_of_the_tables_own_is_not_taken_for_the_schemas() -> None:
    """Where `id` is the table's key, the id is elsewhere; a name that is not given away stays what it is."""
    layout = Layout(pk="id", sk=None, placement="table", columns={"id": "uid", "type": "payload", "payload": "type"})
    item = {"id": {"S": "k"}, "uid": {"S": "u"}, "type": {"S": "{}"}, "payload": {"S": "t"}, "note": {"S": "n"}}
    found = schema.canonical(item, layout)
    assert found == {"id": {"S": "u"}, "type": {"S": "t"}, "payload": {"S": "{}"}, "note": {"S": "n"}}
    assert schema.canonical({"id": {"S": "k"}}, layout) == {}
    assert schema.canonical(item, Layout()) is item


def test_a_guard_is_the_same_under_all_columns() -> None:
    """A command that runs again after they changed is still the same; its TTL alone is the layout's."""
    layout = Layout(sk=None, placement="table", ttl="at", columns={"at": "sent", "tx": "at_once"})
    keys = guard_keys(layout, "IDEMP#1")
    guard = encode_guard(keys, fingerprint="f", event_ids=["1"], versions={}, origin=ORIGIN, layout=layout, keep_s=60)
    assert set(guard) == {"pk", "ob_v", "ob_guard", "at"}
    assert guard["at"] == {"N": "1769860860"}
    plain = encode_guard(keys, fingerprint="f", event_ids=["1"], versions={}, origin=ORIGIN, layout=Layout(), keep_s=60)
    assert guard["ob_guard"] == plain["ob_guard"]


def test_attributes_that_select_wants_are_added_where_the_schema_has_none() -> None:
    """Text that has to be equal, and no more: what the schema's own attributes hold is not a matter of choice."""
    wanted: dict[str, Any] = {
        "entity": "RECORD",
        "kind": {"prefix": "E"},
        "state": "pending",
        "enc": "x",
        "pk": "ORDER#1",
        "sk": "x",
    }
    layout = Layout(select=wanted)
    assert layout.marks == {"entity": "RECORD"}
    image = stored(layout, event())
    assert image["entity"] == {"S": "RECORD"}
    assert not {"kind", "enc"} & set(image)
    assert not is_record(image, layout)
    assert is_record(
        stored(Layout(select={"entity": "R", "state": "pending"}), event()), Layout(select={"entity": "R"})
    )


def test_a_record_of_ours_whose_key_has_no_prefix_is_read_by_its_id() -> None:
    """A writer in another language, in a table where `select` tells records."""
    layout = Layout(select={}, sk_type="N")
    image = stored(Layout(), event()) | {"sk": {"N": "7"}}
    assert decode(image, layout, source="s").events[0].id == "0197-id"
    del image["id"]
    assert record_id(image, layout) is None
    with pytest.raises(InvalidRecord, match="no id") as caught:
        decode(image, layout, source="s")
    assert caught.value.where == "ORDER#1/7"


def test_a_map_of_ours_without_a_form_in_json_is_refused_with_its_place() -> None:
    """A writer in another language may store a set."""
    image = stored(Layout(), event()) | {"payload": {"M": {"tags": {"SS": ["secret"]}}}}
    with pytest.raises(InvalidRecord, match=r"payload\.tags is a set") as caught:
        decode(image, Layout(), source="s")
    assert "secret" not in str(caught.value)


def test_a_map_in_a_record_that_says_it_is_compressed_is_refused() -> None:
    """One of the two is wrong."""
    image = stored(Layout(payload_format="map"), event()) | {"enc": {"S": "gzip"}}
    with pytest.raises(InvalidRecord, match="not of type B"):
        decode(image, Layout(), source="s")


# --- hand-written records ---------------------------------------------------------------------------------------------


def hand(**changes: dict[str, Any] | None) -> dict[str, Any]:
    """Return a hand-written row, with changes; None takes an attribute away."""
    row: dict[str, Any] = {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": "OUTBOX#5"},
        "type": {"S": "order.placed"},
        "payload": {"S": "{}"},
        "ts": {"N": "1769860800"},
        **changes,
    }
    return {name: value for name, value in row.items() if value is not None}


def only(image: dict[str, Any], layout: Layout) -> Event:
    """Return the one event of a row, whose key is the record's too."""
    record = decode(image, layout, source="relay")
    (read,) = record.events
    assert read.key == record.key == ordering_key(image, layout)
    assert read.id == record_id(image, layout)
    return read


TABLE = {"placement": "table", "sk": None}


@pytest.mark.parametrize(
    ("options", "keys", "event_id", "key"),
    [
        ({}, {}, "ORDER%231#5", "ORDER#1"),
        ({}, {"sk": {"S": f"OUTBOX#{UUID}"}}, UUID, "ORDER#1"),
        ({"own_partition": True}, {"pk": {"S": "OUTBOX#ORDER#1"}}, "OUTBOX%23ORDER%231#5", "ORDER#1"),
        ({"own_partition": True}, {"pk": {"S": "OUTBOX#"}}, "OUTBOX%23#5", "OUTBOX#"),
        ({"own_partition": True}, {}, "ORDER%231#5", "ORDER#1"),
        ({"pk_type": "N"}, {"pk": {"N": "1E1"}}, "10#5", "10"),
        ({"pk_type": "B"}, {"pk": {"B": "AAE="}}, "AAE=#5", "AAE="),
        (TABLE, {"pk": {"S": "OUTBOX#5"}, "sk": None}, "5", "5"),
        (TABLE, {"pk": {"S": f"OUTBOX#{UUID}"}, "sk": None}, UUID, UUID),
        (TABLE | {"select": {}}, {"pk": {"S": "5"}, "sk": None}, "5", "5"),
        (TABLE | {"select": {}}, {"pk": {"S": "OUTBOX#5"}, "sk": None}, "OUTBOX#5", "OUTBOX#5"),
        (TABLE | {"select": {}}, {"pk": {"S": f"OUTBOX#{UUID}"}, "sk": None}, UUID, UUID),
        (TABLE | {"select": {}, "pk_type": "N"}, {"pk": {"N": "5"}, "sk": None}, "5", "5"),
        ({"select": {}}, {"sk": {"S": "5"}}, "ORDER%231#5", "ORDER#1"),
        ({"select": {}}, {"sk": {"S": "OUTBOX#5"}}, "ORDER%231#OUTBOX#5", "ORDER#1"),
        ({"select": {}}, {"sk": {"S": "OUTBOX#"}}, "ORDER%231#OUTBOX#", "ORDER#1"),
        ({"select": {}}, {"sk": {"S": UUID}}, UUID, "ORDER#1"),
        ({"select": {}, "sk_type": "N"}, {"sk": {"N": "5"}}, "ORDER%231#5", "ORDER#1"),
        ({"select": {}, "sk_type": "B"}, {"sk": {"B": "AAE="}}, "ORDER%231#AAE=", "ORDER#1"),
    ],
)
def test_keys_tell_id_and_key(options: dict[str, Any], keys: dict[str, Any], event_id: str, key: str) -> None:
    """By the rules of the schema; two rows of a table never share an id."""
    read = only(hand(**keys), Layout(**options))
    assert (read.id, read.key, read.source, read.subject) == (event_id, key, "relay", None)


def test_the_id_of_a_long_key_is_short() -> None:
    """A consumer's inbox has 2,048 bytes for it and for other names."""
    layout = Layout(placement="table", sk=None)
    assert len(only(hand(pk={"S": "OUTBOX#" + "x" * 513}, sk=None), layout).id) == 64
    assert len(only(hand(pk={"S": "OUTBOX#" + "x" * 512}, sk=None), layout).id) == 512
    named = Layout(columns={"id": "id"})
    assert len(only(hand(id={"S": "x" * 513}), named).id) == 64


EVERYTHING: dict[str, Any] = {
    "uid": {"S": "7"},
    "aggregate": {"S": "CART#1"},
    "origin": {"S": "cart"},
    "about": {"S": "cart 1"},
    "number": {"S": "0007"},
    "created": {"S": "2026-01-31T13:00:00.25+01:00"},
    "extras": {"M": {"traceparent": {"S": "00-ab"}}},
}
NAMED = {
    "id": "uid",
    "key": "aggregate",
    "source": "origin",
    "subject": "about",
    "seq": "number",
    "time": "created",
    "attributes": "extras",
}


def test_columns_that_are_named_are_read() -> None:
    """Each under the name that the layout gives."""
    read = only(hand(**EVERYTHING), Layout(columns=NAMED))
    assert read == Event(
        id="7",
        type="order.placed",
        source="cart",
        payload="{}",
        time=NOON,
        key="CART#1",
        subject="cart 1",
        sequence="0007",
        attributes={"traceparent": "00-ab"},
    )


def test_a_named_column_that_a_row_does_not_have_falls_back() -> None:
    """To what is told without it."""
    assert only(hand(), Layout(columns=NAMED)) == only(hand(), Layout())


@pytest.mark.parametrize("nothing", [{"NULL": True}, {"S": ""}])
def test_a_named_column_that_holds_nothing_falls_back_too(nothing: dict[str, Any]) -> None:
    """NULL and empty text are what many writers store for nothing."""
    layout = Layout(columns=NAMED | {"at": "sent"})
    empty = dict.fromkeys((*EVERYTHING, "sent"), nothing)
    assert only(hand(**empty), layout) == only(hand(), Layout())


def test_the_way_out_of_a_time_of_another_type_works() -> None:
    """What the message says to write is a layout that reads the row."""
    row = hand(ts={"S": "2026-01-31 12:00:00.25"})
    with pytest.raises(InvalidRecord, match="for text say") as caught:
        decode(row, Layout(), source="s")
    said = re.search(r"columns=(\{.*\})", str(caught.value))
    assert said is not None
    assert only(row, Layout(columns=ast.literal_eval(said[1]))).time == NOON


def test_times_do_not_depend_on_the_threads_decimal_context() -> None:
    """Each delivery of a row gives the same event, whoever runs the relay."""
    rows = [
        (hand(ts={"N": "1769860800.25"}), Layout()),
        (hand(at={"N": "1769860800250"}), Layout(columns={"at": "at"})),
    ]
    with decimal.localcontext() as context:
        context.prec = 5
        context.traps[decimal.Inexact] = True
        assert [only(row, layout).time for row, layout in rows] == [NOON, NOON]


def test_columns_that_are_not_named_are_the_writers_own() -> None:
    """Even where they are called like ours."""
    own: dict[str, Any] = {
        "id": {"S": "x"},
        "key": {"S": "x"},
        "source": {"S": "x"},
        "subject": {"S": "x"},
        "seq": {"S": "x"},
    }
    own |= {"time": {"S": "x"}, "at": {"N": "1"}, "attributes": {"S": "x"}, "enc": {"S": "x"}, "dataref": {"S": "x"}}
    assert only(hand(**own), Layout()) == only(hand(), Layout())
    by_their_names = Layout(columns={name: name for name in ("id", "key", "source", "subject", "seq")})
    read = only(hand(**own), by_their_names)
    assert (read.id, read.key, read.source, read.subject, read.sequence) == ("x",) * 5


def test_the_fields_of_a_row_may_be_called_otherwise() -> None:
    """Type, payload and time too."""
    row = hand(type=None, payload=None, ts=None, kind={"S": "t"}, body={"S": "[1]"}, sent={"N": "1769860800.25"})
    read = only(row, Layout(columns={"type": "kind", "payload": "body", "ts": "sent"}))
    assert (read.type, read.payload, read.time) == ("t", "[1]", NOON)


def test_the_first_time_that_is_there_counts() -> None:
    """`time`, then `at`, then `ts`."""
    layout = Layout(columns={"time": "time", "at": "at"})
    rows = [
        hand(time={"S": "2026-01-31T12:00:00.25Z"}, at={"N": "1"}, ts=None),
        hand(at={"N": "1769860800250"}, ts={"N": "1"}),
        hand(ts={"N": "1769860800.25"}),
    ]
    assert [only(row, layout).time for row in rows] == [NOON] * 3


def test_a_key_may_be_a_number() -> None:
    """Its plain digits are the ordering key."""
    assert only(hand(aggregate={"N": "4.20E1"}), Layout(columns={"key": "aggregate"})).key == "42"


def test_a_map_is_published_as_json() -> None:
    """Told by its type, whatever the layout says of its own records."""
    assert only(hand(payload={"M": {"b": {"N": "1"}, "a": {"NULL": True}}}), Layout()).payload == '{"a":null,"b":1}'
    assert only(hand(payload={"S": "[1, 2]"}), Layout(payload_format="map")).payload == "[1, 2]"


@pytest.mark.parametrize(
    ("changes", "why", "key"),
    [
        ({"uid": {"N": "1"}}, "'uid' is not of type S", "ORDER#1"),
        ({"aggregate": {"B": "AAE="}}, "'aggregate' is neither of type S nor of type N", "ORDER#1"),
        ({"aggregate": {"M": {}}}, "'aggregate'", "ORDER#1"),
        ({"origin": {"N": "1"}}, "'origin'", "ORDER#1"),
        ({"created": {"S": "2026-01-31 12:00"}}, r"'created' is not a time as text \(S\): no time of day", "ORDER#1"),
        (
            {"created": {"N": "1"}},
            r"'created' is not a time as text \(S\); for milliseconds say Layout\(columns=\{'at': 'created'\}\), for",
            "ORDER#1",
        ),
        ({"extras": {"S": "x"}}, "'extras' is not of type M", "ORDER#1"),
        (
            {"sent": {"S": "x"}},
            r"'sent' is not a number \(N\) of milliseconds since 1970; for text say .*\{'time': 'sent'\}",
            "ORDER#1",
        ),
        ({"payload": {"M": {"a": {"B": "AAE="}}}}, "payload.a is binary", "ORDER#1"),
        ({"payload": {"M": {}}, "type": None}, "'type' is missing", "ORDER#1"),
        ({"aggregate": {"N": "7"}, "type": None}, "'type' is missing", "7"),
    ],
)
def test_a_named_column_of_the_wrong_kind_makes_a_row_unreadable(changes: dict[str, Any], why: str, key: str) -> None:
    """The reason has the table's own name of it; the row still has a key to be parked in the order of."""
    layout = Layout(columns=NAMED | {"at": "sent"})
    with pytest.raises(InvalidRecord, match=why) as caught:
        decode(hand(**changes), layout, source="s")
    assert caught.value.where == "ORDER#1/OUTBOX#5"
    assert ordering_key(hand(**changes), layout) == key


def test_a_row_without_an_id_still_has_a_key() -> None:
    """The key attribute's text, where the id would be the key."""
    layout = Layout(placement="table", sk=None, columns={"id": "uid"})
    image = hand(pk={"S": "OUTBOX#5"}, sk=None, uid={"N": "1"})
    assert ordering_key(image, layout) == "OUTBOX#5"
    with pytest.raises(InvalidRecord, match="'uid'") as caught:
        decode(image, layout, source="s")
    assert caught.value.where == "OUTBOX#5"
    bare = hand(pk={"S": "OUTBOX#"}, sk=None)
    with pytest.raises(InvalidRecord, match="partition key has no id"):
        decode(bare, Layout(placement="table", sk=None), source="s")
    assert ordering_key(bare, Layout(placement="table", sk=None)) == "OUTBOX#"


parts = st.text("aO#%5", min_size=1, max_size=4) | st.just("OUTBOX#5") | st.just("5")


@given(st.lists(st.tuples(parts, parts), unique=True, max_size=9), st.sampled_from([None, {}]))
@settings(deadline=None)
def test_no_two_rows_of_a_table_share_an_id(keys: list[tuple[str, str]], chosen: dict[str, Any] | None) -> None:
    """With and without a prefix that all of them have."""
    layout = Layout(select=chosen)
    before = "" if chosen is not None else layout.prefix
    rows = [hand(pk={"S": pk}, sk={"S": before + sk}) for pk, sk in keys]
    assert len({record_id(row, layout) for row in rows}) == len(keys)


def test_a_dedicated_table_that_was_there_before() -> None:
    """Its own names and forms: no prefix, a map, a time as text."""
    layout = Layout(
        placement="table",
        pk="id",
        sk=None,
        columns={"id": "outbox_id", "type": "event_type", "key": "aggregate_id", "time": "created_at"},
        select={},
    )
    row = {
        "id": {"S": UUID},
        "aggregate_id": {"S": "ORDER-1"},
        "event_type": {"S": "OrderPlaced"},
        "payload": {"M": {"total": {"N": "12.50"}}},
        "created_at": {"S": "2026-01-31T12:00:00.250Z"},
    }
    (selected,) = select([stream_record(row, layout)], layout).records
    read = only(dict(selected.image), layout)
    assert (read.id, read.key, read.type, read.time) == (UUID, "ORDER-1", "OrderPlaced", NOON)
    assert read.payload == '{"total":12.50}'


def test_record_keys_are_those_of_the_item() -> None:
    """Not hidden by attributes of the record that are called like them."""
    layout = Layout(pk="id", columns=OTHER_NAMES)
    assert stored(layout, event())["id"] == record_keys(layout, "ORDER#1", "0197-id")["id"]
