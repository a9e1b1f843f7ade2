"""What an outbox says of layouts, keys and maps that cannot work, to the letter: what is wrong, and the way out."""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from write_world import new_id, some_event

from dynamodb_outbox.core.codec.compression import check_encoding
from dynamodb_outbox.core.codec.maps import MapFault, from_map, to_map
from dynamodb_outbox.core.codec.values import serialize
from dynamodb_outbox.core.commit.actions import put
from dynamodb_outbox.core.commit.conditions import Requirement, unmet
from dynamodb_outbox.core.commit.events import settled
from dynamodb_outbox.core.commit.keying import checked_key
from dynamodb_outbox.core.commit.targets import Tables, target_of
from dynamodb_outbox.core.commit.writable import check_guardable, check_writable
from dynamodb_outbox.core.limits import DECODED_BYTES
from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.errors import (
    ConfigurationError,
    InvalidAction,
    InvalidEvent,
    InvalidValue,
    ItemTooLarge,
    LimitExceeded,
    ReservedName,
    UnconditionalPut,
)
from dynamodb_outbox.keys import Keys
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = Layout(placement="table")
NUMBERS = Layout(pk_type="N")
TABLES = Tables("shop", "shop", Layout(), {"carts": Keys("id", None, pk_type="N")})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: check_writable(Layout(sk_type="N", select={"kind": "event"}), None),
            (
                "Outbox: 'sk' is of type N and cannot carry 'OUTBOX#' and a record's id. A relay may read such a table "
                "by Layout(select=...); what an Outbox writes needs a table of its own, whose keys are text: "
                "Layout(placement='table') and Outbox(table, outbox_table=...)."
            ),
        ),
        (
            lambda: check_writable(Layout(payload_format="map"), "gzip"),
            (
                "Outbox: compression='gzip' stores payloads as bytes, and Layout(payload_format='map') as maps. Leave "
                "one of them out."
            ),
        ),
        (
            lambda: check_writable(Layout(select={"kind": {"prefix": "ev"}}), None),
            (
                "Outbox: by Layout(select={'kind': {'prefix': 'ev'}}) this outbox's own records would not be taken for "
                "records, or not all of them, and never be published: 'kind' is in the way. Attributes that have to be "
                "equal to a text are added to its records, where they have none of that name themselves; a beginning "
                "is met by the key alone that begins with prefix= (with own_partition=True the partition key does), "
                "and by 'state', which is 'pending' in all of them."
            ),
        ),
        (
            lambda: check_guardable(NUMBERS, "idempotency_key="),
            (
                "idempotency_key= keeps an item under a key that is text, and Layout(pk_type='N') has no room for one. "
                "Keep records and guards in a table of their own, whose keys are text: Layout(placement='table') and "
                "outbox_table=."
            ),
        ),
    ],
    ids=["carrier", "compression", "select", "guard"],
)
def test_a_layout_that_cannot_work_is_told_with_the_way_out(call: Callable[[], object], text: str) -> None:
    """When the outbox is made, or when a command asks for a guard."""
    with pytest.raises(ConfigurationError) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("layout", "missed"),
    [
        (Layout(select={"pk": {"prefix": "OUT"}}), "'pk'"),
        (Layout(own_partition=True, select={"kind": {"prefix": "OUT"}}), "'kind'"),
        (Layout(select={"sk": {"prefix": "OUTBOX#1"}}), "'sk'"),
        (Layout(select={"state": {"prefix": "pendings"}}), "'state'"),
        (Layout(select={"kind": {"prefix": "OUT"}, "sk": {"prefix": "OUT"}, "pk": {"prefix": "A"}}), "'kind' and 'pk'"),
    ],
    ids=["partition", "another attribute", "more than the prefix", "state", "two"],
)
def test_what_select_asks_for_must_hold_of_every_record(layout: Layout, missed: str) -> None:
    """Of a beginning that is not in each of them the outbox says which it is, and writes nothing by it."""
    with pytest.raises(ConfigurationError, match=f"never be published: {missed} is in the way"):
        check_writable(layout, None)


@pytest.mark.parametrize(
    "layout",
    [
        Layout(select={"sk": {"prefix": "OUTBOX#"}, "kind": "event"}),
        Layout(own_partition=True, select={"pk": {"prefix": "OUT"}}),
        Layout(select={"state": {"prefix": "pend"}}),
    ],
)
def test_a_beginning_that_every_record_has_is_let_be(layout: Layout) -> None:
    """Of the key that carries the prefix, and of the state."""
    check_writable(layout, None)


@pytest.mark.parametrize("layout", [Layout(), TABLE, NUMBERS, Layout(pk_type="B"), Layout(select={"kind": "event"})])
def test_a_layout_that_works_is_let_be(layout: Layout) -> None:
    """Each that carries a record's id in text, whatever the partition is made of."""
    check_writable(layout, "gzip")


