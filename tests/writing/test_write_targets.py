"""The keys of items: what a table of some schema takes, which two keys are one, and what is the library's own."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import Binary
from hypothesis import given
from hypothesis import strategies as st
from write_scripted import World

from dynamodb_outbox import Keys, Layout, Outbox
from dynamodb_outbox.core.commit.keying import checked_key
from dynamodb_outbox.core.commit.targets import Tables, target_of
from dynamodb_outbox.core.record.place import key_value
from dynamodb_outbox.errors import (
    AmbiguousKey,
    ConfigurationError,
    DuplicateAction,
    InvalidAction,
    InvalidEvent,
    InvalidValue,
    LimitExceeded,
    ReservedName,
)
from dynamodb_outbox.keys import table_name

KINDS: dict[str, Keys] = {
    "plain": Keys("id", None),
    "numbers": Keys("n", None, "N"),
    "bytes": Keys("b", None, "B"),
    "mixed": Keys("b", "n", "B", "N"),
}
TABLES = Tables("shop", "shop", Layout(), KINDS)
NUMBERED = Layout(pk_type="N")
BINARY = Layout(pk_type="B")
OWN = Layout(own_partition=True)


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "key", "wire", "texts"),
    [
        ("shop", {"pk": "A", "sk": "B"}, {"pk": {"S": "A"}, "sk": {"S": "B"}}, ("A", "B")),
        ("plain", {"id": "A"}, {"id": {"S": "A"}}, ("A", "")),
        ("numbers", {"n": 5}, {"n": {"N": "5"}}, ("5", "")),
        ("numbers", {"n": Decimal("-1.50")}, {"n": {"N": "-1.50"}}, ("-1.5", "")),
        ("numbers", {"n": Decimal("1E+3")}, {"n": {"N": "1E+3"}}, ("1000", "")),
        ("numbers", {"n": 0}, {"n": {"N": "0"}}, ("0", "")),
        ("bytes", {"b": b"\x00\xff"}, {"b": {"B": b"\x00\xff"}}, ("AP8=", "")),
        ("bytes", {"b": bytearray(b"a")}, {"b": {"B": b"a"}}, ("YQ==", "")),
        ("bytes", {"b": memoryview(b"a")}, {"b": {"B": b"a"}}, ("YQ==", "")),
        ("bytes", {"b": Binary(b"a")}, {"b": {"B": b"a"}}, ("YQ==", "")),
        ("mixed", {"n": 1, "b": b"a"}, {"b": {"B": b"a"}, "n": {"N": "1"}}, ("YQ==", "1")),
    ],
)
def test_keys_of_every_type(table: str, key: Any, wire: Any, texts: tuple[str, str]) -> None:
    """Text, numbers and bytes, with a sort key and without one: the wire form, and the texts that stand for it."""
    target = target_of("put", table, key, TABLES)
    assert (target.key, list(target.key)) == (wire, list(wire))
    assert target.place == (table, *texts)


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ("plain", {"pk": "A"}, "'id' is missing; text that is not empty"),
        ("plain", {"id": 1}, "'id' is 1; text"),
        ("numbers", {"n": "1"}, "'n' is '1'; a number (int or Decimal)"),
        ("numbers", {"n": True}, "'n' is True; a number"),
        ("numbers", {"n": None}, "'n' is None; a number"),
        ("numbers", {"n": [1]}, "'n' is [1]; a number"),
        ("bytes", {"b": "YQ=="}, "'b' is 'YQ=='; bytes"),
        ("bytes", {"b": b""}, "'b' is b''; bytes that are not empty"),
        ("mixed", {"b": b"a"}, "'n' is missing; a number"),
        ("plain", 5, "a dict with 'id' is needed"),
    ],
)
def test_a_key_of_another_type_is_refused(table: str, key: Any, said: str) -> None:
    """By name, with what was there and what the table takes."""
    with pytest.raises(InvalidAction) as caught:
        target_of("delete", table, key, TABLES)
    assert said in caught.value.reason
    assert "tables=" not in caught.value.reason


def test_where_nobody_said_which_keys_a_table_has_the_error_says_how() -> None:
    """A table that is not named has the layout's keys; one with others shows it by the first action that fails."""
    with pytest.raises(InvalidAction, match=r"tables=\{'stock': Keys\(\.\.\.\)\}"):
        target_of("put", "stock", {"sku": "1"}, TABLES)
    with pytest.raises(InvalidAction, match=r"tables=\{'stock'"):
        target_of("delete", "stock", {"pk": "1", "sk": "2", "sku": "3"}, TABLES, exactly=True)
    with pytest.raises(InvalidAction) as caught:
        target_of("put", None, {"sku": "1"}, TABLES)
    assert "tables=" not in caught.value.reason


