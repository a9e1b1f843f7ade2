"""Strict JSON, against the standard library's parser and against what it lets pass."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.core.codec.strict import JsonFault, check, elements, examine, is_json

if TYPE_CHECKING:
    from collections.abc import Callable

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def depth_of(value: Any) -> int:
    """Return how deep a value nests."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@given(values, st.booleans(), st.sampled_from((None, 1)))
@settings(deadline=None)
def test_whatever_json_writes_is_accepted_and_measured(value: Any, ascii_only: bool, indent: int | None) -> None:
    """Every text that the standard library writes is one strict value, with its true depth."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    shape = examine(text)
    assert shape.depth == depth_of(value)
    assert is_json(text)


@given(st.text(alphabet='{}[]",:0123456789.-+eE\\/ntrufalse \n', max_size=30))
@settings(deadline=None, max_examples=300)
def test_whatever_is_accepted_is_json(text: str) -> None:
    """No text passes that the standard library would refuse, and none that it takes is refused unless names repeat."""
    try:
        pairs: list[list[Any]] = []
        json.loads(text, object_pairs_hook=lambda found: pairs.append([name for name, _ in found]))
        valid = "NaN" not in text and "Infinity" not in text and all(len(set(names)) == len(names) for names in pairs)
    except ValueError:
        valid = False
    try:
        examine(text)
    except JsonFault:
        assert not valid
    else:
        assert valid
        assert is_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", "[1,]", '{"a":1,}', '{"a"}', "{1:2}", "01", "1.", ".5", "+1", "1e", "--1", "NaN", "Infinity",
        "tru", "'a'", '"\t"', '"\\x"', '"a', "[1 2]", "[1}", '{"a":1]', "]", ",", ":", "{} {}", '1,"id":"forged"',
        '{"a":1},"id":"forged","x":{"b":1}', '{"a":1,"a":2}', '{"a":1,"\\u0061":2}', "\ufeff{}", "[1]\x00",
    ],
)  # fmt: skip
def test_what_is_not_one_strict_value_is_refused(text: str) -> None:
    """Two values, an early end, loose numbers and words, repeated names, control characters."""
    with pytest.raises(JsonFault):
        examine(text)


def said_by(reader: Callable[[str], object], text: str) -> str | None:
    """Return the fault that a reader finds in a text, None for none."""
    try:
        reader(text)
    except JsonFault as fault:
        return str(fault)
    return None


pieces = st.sampled_from(
    (
        *'{}[]",:0123456789.-+eE\\/ntrufalse \n', '{"a":1,"b":2}', '{"a":1,"a":2}', '{"a":1,"\\u0061":2}',
        '"\\ud83d\\ude00"', '"\\ud800"', "NaN", "-Infinity", "\u00e9", "\ud800", "\u0661", "\t", "\x00", "\xa0",
    )
)  # fmt: skip


@given(st.lists(pieces, max_size=12).map("".join))
@settings(deadline=None, max_examples=200)
def test_a_check_says_what_an_examination_says(text: str) -> None:
    """Of any text: it is the same rule, read faster."""
    assert said_by(check, text) == said_by(examine, text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"b":1,"b":2}}', '[{"a":1},{"a":1}]', '{"a":1}', ' {"a":1}\n', '{"a":NaN}', "[-Infinity]", '"\\ud800"',
        '"\ud800"', '"\\ud83d\\ude00"', "9" * 5000, "[" * 50_000 + "]" * 50_000, '{"a":' * 5_000 + "1" + "}" * 5_000,
        '"\u00e9"', "\u0661", "1.\u0665", '{"a":1}{', '{"\\u0061":1,"a":2}',
    ],
)  # fmt: skip
def test_a_check_holds_to_what_the_standard_library_lets_pass(text: str) -> None:
    """Names that come twice, halves of pairs, constants, depth, digits of other scripts: as an examination has it."""
    assert said_by(check, text) == said_by(examine, text)


def test_a_check_of_a_long_number_costs_linear_time() -> None:
    """It is not built: that of a megabyte would take the time of the whole invocation."""
    check("9" * 1_000_000)
    check("1." + "9" * 1_000_000)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{} {}", '1,"id":"x"', "", "9" * 5000, "[" * 5000])
def test_the_quick_check_refuses_what_would_end_a_value_early(text: str) -> None:
    """Splicing rests on it."""
    assert not is_json(text)


def test_depth_is_measured_without_recursion() -> None:
    """A text that nests deeper than any parser's stack is examined, not crashed on."""
    text = "[" * 50_000 + "]" * 50_000
    assert examine(text).depth == 50_000
    assert is_json(text)


def test_a_hostile_string_costs_linear_time() -> None:
    """An unterminated string of a megabyte is refused at once."""
    with pytest.raises(JsonFault):
        examine('"' + "\\n" * 500_000)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("9223372036854775807", None),
        ("-9223372036854775808", None),
        ("9223372036854775808", 0),
        ('{"a":[-9223372036854775809, 99999999999999999999]}', 6),
        ("[1,\n 99999999999999999999]", 5),
        ("1" * 10_000, 0),
        ("99999999999999999999.0", None),
        ("1e400", None),
        ('"99999999999999999999"', None),
    ],
)
def test_integers_beyond_64_bits_are_found(text: str, at: int | None) -> None:
    """By the place of the first one. Only whole numbers count; text and fractions do not."""
    assert examine(text).wide_integer_at == at


@given(st.lists(st.dictionaries(st.text(max_size=5), values, max_size=3), max_size=3), st.sampled_from((None, 2)))
@settings(deadline=None, max_examples=50)
def test_elements_gives_each_member_with_its_own_text(array: list[dict[str, Any]], indent: int | None) -> None:
    """The text of a member is the value itself, digit for digit."""
    found = list(elements(json.dumps(array, indent=indent)))
    assert [{name: value for name, (value, _) in element.items()} for element in found] == array
    for element in found:
        for value, text in element.values():
            assert json.loads(text) == value


def test_elements_keeps_digits() -> None:
    """A number is handed on as it was written."""
    (element,) = elements('[ { "data" : 1.10 } ]')
    assert element["data"][1] == "1.10"


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "1", "[1]", "[{}", "[{}]]", '[{"a":1,"a":2}]', "[{1:2}]", '[{"a" 1}]', '[{"a":}]', '[{"a":NaN}]',
        "[{},]", '[{"a":1,}]', '[{"a":1 "b":2}]', '[{"a":' + "[" * 100_000,
    ],
)  # fmt: skip
def test_elements_refuses_anything_but_an_array_of_objects(text: str) -> None:
    """With the position at which it went wrong."""
    with pytest.raises(JsonFault) as caught:
        list(elements(text))
    assert caught.value.at >= 0


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "a\\ud83dx", "\\\\\\ud800", "\\ude00\\ud83d", "\ud800"])
@pytest.mark.parametrize("text", ['"{}"', '{{"{}":1}}', '[{{"a":["{}"]}}]'])
def test_half_of_a_surrogate_pair_is_refused(half: str, text: str) -> None:
    """It is no character: consumers would get a text that they cannot write again."""
    with pytest.raises(JsonFault, match="half of a surrogate pair"):
        examine(text.format(half))


@pytest.mark.parametrize("whole", ["\\ud83d\\ude00", "\\\\ud800", "\\\\\\\\uD800", "\U0001f600", "\\ud7ff", "\\ue000"])
def test_what_only_looks_like_one_is_taken(whole: str) -> None:
    """Whole pairs, and backslashes that are themselves escaped."""
    assert examine(f'["{whole}"]').depth == 1
