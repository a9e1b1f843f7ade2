"""`outbox doctor`: the report for people and for programs, and the exit statuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent / "templates"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command and returns its status and what it printed."""
    for name in ("OUTBOX_TABLE", "OUTBOX_LAYOUT", "OUTBOX_SETTLE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["doctor", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_what_is_right_is_zero(run: Callable[..., tuple[int, str, str]]) -> None:
    """A last line sums up; notes alone are no warnings."""
    status, told, _ = run("--template", str(HERE / "cdk-right.json"))
    assert status == 0
    assert told == (
        "promises: P1 holds, P2 limited, P3 holds, P4 observed, P5 limited, P6 limited, P7 holds\n"
        "0 errors, 0 warnings, 0 notes; 0 checks could not be made\n"
    )


def test_what_is_wrong_is_one_and_told(run: Callable[..., tuple[int, str, str]]) -> None:
    """Each finding with what was seen, what follows and the fix for a template; the worst first."""
    status, told, _ = run("--template", str(HERE / "sam-by-hand.yaml"))
    assert status == 1
    assert (
        "error   partial-failures: mapping OutboxRelayStream: FunctionResponseTypes is []\n"
        "        What the relay answers as failed counts as done: the stream brings it no more.\n"
        "        fix: FunctionResponseTypes: [ReportBatchItemFailures]\n"
    ) in told
    assert told.index("error   ") < told.index("warning ") < told.index("note    ") < told.index("not seen:")
    assert "not seen: where events go: the function's own code says where events go: target-gone, " in told
    assert told.endswith("checks could not be made\n")


def test_programs_get_one_object(run: Callable[..., tuple[int, str, str]]) -> None:
    """With the same findings, by their ids."""
    status, told, _ = run("--template", str(HERE / "cdk-wrong.json"), "--json")
    report = json.loads(told)
    assert (status, report["well"]) == (1, False)
    assert report["findings"][0] == {
        "id": "pending-index",
        "severity": "error",
        "subject": "table Shop1",
        "evidence": "outbox-pending does not project event_id",
        "consequence": "The sweeper fails, and nobody sees what is parked.",
        "fix": report["findings"][0]["fix"],
    }
    assert "NonKeyAttributes: [event_id, key]" in report["findings"][0]["fix"]
    assert report["not_seen"] == []
    p1, _, _, p4, *_ = report["promises"]
    assert (p1["promise"], p1["standing"], p1["because"], p1["unseen"]) == ("P1", "holds", [], [])
    assert (p4["promise"], p4["standing"], p4["because"]) == (
        "P4",
        "not promised",
        ["partial-failures", "starting-position"],
    )
    assert p4["why"].startswith("partial-failures: mapping RelayEventSource6: FunctionResponseTypes is []. ")


def test_what_takes_from_a_promise_is_told(run: Callable[..., tuple[int, str, str]]) -> None:
    """A line for each: by what was found, and by what could not be seen and may. None for the others."""
    _, told, _ = run("--template", str(HERE / "cdk-wrong.json"))
    head, p2, p4, last = told[told.index("promises: ") :].splitlines()
    assert head == "promises: P1 holds, P2 not promised, P3 holds, P4 not promised, P5 limited, P6 limited, P7 holds"
    assert p2.startswith("        P2: pending-index, partial-failures, access-lacking, ")
    assert p4 == "        P4: partial-failures, starting-position"
    assert last.startswith("4 errors, ")


def test_what_could_not_be_seen_is_told_at_the_promises(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """A bus that the template does not make may not be there."""
    template = json.loads((HERE / "cdk-right.json").read_text(encoding="utf-8"))
    for id_ in [id_ for id_, each in template["Resources"].items() if each["Type"] == "AWS::Events::Archive"]:
        del template["Resources"][id_]
    text = json.dumps(template)
    (bus,) = (id_ for id_, each in template["Resources"].items() if each["Type"] == "AWS::Events::EventBus")
    del template["Resources"][bus]
    arn = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
    text = json.dumps(template).replace(json.dumps({"Fn::GetAtt": [bus, "Arn"]}), json.dumps(arn))
    (tmp_path / "elsewhere.json").write_text(text, encoding="utf-8")
    told = run("--template", str(tmp_path / "elsewhere.json"))[1]
    assert "        not seen, and may take from P2: target-gone\n" in told


def test_a_template_may_come_from_stdin(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another command prints it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO((HERE / "serverless-right.json").read_text(encoding="utf-8")))
    assert run("--template", "-")[0] == 0


def test_parameters_of_the_template_are_given(run: Callable[..., tuple[int, str, str]]) -> None:
    """Then what they decide is seen."""
    template = str(HERE / "cloudformation-drift.yaml")
    assert "mapping-disabled" in run("--template", template)[1]
    assert "mapping-disabled" not in run("--template", template, "--parameter", "Stage=production")[1]


def test_several_relays_are_told_apart_by_their_table(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """By name, or by the id in the template; a function of one's own by its name."""
    template = json.loads((HERE / "cdk-right.json").read_text(encoding="utf-8"))
    text = json.dumps(template["Resources"])
    for old in template["Resources"]:
        text = text.replace(f'"{old}"', f'"Second{old}"')
    second = json.loads(text.replace('"orders"', '"more"').replace('"AlarmName": "', '"AlarmName": "second-'))
    (tmp_path / "two.json").write_text(json.dumps({"Resources": {**template["Resources"], **second}}), encoding="utf-8")
    two = str(tmp_path / "two.json")
    status, _, told = run("--template", two)
    assert status == 2
    assert "--table names one of SecondShopTable5A1E, ShopTable5A1E" in told
    assert run("--template", two, "--table", "SecondShopTable5A1E")[0] == 0
    assert run("--template", two, "--relay", "Relay6F", "--sweeper", "Sweeper7B", "--table", "ShopTable5A1E")[0] == 0
    assert "no function 'Other'" in run("--template", two, "--relay", "Other")[2]


def test_a_claim_check_is_looked_at(run: Callable[..., tuple[int, str, str]]) -> None:
    """By the bucket's name or id, and the prefix of its objects."""
    template = str(HERE / "cdk-right.json")
    status, told, _ = run("--template", template, "--claim-check", "Failed90/large/")
    assert status == 0
    assert "payloads-forever: bucket Failed90: no lifecycle rule removes large/*" in told
    assert (
        "not seen: bucket elsewhere: not in the template"
        in run("--template", template, "--claim-check", "elsewhere")[1]
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--template", "no-such-file"], "no-such-file: it cannot be read: no such file or directory."),
        (["--template", str(HERE)], "it cannot be read: is a directory."),
        (["--template", "outbox.tf"], "Terraform is not read. Look at what it has deployed: outbox doctor --table"),
        (["--template", str(HERE / "cdk-right.json"), "--parameter", "X=1"], "no parameter X"),
        (["--template", str(HERE / "cdk-right.json"), "--layout", "{"], "--layout is"),
        ([], "--table"),
    ],
)
def test_what_cannot_run_is_two(arguments: list[str], why: str, run: Callable[..., tuple[int, str, str]]) -> None:
    """A sentence, and nothing printed."""
    status, told, complained = run(*arguments)
    assert (status, told) == (2, "")
    assert why in complained


def test_a_template_without_an_outbox_cannot_be_judged(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """Unless a table is named; then a relay is what it lacks."""
    resources = {"Bus": {"Type": "AWS::Events::EventBus"}, "Shop": {"Type": "AWS::DynamoDB::Table", "Properties": {}}}
    (tmp_path / "none.json").write_text(json.dumps({"Resources": {"Bus": resources["Bus"]}}), encoding="utf-8")
    (tmp_path / "table.json").write_text(json.dumps({"Resources": resources}), encoding="utf-8")
    assert run("--template", str(tmp_path / "none.json"))[0] == 2
    status, told, _ = run("--template", str(tmp_path / "table.json"))
    assert status == 1
    assert "relay-missing: the outbox: of 0 mappings on its stream" in told
