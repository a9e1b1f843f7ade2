"""What is wrong is told in the words of whoever typed it, with one exit status for one kind of trouble."""

from __future__ import annotations

import io
import os
from argparse import Namespace
from contextlib import redirect_stderr
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.cli import _parser, main, status
from dynamodb_outbox.cli.cost_arguments import LOAD
from dynamodb_outbox.cli.infra_arguments import ARGUMENTS
from dynamodb_outbox.cli.shell_words import in_shell_words
from dynamodb_outbox.environment.variables import VARIABLES
from dynamodb_outbox.errors import ConfigurationError, InvalidEnvironment, Problem, TableUnavailable
from dynamodb_outbox.infra.cost import Load
from dynamodb_outbox.infra.destinations import kind_of

if TYPE_CHECKING:
    from pathlib import Path

ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"
COMMANDS = {
    "status": ("status", "--table", "shop"),
    "sweep": ("sweep", "--once", "--table", "shop", "--sink", ARN),
    "parked": ("parked", "list", "--table", "shop"),
    "redrive": ("redrive", "--table", "shop", "--sink", ARN, "--from-s3", "s3://bucket/"),
    "doctor": ("doctor", "--table", "shop"),
    "consume": ("consume", "operator:eq", "--queue", "https://sqs.eu-west-1.amazonaws.com/123456789012/billing"),
}


