"""docs/doctor.md is made from the checks and the calls, and its commands are understood."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.cli import _parser
from dynamodb_outbox.doctor.account.asking import CALLS, READS_ITEMS
from dynamodb_outbox.doctor.rules import CHECKS

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.checks import Check

TEXT = (Path(__file__).parents[2] / "docs/doctor.md").read_text(encoding="utf-8")


def checks() -> str:
    """Return the table of all checks."""
    lines = ["| check | | what is looked at | otherwise | takes from |", "|---|---|---|---|---|"]
    lines += [
        f"| `{each.id}` | {each.severity.value} | {each.asks} | {each.consequence} | {taken(each)} |" for each in CHECKS
    ]
    return "\n".join(lines)


def taken(check: Check) -> str:
    """Return the promises that a check takes from; a way is one of P2's."""
    return ", ".join(sorted({*check.breaks, *check.limits, *(["P2"] if check.closes else [])}))


def policy(actions: set[str], resource: str) -> str:
    """Return a policy that allows calls."""
    statement = {"Effect": "Allow", "Action": sorted(actions), "Resource": resource}
    return f"```json\n{json.dumps({'Version': '2012-10-17', 'Statement': [statement]}, indent=1)}\n```"


def shown(name: str) -> str:
    """Return what stands between two marks."""
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)\n?<!-- end of {name} -->", TEXT, re.DOTALL)
    return str(found)


def test_the_table_is_that_of_the_rules() -> None:
    """Each check with its severity."""
    assert shown("checks") == checks()


def test_the_policies_are_those_of_the_calls() -> None:
    """Each action, and no other; what reads items is apart, and allowed on the one table alone."""
    reading = {CALLS[READS_ITEMS]}
    assert shown("policy") == policy(set(CALLS.values()) - reading, "*")
    assert shown("policy of --read-items") == policy(reading, "arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE")


def test_the_commands_are_understood() -> None:
    """By the parser itself."""
    commands = re.findall(r"^\$ outbox (.*?)(?: +#.*)?$", TEXT, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        assert _parser().parse_args(shlex.split(command)).command == "doctor"
