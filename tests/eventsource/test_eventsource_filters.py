"""Lambda's event filtering on DynamoDB stream records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.eventsource.filters import NO_FILTERS, compile_filters
from dynamodb_outbox.errors import InvalidFilter


def insert(**image: Any) -> dict[str, Any]:
    """Return an INSERT in Lambda's form."""
    return {
        "eventName": "INSERT",
        "dynamodb": {"NewImage": image, "SequenceNumber": "1", "ApproximateCreationDateTime": 1_700_000_000},
    }


OUTBOX_RECORD = insert(
    sk={"S": "OUTBOX#1"}, n={"N": "5"}, tags={"SS": ["a", "b"]}, gone={"NULL": True}, empty={"S": ""}
)


def leaf(rule: Any, *path: str) -> dict[str, Any]:
    """Return a pattern with one rule at a path, below dynamodb.NewImage."""
    pattern: Any = [rule]
    for name in reversed(("dynamodb", "NewImage", *path)):
        pattern = {name: pattern}
    assert isinstance(pattern, dict)
    return pattern


def test_no_filter_lets_every_record_through() -> None:
    """A mapping without filters hands everything to the function; so does an empty pattern."""
    assert NO_FILTERS.match(OUTBOX_RECORD)
    assert compile_filters().match({})
    assert compile_filters({}).match(OUTBOX_RECORD)


def test_the_filter_of_the_documentation_selects_inserted_outbox_records() -> None:
    """The pattern that the relay's mapping uses passes outbox inserts and nothing else."""
    filters = compile_filters('{"eventName":["INSERT"],"dynamodb":{"NewImage":{"sk":{"S":[{"prefix":"OUTBOX#"}]}}}}')
    assert filters.match(OUTBOX_RECORD)
    assert not filters.match({**OUTBOX_RECORD, "eventName": "MODIFY"})
    assert not filters.match(insert(sk={"S": "META"}))
    assert not filters.match({"eventName": "INSERT", "dynamodb": {}})


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        ("OUTBOX#1", ("sk", "S"), True),
        ("OUTBOX#", ("sk", "S"), False),
        ({"prefix": "OUTBOX#"}, ("sk", "S"), True),
        ({"prefix": "outbox#"}, ("sk", "S"), False),
        ({"suffix": "#1"}, ("sk", "S"), True),
        ({"suffix": "#2"}, ("sk", "S"), False),
        ({"equals-ignore-case": "outbox#1"}, ("sk", "S"), True),
        ({"equals-ignore-case": "outbox#2"}, ("sk", "S"), False),
        ({"anything-but": "META"}, ("sk", "S"), True),
        ({"anything-but": ["META", "OUTBOX#1"]}, ("sk", "S"), False),
        ({"anything-but": "META"}, ("nothing", "S"), False),
        ({"exists": True}, ("sk", "S"), True),
        ({"exists": False}, ("sk", "S"), False),
        ({"exists": True}, ("nothing", "S"), False),
        ({"exists": False}, ("nothing", "S"), True),
        # Not a leaf: false always matches, true never does.
        ({"exists": True}, ("sk",), False),
        ({"exists": False}, ("sk",), True),
        ("", ("empty", "S"), True),
        ("", ("sk", "S"), False),
        (True, ("gone", "NULL"), True),
        (1, ("gone", "NULL"), False),
        (None, ("gone", "NULL"), False),
        # DynamoDB's numbers are text.
        ("5", ("n", "N"), True),
        (5, ("n", "N"), False),
        ({"numeric": ["=", 5]}, ("n", "N"), False),
        ({"numeric": [">", 0]}, ("n", "N"), False),
        # An element of a list is enough.
        ("b", ("tags", "SS"), True),
        ({"prefix": "b"}, ("tags", "SS"), True),
        ("c", ("tags", "SS"), False),
    ],
)
def test_a_rule_matches_as_lambda_documents_it(rule: Any, path: tuple[str, ...], matches: bool) -> None:
    """Each operator, on a value that has it and on one that has not."""
    assert compile_filters(leaf(rule, *path)).match(OUTBOX_RECORD) is matches


@pytest.mark.parametrize(
    ("argument", "matches"),
    [
        (["=", 1_700_000_000], True),
        (["<", 1_700_000_000], False),
        (["<=", 1_700_000_000], True),
        ([">", 1_600_000_000, "<", 1_800_000_000], True),
        ([">", 1_700_000_000, "<", 1_800_000_000], False),
        ([">=", 1_700_000_000.5], False),
    ],
)
def test_numeric_compares_numbers_of_the_record_itself(argument: list[Any], matches: bool) -> None:
    """The creation time is a JSON number, so ranges work on it."""
    filters = compile_filters({"dynamodb": {"ApproximateCreationDateTime": [{"numeric": argument}]}})
    assert filters.match(OUTBOX_RECORD) is matches


def test_null_matches_null_only() -> None:
    """JSON's null is neither false, nor empty, nor absent."""
    filters = compile_filters({"a": [None]})
    assert filters.match({"a": None})
    assert not any(filters.match(record) for record in ({}, {"a": ""}, {"a": False}, {"a": 0}))


def test_number_literals_match_numbers_as_they_are_spelt() -> None:
    """A number literal is never true, text, or the same number with a point; `numeric` compares values."""
    filters = compile_filters({"a": [1]})
    assert filters.match({"a": 1})
    assert not filters.match({"a": 1.0})
    assert compile_filters({"a": [{"numeric": ["=", 1]}]}).match({"a": 1.0})
    assert not filters.match({"a": True})
    assert not filters.match({"a": "1"})


