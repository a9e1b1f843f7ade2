"""Python values to DynamoDB's wire form and back."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest
from boto3.dynamodb.types import Binary, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.values import deserialize, deserialize_item, serialize, serialize_item
from dynamodb_outbox.errors import InvalidValue

texts = st.text(alphabet=st.characters(codec="utf-8"))
numbers = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-(10**37), max_value=10**37, places=0
) | st.integers(-(10**37), 10**37)
scalars = st.none() | st.booleans() | numbers | texts | st.binary()
sets = st.sets(texts, min_size=1) | st.sets(numbers, min_size=1) | st.sets(st.binary(), min_size=1)
values = st.recursive(
    scalars | sets, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


@given(values)
def test_a_value_comes_back_equal(value: Any) -> None:
    """What is stored is read back as an equal value, whatever it is made of."""
    assert deserialize(serialize(value)) == value


@given(values)
def test_the_wire_form_is_boto3s_own(value: Any) -> None:
    """An item written here and one written by boto3's resource layer are the same, but for the order inside sets."""

    def ordered(wire: Any) -> Any:
        if isinstance(wire, dict):
            return {
                k: sorted(v) if k in {"SS", "NS", "BS"} and isinstance(v, list) else ordered(v) for k, v in wire.items()
            }
        return [ordered(each) for each in wire] if isinstance(wire, list) else wire

    assert ordered(serialize(value)) == ordered(TypeSerializer().serialize(value))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_kept_to_the_last_digit_or_refused(number: Decimal) -> None:
    """No decimal number is rounded: it is stored as an equal one, or refused."""
    try:
        wire = serialize(number)
    except InvalidValue:
        significant = "".join(map(str, number.as_tuple().digits)).strip("0")
        assert len(significant) > 38 or not -130 <= number.adjusted() <= 125
    else:
        assert Decimal(wire["N"]) == number
        assert len(wire["N"]) <= 50


@pytest.mark.parametrize(
    ("number", "wire"),
    [
        (10**50, "1E+50"),
        (-125 * 10**40, "-1.25E+42"),
        (Decimal("-0"), "0"),
        (Decimal("0.00"), "0"),
        (Decimal("1.10"), "1.10"),
        (Decimal("9E+125"), "9E+125"),
        (Decimal("1E-130"), "1E-130"),
    ],
)
def test_numbers_at_the_edges(number: Any, wire: str) -> None:
    """Numbers with more places than digits are stored with an exponent; zero has no sign."""
    assert serialize(number) == {"N": wire}


def test_members_of_sets_are_in_a_fixed_order() -> None:
    """Equal sets give equal requests, whatever their order of iteration: a retry is the same to the byte."""
    assert serialize({"b", "a", "c"}) == {"SS": ["a", "b", "c"]}


class Colour(str, Enum):
    """A str that is an Enum."""

    RED = "red"


class Size(IntEnum):
    """An int that is an Enum."""

    SMALL = 1


class Shape(Enum):
    """An Enum that is nothing else."""

    ROUND = "round"


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (Colour.RED, {"S": "red"}),
        (Size.SMALL, {"N": "1"}),
        ((1, "a"), {"L": [{"N": "1"}, {"S": "a"}]}),
        (bytearray(b"x"), {"B": b"x"}),
        (memoryview(b"x"), {"B": b"x"}),
        (Binary(b"x"), {"B": b"x"}),
        ({Binary(b"x")}, {"BS": [b"x"]}),
        (frozenset({1}), {"NS": ["1"]}),
        (True, {"BOOL": True}),
        ("", {"S": ""}),
    ],
)
def test_what_else_is_stored(value: Any, wire: dict[str, Any]) -> None:
    """Subclasses of str and int, tuples, and every form of bytes are stored as what they are underneath."""
    assert serialize(value) == wire


@pytest.mark.parametrize(
    ("item", "path", "said"),
    [
        ({"lines": [{}, {}, {"price": 1.5}]}, "item.lines[2].price", "Decimal"),
        ({"a": float("nan")}, "item.a", "float"),
        ({"a": Decimal("NaN")}, "item.a", "not a number"),
        ({"a": Decimal("Infinity")}, "item.a", "not a number"),
        ({"a": Decimal("1." + "1" * 38)}, "item.a", "39 significant digits"),
        ({"a": 10**126}, "item.a", "range"),
        ({"a": Decimal("1E-131")}, "item.a", "range"),
        ({"a": set()}, "item.a", "empty set"),
        ({"a": {1, "b"}}, "item.a", "only"),
        ({"a": {1.5}}, "item.a", "float"),
        ({"a": {True}}, "item.a", "only"),
        ({"a": {None}}, "item.a", "only"),
        ({"a": {(1, 2)}}, "item.a", "only"),
        ({"m": {1: "x"}}, "item.m", "must be str"),
        ({1: "x"}, "item", "must be str"),
        ({"a": "\ud800"}, "item.a", "surrogate"),
        ({"a": {"\ud800": 1}}, "item.a.'\\ud800'", "surrogate"),
        ({"a": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "item.a", "isoformat"),
        ({"a": date(2026, 1, 1)}, "item.a", "isoformat"),
        ({"a": UUID(int=1)}, "item.a", "str(value)"),
        ({"a": Shape.ROUND}, "item.a", "Shape"),
        ({"a": object()}, "item.a", "convert"),
        ({"a": range(3)}, "item.a", "list(value)"),
    ],
)
def test_what_is_refused_and_where(item: dict[Any, Any], path: str, said: str) -> None:
    """What cannot be stored unchanged is refused with the path of the value and a reason or a way out."""
    with pytest.raises(InvalidValue) as caught:
        serialize_item(item)
    assert caught.value.path == path
    assert said in caught.value.reason


def test_nesting_ends_at_32_levels() -> None:
    """32 levels are stored, 33 are not; a value that contains itself ends there too."""
    deep: Any = "x"
    for _ in range(31):
        deep = [deep]
    assert deserialize(serialize(deep)) == deep
    with pytest.raises(InvalidValue, match="32 levels"):
        serialize([deep])
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidValue, match="32 levels"):
        serialize(circle)


def test_numbers_come_back_as_decimal_and_binary_as_bytes() -> None:
    """Reading follows boto3 for numbers (Decimal), and gives plain bytes."""
    item = deserialize_item({"n": {"N": "3"}, "b": {"B": b"x"}, "ns": {"NS": ["1", "2"]}, "bs": {"BS": [b"y"]}})
    assert item == {"n": Decimal(3), "b": b"x", "ns": {Decimal(1), Decimal(2)}, "bs": {b"y"}}
    assert type(item["n"]) is Decimal
    assert type(item["b"]) is bytes


@pytest.mark.parametrize("wire", [{"X": 1}, {"S": "a", "N": "1"}])
def test_what_is_no_wire_value_is_refused(wire: dict[str, Any]) -> None:
    """A value that DynamoDB cannot have sent is an error, not a guess."""
    with pytest.raises(ValueError, match="wire form"):
        deserialize(wire)
