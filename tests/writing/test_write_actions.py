"""Actions and their conditions as DynamoDB is asked for them."""

from __future__ import annotations

import functools
import operator
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from write_world import TABLES

from dynamodb_outbox.adapters.conditions import attr_expression
from dynamodb_outbox.core.commit.actions import check, delete, put, update
from dynamodb_outbox.core.commit.conditions import Requirement, whole_version
from dynamodb_outbox.core.commit.expressions import (
    Expression,
    all_of,
    check_placeholders,
    part,
    placeholders_of,
)
from dynamodb_outbox.core.commit.targets import target_of
from dynamodb_outbox.core.commit.updates import Changes, update_of, with_version
from dynamodb_outbox.errors import (
    InvalidAction,
    InvalidValue,
    ItemTooLarge,
    LimitExceeded,
    ReservedName,
    UnconditionalPut,
)
from dynamodb_outbox.layout import Layout

LAYOUT = Layout()
VERSIONED = Layout(version="version")
ITEM = {"pk": "ORDER#1", "sk": "META", "n": 1}
KEY = {"pk": "ORDER#1", "sk": "META"}
TARGET = target_of("put", "shop", ITEM, TABLES)


def changes(**given: Any) -> Expression | None:
    """Return an update expression of the arguments of `update`."""
    return update_of(Changes(**given), ("pk", "sk", None), "update")


# --- where an action goes ---------------------------------------------------------------------------------------------


def test_a_target_is_named_by_verb_table_and_key() -> None:
    """Errors name an action by its verb, table and key."""
    assert TARGET.label == "put shop {'pk': 'ORDER#1', 'sk': 'META'}"
    assert (TARGET.table, TARGET.pk, TARGET.sk) == ("shop", "ORDER#1", "META")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ({"sk": "a"}, "'pk' is missing"),
        ({"pk": "a"}, "'sk' is missing"),
        ({"pk": 1, "sk": "a"}, "'pk' is 1"),
        ({"pk": "a", "sk": ""}, "'sk' is ''"),
        ({"pk": b"a", "sk": "a"}, "'pk' is b'a'"),
        ("ORDER#1", "a dict"),
    ],
)
def test_key_attributes_must_be_there_and_text(key: Any, said: str) -> None:
    """A key attribute that is missing, empty or no text is refused by name."""
    with pytest.raises(InvalidAction) as caught:
        target_of("put", "shop", key, TABLES)
    assert said in caught.value.reason


def test_a_key_has_nothing_else_in_it() -> None:
    """Where a key is asked for, a whole item is a mistake."""
    with pytest.raises(InvalidAction, match="n too"):
        target_of("delete", "shop", ITEM, TABLES, exactly=True)


@pytest.mark.parametrize(
    ("key", "prefix"), [({"pk": "a", "sk": "OUTBOX#1"}, "OUTBOX#"), ({"pk": "IDEMP#1", "sk": "a"}, "IDEMP#")]
)
def test_the_librarys_own_keys_are_refused(key: dict[str, str], prefix: str) -> None:
    """Nobody writes records and guards by hand."""
    with pytest.raises(ReservedName) as caught:
        target_of("put", "shop", key, TABLES)
    assert caught.value.prefix == prefix


def test_keys_have_a_longest_length_in_bytes() -> None:
    """A partition key takes 2048 bytes of UTF-8, a sort key 1024."""
    target_of("put", "shop", {"pk": "é" * 1024, "sk": "é" * 512}, TABLES)
    for key in ({"pk": "é" * 1025, "sk": "a"}, {"pk": "a", "sk": "é" * 513}):
        with pytest.raises(LimitExceeded):
            target_of("put", "shop", key, TABLES)


def test_a_key_without_a_form_in_utf_8_is_refused() -> None:
    """A lone surrogate in a key is found before anything is sent."""
    with pytest.raises(InvalidValue, match="pk"):
        target_of("put", "shop", {"pk": "\ud800", "sk": "a"}, TABLES)


