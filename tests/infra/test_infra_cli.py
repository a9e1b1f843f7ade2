"""`outbox infra`: the arguments of a deployment, by the same names, and what is printed."""

from __future__ import annotations

import dataclasses

import pytest

from dynamodb_outbox.cli import _parser, main
from dynamodb_outbox.cli.infra import deployment_of
from dynamodb_outbox.cli.infra_arguments import ARGUMENTS
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.sam import sam
from dynamodb_outbox.infra.terraform import terraform
from dynamodb_outbox.infra.text import json_text, yaml_text
from dynamodb_outbox.layout import Layout

NEEDED = ["--table", "shop", "--sink", "bus:orders", "--notify", "a@b.example"]
PLAIN = Deployment(table="shop", sink="bus:orders", notify="a@b.example")


def parsed(*arguments: str) -> Deployment:
    """Return the deployment that arguments come to."""
    return deployment_of(_parser().parse_args(["infra", "sam", *arguments]))


def test_every_argument_of_a_deployment_can_be_given() -> None:
    """By its own name; `route` is a sink by type, `settle` a part of the layout, `env` the environment."""
    names = {each.name.replace("_", "-") for each in dataclasses.fields(Deployment)}
    assert set(ARGUMENTS) - {"route", "settle", "env"} == names - {"environment"}


def test_what_is_not_given_is_the_default() -> None:
    """The deployment's own defaults, not others."""
    assert parsed(*NEEDED) == PLAIN


def test_what_is_given_counts() -> None:
    """Each argument with a value that is not its default."""
    found = parsed(
        "--table", "shop", "--route", "a.*=bus:a", "--route", "*=queue:rest", "--notify", "a@b.example", "--name", "x",
        "--existing-table", "--new-bus", "--layout", '{"pk":"number"}', "--settle", "delete", "--ordering", "none",
        "--on-poison", "block", "--parallelization", "4", "--reserved-concurrency", "3", "--batch-size", "5",
        "--env", "OUTBOX_RATE_LIMIT=7", "--on-failure", "arn:aws:s3:::failed", "--archive-days", "2",
        "--kms-key", "arn:aws:kms:eu-west-1:123456789012:key/1", "--sink-kms-key",
        "arn:aws:kms:eu-west-1:123456789012:key/2", "--on-failure-kms-key", "arn:aws:kms:eu-west-1:123456789012:key/3",
        "--memory-mb", "256", "--timeout-s", "20", "--sweep-minutes", "6",
        "--lag-minutes", "8", "--log-days", "7", "--runtime", "python3.12", "--architecture", "x86_64",
    )  # fmt: skip
    plain = dataclasses.asdict(PLAIN)
    told = {each.name: getattr(found, each.name) for each in dataclasses.fields(found)}
    assert [name for name, value in told.items() if value == plain[name]] == ["table", "notify"]
    assert found.layout == Layout(pk="number", settle="delete")
    assert found.sink == {"a.*": "bus:a", "*": "queue:rest"}
    assert found.environment == {"OUTBOX_RATE_LIMIT": "7"}


@pytest.mark.parametrize("as_json", [False, True])
def test_a_template_is_printed(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """YAML, or JSON."""
    text = json_text if as_json else yaml_text
    more = ["--json"] if as_json else []
    assert main(["infra", "cloudformation", *NEEDED, *more]) == 0
    assert capsys.readouterr().out == text(cloudformation(PLAIN))
    assert main(["infra", "sam", *NEEDED, "--code", "x.zip", *more]) == 0
    assert capsys.readouterr().out == text(sam(PLAIN, "x.zip"))


def test_the_keys_of_a_table_that_is_there_are_not_guessed_in_silence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says which are taken for granted, unless a layout is given, or exported, which counts then."""
    existing = ["infra", "sam", *NEEDED, "--existing-table"]
    monkeypatch.delenv("OUTBOX_LAYOUT", raising=False)
    assert main(existing) == 0
    assert "the keys of the table are taken to be pk and sk" in capsys.readouterr().err
    assert main([*existing, "--layout", '{"sk": "item"}']) == 0
    assert main(["infra", "sam", *NEEDED]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("OUTBOX_LAYOUT", '{"sk": "item"}')
    assert main(existing) == 0
    assert capsys.readouterr().err == ""
    assert parsed(*NEEDED, "--existing-table").layout == Layout(sk="item")
    assert parsed(*NEEDED, "--layout", "{}").layout == Layout()


def test_a_configuration_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """HCL, and nothing else."""
    assert main(["infra", "terraform", *NEEDED, "--code", "x.zip"]) == 0
    assert capsys.readouterr().out == terraform(PLAIN, "x.zip")
    assert main(["infra", "terraform", *NEEDED, "--json"]) == 2
    assert "HCL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--parallelization", "2"], "give up their order"),
        (["--route", "*=bus:a"], "one of --sink and --route"),
        (["--layout", "{"], "--layout is"),
        (["--env", "OUTBOX_RATE=1"], "OUTBOX_RATE_LIMIT"),
    ],
)
def test_what_cannot_work_is_a_sentence(more: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And the status for arguments that cannot be used; nothing is printed that could be deployed."""
    assert main(["infra", "cloudformation", *NEEDED, *more]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err


def test_a_pair_without_a_name_is_no_pair(capsys: pytest.CaptureFixture[str]) -> None:
    """By argparse's own words and status."""
    with pytest.raises(SystemExit) as caught:
        main(["infra", "sam", *NEEDED, "--env", "OUTBOX_RATE_LIMIT"])
    assert caught.value.code == 2
    assert "NAME=VALUE" in capsys.readouterr().err