@pytest.mark.parametrize(
    ("table", "key", "action", "reason"),
    [
        (
            "shop",
            5,
            "delete shop",
            "a dict with 'pk' and 'sk' is needed, not 5.",
        ),
        (
            "shop",
            {"pk": "A", "sk": "B", "x": 1, "a": 2},
            "delete shop {'pk': 'A', 'sk': 'B'}",
            "the key has a, x too; only 'pk' and 'sk' belong there.",
        ),
        (
            "carts",
            {"id": 1, "x": 1},
            "delete carts {'id': 1}",
            "the key has x too; only 'id' belongs there.",
        ),
        (
            "carts",
            {"id": 1, 7: 1},
            "delete carts {'id': 1}",
            "the key has 7 too; only 'id' belongs there.",
        ),
        (
            "other",
            {"id": 1},
            "delete other {}",
            (
                "the key attribute 'pk' is missing; text that is not empty is needed. A table with other keys than the "
                "layout's is named: tables={'other': Keys(...)}."
            ),
        ),
        (
            "carts",
            {"id": "1"},
            "delete carts {'id': '1'}",
            "the key attribute 'id' is '1'; a number (int or Decimal) is needed.",
        ),
    ],
    ids=["no dict", "more", "more than one", "no name", "another table", "another type"],
)
def test_a_key_that_does_not_fit_its_table_is_told(table: str, key: Any, action: str, reason: str) -> None:
    """By the action, with what belongs there."""
    with pytest.raises(InvalidAction) as caught:
        target_of("delete", table, key, TABLES, exactly=True)
    assert (caught.value.action, caught.value.reason) == (action, reason)


TEXT = "text that is not empty is needed."
NUMBER = "a number (int or Decimal) is needed."
OWN_TABLE = "Layout(placement='table') and outbox_table=, and the table in tables=."


@pytest.mark.parametrize(
    ("layout", "key", "reason"),
    [
        (Layout(), {"pk": 5}, f"'pk' is 5; {TEXT} For a table whose partition key is a number: Layout(pk_type='N')."),
        (
            Layout(),
            {"pk": b"5"},
            f"'pk' is b'5'; {TEXT} For a table whose partition key is bytes: Layout(pk_type='B').",
        ),
        (Layout(), {"pk": "A", "sk": 5}, f"'sk' is 5; {TEXT} For a table where it is a number: {OWN_TABLE}"),
        (Layout(), {"pk": "A", "sk": b"5"}, f"'sk' is b'5'; {TEXT} For a table where it is bytes: {OWN_TABLE}"),
        (
            Layout(sk=None, own_partition=True),
            {"pk": 5},
            f"'pk' is 5; {TEXT} For a table where it is a number: {OWN_TABLE}",
        ),
        (Layout(), {"pk": True}, f"'pk' is True; {TEXT}"),
        (Layout(), {"pk": ""}, f"'pk' is ''; {TEXT}"),
        (Layout(), {"pk": "A"}, f"'sk' is missing; {TEXT} For a table with other keys: Layout(pk=..., sk=...)."),
        (NUMBERS, {"pk": b"5"}, f"'pk' is b'5'; {NUMBER}"),
        (TABLE, {"pk": 5}, f"'pk' is 5; {TEXT}"),
        (Layout(), {"pk": {"S": "A"}}, f"'pk' is {{'S': 'A'}}; {TEXT} Give Python values, not DynamoDB's wire form."),
        (Layout(), {"pk": {"S": "A", "N": "5"}}, f"'pk' is {{'S': 'A', 'N': '5'}}; {TEXT}"),
    ],
)
def test_a_key_of_another_type_is_told_with_the_layout_that_has_it(layout: Layout, key: Any, reason: str) -> None:
    """Where there is one; of what can be no key nothing more is said."""
    with pytest.raises(InvalidAction) as caught:
        target_of("delete", "shop", key, Tables("shop", "shop", layout))
    assert caught.value.reason == f"the key attribute {reason}"


@pytest.mark.parametrize("value", [object(), None, True, b"1"])
def test_a_key_of_any_other_type_is_the_actions_fault(value: object) -> None:
    """Also of one that could not be stored at all."""
    with pytest.raises(InvalidAction, match=r"the key attribute 'id' is .+; a number \(int or Decimal\) is needed"):
        target_of("delete", "carts", {"id": value}, TABLES)