# --- conditions -------------------------------------------------------------------------------------------------------


def test_a_put_says_what_must_hold() -> None:
    """A put without a condition is refused, unless it says that it overwrites."""
    with pytest.raises(UnconditionalPut):
        put(TARGET, ITEM, Requirement(), LAYOUT)
    action = put(TARGET, ITEM, Requirement(), LAYOUT, overwrite=True)
    assert action.body == {"TableName": "shop", "Item": {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}, "n": {"N": "1"}}}


@pytest.mark.parametrize("requirement", [Requirement(if_absent=True), Requirement(condition=Expression("a = b"))])
def test_overwriting_and_a_condition_contradict_each_other(requirement: Requirement) -> None:
    """Overwrite=True beside a condition is a mistake in one of them."""
    with pytest.raises(InvalidAction, match="overwrite"):
        put(TARGET, ITEM, requirement, LAYOUT, overwrite=True)


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (Requirement(if_absent=True), "attribute_not_exists(#ob_pk)"),
        (Requirement(if_exists=True), "attribute_exists(#ob_pk)"),
        (Requirement(if_version=3), "#ob_version = :ob_version"),
        (Requirement(if_exists=True, if_version=3), "attribute_exists(#ob_pk) AND #ob_version = :ob_version"),
        (Requirement(condition=Expression("a = b OR c = d")), "a = b OR c = d"),
        (
            Requirement(if_exists=True, condition=Expression("a = b OR c = d")),
            "attribute_exists(#ob_pk) AND (a = b OR c = d)",
        ),
        (Requirement(if_exists=True, condition=Expression(" (a = b) ")), "attribute_exists(#ob_pk) AND (a = b)"),
        (
            Requirement(if_exists=True, condition=Expression("(a = b) OR (c = d)")),
            "attribute_exists(#ob_pk) AND ((a = b) OR (c = d))",
        ),
        (Requirement(if_exists=True, condition=Expression("(a = b")), "attribute_exists(#ob_pk) AND ((a = b)"),
    ],
)
def test_conditions_combine_with_and(requirement: Requirement, text: str) -> None:
    """All that is required must hold; a caller's text keeps its meaning and gets no second pair of parentheses."""
    body = check(TARGET, requirement, VERSIONED).body
    assert body["ConditionExpression"] == text
    assert body["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    if "#ob_pk" in text:
        assert body["ExpressionAttributeNames"]["#ob_pk"] == "pk"
    if ":ob_version" in text:
        assert body["ExpressionAttributeNames"]["#ob_version"] == "version"
        assert body["ExpressionAttributeValues"][":ob_version"] == {"N": "3"}


@pytest.mark.parametrize(
    ("requirement", "layout", "said"),
    [
        (Requirement(if_absent=True, if_exists=True), LAYOUT, "both"),
        (Requirement(if_absent=True, if_version=1), VERSIONED, "both"),
        (Requirement(if_version=1), LAYOUT, "Layout(version"),
    ],
)
def test_contradictions_are_refused(requirement: Requirement, layout: Layout, said: str) -> None:
    """Conditions that cannot hold together, or need a version that is not configured, are refused."""
    with pytest.raises(InvalidAction) as caught:
        put(TARGET, ITEM, requirement, layout)
    assert said in caught.value.reason


@pytest.mark.parametrize(("given", "read"), [(None, None), (0, 0), (7, 7), (Decimal(7), 7)])
def test_versions_as_boto3_reads_them(given: object, read: int | None) -> None:
    """A version read by boto3 is a Decimal, and good."""
    assert whole_version(given, "put") == read


@pytest.mark.parametrize("given", [-1, True, "1", 1.0, Decimal("1.5"), Decimal("NaN"), Decimal("1E+99"), 10**38])
def test_what_is_no_version(given: object) -> None:
    """Anything but a whole number from 0 is refused."""
    with pytest.raises(InvalidAction, match="if_version"):
        whole_version(given, "put")


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_put_counts_versions() -> None:
    """if_absent starts at 1, if_version=n writes n+1, also over the n that the item was read with."""
    fresh = put(TARGET, ITEM, Requirement(if_absent=True), VERSIONED)
    assert (fresh.version, fresh.body["Item"]["version"]) == (1, {"N": "1"})
    item = {**ITEM, "version": Decimal(4)}
    later = put(TARGET, item, Requirement(if_version=4), VERSIONED)
    assert (later.version, later.body["Item"]["version"]) == (5, {"N": "5"})


@pytest.mark.parametrize(
    ("version", "requirement"),
    [(5, Requirement(if_absent=True)), (3, Requirement(if_version=4)), ("x", Requirement(if_version=4))],
)
def test_a_version_in_the_item_is_not_replaced_in_silence(version: object, requirement: Requirement) -> None:
    """An item with a version that is neither the one read nor the one to write was not read as the caller thinks."""
    with pytest.raises(InvalidAction, match="version"):
        put(TARGET, {**ITEM, "version": version}, requirement, VERSIONED)


def test_without_a_version_condition_the_item_is_stored_as_it_is() -> None:
    """A put under another condition counts nothing."""
    action = put(TARGET, {**ITEM, "version": 9}, Requirement(if_exists=True), VERSIONED)
    assert (action.version, action.body["Item"]["version"]) == (None, {"N": "9"})


def test_an_update_counts_versions() -> None:
    """The version's clause joins the update; alone it is an update too."""
    action = update(TARGET, changes(set={"a": 1}), Requirement(if_version=4), VERSIONED)
    assert action.version == 5
    assert action.body["UpdateExpression"] == "SET #ob_version = :ob_next, #ob_n0 = :ob_v0"
    assert action.body["ExpressionAttributeValues"] == {
        ":ob_v0": {"N": "1"},
        ":ob_next": {"N": "5"},
        ":ob_version": {"N": "4"},
    }
    alone = update(TARGET, None, Requirement(if_absent=True), VERSIONED)
    assert alone.body["UpdateExpression"] == "SET #ob_version = :ob_next"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET #SET = :set", "SET #ob_version = :ob_next, #SET = :set"),
        ("set a = b", "set #ob_version = :ob_next, a = b"),
        ("REMOVE a SET b = c", "REMOVE a SET #ob_version = :ob_next, b = c"),
        ("REMOVE #SET", "REMOVE #SET SET #ob_version = :ob_next"),
        ("ADD offset :SET", "ADD offset :SET SET #ob_version = :ob_next"),
    ],
)
def test_the_version_joins_a_callers_own_text(text: str, expected: str) -> None:
    """The clause goes into the SET section if there is one, and SET in a placeholder or a longer name is none."""
    assert with_version(Expression(text), "version", 2).text == expected