def test_a_key_has_nothing_else_in_it() -> None:
    """Nor has one of a table without a sort key."""
    with pytest.raises(InvalidAction, match="has sk too; only 'id' belongs there"):
        target_of("delete", "plain", {"id": "A", "sk": "B"}, TABLES, exactly=True)


@pytest.mark.parametrize("number", [Decimal("NaN"), Decimal("1E+126"), Decimal("1E-131"), 10**38 + 1, 1.5])
def test_numbers_that_dynamodb_has_no_room_for(number: Any) -> None:
    """The rules of values hold for keys too, the advice on floats among them."""
    with pytest.raises(InvalidValue, match=r"^n: "):
        target_of("put", "numbers", {"n": number}, TABLES)


def test_keys_have_a_longest_length_in_bytes() -> None:
    """2,048 bytes in a partition key and 1,024 in a sort key, of text and of bytes alike."""
    tables = Tables("shop", "shop", Layout(), {"b": Keys("p", "s", "B", "B"), "t": Keys("p", "s")})
    for table, unit in (("b", b"x"), ("t", "x")):
        target_of("put", table, {"p": unit * 2048, "s": unit * 1024}, tables)
        for p, s, limit in ((2049, 1, 2048), (1, 1025, 1024)):
            with pytest.raises(LimitExceeded) as caught:
                target_of("put", table, {"p": unit * p, "s": unit * s}, tables)
            assert (caught.value.size, caught.value.limit) == (limit + 1, limit)


# --- one item ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [1, Decimal(1), Decimal("1.0"), Decimal("1E0"), Decimal("0.1E+1")])
def test_two_ways_to_write_a_number_are_one_item(again: Any) -> None:
    """DynamoDB takes one action an item, and would refuse the transaction without saying which two."""
    tx = World(layout=NUMBERED).outbox.transaction()
    tx.put({"pk": 1, "sk": "META"}, if_absent=True)
    with pytest.raises(DuplicateAction):
        tx.update({"pk": again, "sk": "META"}, set={"n": 1})
    tx.update({"pk": again + 1, "sk": "META"}, set={"n": 1})


def test_the_same_texts_in_two_tables_are_two_items() -> None:
    """And bytes are told by what they are, not by how they were given."""
    tx = World(layout=BINARY, tables={"t": Keys("pk", "sk")}).outbox.transaction()
    tx.put({"pk": b"a", "sk": "META"}, if_absent=True)
    tx.put({"pk": "YQ==", "sk": "META"}, if_absent=True, table="t")
    with pytest.raises(DuplicateAction):
        tx.delete({"pk": bytearray(b"a"), "sk": "META"})


numbers = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1000, max_value=1000)


@given(numbers, numbers)
def test_numbers_have_one_text_each(one: Decimal, other: Decimal) -> None:
    """Two keys are one item exactly when they are equal."""
    texts = [target_of("put", "numbers", {"n": number}, TABLES).pk for number in (one, other)]
    assert (texts[0] == texts[1]) == (one == other)
    assert Decimal(texts[0]) == one


def test_keys_of_the_tables_schema_are_protected() -> None:
    """An update cannot change a key attribute by the name that it has in its own table; another table's is free."""
    tx = World(tables=KINDS).outbox.transaction()
    with pytest.raises(InvalidAction, match="'id' cannot be changed"):
        tx.update({"id": "A"}, set={"id": "B"}, table="plain")
    tx.update({"id": "A"}, set={"pk": "B"}, table="plain")
    with pytest.raises(InvalidAction, match="'sk' cannot be changed"):
        tx.update({"pk": "A", "sk": "B"}, remove=["sk"])


