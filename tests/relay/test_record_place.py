"""Where records live, how keys are written as text, and what tells a record from other items."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_layouts import a_key, layouts, stream_record

from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.record.place import (
    carried_id,
    guard_keys,
    guard_partition,
    inbox_partition,
    is_record,
    key_bytes,
    key_of_partition,
    key_text,
    key_value,
    keys_of,
    native,
    partition_of,
    quoted,
    record_keys,
    reserved_prefix,
    stream_filter,
)
from dynamodb_outbox.keys import Keys, KeyType
from dynamodb_outbox.layout import Layout

DEDICATED = Layout(placement="table", sk=None)


@pytest.mark.parametrize(
    ("layout", "key", "keys"),
    [
        (Layout(), "A", {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}),
        (Layout(own_partition=True), "A", {"pk": {"S": "OUTBOX#A"}, "sk": {"S": "OUTBOX#1"}}),
        (Layout(own_partition=True, sk=None), "A", {"pk": {"S": "OUTBOX#1"}}),
        (DEDICATED, "A", {"pk": {"S": "OUTBOX#1"}}),
        (Layout(placement="table", pk="h", sk="r", prefix="E#"), "A", {"h": {"S": "A"}, "r": {"S": "E#1"}}),
        (Layout(pk_type="N"), "-10.5", {"pk": {"N": "-10.5"}, "sk": {"S": "OUTBOX#1"}}),
        (Layout(pk_type="B"), "AAE=", {"pk": {"B": b"\x00\x01"}, "sk": {"S": "OUTBOX#1"}}),
    ],
)
def test_the_keys_of_a_record(layout: Layout, key: str, keys: dict[str, Any]) -> None:
    """As the table of the schema says; the id is always what follows the prefix."""
    assert record_keys(layout, key, "1") == keys
    assert carried_id(keys, layout) == "1"
    assert keys[layout.carrier]["S"].endswith("1")
    assert carried_id({**keys, layout.carrier: {"S": "1"}}, layout) is None
    assert carried_id({**keys, layout.carrier: {"N": "1"}}, layout) is None


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("one", "N", "no number"),
        ("NaN", "N", "no number"),
        ("1.0", "N", "'1' in plain"),
        ("1E2", "N", "'100' in plain"),
        ("-0", "N", "'0' in plain"),
        ("+1", "N", "'1' in plain"),
        ("1E999999999", "N", "38 digits"),
        ("1E-131", "N", "38 digits"),
        ("1" * 39, "N", "38 digits"),
        ("", "B", "base64"),
        ("!", "B", "not base64"),
        ("é", "B", "not base64"),
        ("AAF=", "B", "not the base64"),
        ("AAE", "B", "not base64"),
    ],
)
def test_a_key_that_its_type_cannot_hold_is_refused(text: str, kind: KeyType, why: str) -> None:
    """One value has one text: two spellings would be two keys to the relay and one partition to the table."""
    with pytest.raises(ValueError, match=why):
        key_value(text, kind)


numbers = st.builds(
    lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
    st.integers(0, 1),
    st.lists(st.integers(0, 9), min_size=1, max_size=38).map(tuple),
    st.integers(-60, 60),
)


@given(numbers)
@settings(deadline=None)
def test_a_number_has_one_text_and_the_text_names_it(number: Decimal) -> None:
    """However it is written: with zeros, with an exponent."""
    text = key_text({"N": str(number)})
    assert key_value(text, "N") == {"N": text}
    assert Decimal(text) == number
    assert text == key_text({"N": f"{number:f}"})


@given(st.binary(min_size=1), st.text(min_size=1))
@settings(deadline=None)
def test_bytes_and_text_have_one_text_each(content: bytes, text: str) -> None:
    """Bytes as the SDK has them and as Lambda's events have them."""
    named = key_text({"B": content})
    assert key_value(named, "B") == {"B": content}
    assert key_text({"B": named}) == named
    assert key_value(key_text({"S": text}), "S") == {"S": text}


@pytest.mark.parametrize("value", [{"M": {}}, {"SS": ["a"]}, {"S": 1}, {"N": "x"}, {"BOOL": True}])
def test_what_is_no_key_has_no_text(value: dict[str, Any]) -> None:
    """Keys are text, numbers and bytes."""
    with pytest.raises(ValueError, match=r"is no (key|number)"):
        key_text(value)