@pytest.fixture
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave neither Region nor credentials, nor a place where they might be."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "OUTBOX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("_nothing_configured")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_region_it_cannot_be_done(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 3 from each command, and what to set; the arguments are as they should be."""
    assert main(COMMANDS[command]) == 3
    assert "no AWS Region is configured: set AWS_REGION" in capsys.readouterr().err


@pytest.mark.usefixtures("_nothing_configured")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_credentials_it_cannot_be_done(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 3, and what to set."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nothing is sent
    assert main(COMMANDS[command]) == 3
    assert "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in capsys.readouterr().err


@pytest.mark.usefixtures("_nothing_configured")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sweep", "--table", "shop", "--sink", "bus:orders"), "--sink: 'bus:orders': no ARN"),
        (("sweep", "--table", "shop"), "sweep: --sink is not given, and OUTBOX_SINK is not set: it names where"),
        (("sweep",), "(2) --table is not given, and OUTBOX_TABLE is not set"),
        (("sweep", "--table", "", "--sink", ARN), "sweep: --table is not set"),
        (("status", "--table", "shop", "--layout", "{"), "--layout is '{'"),
        (("guarantees", "--settle", "nonne"), "--settle is 'nonne'"),
        (("guarantees", "--ordering", "any"), "--ordering is 'any'"),
        (("infra", "sam", "--table", "shop", "--sink", "bus:orders", "--notify", "ops"), "--notify is 'ops'"),
        (("cost", "--sink", "kafka"), "--sink is 'kafka'"),
        (("cost", "--sweep-minutes", "0"), "--sweep-minutes is 0"),
        (("guarantees", "--sink", "bus:"), "--sink is 'bus:', which names no destination"),
        (("cost", "--sink", "arn:aws:s3:::b"), "cost: --sink: 'arn:aws:s3:::b': no sink for 's3' here"),
        (("parked", "discard", "--id", "a", "--reason", "", "--table", "shop"), "parked: --reason is ''"),
        (("parked", "discard", "--reason", "a", "--key", "", "--table", "shop"), "parked: --key is ''"),
    ],
)
def test_an_option_is_named_as_it_is_typed(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not as the variable, or the argument in Python, that it stands for."""
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_an_index_that_is_missing_is_told_with_what_makes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DynamoDB's own words name the index alone, to somebody who has just begun; other faults are told as they are."""
    missing = "ValidationException: The table does not have the specified index: outbox-pending"
    for reason, more in ((missing, ". `outbox doctor --table shop --layout ...` tells"), ("Gone: for good", "\n")):

        def fail(_options: Namespace, reason: str = reason) -> int:
            raise TableUnavailable("shop", reason, retryable=False)

        monkeypatch.setattr(status, "run", fail)
        assert main(["status", "--table", "shop"]) == 3
        assert capsys.readouterr().err.startswith(f"outbox status: table 'shop': {reason}{more}")


def refused(option: str, value: str, *command: str) -> str:
    """Return what a command says of an option's value: one line, of argparse or of the library."""
    said = io.StringIO()
    with redirect_stderr(said):
        try:
            status: object = main([*command, f"--{option}", value] if value else [*command, f"--{option}"])
        except SystemExit as end:
            status = end.code
    assert status == 2
    return said.getvalue().splitlines()[-1]


NO_TEXT = "\udcff"
KEY = "arn:aws:s3:::no-key"
OF_INFRA = {
    "table": "a", "sink": "bus:", "route": "a*b=bus:orders", "notify": "ops", "name": "a b", "new-bus": "",
    "layout": "{", "settle": "burn", "ordering": "any", "on-poison": "burn", "parallelization": "11",
    "reserved-concurrency": "-1", "batch-size": "0", "env": "1=x", "on-failure": "here", "archive-days": "-1",
    "kms-key": KEY, "sink-kms-key": KEY, "on-failure-kms-key": KEY, "memory-mb": "1", "timeout-s": "1",
    "sweep-minutes": "0", "lag-minutes": "0", "log-days": "2", "runtime": "python2", "architecture": "mips",
}  # fmt: skip
OF_COST = {
    "events": "-1", "record-bytes": "0", "item-bytes": "0", "settle": "burn", "sink": "kafka", "per-invocation": "0",
    "call-ms": "-1", "memory-mb": "1", "index-shards": "0", "sweep-minutes": "0", "kept-days": "0",
}  # fmt: skip
OF_VARIABLES = {
    "sweep": {"table": NO_TEXT, "sink": "orders", "layout": "{", "min_age": "soon"},
    "redrive": {"table": NO_TEXT, "sink": "orders", "layout": "{"},
    "parked redrive": {"table": NO_TEXT, "sink": "orders", "layout": "{"},
    "status": {"layout": "{"},
    "doctor": {"layout": "{"},
    "guarantees": {"layout": "{", "sink": "kafka", "settle": "burn", "ordering": "any", "on_poison": "burn"},
}
UNREAD = {"status": {"table"}, "doctor": {"table", "ordering"}}
"""The name of a table is DynamoDB's to refuse, and argparse has the few words of an ordering."""
BESIDE = {
    "sweep": ("sweep", "--once", "--table", "shop", "--sink", ARN),
    "redrive": ("redrive", "--from-queue", "u", "--table", "shop", "--sink", ARN),
    "parked redrive": ("parked", "redrive", "--all", "--yes", "--table", "shop", "--sink", ARN),
}


def names_what_was_typed(said: str, option: str) -> bool:
    """Whether a text names an option, and nothing that stands for it in Python or in the environment."""
    return f"--{option}" in said and not any(each in said for each in ("OUTBOX_", "Deployment:", "Load:"))


@pytest.mark.usefixtures("_nothing_configured")
@pytest.mark.parametrize("option", sorted(ARGUMENTS))
def test_each_option_of_infra_is_named_with_a_wrong_value(option: str) -> None:
    """But `existing-table`, of which nothing can be wrong."""
    if option == "existing-table":
        assert option not in OF_INFRA
        return
    needed = {"table": "shop", "notify": "a@b.example", "sink": ARN}
    if option == "route":
        del needed["sink"]
    beside = [word for name, value in needed.items() if name != option for word in (f"--{name}", value)]
    said = refused(option, OF_INFRA[option], "infra", "sam", *beside)
    assert names_what_was_typed(said, option), said


@pytest.mark.parametrize("option", sorted(LOAD))
def test_each_option_of_cost_is_named_with_a_wrong_value(option: str) -> None:
    """But `guarded`, of which nothing can be wrong."""
    if option == "guarded":
        assert option not in OF_COST
        return
    said = refused(option, OF_COST[option], "cost")
    assert names_what_was_typed(said, option), said


@pytest.mark.usefixtures("_nothing_configured")
@pytest.mark.parametrize("command", OF_VARIABLES)
def test_each_option_for_a_variable_is_named_with_a_wrong_value(command: str) -> None:
    """All variables that the command has an option for."""
    beside = BESIDE.get(command, (command,))
    options = vars(_parser().parse_args(beside))
    of_variables = {each.name.removeprefix("OUTBOX_").lower() for each in VARIABLES}
    assert of_variables & set(options) == set(OF_VARIABLES[command]) | UNREAD.get(command, set())
    for name, value in OF_VARIABLES[command].items():
        option = name.replace("_", "-")
        said = refused(option, value, *beside, *(("--table", "shop") if command in UNREAD else ()))
        assert names_what_was_typed(said, option), said


@pytest.mark.usefixtures("_nothing_configured")
def test_a_variable_that_was_set_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the option was not given, where there is none, and in a list of all names."""
    monkeypatch.setenv("OUTBOX_SINK", "orders")
    options = Namespace(sink=None, table="shop", queue="u")
    for error in (
        InvalidEnvironment([Problem("OUTBOX_SINK", ": 'orders': no ARN.")]),
        InvalidEnvironment([Problem("OUTBOX_RATE_LIMIT", "is 'x'; a whole number is needed.")]),
        InvalidEnvironment([Problem(None, "'OUTBOX_X' is no variable of this handler; there are OUTBOX_SINK.")]),
        ConfigurationError("is 5; text is needed.", argument="rate", owner="Deployment"),
        ConfigurationError("is 5; text is needed.", argument="queue", owner="Sqs"),
        ConfigurationError("is 'x'.", argument="sink", owner="ParkedRecords"),
        ConfigurationError("Relay(ordering='any'): 'key' or 'none'."),
    ):
        assert in_shell_words(error, options) == str(error)
    both = InvalidEnvironment([Problem("OUTBOX_TABLE", "is 'x'."), Problem("OUTBOX_LAYOUT", "is '{'.")])
    assert in_shell_words(both, options) == "(1) --table is 'x'. (2) OUTBOX_LAYOUT is '{'."


def test_what_is_wrong_is_told_as_data() -> None:
    """Of an argument: what was called, its name, and a reason that goes on after it; of a variable: no owner."""
    with pytest.raises(ConfigurationError) as caught:
        Load(events=-1)
    error = caught.value
    assert (error.owner, error.argument) == ("Load", "events")
    assert str(error) == f"Load: events {error.reason}"
    plain = ConfigurationError("nothing works.")
    assert (plain.owner, plain.argument, plain.reason, str(plain)) == (None, None, "nothing works.", "nothing works.")


def test_two_ways_to_settle_are_named_as_they_were_typed() -> None:
    """The one, and the layout that says another."""
    said = refused("settle", "mark", "guarantees", "--layout", '{"settle":"none"}')
    assert said.endswith("--settle is 'mark', and the layout says 'none': set one of them alone.")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bus:orders", "bus"),
        ("bus:odd.fifo", "bus"),
        ("topic:orders.fifo", "topic.fifo"),
        ("queue:audit", "queue"),
        (f"{ARN}.fifo", "queue.fifo"),
        ("topic.fifo", "topic.fifo"),
        ("kafka", "kafka"),
    ],
)
def test_a_kind_of_destination_is_given_as_it_is_or_by_a_destination(text: str, kind: str) -> None:
    """So `guarantees` and `cost` take what `infra` takes, too."""
    assert kind_of(text) == kind


def test_guarantees_and_cost_take_what_infra_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """And say the same of it as of the kind."""
    for command in ("guarantees", "cost"):
        said = set()
        for sink in ("queue.fifo", "queue:orders.fifo", f"{ARN}.fifo"):
            assert main([command, "--sink", sink]) == 0
            said.add(capsys.readouterr().out)
        assert len(said) == 1