def test_conditions_are_about_the_tables_own_key() -> None:
    """Absence is told by the partition key of the item's table."""
    world = World(tables=KINDS)
    with world.outbox.transaction() as tx:
        tx.put({"n": 1}, if_absent=True, table="numbers")
        tx.check({"b": b"a", "n": 1}, if_exists=True, table="mixed")
    put, check = world.sent()
    assert put["Put"]["ExpressionAttributeNames"] == {"#ob_pk": "n"}
    assert check["ConditionCheck"]["ExpressionAttributeNames"] == {"#ob_pk": "b"}
    assert check["ConditionCheck"]["Key"] == {"b": {"B": b"a"}, "n": {"N": "1"}}


# --- the library's own ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "key", "prefix"),
    [
        (Layout(), {"pk": "A", "sk": "OUTBOX#1"}, "OUTBOX#"),
        (Layout(), {"pk": "INBOX#1", "sk": "A"}, "INBOX#"),
        (OWN, {"pk": "OUTBOX#1", "sk": "A"}, "OUTBOX#"),
        (Layout(own_partition=True, sk=None), {"pk": "OUTBOX#1"}, "OUTBOX#"),
        (Layout(own_partition=True, sk=None), {"pk": "IDEMP#1"}, "IDEMP#"),
        (NUMBERED, {"pk": 1, "sk": "OUTBOX#1"}, "OUTBOX#"),
    ],
)
def test_own_prefixes_are_refused_in_the_table_of_records(layout: Layout, key: Any, prefix: str) -> None:
    """By the attribute that carries them in that layout, in that table and in no other."""
    tables = Tables("records", "shop", layout)
    with pytest.raises(ReservedName) as caught:
        target_of("put", "records", key, tables)
    assert caught.value.prefix == prefix
    target_of("put", "shop", key, tables)


# --- ordering keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "key", "said"),
    [
        (NUMBERED, "abc", "no number"),
        (NUMBERED, "1.0", "plain digits"),
        (NUMBERED, "1E+3", "plain digits"),
        (NUMBERED, "1E+999999999", "9.99E+125"),
        (NUMBERED, "NaN", "no number"),
        (NUMBERED, "1" * 39, "38 digits"),
        (NUMBERED, " 1", "plain digits"),
        (NUMBERED, "", "not empty"),
        (NUMBERED, 1, "text"),
        (BINARY, "a", "base64"),
        (BINARY, "YR==", "base64"),
        (BINARY, "é", "base64"),
        (BINARY, "A" * 2732, "2,049 bytes"),
        (OWN, "x" * 2042, "2,042 bytes of UTF-8; 2,041"),
        (Layout(own_partition=True, sk=None), "x" * 2049, "2,048"),
        (Layout(), "IDEMP#1", "library's own"),
    ],
)
def test_a_key_that_no_record_can_have(layout: Layout, key: Any, said: str) -> None:
    """Refused where it is given, with the form that it needs."""
    outbox = World(layout=layout).outbox
    for give in (outbox.transaction().emit, outbox.event):
        with pytest.raises(InvalidEvent) as caught:
            give("t", {}, key=key)
        assert caught.value.field == "key"
        assert said in caught.value.reason


@pytest.mark.parametrize(
    ("layout", "key"),
    [
        (NUMBERED, "42"),
        (NUMBERED, "-0.5"),
        (NUMBERED, "1" + "0" * 125),
        (NUMBERED, "0"),
        (BINARY, "A" * 2730 + "A="),
        (Layout(pk_type="B", guard_prefix="YQ"), "YQ=="),
        (OWN, "x" * 2041),
        (OWN, "IDEMP#1"),
        (Layout(own_partition=True, sk=None), "x" * 2048),
        (Layout(placement="table", sk=None), "IDEMP#1"),
    ],
)
def test_keys_up_to_the_limit(layout: Layout, key: str) -> None:
    """What has room is taken as it is, and its record can be built."""
    tables = None if layout.placement == "item" else "records"
    world = World(layout=layout, outbox_table=tables)
    (member,) = world.outbox.records([world.outbox.event("t", {}, key=key)])
    assert member["Put"]["Item"]["key"] == {"S": key}


