"""The local event source as a program: arguments, signals, kills, mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError

import dynamodb_outbox
from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.local.checkpoint import CheckpointFile
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.local.source import PATIENCE, EventSource, main
from dynamodb_outbox.process.stop import StopFlag
from source_steps import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Account
    from dynamodb_outbox.core.eventsource.answers import Answer


HANDLER = """
    import os, time

    def handler(event, context):
        with open(os.environ["SEEN"], "a") as seen:
            for record in event["Records"]:
                seen.write(record["dynamodb"]["Keys"]["sk"]["S"] + "\\n")
        wait = float(os.environ.get("WAIT", "0"))
        print("working", flush=True)
        time.sleep(wait)
        return {"batchItemFailures": []}
"""


PACKAGE = Path(dynamodb_outbox.__file__).parent.parent
"""Where the package that is tested lies: the program must not find another one that is installed."""


class Shop:
    """A table with a stream on the engine, and the source as a program beside it."""

    def __init__(self, account: Account, directory: Path) -> None:
        self.account = account
        self.directory = directory
        self.client = account.client("dynamodb")
        (directory / "shop.py").write_text(textwrap.dedent(HANDLER))
        create_table(self.client, "shop")

    def put(self, *names: str) -> None:
        """Write items; an item's sort key is its name."""
        for name in names:
            self.client.put_item(TableName="shop", Item={"pk": {"S": "a"}, "sk": {"S": name}})

    def arguments(self, *more: str) -> list[str]:
        """Return the program's arguments."""
        return [
            *("--endpoint", self.account.url, "--account", self.account.account, "--table", "shop"),
            *("--handler", "shop:handler", "--checkpoint", str(self.directory / "cp")),
            *("--log", str(self.directory / "log"), "--env", f"SEEN={self.directory / 'seen'}", *more),
        ]

    def start(self, *more: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the program, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "dynamodb_outbox.local.source", *self.arguments(*more)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.directory), str(PACKAGE)])},
            start_new_session=True,
            **options,
        )

    def seen(self) -> list[str]:
        """Return the names that the function was given, in order."""
        path = self.directory / "seen"
        return path.read_text().split() if path.exists() else []

    def wait_for(self, *names: str) -> None:
        """Wait until the function was given these, 20 s at most."""
        deadline = time.monotonic() + 20
        while not set(names) <= set(self.seen()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert set(names) <= set(self.seen())

    def wait_for_delivery(self) -> None:
        """Write items until one is delivered, 20 s at most: with LATEST, those before are missed."""
        deadline = time.monotonic() + 20
        while not self.seen() and time.monotonic() < deadline:
            self.put(f"new-{time.monotonic()}")
            time.sleep(0.05)
        assert self.seen()


@pytest.fixture
def shop(engine: Account, tmp_path: Path) -> Shop:
    """Return a table and the means to run the source on it."""
    return Shop(engine, tmp_path)


def test_as_a_program_it_delivers_and_ends_on_sigterm_with_status_0(shop: Shop) -> None:
    """Filtered records are passed over; a second run delivers only what is new."""
    pattern = json.dumps({"dynamodb": {"Keys": {"sk": {"S": [{"prefix": "OUTBOX#"}]}}}})
    shop.put("OUTBOX#1", "META", "OUTBOX#2")
    for wanted in ("OUTBOX#2", "OUTBOX#3"):
        with shop.start("--filter", pattern) as program:
            shop.wait_for(wanted)
            program.send_signal(signal.SIGTERM)
            assert program.wait(10) == 0
        shop.put("OUTBOX#3")
    assert shop.seen() == ["OUTBOX#1", "OUTBOX#2", "OUTBOX#3"]
    assert len(events(shop.directory / "log", "stopped")) == 2


def test_as_a_program_it_starts_at_latest_keeps_failures_and_deletes_what_expired(shop: Shop) -> None:
    """The three options together: nothing old is delivered, a failure is kept with its payload, TTL is played."""
    shop.put("old")
    (shop.directory / "shop.py").write_text(
        textwrap.dedent(HANDLER)
        + "\n\n"
        + textwrap.dedent(
            """
            def picky(event, context):
                handler(event, context)
                if any(one.get("userIdentity") for one in event["Records"]):
                    raise ValueError("an item expired")
            """
        )
    )
    options = ("--starting-position", "LATEST", "--on-failure", str(shop.directory / "failed"), "--ttl")
    more = ("--handler", "shop:picky", "--maximum-retry-attempts", "0")
    with shop.start(*options, *more) as program:
        shop.wait_for_delivery()
        expired = {"pk": {"S": "a"}, "sk": {"S": "expired"}, "expires_at": {"N": str(int(time.time()) - 60)}}
        shop.client.put_item(TableName="shop", Item=expired)
        deadline = time.monotonic() + 20
        while not list((shop.directory / "failed").rglob("*-*T*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
    assert "old" not in shop.seen()
    [kept] = [path for path in (shop.directory / "failed").rglob("*") if path.is_file()]
    payload = json.loads(json.loads(kept.read_text())["payload"])
    [removed] = [one for one in payload["Records"] if one["eventName"] == "REMOVE"]
    assert removed["userIdentity"] == {"principalId": "dynamodb.amazonaws.com", "type": "Service"}
    [discarded] = events(shop.directory / "log", "discarded")
    assert discarded["kept"] == str(kept)
    assert sum(entry["items"] for entry in events(shop.directory / "log", "expired")) == 1


def test_sigterm_lets_the_invocation_end_and_keeps_the_checkpoint(shop: Shop) -> None:
    """The function is not cut off; its answer counts."""
    shop.put("1")
    with shop.start("--env", "WAIT=0.8", stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"working\n"
        os.killpg(program.pid, signal.SIGTERM)
        assert program.wait(10) == 0
    assert len(events(shop.directory / "log", "checkpoint")) == 1


def test_a_source_that_is_killed_delivers_again(shop: Shop) -> None:
    """SIGKILL between the function's work and the checkpoint: the batch comes twice, and none is lost."""
    shop.put("1")
    with shop.start("--env", "WAIT=60", "--timeout-ms", "60000", stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"working\n"
        program.kill()
        program.wait()
    shop.put("2")
    with shop.start() as program:
        shop.wait_for("2")
        program.terminate()
        assert program.wait(10) == 0
    assert shop.seen() == ["1", "1", "2"]


def test_it_ends_with_its_parent_when_asked_to(shop: Shop) -> None:
    """With --exit-with-parent the end of standard input is its end."""
    with shop.start("--exit-with-parent", stdin=subprocess.PIPE) as program:
        shop.put("1")
        shop.wait_for("1")
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(10) != 0


def test_a_source_ends_soon_though_its_endpoint_hangs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked to stop while a call is under way, it waits for the end of that call alone, and no other is made."""
    stop, calls = StopFlag(), []

    def hanging(*_: Any, **__: Any) -> Any:
        calls.append(time.monotonic())
        stop.set()
        raise ReadTimeoutError(endpoint_url=shop.account.url)

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", hanging)
    streams = local_client("dynamodbstreams", shop.account.url, config=PATIENCE)
    checkpoint = CheckpointFile(shop.directory / "cp", "arn:old")
    EventSource(
        DynamoDbStream(streams, "arn:aws:dynamodb:us-east-1:1:table/shop/stream/1"), Mute(), checkpoint, stop
    ).run()
    assert len(calls) == 1
    assert "trying again" in caplog.text
    stop.close()


class Mute:
    """A function that is never invoked."""

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Complain."""
        raise AssertionError(event)


def test_the_files_of_a_source_are_beside_the_checkpoint_that_a_link_leads_to(shop: Shop) -> None:
    """Its lock and what TTL deleted: who names the file and who names the link have the same ones."""
    (shop.directory / "there").mkdir()
    (shop.directory / "link").symlink_to(shop.directory / "there" / "cp")
    shop.put("1", "2")
    old = {"pk": {"S": "a"}, "sk": {"S": "expired"}, "expires_at": {"N": str(int(time.time()) - 60)}}
    shop.client.put_item(TableName="shop", Item=old)
    with shop.start("--ttl", "expires_at", "--checkpoint", str(shop.directory / "link")) as program:
        shop.wait_for("2", "expired")
        deadline = time.monotonic() + 20
        while len(shop.seen()) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
    assert {path.name for path in (shop.directory / "there").iterdir()} == {"cp", "cp.lock", "cp.ttl"}
    assert (shop.directory / "link").is_symlink()


def test_a_mistake_is_one_line_on_standard_error(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing table, a useless filter, a corrupt checkpoint: a sentence and status 1, no traceback."""
    assert main(shop.arguments("--table", "missing")) == 1
    assert "error: missing: " in capsys.readouterr().err
    assert main(shop.arguments("--filter", "[]")) == 1
    assert "error: filter 1: " in capsys.readouterr().err
    assert main(shop.arguments("--account", "7")) == 1
    assert "12 digits" in capsys.readouterr().err
    assert main(shop.arguments("--checkpoint", str(shop.directory / "missing" / "cp"))) == 1
    assert "missing/cp" in capsys.readouterr().err
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdin", None)
        assert main(shop.arguments("--exit-with-parent")) == 1
    assert "standard input is closed" in capsys.readouterr().err
    assert main(shop.arguments("--poll-interval-ms", "0")) == 1
    assert "poll_interval_ms is 0; a whole number from 1 to 60,000" in capsys.readouterr().err
    assert main(shop.arguments("--poll-interval-ms", str(10**30))) == 1
    assert "poll_interval_ms is 1000000000000000000000000000000; a whole number" in capsys.readouterr().err
    for value in ("0", str(10**20)):
        assert main(shop.arguments("--timeout-ms", value)) == 1
        assert capsys.readouterr().err.endswith(
            f"error: timeout_ms is {value}; a whole number from 1 to 900,000 is needed.\n"
        )
    for setting in ("WAIT", "=1"):
        with pytest.raises(SystemExit, match="2"):
            main(shop.arguments("--env", setting))
        assert f"argument --env: {setting!r} is not NAME=VALUE" in capsys.readouterr().err
    (shop.directory / "cp").write_text("nonsense")
    assert main(shop.arguments("--endpoint", "127.0.0.1:4566")) == 1
    assert "endpoint '127.0.0.1:4566': http:// is missing" in capsys.readouterr().err
    assert main(shop.arguments()) == 1
    assert "give the checkpoint another name" in capsys.readouterr().err


def test_a_handler_that_is_not_there_is_said_at_the_start(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    """In one line, and nothing is read: nor a checkpoint left."""
    shop.put("1")
    assert main(shop.arguments("--handler", "shop_rely:handler")) == 1
    reading, error = capfd.readouterr().err.splitlines()
    assert reading.startswith("reading ")
    assert error.endswith(
        ".local.source: error: --handler shop_rely:handler: ModuleNotFoundError: No module named 'shop_rely'"
    )
    assert main(shop.arguments("--handler", "os:nothing")) == 1
    assert "error: --handler os:nothing: module 'os' has no attribute 'nothing'" in capfd.readouterr().err
    (shop.directory / "over.py").write_text("raise SystemExit(0)")
    path = os.pathsep.join([str(shop.directory), *sys.path])
    assert main(shop.arguments("--handler", "over:handler", "--env", f"PYTHONPATH={path}")) == 1
    over = "error: --handler over:handler: it ends the process when it is imported (SystemExit: 0)"
    assert over in capfd.readouterr().err
    assert not (shop.directory / "cp").exists()
    assert not events(shop.directory / "log", "started")
