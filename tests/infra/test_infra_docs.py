"""docs/infrastructure.md, and what the README says of production, are held to the code."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from shown import README, shown_in

from deployments import DEPLOYMENTS
from dynamodb_outbox.cli import main
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


@pytest.mark.parametrize("text", [README, TEXT], ids=["README.md", "infrastructure.md"])
def test_the_commands_do_what_is_shown(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other, as they are written, in a folder of their own; those that ask an account are understood.

    The doctor finds nothing in a template that was printed by the line before it.
    """
    monkeypatch.chdir(tmp_path)
    commands = shown_in(text)
    assert {"infra", "package", "doctor"} <= {each.options.command for each in commands}
    for each in commands:
        if each.asks_an_account:
            continue
        assert main(each.arguments) == 0, each
        printed = capsys.readouterr().out
        assert printed
        if each.to is not None:
            (tmp_path / each.to).write_text(printed, encoding="utf-8")


def test_the_readme_goes_from_the_package_to_the_doctor() -> None:
    """In the order in which it is done; SAM finds package and template where they were written."""
    done = [each for each in shown_in(README) if each.options.command in {"package", "infra", "doctor"}]
    assert [each.options.command for each in done[:4]] == ["package", "infra", "doctor", "doctor"]
    packed, printed, looked_at, deployed = done[:4]
    assert printed.options.code == str(packed.options.output)
    assert printed.to == looked_at.options.template
    assert deployed.options.table == printed.options.table
    assert f"sam deploy --template-file {printed.to} " in README


def test_the_local_programs_are_understood() -> None:
    """Each takes the arguments that are shown for it."""
    shown = re.findall(r"\$ python -m (dynamodb_outbox\.local(?:\.\w+)?) ((?:.*\\\n)*.*)", TEXT)
    assert [module for module, _ in shown] == ["dynamodb_outbox.local", "dynamodb_outbox.local.deployed"]
    for module, arguments in shown:
        program = importlib.import_module(f"{module}.__main__" if module.endswith(".local") else module)
        program._parser().parse_args(shlex.split(arguments.replace("\\\n", " "), comments=True))
