"""The semantics of the event source are one table, in docs/event-source.md. Each of its rows is a test here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from table_rows import CASES, DOCUMENT, rows, run

pytest.register_assert_rewrite("table_answers", "table_delivery", "table_shards")
import table_answers  # noqa: E402 -- after the line above, which makes their assertions say what they compare
import table_delivery  # noqa: E402
import table_shards  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

TABLE = rows(DOCUMENT.read_text(encoding="utf-8"))
MODULES = (table_answers, table_delivery, table_shards)


@pytest.mark.parametrize("name", TABLE)
def test_the_row_of_the_table_holds(name: str, tmp_path: Path) -> None:
    """What the row says is what happens."""
    run(name, tmp_path)


def test_every_test_has_its_row() -> None:
    """A test without a row is a rule that nobody can read; and the tests are where the table's are looked for."""
    assert CASES.keys() - TABLE.keys() == set()
    assert {case.__module__ for case in CASES.values()} == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("name", TABLE)
def test_every_row_has_a_source(name: str) -> None:
    """One of AWS's documents, a recording, or the reason why it is ours."""
    *_, source = TABLE[name]
    assert re.search(r"\b(LDG|DDG|BC|REC)\b", source) or re.fullmatch(r"ours: .{10,}", source)


def test_a_table_that_says_a_thing_twice_is_refused() -> None:
    """The reading of the table can fail."""
    line = "| a-b | x | y | LDG |\n"
    assert rows("| id | situation | what happens | source |\n|---|---|---|---|\n" + line) == {"a-b": ("x", "y", "LDG")}
    with pytest.raises(AssertionError, match="twice"):
        rows(line * 2)
