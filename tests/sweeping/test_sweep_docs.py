"""docs/sweeper.md is held to the code: its rules are tests, its diagram and its report are those of the machine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from dynamodb_outbox.adapters.pending_index import _FULL_PAGES
from dynamodb_outbox.core.record.pending import BEHIND_MS
from dynamodb_outbox.core.sweeping.ages import AHEAD_MS, LAG_COUNTS_MS
from dynamodb_outbox.core.sweeping.choice import APART_MS
from dynamodb_outbox.core.sweeping.commands import Settings, SweepReport
from dynamodb_outbox.core.sweeping.leases import SKEW_MS
from dynamodb_outbox.core.sweeping.phases import diagram
from dynamodb_outbox.recover import Sweeper
from dynamodb_outbox.recover.sweeper import MIN_AGE
from sweep_shell import Bus

HERE = Path(__file__).parent
DOCUMENT = (HERE.parents[1] / "docs/sweeper.md").read_text(encoding="utf-8")


def part(name: str) -> str:
    """Return what stands between the marks of a part."""
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", DOCUMENT, re.DOTALL)
    return str(found)


def test_each_rule_is_a_test() -> None:
    """By its name; no row is without one, but for those that begin a group."""
    rows = [row for row in part("rules").splitlines()[2:] if not row.startswith("| **")]
    named = [re.findall(r"`(test_\w+)` \|$", row) for row in rows]
    assert all(len(names) == 1 for names in named)
    files = (path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    there = {node.name for text in files for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert {name for (name,) in named} <= there
    assert len(named) > 25


def test_the_diagram_is_made_from_the_table() -> None:
    """To the last character."""
    assert part("diagram") == f"```mermaid\n{diagram()}\n```"


def test_the_members_of_the_report_are_told() -> None:
    """All of them, and no others."""
    rows = part("report").splitlines()[2:]
    told = [*re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in rows)), "idle", "taken", "unread"]
    assert sorted(told) == sorted(SweepReport().to_json())


def test_the_figures_of_the_document_are_those_of_the_code() -> None:
    """Minutes, seconds, keys and records."""
    settings = Settings(least_ms=0)
    assert MIN_AGE.total_seconds() * 1000 == settings.min_age_ms == AHEAD_MS == APART_MS == 5 * 60_000
    assert BEHIND_MS == LAG_COUNTS_MS == 10 * 60_000
    assert (settings.lease_ms, SKEW_MS, settings.attempts) == (60_000, 10_000, 3)
    assert (settings.round_keys, settings.round_records, _FULL_PAGES) == (25, 100, 2)


def test_the_example_makes_a_sweeper() -> None:
    """No client is made for it."""
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    found: dict[str, object] = {}
    exec(example, found)  # noqa: S102 -- running it is the test
    assert isinstance(found["sweeper"], Sweeper)
    assert callable(found["handler"])
    assert Sweeper(Bus(), table="shop").min_age == MIN_AGE
