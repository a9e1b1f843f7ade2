"""docs/infrastructure.md, and what the README says of production, are held to the code."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from shown import README, shown_in

from deployments import DEPLOYMENTS
from dynamodb_outbox.cli import main
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.references import Joined
from dynamodb_outbox.infra.resources import Alarm, Dashboard, Role
from dynamodb_outbox.layout import Layout

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


Allowed = Mapping[str, Sequence[tuple[str, str]]]
"""What each role may do: ids of statements, and actions."""

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1"
ON_FAILURE = "arn:aws:{}:eu-west-1:123456789012:given-up"
OF_SINK, OF_GIVEN_UP = ("Publish", "WhoseAccount"), ("GivenUp",)
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "`--settle delete`": {"layout": Layout(settle="delete")},
    "`--on-poison park_key`": {"on_poison": "park_key"},
    "`--on-poison block`": {"on_poison": "block"},
    "a table without a sort key": {"layout": Layout(sk=None, own_partition=True)},
    "`--kms-key`": {"kms_key": KEY},
    "`--sink-kms-key`": {"sink_kms_key": KEY},
}


def allowed(**given: Any) -> Allowed:
    """Return what both roles of a deployment may do."""
    made = resources_of(Deployment(**{"table": "shop", "sink": "bus:orders", "notify": "a@b.example", **given}))
    roles = {each.id: each for each in made if isinstance(each, Role)}
    return {
        id_: [(part.sid, action) for part in roles[id_].statements for action in part.actions]
        for id_ in ("RelayRole", "SweeperRole")
    }


def role_table() -> str:
    """Return the table of actions: those of any deployment, and what each of its arguments adds or takes."""
    base = allowed()
    kinds = {kind: allowed(sink=f"{kind}:orders") for kind in ("bus", "topic", "queue")}
    stores = {"a bucket": base}
    stores |= {
        f"a {kind}": allowed(on_failure=ON_FAILURE.format(at)) for kind, at in (("queue", "sqs"), ("topic", "sns"))
    }
    rows = [
        ("always", cells(base, lambda sid: not sid.startswith((*OF_SINK, *OF_GIVEN_UP)))),
        *((f"a {kind} as sink", cells(each, lambda sid: sid.startswith(OF_SINK))) for kind, each in kinds.items()),
        *(
            (f"{kind} on failure", cells(each, lambda sid: sid.startswith(OF_GIVEN_UP)))
            for kind, each in stores.items()
        ),
        *((what, changed(base, allowed(**given))) for what, given in CHANGES.items()),
    ]
    return "\n".join(
        ["| with | the relay may | the sweeper may |", "|---|---|---|"]
        + [f"| {what} | {relay} | {sweeper} |" for what, (relay, sweeper) in rows]
    )


def cells(roles: Allowed, of: Callable[[str], bool]) -> list[str]:
    """Return the actions of both roles whose statements are chosen."""
    return [listed([each for each in role if of(each[0])]) for role in roles.values()]


def changed(base: Allowed, roles: Allowed) -> list[str]:
    """Return what both roles may do besides those of `base`, and what they may not do."""
    found = []
    for before, after in zip(base.values(), roles.values(), strict=True):
        more, less = ([each for each in one if each not in other] for one, other in ((after, before), (before, after)))
        found.append(listed(more) or (f"not {listed(less)}" if less else "the same"))
        assert not (more and less)
    return found


def listed(actions: Sequence[tuple[str, str]]) -> str:
    """Return actions, each once for what it is on."""
    on = {"Pending": " of the index", "Stream": " of the stream"}
    return ", ".join(dict.fromkeys(f"`{action}`{on.get(sid, '')}" for sid, action in actions))


def dashboard_table() -> str:
    """Return the table of what the dashboard shows, from its own text."""
    (found,) = (each for each in resources_of(DEPLOYMENTS["plain"]) if isinstance(each, Dashboard))
    assert isinstance(found.body, Joined)
    body = json.loads("".join(part if isinstance(part, str) else "?" for part in found.body.parts))
    lines = ["| graph | statistic | metrics |", "|---|---|---|"]
    for each in (widget["properties"] for widget in body["widgets"] if widget["type"] == "metric"):
        metrics = ", ".join(f"`{name}`" for _, name, *_ in each["metrics"])
        lines.append(f"| {each['title']} | {each['stat']} | {metrics} |")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "table"), [("alarms", alarm_table), ("roles", role_table), ("dashboard", dashboard_table)]
)
def test_the_tables_are_those_of_the_code(name: str, table: Callable[[], str]) -> None:
    """Each is made from descriptions."""
    (shown,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", TEXT, re.DOTALL)
    assert shown == table()


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