# --- updates ----------------------------------------------------------------------------------------------------------


def test_every_section_of_an_update() -> None:
    """All four sections, literal names, paths, and one placeholder for one name."""
    built = changes(
        set={"a.b": 1, ("m", "x"): {"y": 1}, ("lines", 0, "price"): 5},
        remove=("old", ("m", "z")),
        add={"n": 1, "tags": {"t"}},
        delete={"gone": {"u"}},
    )
    assert built is not None
    assert built.text == (
        "SET #ob_n0 = :ob_v0, #ob_n1.#ob_n2 = :ob_v1, #ob_n3[0].#ob_n4 = :ob_v2 "
        "REMOVE #ob_n5, #ob_n1.#ob_n6 ADD #ob_n7 :ob_v3, #ob_n8 :ob_v4 DELETE #ob_n9 :ob_v5"
    )
    assert built.names["#ob_n0"] == "a.b"
    assert built.names["#ob_n1"] == "m"
    assert built.values[":ob_v4"] == {"SS": ["t"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"set": {"a": 1}, "remove": ("a",)}, "overlaps"),
        ({"set": {"a": 1, ("a", "b"): 2}}, "overlaps"),
        ({"set": {"": 1}}, "names and list positions"),
        ({"set": {"\ud800": 1}}, "names and list positions"),
        ({"set": {(): 1}}, "starts with"),
        ({"set": {(0, "a"): 1}}, "starts with"),
        ({"set": {("a", -1): 1}}, "names and list positions"),
        ({"set": {("a", 2**63): 1}}, "names and list positions"),
        ({"set": {("a", True): 1}}, "names and list positions"),
        ({"set": {("a", 1.5): 1}}, "names and list positions"),
        ({"set": {5: 1}}, "starts with"),
        ({"add": {"n": "text"}}, "add.n: a number or a set"),
        ({"delete": {"n": 1}}, "delete.n: a set"),
        ({"set": {"pk": "x"}}, "'pk' cannot be changed"),
        ({"remove": (("sk", "a"),)}, "'sk' cannot be changed"),
    ],
)
def test_updates_that_cannot_work(given: dict[str, Any], said: str) -> None:
    """Overlapping paths, malformed names, wrong types and key attributes are refused by name."""
    with pytest.raises(InvalidAction) as caught:
        changes(**given)
    assert said in caught.value.reason


