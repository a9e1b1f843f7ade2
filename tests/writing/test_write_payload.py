"""Event data to JSON text."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.payload import PAYLOAD_LEVELS, dump_payload
from dynamodb_outbox.errors import InvalidValue
from dynamodb_outbox.event import Event

texts = st.text(alphabet=st.characters(codec="utf-8"))
integers = st.integers(-(2**63), 2**63 - 1)
decimals = st.decimals(allow_nan=False, allow_infinity=False).filter(lambda d: d.adjusted() < 300 and not _too_large(d))
plain = st.recursive(
    st.none() | st.booleans() | integers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
with_decimals = st.recursive(
    st.none() | st.booleans() | integers | texts | decimals,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def _too_large(number: Decimal) -> bool:
    return number.as_tuple().exponent == 0 and not -(2**63) <= number <= 2**63 - 1


@given(plain)
def test_plain_data_is_written_as_the_standard_library_would(data: Any) -> None:
    """Data without conversions is json.dumps's compact, unescaped text, byte for byte."""
    assert dump_payload(data) == json.dumps(data, ensure_ascii=False, separators=(",", ":"))


@given(with_decimals)
def test_data_comes_back_equal(data: Any) -> None:
    """What is published and read as an Event is equal to what was given, Decimals included."""
    event = Event("i", "t", "s", dump_payload(data), datetime.now(timezone.utc))
    assert event.data == data


@given(with_decimals)
def test_text_read_and_written_again_is_the_same_text(data: Any) -> None:
    """Reading a payload with Decimals and writing it again changes nothing: several events can share one JSON array."""
    text = dump_payload(data)
    assert dump_payload(json.loads(text, parse_float=Decimal)) == text


@given(decimals)
def test_every_digit_of_a_decimal_is_published(number: Decimal) -> None:
    """A Decimal is a JSON number with exactly its own digits."""
    text = dump_payload({"n": number})
    assert Decimal(text[len('{"n":') : -1]) == number
    if number:
        assert text == f'{{"n":{number}}}'


class Colour(Enum):
    """An Enum with a value that itself is converted."""

    RED = "red"
    PRICE = Decimal("1.10")


class Label(str, Enum):
    """A str that is an Enum."""

    A = "a"


class Size(IntEnum):
    """An int that is an Enum."""

    SMALL = 1


class Money(Decimal):
    """A Decimal of another class."""


class Text(str):
    """A str of another class."""

    __slots__ = ()

    def __str__(self) -> str:
        """Say something else."""
        return "other"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.10"), "1.10"),
        (Decimal("-0"), "0"),
        (Decimal("1E+2"), "1E+2"),
        ((1, 2), "[1,2]"),
        ((), "[]"),
        (datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=timezone.utc), '"2026-01-02T03:04:05.600000+00:00"'),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))), '"2026-01-02T00:00:00+02:00"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Colour.RED, '"red"'),
        (Colour.PRICE, "1.10"),
        (Label.A, '"a"'),
        (Size.SMALL, "1"),
        (Money("1.10"), "1.10"),
        (Text("me"), '"me"'),
        (True, "true"),
    ],
)
def test_the_conversions(value: Any, text: str) -> None:
    """Each conversion of the rule, at the top, in a dict and in a list."""
    assert dump_payload(value) == text
    assert dump_payload({"v": value, "w": [value, None, 1, "é"]}) == f'{{"v":{text},"w":[{text},null,1,"é"]}}'


def test_empty_containers_beside_a_conversion() -> None:
    """Empty dicts and lists keep their form when the slower writer is at work, and booleans stay booleans."""
    assert dump_payload([Decimal(1), {}, [], True, {"a": {}}]) == '[1,{},[],true,{"a":{}}]'


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"lines": [{}, {"price": 1.5}]}, "data.lines[1].price", "Decimal"),
        (math.nan, "data", "float"),
        (Decimal("NaN"), "data", "NaN"),
        ([Decimal("Infinity")], "data[0]", "Infinity"),
        ({"a": 2**63}, "data.a", "int64"),
        ({"a": -(2**63) - 1}, "data.a", "int64"),
        ({"a": Decimal(2**63)}, "data.a", "int64"),
        ({"a": Decimal("1E+308")}, "data.a", "1E+308"),
        ({"a": {1: 2}}, "data.a", "must be str"),
        ({"a": {Label.A: 2}}, "data.a", "must be str"),
        ({"a": datetime(2026, 1, 1)}, "data.a", "time zone"),  # noqa: DTZ001 -- the case itself
        ({"a": {1, 2}}, "data.a", "sorted"),
        ({"a": b"x"}, "data.a", "base64"),
        ({"a": timedelta(1)}, "data.a", "seconds"),
        ({"a": object()}, "data.a", "convert"),
        ({"a": ["\ud800"]}, "data.a[0]", "surrogate"),
        ({"a": {"\udfff": 1}}, "data.a.'\\udfff'", "surrogate"),
        ({"b": Decimal(1), "c": None, "a": ("x", "\ud800")}, "data.a[1]", "surrogate"),
    ],
)
def test_what_is_refused_and_where(data: Any, path: str, said: str) -> None:
    """What cannot be published unchanged is refused with the path of the value and a way out."""
    with pytest.raises(InvalidValue) as caught:
        dump_payload(data)
    assert caught.value.path == path
    assert said in caught.value.reason


def test_a_surrogate_in_an_enum_is_found() -> None:
    """The path is found through an Enum's value too."""

    class Broken(Enum):
        X = "\ud800"

    with pytest.raises(InvalidValue) as caught:
        dump_payload({"a": Broken.X})
    assert caught.value.path == "data.a"


def test_depth_is_bounded_and_circles_end() -> None:
    """The deepest data allowed is written; one level more, or a value that contains itself, is refused by name."""
    deep: Any = 1
    for _ in range(PAYLOAD_LEVELS):
        deep = [deep]
    assert json.loads(dump_payload(deep)) == deep
    with pytest.raises(InvalidValue, match="levels"):
        dump_payload([deep])
    circle: dict[str, Any] = {}
    circle["me"] = circle
    with pytest.raises(InvalidValue, match="levels"):
        dump_payload(circle)
