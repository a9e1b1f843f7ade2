"""`outbox redrive`: what it prints, and its exit statuses."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from given_up import Destination, given_up

from dynamodb_outbox.cli import main
from dynamodb_outbox.core.sweeping.commands import SweepReport
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.provision import create_bus
from dynamodb_outbox.recover import FailureReport, Kept
from sweep_shell import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account


@pytest.fixture
def _variables(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients that the command makes for itself be those of the engine's account; no other variable is set."""
    for name in list(os.environ):
        if name.startswith("OUTBOX_"):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
        "OUTBOX_TABLE": "shop",
        "OUTBOX_SINK": f"arn:aws:events:{REGION}:{engine.account}:event-bus/orders",
    }.items():
        monkeypatch.setenv(name, value)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its status and what it printed."""
    status = main(("redrive", *arguments))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.usefixtures("_variables")
def test_a_queue_and_a_bucket_are_redriven(engine: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With the clients that the command makes for itself; what is no batch is told, and is status 1."""
    shop = Shop(engine)
    failed = Destination(engine, shop)
    create_bus(engine.client("events"), "orders")
    shop.emit()
    (document,) = given_up(engine, shop, 1, tmp_path)
    failed.send(document)
    failed.send("no JSON")
    status, out, _ = ran(capsys, "--from-queue", failed.queue)
    told, summed = out.splitlines()
    assert (status, told.endswith(": the document is no JSON.")) == (1, True)
    assert summed == "1 of 2 batches accounted for; 1 of 1 record published or parked"
    status, out, _ = ran(capsys, "--from-s3", failed.store(document), "--dry-run", "--json")
    report = FailureReport(batches=1, done=1, records=1, settled=1, dry_run=True)
    assert (status, out) == (0, json.dumps(report.to_json()) + "\n")


def test_what_a_redrive_came_to_is_told_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each figure that is not 0, and each document that is not done, in one line."""
    report = FailureReport(
        batches=3, done=1, records=9, published=4, parked=2, settled=1, gone=1, overtaken=2,
        kept=(Kept("message\n1", "it is lost", lost=True),), undeleted=1, swept=SweepReport(accepted=3),
        stopped="no bus",
    )  # fmt: skip
    monkeypatch.setattr("dynamodb_outbox.recover.FailedBatches.from_s3", lambda *_, **__: report)
    monkeypatch.setenv("OUTBOX_SINK", "arn:aws:sqs:eu-west-1:123456789012:orders")
    status, out, _ = ran(capsys, "--from-s3", "s3://failed/", "--table", "shop")
    lines = out.splitlines()
    assert status == 1
    assert lines[0] == "message\\n1: it is lost"
    assert "swept, 3 events accepted" in lines[1]
    assert lines[2].startswith("2 records behind a later event of the same key")
    assert lines[3:5] == ["1 message done, and not deleted: they come again", "stopped: no bus"]
    assert lines[5] == (
        "1 of 3 batches accounted for; 4 of 9 records published or parked; 2 events parked; 1 record settled since; "
        "1 record published before it left the table"
    )


@pytest.mark.usefixtures("_variables")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--from-s3", "bucket"), "no URI of objects"),
        (("--from-s3", "s3://bucket/", "--forget-lost"), "--forget-lost deletes messages of a queue"),
        (("--from-s3", "s3://bucket/", "--forget-gone"), "--forget-gone deletes messages of a queue"),
        (("--from-queue", "u", "--sink", "orders"), "--sink: 'orders': no ARN"),
        (("--from-queue", "u", "--table", ""), "--table is not set: it names the table"),
    ],
)
def test_what_cannot_be_meant_is_status_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    """Before anything is read."""
    status, _, err = ran(capsys, *arguments)
    assert (status, says in err) == (2, True)


@pytest.mark.usefixtures("_variables")
def test_a_queue_that_is_not_there_is_status_3(engine: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """With the queue's words."""
    status, out, err = ran(capsys, "--from-queue", f"{engine.url}/{engine.account}/nowhere")
    assert (status, out) == (3, "")
    assert err.startswith("outbox redrive: queue ")
