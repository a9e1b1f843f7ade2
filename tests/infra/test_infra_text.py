"""The writer of YAML: whatever a template may hold is read as what it was."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynamodb_outbox.infra.text import yaml_text

TEXTS = st.one_of(
    st.text(), st.text("aNy: -#'\"\n$1.e~[{!&*|>%@`,?="), st.sampled_from(["null", "No", "1", "1e3", "~", ""])
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.booleans(), st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, VALUES, min_size=1))
@example({"a": "x\n  y"})
@example({"a": "x \ny"})
@example({"a": [["b"], {"c": [{}]}]})
@example({"Body": "{\n  1\n}"})
def test_what_is_written_is_read(value: dict[str, Any]) -> None:
    """By another implementation of YAML."""
    assert yaml.safe_load(yaml_text(value)) == value