def test_a_position_is_an_int64() -> None:
    """From 0 on; its largest one is written as it is."""
    built = changes(set={("a", 0): 1, ("b", 2**63 - 1): 2})
    assert built is not None
    assert built.text == f"SET #ob_n0[0] = :ob_v0, #ob_n1[{2**63 - 1}] = :ob_v1"


def test_a_value_in_an_update_is_found_by_its_path() -> None:
    """A value that cannot be stored is named with its section and path."""
    with pytest.raises(InvalidValue) as caught:
        changes(set={("lines", 0, "price"): {"net": 1.5}})
    assert caught.value.path == "set.lines[0].price.net"


def test_an_update_changes_something() -> None:
    """An update without any change is refused."""
    with pytest.raises(InvalidAction, match="changes nothing"):
        update(TARGET, None, Requirement(if_exists=True), LAYOUT)


# --- delete and check -------------------------------------------------------------------------------------------------


def test_a_delete_may_be_unconditional() -> None:
    """Deleting needs no condition, and takes some."""
    key = {"TableName": "shop", "Key": {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}}}
    assert delete(TARGET, Requirement(), LAYOUT).body == key
    assert "ConditionExpression" in delete(TARGET, Requirement(if_exists=True), LAYOUT).body
    with pytest.raises(InvalidAction, match="nothing to delete"):
        delete(TARGET, Requirement(if_absent=True), LAYOUT)


def test_a_check_needs_a_condition() -> None:
    """A check that requires nothing is refused; one that does writes nothing."""
    with pytest.raises(InvalidAction, match="checks nothing"):
        check(TARGET, Requirement(), LAYOUT)
    assert not check(TARGET, Requirement(if_exists=True), LAYOUT).writes


# --- placeholders and boto3's conditions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "values", "said"),
    [
        ({"status": "s"}, None, "looks like #"),
        ({"#a-b": "s"}, None, "looks like #"),
        ({1: "s"}, None, "looks like #"),
        (None, {"x": 1}, "looks like :"),
        ({"#ob_x": "s"}, None, "library's own"),
        (None, {":ob_x": 1}, "library's own"),
        ({"#a": ""}, None, "name of an attribute"),
        ({"#a": 1}, None, "name of an attribute"),
        ({"#a": "\ud800"}, None, "name of an attribute"),
        (["#a"], None, "names= is ['#a']; a dict"),
        (None, [(":a", 1)], "values= is"),
    ],
)
def test_malformed_placeholders(names: Any, values: Any, said: str) -> None:
    """Placeholders that DynamoDB or the library would trip over are refused."""
    with pytest.raises(InvalidAction) as caught:
        placeholders_of(names, values, "put")
    assert said in caught.value.reason


