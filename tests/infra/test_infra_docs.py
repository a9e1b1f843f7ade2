"""docs/infrastructure.md is held to the code."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

from deployments import DEPLOYMENTS
from dynamodb_outbox.cli import _parser
from dynamodb_outbox.cli.infra import deployment_of
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import Alarm

DOCUMENT = Path(__file__).parents[2] / "docs/infrastructure.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
SIGNS = {"GreaterThanThreshold": ">", "LessThanThreshold": "<"}


def alarm_table() -> str:
    """Return the table of alarms, from the description with all defaults."""
    lines = ["| alarm | starts when | what it tells |", "|---|---|---|"]
    for each in resources_of(DEPLOYMENTS["plain"]):
        if isinstance(each, Alarm):
            first = each.metrics[0]
            what = f"{first.statistic} of `{first.name}`" if each.expression is None else f"`{each.expression}`"
            times = "" if each.periods == 1 else f", {each.datapoints} of {each.periods} times"
            every = f"{first.period_s // 60} min"
            starts = f"{what} {SIGNS[each.comparison]} {each.threshold:,} in {every}{times}"
            lines.append(f"| `{each.name.removeprefix('shop-outbox-')}` | {starts} | {each.says} |")
    return "\n".join(lines)


def test_the_alarms_are_those_of_the_code() -> None:
    """The table is made from the description."""
    (shown,) = re.findall(r"<!-- alarms -->\n(.*?)\n<!-- end of alarms -->", TEXT, re.DOTALL)
    assert shown == alarm_table()


def test_the_commands_are_understood() -> None:
    """Each `outbox` line parses, and each deployment can be made."""
    commands = re.findall(r"^\$ outbox (.*?)(?: +#.*| > .*)?$", TEXT, re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        options = _parser().parse_args(shlex.split(command))
        if options.command == "infra":
            deployment_of(options)


def test_the_local_programs_are_understood() -> None:
    """Each takes the arguments that are shown for it."""
    shown = re.findall(r"\$ python -m (dynamodb_outbox\.local(?:\.\w+)?) ((?:.*\\\n)*.*)", TEXT)
    assert [module for module, _ in shown] == ["dynamodb_outbox.local", "dynamodb_outbox.local.deployed"]
    for module, arguments in shown:
        program = importlib.import_module(f"{module}.__main__" if module.endswith(".local") else module)
        program._parser().parse_args(shlex.split(arguments.replace("\\\n", " "), comments=True))
