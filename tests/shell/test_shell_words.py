"""What is wrong is told in the words of whoever typed it, with one exit status for one kind of trouble."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.cli import main, status
from dynamodb_outbox.cli.shell_words import in_shell_words
from dynamodb_outbox.errors import TableUnavailable
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
    "consume": ("consume", "os:getcwd", "--queue", "https://sqs.eu-west-1.amazonaws.com/123456789012/billing"),
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
        (("sweep", "--table", "shop"), "--sink is not given, and OUTBOX_SINK not set: it names where events go"),
        (("sweep",), "(2) --table is not given, and OUTBOX_TABLE not set"),
        (("status", "--table", "shop", "--layout", "{"), "--layout is '{'"),
        (("guarantees", "--settle", "nonne"), "--settle is 'nonne'"),
        (("guarantees", "--ordering", "any"), "--ordering is 'any'"),
        (("infra", "sam", "--table", "shop", "--sink", "bus:orders", "--notify", "ops"), "--notify is 'ops'"),
        (("cost", "--sink", "kafka"), "--sink is 'kafka'"),
        (("cost", "--sweep-minutes", "0"), "--sweep-minutes is 0"),
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


def test_a_variable_that_was_set_keeps_its_name() -> None:
    """Where the option was not given, where there is none, and in a list of all names."""
    options = Namespace(sink=None, table="shop")
    for text in (
        "OUTBOX_SINK: no ARN.",
        "OUTBOX_RATE_LIMIT is 'x'; a whole number is needed.",
        "'OUTBOX_X' is no variable of this handler; there are OUTBOX_SINK, OUTBOX_TABLE.",
        "OUTBOX_LAYOUT is not set, and names nothing.",
        "Deployment: sink is 'x'.",
    ):
        assert in_shell_words(text, options) == text
    both = Namespace(layout="{}", settle="mark")
    said = in_shell_words("OUTBOX_SETTLE is 'mark', and OUTBOX_LAYOUT says 'none'.", both)
    assert said == "--settle is 'mark', and --layout says 'none'."


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
