"""`outbox infra`: the arguments of a deployment, by the same names, and what is printed."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dynamodb_outbox.cli import _parser, main
from dynamodb_outbox.cli.infra import deployment_of
from dynamodb_outbox.cli.infra_arguments import ARGUMENTS
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.sam import sam
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
    existing, guessed = [*NEEDED, "--existing-table"], "the keys of the table are taken to be pk and sk"
    monkeypatch.delenv("OUTBOX_LAYOUT", raising=False)
    assert main(["infra", "sam", *existing]) == 0
    assert guessed in capsys.readouterr().err
    assert main(["infra", "terraform", *existing, "--layout", '{"sk": "item"}']) == 0
    assert main(["infra", "sam", *NEEDED]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("OUTBOX_LAYOUT", '{"sk": "item"}')
    assert main(["infra", "sam", *existing]) == 0
    assert guessed not in capsys.readouterr().err
    assert parsed(*existing).layout == Layout(sk="item")


@pytest.mark.parametrize("rendering", ["sam", "cloudformation"])
def test_a_parameter_that_the_stack_asks_for_is_told(rendering: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a table that is there, the ARN of its stream, and how it is found."""
    assert main(["infra", rendering, *NEEDED, "--existing-table", "--layout", "{}", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "Default" not in json.loads(out)["Parameters"]["StreamArn"]
    assert "a parameter, StreamArn, for the table's stream: aws dynamodb describe-table --table-name shop" in err
