"""Guards, read again: whole, or not at all."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.core.record.encode import Origin
from dynamodb_outbox.core.record.guards import GuardContent, encode_guard, guard_content
from dynamodb_outbox.layout import Layout

ORIGIN = Origin("tx", 1769860800123, None)
VERSIONS = {("shop", "ORDER#1", "META"): 3}
texts = st.text(max_size=5)
places = st.tuples(texts, texts, texts)


def guard() -> dict[str, Any]:
    """Return a guard as it is stored."""
    made = encode_guard(
        {"pk": {"S": "IDEMP#1"}},
        fingerprint="f",
        event_ids=["e"],
        versions=VERSIONS,
        origin=ORIGIN,
        layout=Layout(),
        keep_s=60,
    )
    return copy.deepcopy(dict(made))


@given(texts, st.lists(texts), st.dictionaries(places, st.integers(0)))
def test_what_a_guard_says_is_read_again(fingerprint: str, ids: list[str], versions: Any) -> None:
    """Field for field."""
    item = encode_guard(
        {}, fingerprint=fingerprint, event_ids=ids, versions=versions, origin=ORIGIN, layout=Layout(), keep_s=1
    )
    assert guard_content(item) == GuardContent(fingerprint, tuple(ids), versions, "tx", 1769860800123)


NO_CONTENT: tuple[Any, ...] = (
    {},
    {"S": "x"},
    {"M": {}},
    {"M": []},
    {"M": {"tx": {"S": "tx"}}},
    {"NULL": True},
    "x",
    None,
)


@pytest.mark.parametrize("content", NO_CONTENT)
def test_an_item_that_is_no_guard_says_nothing(content: Any) -> None:
    """Something else stands in its place: nobody may take it for a receipt."""
    assert guard_content({**guard(), "ob_guard": content}) is None


@pytest.mark.parametrize(("name", "value"), [("ob_v", {"N": "2"}), ("ob_v", None), ("ob_guard", None)])
def test_a_guard_of_another_schema_says_nothing(name: str, value: Any) -> None:
    """A newer writer's, or an item without the mark of ours."""
    item = {**guard(), name: value}
    if value is None:
        del item[name]
    assert guard_content(item) is None
    assert guard_content({}) is None


@pytest.mark.parametrize(
    "wrong", [{}, {"S": 1}, {"N": "x"}, {"N": 1}, {"L": {}}, {"L": [{"S": 1}]}, {"L": [{"M": {}}]}, 5]
)
@pytest.mark.parametrize("name", ["fingerprint", "event_ids", "versions", "tx", "at"])
def test_a_guard_with_a_part_of_another_form_says_nothing(name: str, wrong: Any) -> None:
    """Half of it would be a wrong receipt."""
    item = guard()
    item["ob_guard"]["M"][name] = wrong
    assert guard_content(item) is None
    del item["ob_guard"]["M"][name]
    assert guard_content(item) is None


@pytest.mark.parametrize("name", ["table", "pk", "sk", "version"])
def test_a_guard_with_half_a_version_says_nothing(name: str) -> None:
    """Which item it is of, or which it is, would be unknown."""
    item = guard()
    del item["ob_guard"]["M"]["versions"]["L"][0]["M"][name]
    assert guard_content(item) is None