@given(st.text(max_size=8) | st.decimals().map(str), st.sampled_from([NUMBERED, BINARY]))
def test_a_key_that_passes_names_one_value(key: str, layout: Layout) -> None:
    """Whatever text is given: refused as an event, or the text of exactly one key."""
    try:
        checked = checked_key(key, layout, lambda reason: InvalidEvent("key", reason))
    except InvalidEvent:
        return
    assert checked == key
    assert key_value(key, layout.pk_type)


def test_a_partition_that_cannot_be_a_key() -> None:
    """Where the partition that was written has no place among the records, the error says what to give instead."""
    for layout, item, said in (
        (NUMBERED, {"id": "A"}, "'A'"),
        (OWN, {"id": "x" * 2042}, "2,041"),
        (Layout(), {"id": "IDEMP#1"}, "'IDEMP#'"),
    ):
        tx = World(layout=layout, tables=KINDS).outbox.transaction()
        tx.put(item, if_absent=True, table="plain")
        tx.emit("t", {})
        with pytest.raises(InvalidEvent) as caught:
            tx.commit()
        assert said in str(caught.value)
        assert "emit(..., key=...)" in str(caught.value)


def test_the_partition_written_is_named_by_its_text() -> None:
    """An event of a number has its plain digits for a key; of two partitions the error names both as texts."""
    world = World(layout=NUMBERED)
    with world.outbox.transaction() as tx:
        tx.put({"pk": Decimal("4.20E1"), "sk": "A"}, if_absent=True)
        tx.emit("t", {})
    record = world.sent()[1]["Put"]["Item"]
    assert (record["pk"], record["key"]) == ({"N": "42"}, {"S": "42"})
    tx = World(layout=BINARY, tables=KINDS).outbox.transaction()
    tx.put({"pk": b"a", "sk": "A"}, if_absent=True)
    tx.put({"n": 7}, if_absent=True, table="numbers")
    tx.emit("t", {})
    with pytest.raises(AmbiguousKey) as ambiguous:
        tx.commit()
    assert ambiguous.value.partitions == ("YQ==", "7")


@pytest.mark.parametrize(
    ("layout", "number", "other"),
    [
        (NUMBERED, {"pk": 42, "sk": "A"}, ({"id": "42"}, "plain")),
        (BINARY, {"pk": b"a", "sk": "A"}, ({"id": "YQ=="}, "plain")),
    ],
)
def test_partitions_of_two_types_are_two(layout: Layout, number: Any, other: Any) -> None:
    """Though their keys have one text: which one orders the event has to be said, and the error tells them apart."""
    tx = World(layout=layout, tables=KINDS).outbox.transaction()
    tx.put(number, overwrite=True)
    tx.put(other[0], if_absent=True, table=other[1])
    tx.emit("t", {})
    with pytest.raises(AmbiguousKey) as ambiguous:
        tx.commit()
    text = next(iter(other[0].values()))
    assert (ambiguous.value.partitions, ambiguous.value.types) == ((text, text), (layout.pk_type, "S"))
    assert f"{text!r} ({layout.pk_type}), {text!r} (S)" in str(ambiguous.value)


@pytest.mark.parametrize("counted", [{"if_absent": True}, {"if_exists": True}])
def test_a_key_of_two_types_names_no_item(counted: Any) -> None:
    """Given as a key, the text may mean either partition, so that the event has no sequence, whoever is counted."""
    world = World(layout=replace(NUMBERED, version="version"), tables=KINDS)
    with world.outbox.transaction() as tx:
        tx.put({"pk": 42, "sk": "A"}, **counted)
        tx.put({"id": "42"}, if_absent=True, table="plain")
        tx.emit("t", {}, key="42")
    record = world.sent()[2]["Put"]["Item"]
    assert not {"subject", "seq"} & record.keys()


# --- tables by their ARNs ---------------------------------------------------------------------------------------------


ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/"