def test_a_key_of_the_librarys_own_is_told_by_the_action() -> None:
    """With the prefix that is taken."""
    with pytest.raises(ReservedName) as caught:
        target_of("delete", "shop", {"pk": "A", "sk": "OUTBOX#1"}, TABLES)
    assert "delete shop {'pk': 'A', 'sk': 'OUTBOX#1'}" in str(caught.value)
    assert "'OUTBOX#'" in str(caught.value)


def test_an_action_without_a_table_is_told_which_to_name() -> None:
    """Where records have a table of their own there is no default."""
    with pytest.raises(InvalidAction) as caught:
        target_of("put", None, {}, Tables("outbox", None, TABLE))
    assert (caught.value.action, caught.value.reason) == (
        "put",
        (
            "table= is needed: 'outbox' holds the records, and Layout(placement='table') keeps other items out of "
            "there. Name the table, or give both: Outbox(table, outbox_table=...)."
        ),
    )


def test_a_key_that_is_too_long_is_told_shortened() -> None:
    """By bytes of UTF-8; the action's name is cut, for it holds the key."""
    target_of("put", "shop", {"pk": "é" * 1024, "sk": "x" * 1024}, TABLES)
    with pytest.raises(LimitExceeded) as caught:
        target_of("put", "shop", {"pk": "A", "sk": "x" * 1025}, TABLES)
    assert str(caught.value) == (
        f"{('put shop ' + repr({'pk': 'A', 'sk': 'x' * 1025}))[:200]}: sk: 1,025 bytes, 1 over the limit of 1,024. "
        "Shorten the key."
    )


@pytest.mark.parametrize(
    ("key", "layout", "said"),
    [
        ("x" * 2_049, Layout(), "has 2,049 bytes of UTF-8; 2,048 are the most."),
        ("x" * 2_042, Layout(own_partition=True), "has 2,042 bytes of UTF-8; 2,041 are the most."),
        ("INBOX#1", Layout(), "starts with 'INBOX#', which belongs to the library's own items."),
        (
            "x",
            NUMBERS,
            (
                "is 'x': it is no number. Records live in partitions of numbers (pk_type='N'): give the number's "
                "plain digits, as '42', or keep records in a table of their own, where keys are text: "
                "Layout(placement='table')."
            ),
        ),
        (
            "1.0",
            NUMBERS,
            (
                "is '1.0': the number is written '1' in plain digits. Records live in partitions of numbers "
                "(pk_type='N'): give the number's plain digits, as '42', or keep records in a table of their own, "
                "where keys are text: Layout(placement='table')."
            ),
        ),
        (
            "%",
            Layout(pk_type="B"),
            (
                "is '%': it is not base64. Records live in partitions of bytes (pk_type='B'): give the base64 of those "
                "bytes, or keep records in a table of their own, where keys are text: Layout(placement='table')."
            ),
        ),
        (
            "QQ=",
            Layout(pk_type="B"),
            (
                "is 'QQ=': it is not base64. Records live in partitions of bytes (pk_type='B'): give the base64 of "
                "those bytes, or keep records in a table of their own, where keys are text: Layout(placement='table')."
            ),
        ),
        (
            "QR==",
            Layout(pk_type="B"),
            (
                "is 'QR==': it is not the base64 of any bytes. Records live in partitions of bytes (pk_type='B'): give "
                "the base64 of those bytes, or keep records in a table of their own, where keys are text: "
                "Layout(placement='table')."
            ),
        ),
    ],
    ids=["long", "long in its own partition", "prefix", "no number", "another form", "no base64", "short", "no bytes"],
)
def test_a_key_that_cannot_be_stored_is_told(key: str, layout: Layout, said: str) -> None:
    """In the words that follow the name of the argument."""
    with pytest.raises(ConfigurationError) as caught:
        checked_key(key, layout, ConfigurationError)
    assert str(caught.value) == said


def test_a_partition_that_cannot_be_a_key_is_told_as_one() -> None:
    """The event had none of its own, and what is written gives one that does not fit."""
    tables = Tables("shop", None, Layout(own_partition=True))
    key = {"pk": "x" * 2_048, "sk": "a"}
    action = put(target_of("put", "shop", key, tables), key, Requirement(if_absent=True), tables.layout)
    with pytest.raises(InvalidEvent) as caught:
        settled([some_event()], [action], tables)
    assert (caught.value.field, caught.value.reason) == (
        "key",
        (
            "would be the partition that is written, which has 2,048 bytes of UTF-8; 2,041 are the most. Pass "
            "emit(..., key=...)."
        ),
    )


def test_nothing_is_said_of_a_requirement_that_the_item_met() -> None:
    """Whatever stopped the action then was not what is known of it."""
    assert unmet(Requirement(if_exists=True), None, {"pk": {"S": "A"}}) == ""


