"""Why an invocation failed: said on standard error, each reason once."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from dynamodb_outbox.local.complaints import Complaints
from dynamodb_outbox.local.provision import create_queue, create_table
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the reasons that were said."""
    return [record.getMessage().rpartition(": ")[2] for record in caplog.records]


def test_a_reason_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A retry that fails for the same reason adds nothing; another reason does, and the first stays said."""
    complaints = Complaints()
    for reason in ("a", "a", "b", "a", "b"):
        complaints.failed(reason)
    assert said(caplog) == ["a", "b"]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_reasons_that_are_all_different_do_not_pile_up(caplog: pytest.LogCaptureFixture) -> None:
    """After a hundred of them they are forgotten: each is still said, and memory is bounded."""
    complaints = Complaints()
    for number in range(101):
        complaints.failed(str(number))
    complaints.failed("100")
    complaints.failed("0")
    assert said(caplog) == [*map(str, range(101)), "0"]
    assert len(complaints._said) == 2


USERS = """
import os

def broken(event, context):
    with open(os.path.join(os.path.dirname(__file__), "runs"), "a") as runs:
        runs.write(".")
    raise LookupError("no customer")
"""


def said_after_retries(source: str, account: Account, directory: Path, *more: str) -> list[str]:
    """Return what an event source without a log says of a function that raises, in two retries at least."""
    (directory / "users.py").write_text(USERS)
    runs = directory / "runs"
    arguments = ["--endpoint", account.url, "--account", account.account, "--handler", "users:broken", *more]
    program = subprocess.Popen(
        [sys.executable, "-m", f"dynamodb_outbox.local.{source}", *arguments],
        env={**os.environ, "PYTHONPATH": str(directory)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with program:
        end = time.monotonic() + 30
        while not (runs.exists() and len(runs.read_text()) > 2) and time.monotonic() < end:
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        _, stderr = program.communicate(timeout=20)
    assert len(runs.read_text()) > 2
    return [line for line in stderr.splitlines() if "an invocation failed" in line]


WHY = "LookupError: no customer"


def test_a_source_without_a_log_says_once_why_its_function_fails(engine: Account, tmp_path: Path) -> None:
    """Kind and message on standard error, however often the batch is tried."""
    client = engine.client("dynamodb")
    create_table(client, "shop")
    client.put_item(TableName="shop", Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
    options = ("--table", "shop", "--checkpoint", str(tmp_path / "cp"), "--retry-base-ms", "10")
    lines = said_after_retries("source", engine, tmp_path, *options)
    assert len(lines) == 1
    assert lines[0].endswith(f"an invocation failed, and will be repeated: {WHY}")


def test_a_queue_without_a_log_says_once_why_its_function_fails(engine: Account, tmp_path: Path) -> None:
    """So does the source for a queue, where the batch comes back when its messages are visible again."""
    client = engine.client("sqs")
    queue = create_queue(client, "invoices", visibility_timeout_s=1)
    client.send_message(QueueUrl=queue.url, MessageBody="hello")
    lines = said_after_retries("queue", engine, tmp_path, "--queue", "invoices")
    assert len(lines) == 1
    assert lines[0].endswith(f"an invocation failed, and will be repeated: {WHY}")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1_000, "1,000 entries")]
)
def test_words_are_counted(number: int, text: str) -> None:
    """One is not called many."""
    assert counted(number, "entry", "entries") == text
    assert counted(1, "event") == "1 event"
    assert counted(3, "event") == "3 events"
