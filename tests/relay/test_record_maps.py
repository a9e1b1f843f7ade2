"""Payloads as maps of DynamoDB's, and back."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.maps import MapFault, from_map, to_map
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.strict import examine
from dynamodb_outbox.errors import InvalidEvent, InvalidValue

texts = st.text(alphabet=st.sampled_from('ab."\\\n\x7fé\u2028\uffff\U0001f600'), max_size=4)
scalars = (
    st.none()
    | st.booleans()
    | texts
    | st.integers(-(2**63), 2**63 - 1)
    | st.decimals(-(10**9), 10**9, places=4)
    | st.sampled_from([Decimal("1E-130"), Decimal("9.2E+18"), Decimal("-1.25E-100")])
)
documents = st.dictionaries(
    texts,
    st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
    ),
    max_size=4,
)


def read(text: str) -> Any:
    """Return a JSON text with every digit."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


@given(documents)
@settings(deadline=None)
def test_data_comes_back_from_a_map(data: dict[str, Any]) -> None:
    """Equal in value, strict JSON, and the same again from what came back."""
    payload = dump_payload(data)
    text = from_map(to_map(payload))
    assert read(text) == read(payload)
    examine(text)
    assert from_map(to_map(text)) == text


@given(documents, st.randoms())
@settings(deadline=None)
def test_equal_maps_give_equal_texts(data: dict[str, Any], shuffle: Any) -> None:
    """A map of DynamoDB's has no order, so another order of its names is the same map."""

    def reordered(value: Any) -> Any:
        if isinstance(value, dict):
            names = list(value)
            shuffle.shuffle(names)
            return {name: reordered(value[name]) for name in names}
        return [reordered(member) for member in value] if isinstance(value, list) else value

    wire = to_map(dump_payload(data))
    assert from_map(reordered(wire)) == from_map(wire)


def test_the_form_of_each_value() -> None:
    """Names in the order of their characters, no spaces, digits as they are stored."""
    value = {
        "M": {
            "z": {"L": [{"NULL": True}, {"BOOL": True}, {"BOOL": False}]},
            "a": {"N": "1.10"},
            "é'": {"S": "\n'é"},
            "m": {"M": {}},
        }
    }
    assert from_map(value) == '{"a":1.10,"m":{},"z":[null,true,false],"é\'":"\\n\'é"}'


@pytest.mark.parametrize(
    ("stored", "written"), [("1E+3", "1E+3"), (".5", "0.5"), ("+7", "7"), ("007", "7"), ("1.", "1")]
)
def test_a_number_in_a_form_that_json_has_not_is_written_anew(stored: str, written: str) -> None:
    """DynamoDB normalises numbers; what an emulator stores as it came must not break the envelope."""
    assert from_map({"M": {"n": {"N": stored}}}) == f'{{"n":{written}}}'


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"S": "{}"}, "payload", "is no map"),
        ({"L": []}, "payload", "is no map"),
        ({"M": {"a": {"SS": ["x"]}}}, "payload.a", "is a set"),
        ({"M": {"a": {"NS": ["1"]}}}, "payload.a", "is a set"),
        ({"M": {"a": {"L": [{"N": "1"}, {"BS": ["AA=="]}]}}}, "payload.a[1]", "is a set"),
        ({"M": {"a": {"M": {"b": {"B": "AA=="}}}}}, "payload.a.b", "is binary"),
        ({"M": {"a": {"N": "NaN"}}}, "payload.a", "no number"),
        ({"M": {"a": {"N": "one"}}}, "payload.a", "no number"),
        ({"M": {"a": {"N": None}}}, "payload.a", "no number"),
        ({"M": {"a": {}}}, "payload.a", "no value"),
        ({"M": {"a": {"X": 1}}}, "payload.a", "no value"),
        ({"M": {"a": {"S": 1}}}, "payload.a", "no value"),
        ({"M": "a"}, "payload", "no value"),
    ],
)
def test_what_json_has_no_form_for_is_named(value: dict[str, Any], path: str, why: str) -> None:
    """With its place, and never with the value."""
    with pytest.raises(MapFault, match=why) as caught:
        from_map(value)
    assert caught.value.path == path
    assert str(caught.value) == f"{path} {caught.value.reason}"


def nested(levels: int) -> str:
    """Return an object with lists in it, `levels` in all."""
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


def test_depth_is_bounded_in_both_directions() -> None:
    """At the 32 levels of DynamoDB; a level is the map, a list in it the next."""
    deepest = to_map(nested(32))
    assert from_map(deepest) == nested(32)
    with pytest.raises(InvalidValue, match="32 levels"):
        to_map(nested(33))
    with pytest.raises(InvalidValue, match="32 levels"):
        to_map(nested(100_000))
    with pytest.raises(MapFault, match="32 levels"):
        from_map({"M": {"b": deepest}})


@pytest.mark.parametrize("payload", ["[]", "1", '"a"', "null", "true"])
def test_data_that_is_no_object_has_no_map(payload: str) -> None:
    """The error says what to do."""
    with pytest.raises(InvalidEvent, match="payload_format") as caught:
        to_map(payload)
    assert caught.value.field == "data"


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ('{"a":[1,{"b":' + "1" * 39 + "}]}", "data.a[1].b"),
        ('{"a":1e126}', "data.a"),
        ('{"a":1e-131}', "data.a"),
        ('{"a":[0,1e30]}', "data.a[1]"),
        ('{"a":{"b":9223372036854775808}}', "data.a.b"),
        ('{"a":-9223372036854775809.0}', "data.a"),
    ],
)
def test_a_number_that_cannot_be_kept_or_published_is_refused(payload: str, path: str) -> None:
    """Before it is stored: DynamoDB refuses it, or gives it back as an integer that buses refuse."""
    with pytest.raises(InvalidValue) as caught:
        to_map(payload)
    assert caught.value.path == path


@pytest.mark.parametrize("number", ["9223372036854775807", "-9223372036854775808", "92233720368547758079.5", "0.1"])
def test_numbers_at_the_edge_are_kept(number: str) -> None:
    """Whole ones of 64 bits, broken ones of 38 digits."""
    assert from_map(to_map(f'{{"n":{number}}}')) == f'{{"n":{number}}}'