@pytest.mark.parametrize(("table", "named"), [("shop", f"{ARN}shop"), (f"{ARN}shop", "shop")])
def test_a_tables_arn_is_its_name(table: str, named: str) -> None:
    """Whichever of the two the outbox and an action have: one item, and records and guards are out of reach."""
    outbox = Outbox(table, source="s", layout=Layout(version="version"), client=World().client)
    tx = outbox.transaction()
    tx.put({"pk": "A", "sk": "A"}, if_absent=True, table=named)
    tx.emit("t", {})
    with pytest.raises(DuplicateAction):
        tx.put({"pk": "A", "sk": "A"}, if_absent=True)
    with pytest.raises(ReservedName):
        tx.put({"pk": "A", "sk": "OUTBOX#1"}, if_absent=True, table=named)
    sent = tx.request()["TransactItems"]
    assert [member["Put"]["TableName"] for member in sent] == [named, table]
    assert sent[1]["Put"]["Item"]["subject"] == {"S": "A/A"}
    assert tx.commit().versions == {("shop", "A", "A"): 1}


def test_an_arn_has_the_keys_of_its_table() -> None:
    """And `select` guards the records' table under it; a table's two names cannot have two schemas."""
    layout = Layout(select={"entity": "OUTBOX"})
    tx = World(layout=layout, tables={f"{ARN}numbers": Keys("n", None, "N")}).outbox.transaction()
    tx.put({"n": 1}, if_absent=True, table="numbers")
    tx.put({"n": 2}, if_absent=True, table=f"{ARN}numbers")
    with pytest.raises(InvalidAction, match="taken for an outbox record"):
        tx.put({"pk": "A", "sk": "A", "entity": "OUTBOX"}, if_absent=True, table=f"{ARN}shop")
    with pytest.raises(ConfigurationError, match="twice"):
        World(tables={"a": Keys("x"), f"{ARN}a": Keys("y")})
    with pytest.raises(ConfigurationError, match="'shop' has"):
        World(tables={f"{ARN}shop": Keys("x")})
    alone = Outbox("shop", source="s", layout=Layout(placement="table"), outbox_table=f"{ARN}shop")
    with pytest.raises(InvalidAction, match="table= is needed"):
        alone.transaction().put({"pk": "A", "sk": "A"}, if_absent=True)


@pytest.mark.parametrize("text", ["shop", f"{ARN}shop/index/ob-pending", ARN, "arn:aws:s3:::shop", "arn:"])
def test_what_is_no_arn_of_a_table_is_taken_as_a_name(text: str) -> None:
    """Whatever it is: DynamoDB says what is wrong with it."""
    assert table_name(text) == text
    assert table_name(f"{ARN}shop") == "shop"


# --- what the caller may have meant -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "key", "table", "said"),
    [
        (Layout(), {"pk": 5, "sk": "A"}, None, "Layout(pk_type='N')."),
        (Layout(), {"pk": b"a", "sk": "A"}, None, "Layout(pk_type='B')."),
        (Layout(), {"pk": "A", "sk": 5}, None, "Layout(placement='table')"),
        (Layout(sk=None, own_partition=True), {"pk": 5}, None, "Layout(placement='table')"),
        (Layout(), {"pk": {"S": "A"}, "sk": {"S": "B"}}, None, "not DynamoDB's wire form."),
        (Layout(), {"n": {"N": "5"}}, "numbers", "not DynamoDB's wire form."),
        (Layout(), {"pk": 5, "sk": "A"}, "stock", "tables={'stock': Keys(...)}."),
    ],
)
def test_a_key_of_another_type_comes_with_advice(layout: Layout, key: Any, table: str | None, said: str) -> None:
    """What to tell the layout for keys of that type, or that an item is given in Python values."""
    with pytest.raises(InvalidAction) as caught:
        World(layout=layout, tables=KINDS).outbox.transaction().put(key, if_absent=True, table=table)
    assert said in str(caught.value)


def test_a_key_is_given_as_text() -> None:
    """A number as an ordering key is refused with the text that it would be, where it has one."""
    said = {5: "a key is text: '5'.", Decimal("6.00"): "a key is text: '6'.", 10**5000: "a key is text."}
    for key, advice in said.items():
        wrong: Any = key
        with pytest.raises(InvalidEvent) as caught:
            World().outbox.transaction().emit("t", {}, key=wrong)
        assert advice in str(caught.value)