def test_placeholders_are_used_exactly() -> None:
    """A placeholder used and not given, or given and not used, is refused by name."""
    given = placeholders_of({"#a": "a"}, {":b": 1}, "put")
    check_placeholders(["#a = :b"], given, "put")
    with pytest.raises(InvalidAction, match=":c is used"):
        check_placeholders(["#a = :b", "x = :c"], given, "put")
    with pytest.raises(InvalidAction, match=":b is given"):
        check_placeholders(["#a = x"], given, "put")


def test_a_part_takes_the_placeholders_it_uses() -> None:
    """Two texts share what was given, each with its own."""
    given = placeholders_of({"#a": "a", "#b": "b"}, {":x": 1, ":y": 2}, "put")
    assert part("#a = :x", given, "condition", "put") == Expression("#a = :x", {"#a": "a"}, {":x": {"N": "1"}})


def test_nothing_required_is_no_condition() -> None:
    """Without parts there is no condition."""
    assert all_of([], None) is None


def test_boto3_conditions_are_built_by_boto3() -> None:
    """Every form of condition that boto3 has, under placeholders that collide with nobody's."""
    condition = (Attr("status").eq("OPEN") | Attr("m.x[0]").is_in([1, 2])) & ~Attr("n").between(Decimal("1.5"), 2)
    built = attr_expression(condition, "put")
    assert built.text == (
        "((#ob_c0 = :ob_c0 OR #ob_c1.#ob_c2[0] IN (:ob_c1, :ob_c2)) AND (NOT #ob_c3 BETWEEN :ob_c3 AND :ob_c4))"
    )
    assert built.names == {"#ob_c0": "status", "#ob_c1": "m", "#ob_c2": "x", "#ob_c3": "n"}
    assert built.values[":ob_c3"] == {"N": "1.5"}


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (Attr(5).eq(1), "name is 5"),
        (Attr("").eq(1), "name is ''"),
        (Attr("\ud800").eq(1), "surrogate"),
        (Attr("a..b").eq(1), "between dots"),
        (Attr("a[0]) OR (b[0]").eq(1), "between dots"),
        (Attr("a").eq(Attr("b[x]")), "Attr('b[x]')"),
        (Attr(5).size().gt(1), "name is 5"),
        (Attr("n").size(), "compared with nothing"),
        (~(Attr("a").eq(1) & Attr("a").is_in(5)), "is_in(5)"),
        (Attr("a").is_in([]), "is_in([])"),
        (Attr("a").is_in("OPEN"), "is_in('OPEN')"),
        (functools.reduce(operator.and_, [Attr("a").eq(1)] * 5_000), "more conditions"),
    ],
)
def test_boto3_conditions_that_cannot_work(condition: Any, said: str) -> None:
    """What boto3's builder fails on, or DynamoDB would refuse without naming the action, is refused here."""
    with pytest.raises(InvalidAction) as caught:
        attr_expression(condition, "put shop")
    assert caught.value.action == "put shop"
    assert said in caught.value.reason


def test_what_is_no_condition() -> None:
    """Anything but a boto3 condition is refused, and so is a float in one."""
    with pytest.raises(InvalidAction, match="Attr"):
        attr_expression({"a": 1}, "put")
    with pytest.raises(InvalidValue, match="float"):
        attr_expression(Attr("a").eq(1.5), "put")


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_an_item_leaves_room_to_be_settled() -> None:
    """400 KB less 2 KB is the largest item; the error names the action and the excess."""
    base = put(TARGET, {**KEY, "blob": b""}, Requirement(if_absent=True), LAYOUT).size
    limit = 398 * 1024
    assert put(TARGET, {**KEY, "blob": b"x" * (limit - base)}, Requirement(if_absent=True), LAYOUT).size == limit
    with pytest.raises(ItemTooLarge) as caught:
        put(TARGET, {**KEY, "blob": b"x" * (limit - base + 1)}, Requirement(if_absent=True), LAYOUT)
    assert (caught.value.what, caught.value.size, caught.value.limit) == (TARGET.label, limit + 1, limit)
