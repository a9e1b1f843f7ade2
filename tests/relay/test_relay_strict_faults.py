"""What a fault of a foreign text says: the reason, and the character at which it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.core.codec.strict import JsonFault, elements, examine, is_json

if TYPE_CHECKING:
    from collections.abc import Callable


def fault_of(read: Callable[[], object]) -> tuple[str, int]:
    """Return reason and place of the fault that reading raises; its text has both."""
    with pytest.raises(JsonFault) as caught:
        read()
    assert str(caught.value) == f"{caught.value.reason} (character {caught.value.at})"
    return caught.value.reason, caught.value.at


@pytest.mark.parametrize(
    ("text", "reason", "at"),
    [
        ("", "the text ends too early", 0),
        ("[1,", "the text ends too early", 3),
        ("[1, x]", "not a JSON token", 3),
        ('{"a" 1}', "an unexpected number", 4),
        ("{null:1}", "an unexpected word", 1),
        ('{"a":1 "b":2}', "an unexpected string", 6),
        ("[1}", "an unexpected '}'", 2),
        ("[,1]", "an unexpected ','", 1),
        ('{"a":1,"\\u0061":2}', "a name twice in one object", 7),
        ("[1] 2", "something follows the value", 3),
    ],
)
def test_a_fault_says_what_and_where(text: str, reason: str, at: int) -> None:
    """An operator reads it beside a parked record: it names the mark that is wrong, and its place."""
    assert fault_of(lambda: examine(text)) == (reason, at)


@pytest.mark.parametrize(
    ("text", "reason", "at"),
    [
        ("{}", "'[' is expected", 0),
        ("[1]", "'{' is expected", 1),
        ("[{}", "']' is expected", 3),
        ('[{"a" 1}]', "':' is expected", 6),
        ('[{"a":1 "b":2}]', "'}' is expected", 8),
        ("[{1:2}]", "a name twice in one object, or no name", 2),
        ('[{"a":1,"a":2}]', "a name twice in one object, or no name", 8),
        ('[{"a":NaN}]', "NaN is not JSON", 6),
        ('[{"a":-Infinity}]', "-Infinity is not JSON", 6),
        ('[{"a":' + "[" * 100_000, "nested too deeply", 6),
        ("[{}] x", "something follows the array", 5),
        ("[]]", "something follows the array", 2),
    ],
)
def test_a_fault_in_an_array_of_events_says_what_and_where(text: str, reason: str, at: int) -> None:
    """The same for the text that holds several events."""
    assert fault_of(lambda: list(elements(text))) == (reason, at)


@pytest.mark.parametrize("text", ["[]", " [ ] ", "[{}]", " [ { } , { } ] ", '[ { "a" : 1 , "b" : [ ] } ]'])
def test_white_space_means_nothing(text: str) -> None:
    """Empty arrays and objects are read with white space anywhere, and without."""
    assert len(list(elements(text))) == text.count("{")


def test_depth_counts_what_is_open() -> None:
    """Containers beside each other do not add up; a name may be used again in another object."""
    assert examine('[{"a":{}},{"a":[[]]}]').depth == 4
    assert examine('{"a":1,"b":{"a":2}}').depth == 2
    assert examine("1").depth == 0


def test_the_first_integer_that_is_too_wide_counts() -> None:
    """Twenty characters may still fit, with a sign; of several that do not the first is told."""
    assert examine("[-9223372036854775808]").wide_integer_at is None
    assert examine("[10000000000000000000, 99999999999999999999]").wide_integer_at == 1
    assert examine("[1.5, -9223372036854775809]").wide_integer_at == 6


@pytest.mark.parametrize("depth", [100_000])
def test_deep_text_is_read_to_its_end(depth: int) -> None:
    """What the standard library gives up on is walked: whole it is JSON, with an end missing it is not."""
    whole = "[" * depth + "]" * depth
    assert is_json(whole)
    assert not is_json(whole[:-1])
    assert not is_json(whole + "]")