def test_every_field_must_match_one_rule_of_a_field_is_enough() -> None:
    """Fields are ANDed, rules of one field ORed, patterns of a mapping ORed."""
    both = compile_filters({"eventName": ["INSERT", "MODIFY"], "awsRegion": ["us-east-1"]})
    assert both.match({"eventName": "MODIFY", "awsRegion": "us-east-1"})
    assert not both.match({"eventName": "MODIFY", "awsRegion": "eu-west-1"})
    either = compile_filters({"eventName": ["INSERT"]}, {"awsRegion": ["us-east-1"]})
    assert either.match({"eventName": "REMOVE", "awsRegion": "us-east-1"})
    assert not either.match({"eventName": "REMOVE"})


def test_or_takes_one_of_several_patterns() -> None:
    """`$or` holds when one of its patterns does, beside the other fields."""
    filters = compile_filters({"x": ["1"], "$or": [{"a": ["1"]}, {"b": [{"exists": True}]}]})
    assert filters.match({"x": "1", "a": "1"})
    assert filters.match({"x": "1", "b": "anything"})
    assert not filters.match({"x": "1", "a": "2"})
    assert not filters.match({"a": "1"})


def test_a_pattern_reaches_into_lists_of_objects() -> None:
    """An element of a list (DynamoDB's type L) is enough for the fields below it."""
    filters = compile_filters(leaf("x", "items", "L", "S"))
    assert filters.match(insert(items={"L": [{"S": "y"}, {"S": "x"}]}))
    assert not filters.match(insert(items={"L": [{"S": "y"}]}))


@pytest.mark.parametrize(
    ("pattern", "path", "operator"),
    [
        ({"a": {"b": [{"wildcard": "x*"}]}}, "1.a.b", "wildcard"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "1.a", ""),
        ({"a": [{"prefix": 1}]}, "1.a", "prefix"),
        ({"a": [{"suffix": None}]}, "1.a", "suffix"),
        ({"a": [{"equals-ignore-case": []}]}, "1.a", "equals-ignore-case"),
        ({"a": [{"exists": "yes"}]}, "1.a", "exists"),
        ({"a": [{"anything-but": []}]}, "1.a", "anything-but"),
        ({"a": [{"anything-but": {"prefix": "x"}}]}, "1.a", "anything-but"),
        ({"a": [{"anything-but": True}]}, "1.a", "anything-but"),
        ({"a": [{"numeric": ["=", "5"]}]}, "1.a", "numeric"),
        ({"a": [{"numeric": ["!=", 5]}]}, "1.a", "numeric"),
        ({"a": [{"numeric": ["="]}]}, "1.a", "numeric"),
        ({"a": [{"numeric": []}]}, "1.a", "numeric"),
        ({"a": [{"numeric": 5}]}, "1.a", "numeric"),
        ({"a": [{"numeric": [">", 1, "<", 3, "=", 2]}]}, "1.a", "numeric"),
        ({"a": [["x"]]}, "1.a", ""),
        ({"a": []}, "1.a", ""),
        ({"a": "x"}, "1.a", ""),
        ({"$or": []}, "1.$or", "$or"),
        ({"$or": ["x"]}, "1.$or[0]", ""),
        ("[]", "1", ""),
        ("{", "1", ""),
        ('{"a":["' + "x" * 4096 + '"]}', "1", ""),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_place(pattern: Any, path: str, operator: str) -> None:
    """A filter that Lambda would refuse, or that could only ever drop records, is an error that names the place."""
    with pytest.raises(InvalidFilter) as caught:
        compile_filters(pattern)
    assert (caught.value.path, caught.value.operator) == (path, operator)
    assert path in str(caught.value)


def test_a_mapping_takes_five_patterns() -> None:
    """Lambda's limit is five."""
    assert compile_filters(*[{}] * 5).match({})
    with pytest.raises(InvalidFilter, match="6 patterns"):
        compile_filters(*[{}] * 6)


json_text = st.text(st.characters(codec="utf-8"), max_size=8)


@given(value=json_text, other=json_text)
def test_text_rules_agree_with_pythons_own(value: str, other: str) -> None:
    """Prefix, suffix, equality and anything-but mean what they say, for any text, given as dict or as JSON."""
    record = {"a": value}
    expected = {
        json.dumps({"a": [other]}): value == other,
        json.dumps({"a": [{"prefix": other}]}): value.startswith(other),
        json.dumps({"a": [{"suffix": other}]}): value.endswith(other),
        json.dumps({"a": [{"anything-but": other}]}): value != other,
    }
    for pattern, matches in expected.items():
        assert compile_filters(pattern).match(record) is matches
        assert compile_filters(json.loads(pattern)).match(record) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        '{"a":' * 500 + '["x"]' + "}" * 500,
        '{"$or":[' * 400 + '{"a":["x"]}' + "]}" * 400,
        "[" * 4_096,
        '{"a":["1"],"a":["2"]}',
        '{"a":[NaN]}',
        '{"a":[{"numeric":[["<"],1]}]}',
    ],
)
def test_a_pattern_that_could_not_be_matched_is_refused_when_it_is_read(pattern: str) -> None:
    """Too deep, a field that stands twice, no number, no comparison: not at the first record, and no traceback."""
    with pytest.raises(InvalidFilter):
        compile_filters(pattern)


def test_a_pattern_reaches_the_deepest_attribute() -> None:
    """DynamoDB nests 32 levels."""
    image: Any = {"S": "x"}
    pattern: Any = {"S": ["x"]}
    for _ in range(32):
        image, pattern = {"M": {"a": image}}, {"M": {"a": pattern}}
    assert compile_filters({"dynamodb": {"NewImage": {"a": pattern}}}).match(insert(a=image))