def test_keys_as_the_api_takes_them() -> None:
    """Names in the order of the schema, nothing else of the item, binary as bytes, at any depth."""
    item = {"x": {"S": "1"}, "sk": {"B": "AAE="}, "pk": {"N": "1"}}
    assert keys_of(item, Keys(pk_type="N", sk_type="B")) == {"pk": {"N": "1"}, "sk": {"B": b"\x00\x01"}}
    assert keys_of(item, Keys(sk=None, pk_type="N")) == {"pk": {"N": "1"}}
    assert native({"L": [{"M": {"a": {"BS": ["AAE=", b"x"]}}}]}) == {"L": [{"M": {"a": {"BS": [b"\x00\x01", b"x"]}}}]}


def test_guards_have_a_sort_key_where_the_table_has_one() -> None:
    """Always the same one."""
    assert guard_keys(Layout(), "IDEMP#1") == {"pk": {"S": "IDEMP#1"}, "sk": {"S": "GUARD"}}
    assert guard_keys(DEDICATED, "IDEMP#1") == {"pk": {"S": "IDEMP#1"}}


@pytest.mark.parametrize(
    ("layout", "item", "record"),
    [
        (Layout(), {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, True),
        (Layout(), {"pk": {"S": "OUTBOX#A"}, "sk": {"S": "META"}}, False),
        (Layout(own_partition=True), {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, True),
        (Layout(own_partition=True), {"pk": {"S": "OUTBOX#A"}, "sk": {"S": "META"}}, False),
        (DEDICATED, {"pk": {"S": "OUTBOX#1"}}, True),
        (DEDICATED, {"pk": {"S": "IDEMP#1"}}, False),
        (Layout(select={}), {"pk": {"S": "A"}, "sk": {"S": "1"}}, True),
        (Layout(select={}), {"pk": {"S": "IDEMP#1"}, "sk": {"S": "GUARD"}, "ob_v": {"N": "1"}}, False),
        (Layout(select={}), {"pk": {"S": "INBOX#1"}, "sk": {"S": "GUARD"}, "ob_v": {"N": "1"}}, False),
        (Layout(select={}), {"pk": {"S": "CMD#1"}, "sk": {"S": "GUARD"}, "ob_guard": {"M": {}}}, False),
        (Layout(), {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "ob_guard": {"M": {}}}, False),
        (Layout(select={}), {"pk": {"S": "INBOX#7"}, "sk": {"S": "1"}}, True),
        (Layout(select={}, sk_type="N"), {"pk": {"S": "A"}, "sk": {"N": "1"}}, True),
        (Layout(select={"kind": "EVENT"}), {"pk": {"S": "A"}, "sk": {"S": "1"}, "kind": {"S": "EVENT"}}, True),
        (Layout(select={"kind": "EVENT"}), {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, False),
        (Layout(select={"kind": "EVENT"}), {"pk": {"S": "A"}, "sk": {"S": "1"}, "kind": {"S": "EVENTS"}}, False),
        (Layout(select={"pk": {"prefix": "EV#"}}), {"pk": {"S": "EV#1"}, "sk": {"S": "1"}}, True),
        (Layout(select={"pk": {"prefix": "EV#"}}), {"pk": {"S": "E#1"}, "sk": {"S": "1"}}, False),
        (Layout(select={"kind": {"prefix": "E"}}), {"pk": {"S": "A"}, "sk": {"S": "1"}, "kind": {"N": "1"}}, False),
        (Layout(select={"a": "1", "b": "2"}), {"pk": {"S": "A"}, "sk": {"S": "1"}, "a": {"S": "1"}}, False),
    ],
)
def test_what_is_a_record(layout: Layout, item: dict[str, Any], record: bool) -> None:
    """By the key that carries the prefix, else by `select`; a guard never is. The mapping's filter says no less."""
    assert is_record(item, layout) is record
    if record:
        assert compile_filters(stream_filter(layout)).match(stream_record(item, layout))


texts = st.sampled_from(("OUTBOX#1", "E1", "IDEMP#1", "INBOX#1", "RECORD", "A", "GUARD"))


@given(layouts(), texts, texts, texts, st.booleans())
@settings(deadline=None)
def test_the_filter_lets_through_what_is_a_record_and_guards(
    layout: Layout, pk: str, sk: str, entity: str, ours: bool
) -> None:
    """A record that the filter left out would be lost; it may pass what the relay passes over."""
    item: dict[str, Any] = {layout.pk: key_value(a_key(layout), layout.pk_type)}
    if layout.pk_type == "S":
        item[layout.pk] = {"S": pk}
    if layout.sk is not None:
        item[layout.sk] = {"S": sk}
    item |= {"entity": {"S": entity}, **({"ob_v": {"N": "1"}} if ours else {})}
    passes = compile_filters(stream_filter(layout)).match(stream_record(item, layout))
    guard = ours and pk.startswith((layout.guard_prefix, layout.inbox_prefix)) and layout.pk_type == "S"
    if is_record(item, layout):
        assert passes
    elif passes:
        assert guard
    assert not compile_filters(stream_filter(layout)).match(stream_record(item, layout) | {"eventName": "MODIFY"})


@pytest.mark.parametrize(
    ("layout", "keys", "prefix"),
    [
        (Layout(), {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}}, "OUTBOX#"),
        (Layout(), {"pk": {"S": "OUTBOX#A"}, "sk": {"S": "META"}}, None),
        (Layout(own_partition=True), {"pk": {"S": "OUTBOX#A"}, "sk": {"S": "META"}}, "OUTBOX#"),
        (Layout(), {"pk": {"S": "IDEMP#A"}, "sk": {"S": "META"}}, "IDEMP#"),
        (Layout(), {"pk": {"S": "INBOX#A"}, "sk": {"S": "META"}}, "INBOX#"),
        (DEDICATED, {"pk": {"S": "OUTBOX#A"}}, "OUTBOX#"),
        (Layout(pk_type="N"), {"pk": {"N": "1"}, "sk": {"S": "META"}}, None),
    ],
)
def test_keys_that_are_the_librarys(layout: Layout, keys: dict[str, Any], prefix: str | None) -> None:
    """An item of the user's under such keys would be taken for a record or a guard."""
    assert reserved_prefix(keys, layout) == prefix


def test_the_partition_of_a_key() -> None:
    """The key itself, or the prefix and the key."""
    assert partition_of(Layout(), "A") == {"S": "A"}
    assert partition_of(Layout(own_partition=True), "A") == {"S": "OUTBOX#A"}
    assert partition_of(Layout(pk_type="N"), "7") == {"N": "7"}


@given(layouts())
@settings(deadline=None)
def test_a_partition_tells_its_key_again(layout: Layout) -> None:
    """Where there is a sort key; in tables without one the id is there."""
    if layout.sk is not None:
        assert key_of_partition(layout, partition_of(layout, a_key(layout))) == a_key(layout)


def test_a_partition_of_another_writers_counts_as_its_key() -> None:
    """A row without the prefix, or with nothing after it, has a key all the same."""
    layout = Layout(own_partition=True)
    assert key_of_partition(layout, {"S": "A"}) == "A"
    assert key_of_partition(layout, {"S": "OUTBOX#"}) == "OUTBOX#"
    assert key_of_partition(Layout(), {"S": "OUTBOX#A"}) == "OUTBOX#A"


@pytest.mark.parametrize(
    ("layout", "most"),
    [
        (Layout(), 2048),
        (Layout(own_partition=True, prefix="\u00c9#"), 2045),
        (Layout(own_partition=True, sk=None), 2048),
        (DEDICATED, 2048),
        (Layout(pk_type="B"), 2732),
        (Layout(pk_type="N"), 2048),
    ],
)
def test_a_key_has_the_room_that_its_partition_leaves(layout: Layout, most: int) -> None:
    """The prefix takes of it, base64 is longer than what it stands for, and a table without a sort key holds the id."""
    assert key_bytes(layout) == most


def test_guards_and_inbox_records_have_partitions_of_their_own() -> None:
    """Under the layout's prefixes."""
    layout = Layout(guard_prefix="G/", inbox_prefix="I/")
    assert guard_partition(layout, "ab12") == "G/ab12"
    assert inbox_partition(layout, "invoices", "shop#1%", "a#b") == "I/invoices#shop%231%25#a#b"


names = st.text("a#%2", min_size=1)


@given(st.lists(st.tuples(names, names), unique=True, max_size=9))
def test_no_two_events_share_an_inbox_record(events: list[tuple[str, str]]) -> None:
    """Whatever characters stand in their sources and ids."""
    assert len({inbox_partition(Layout(), "c", *event) for event in events}) == len(events)
    assert all("#" not in quoted(source) for source, _ in events)
