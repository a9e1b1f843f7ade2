"""What docs/fault-bus.md says, held to the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.testing.faultbus import FaultPlan

if TYPE_CHECKING:
    import pytest

    from conftest import Account

DOCUMENT = (Path(__file__).parents[2] / "docs/fault-bus.md").read_text(encoding="utf-8")
RULES = [field.name for field in fields(FaultPlan) if field.name != "seed"]


def block(language: str) -> str:
    """Return the document's only block in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(found)


def test_plan_of_the_document_is_one_and_shows_every_kind_of_rule() -> None:
    """The JSON is read as it stands, and no kind of rule is missing from it."""
    plan = FaultPlan.from_json(block("json"))
    assert [name for name in RULES if getattr(plan, name) == ()] == []


def test_every_kind_of_rule_is_explained() -> None:
    """The table of rules has one row each."""
    table = DOCUMENT.partition("| rules |")[2]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(RULES)


def test_example_of_the_document_runs(engine: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python block does what it says, in front of the engine."""
    example = block("python").replace("http://127.0.0.1:4566", engine.url)
    example = example.replace("bus.url)", f'bus.url, account="{engine.account}")')
    exec(example, {})  # noqa: S102 - running it is the test
    accepted, faults = capsys.readouterr().out.splitlines()
    assert accepted.startswith("[('1', 'ORDER#1', 'http")
    assert faults in ("[]", "['reset_after']")