def test_a_compression_that_is_none_is_told() -> None:
    """With those that there are."""
    with pytest.raises(ConfigurationError) as caught:
        check_encoding("zip")
    assert str(caught.value) == "compression is 'zip'; one of 'gzip', 'zstd' or None is needed."


def test_a_put_without_a_condition_is_told_by_its_name() -> None:
    """As any other mistake in an action."""
    target = target_of("put", "carts", {"id": 1}, TABLES)
    with pytest.raises(UnconditionalPut) as caught:
        put(target, {"id": 1}, Requirement(), Layout())
    assert caught.value.action == "put carts {'id': 1}"


# --- maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "path", "reason"),
    [
        ("[" * 5_000 + "]" * 5_000, "data", "nested more than 32 levels deep, which a map cannot be."),
        ('{"a":[1,1E+30]}', "data.a[1]", "1E+30 is a whole number outside int64, which buses refuse; use text."),
    ],
    ids=["deep", "wide"],
)
def test_data_that_no_map_holds_is_told(payload: str, path: str, reason: str) -> None:
    """By its place."""
    with pytest.raises(InvalidValue) as caught:
        to_map(payload)
    assert (caught.value.path, caught.value.reason) == (path, reason)


def test_data_that_is_no_object_is_told() -> None:
    """Of an event's data, with what to do."""
    with pytest.raises(InvalidEvent) as caught:
        to_map("[1]")
    assert (caught.value.field, caught.value.reason) == (
        "data",
        "is no object, and the layout stores payloads as maps (payload_format='map'): emit a dict, or store JSON text.",
    )


DEEPEST: dict[str, Any] = {"S": "x"}
NESTED = functools.reduce(lambda inner, _: {"M": {"a": inner}}, range(32), DEEPEST)


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"S": "x"}, "payload", "is no map"),
        ({"M": {"a": {"L": [{"N": "NaN"}]}}}, "payload.a[0]", "is no number"),
        ({"M": {"a": {"N": "x"}}}, "payload.a", "is no number"),
        ({"M": {"a": {"B": b""}}}, "payload.a", "is binary, for which JSON has no form"),
        ({"M": {"a": {"NS": ["1"]}}}, "payload.a", "is a set, for which JSON has no form"),
        ({"M": {"a": {"X": 1}}}, "payload.a", "is no value of DynamoDB, for which JSON has no form"),
        (NESTED, "payload" + ".a" * 32, "is nested more than 32 levels deep"),
        ({"M": {"a": {}}}, "payload.a", "is no value of DynamoDB, for which JSON has no form"),
    ],
)
def test_a_map_that_has_no_form_in_json_is_told(value: dict[str, Any], path: str, reason: str) -> None:
    """By the place in it."""
    with pytest.raises(MapFault) as caught:
        from_map(value)
    assert (caught.value.path, caught.value.reason) == (path, reason)
    assert str(caught.value) == f"{path} {reason}"


# --- small parts ------------------------------------------------------------------------------------------------------


def test_a_decimal_of_38_places_is_written_as_it_is() -> None:
    """Zeros within the digits that DynamoDB keeps need no exponent."""
    assert serialize(Decimal(10**37)) == {"N": "1" + "0" * 37}
    assert serialize(Decimal(10**38)) == {"N": "1E+38"}


def test_parking_leaves_the_time_of_a_record_that_has_one_alone() -> None:
    """It is in the index by it."""
    image = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "ob_v": {"N": "1"}, "at": {"N": "1000"}, "id": {"S": "1"}}
    request = moves.park_there("shop", image, Layout(), Parking("c", "r", 5_000))
    names = request["ExpressionAttributeNames"]
    changed = {names[one] for one in re.findall(r"#\w+", request["UpdateExpression"])}
    assert "parked_at" in changed
    assert not {"at", "id"} & changed


def test_a_record_is_compressed_from_256_bytes_on() -> None:
    """Less is stored as it is; more than a reader unpacks is told with what does not help."""
    draft = functools.partial(RecordDraft, new_id(0), "K", index=0, count=1)
    for size, compressed in ((255, False), (256, True)):
        event = some_event(key="K", payload='"' + "x" * (size - 2) + '"')
        assert ("enc" in encode_record(draft(events=(event,)), Origin("t", 0, None), Layout(), "gzip")) is compressed
    event = some_event(key="K", payload='"' + "x" * (DECODED_BYTES - 1) + '"')
    with pytest.raises(ItemTooLarge) as caught:
        encode_record(draft(events=(event,)), Origin("t", 0, None), Layout(), "gzip")
    assert str(caught.value) == (
        f"payload of an outbox record: {DECODED_BYTES + 1:,} bytes before compression, 1 over the limit of "
        f"{DECODED_BYTES:,}. Emit less in one transaction: compression saves storage and raises no limit."
    )
