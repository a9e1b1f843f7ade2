"""docs/simulation.md is held to the code: its example is run, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dynamodb_outbox.testing.simulation import FAULTS, INVARIANTS, SimulationFailed

DOCUMENT = (Path(__file__).parents[2] / "docs/simulation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_example_finds_both_bugs_and_then_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The relay of the document: what each step finds is what the document says, and the last one is right."""
    names: dict[str, Any] = {}
    first, second, last = BLOCKS
    said = re.findall(r"```text\n(\w+): ", DOCUMENT)
    found = []
    for block in (first, second):
        exec(block, names)  # noqa: S102 -- running it is the test
        found.append(names["report"].failures[0].invariant)
        with pytest.raises(SimulationFailed, match=found[-1]):
            names["report"].check()
    assert found == said
    exec(last, names)  # noqa: S102
    assert not names["report"].failures
    assert "60 runs" in capsys.readouterr().out


def rows(table: str) -> dict[str, str]:
    """Return the rows of a table of the document, which a comment names."""
    text = DOCUMENT.split(f"<!-- {table} -->")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))


def test_the_tables_are_those_of_the_code() -> None:
    """Every invariant and every kind of fault is in the document, with its own words."""
    assert rows("faults") == dict(FAULTS)
    assert rows("invariants") == {name: str(one.__doc__).splitlines()[0] for name, one in INVARIANTS.items()}
