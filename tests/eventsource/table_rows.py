"""The rows of the table in docs/event-source.md, and the tests that go with them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

Case = Callable[..., None]
CASES: dict[str, Case] = {}

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "event-source.md"


def row(name: str) -> Callable[[Case], Case]:
    """Make a function the test of a row. It is given a directory of its own, if it has a `tmp_path`."""

    def register(case: Case) -> Case:
        assert name not in CASES, f"{name} has two tests"
        CASES[name] = case
        return case

    return register


def run(name: str, directory: Path) -> None:
    """Run the test of a row."""
    assert name in CASES, f"the row {name} of {DOCUMENT.name} has no test"
    case = CASES[name]
    if "tmp_path" in inspect.signature(case).parameters:
        case(directory)
    else:
        case()


def rows(text: str) -> dict[str, tuple[str, str, str]]:
    """Return the table of a text: for each id the situation, what happens, and the source."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in re.findall(r"^\| ([a-z-]+ \|.*) \|$", text, re.MULTILINE):
        name, *cells = (cell.strip() for cell in line.split(" | "))
        if name == "id":
            continue
        assert name not in found, f"{name} stands twice in the table"
        situation, outcome, source = cells
        found[name] = situation, outcome, source
    return found
