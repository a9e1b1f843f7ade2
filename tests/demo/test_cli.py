"""The command `outbox`: arguments, messages, exit statuses, and what it prints."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from demo_evidence import Made, perfect

from dynamodb_outbox._version import __version__
from dynamodb_outbox.cli import _ended_by_signals, main
from dynamodb_outbox.cli.progress import progress
from dynamodb_outbox.local.demo import Progress, plan, write_dump

if TYPE_CHECKING:
    from pathlib import Path

SCHEDULE = plan(30, 4)


def made() -> Made:
    """Return the evidence of a run in which everything went well."""
    return perfect(SCHEDULE)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Return the dump of a run in which everything went well."""
    write_dump(tmp_path / "dump", made().evidence())
    return tmp_path / "dump"


@pytest.fixture
def broken_dump(tmp_path: Path) -> Path:
    """Return the dump of a run that lost an event, with what its relay printed."""
    spoilt = made()
    lost = spoilt.acceptances.pop()
    spoilt.deliveries.pop()
    assert lost
    evidence = replace(spoilt.evidence(), logs={"relay": "it went wrong here\n", "consumer": "\n"})
    write_dump(tmp_path / "dump", evidence)
    return tmp_path / "dump"


def usage(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what is said about arguments that argparse refuses, which must end with status 2."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "required: COMMAND"),
        (("deom",), "invalid choice: 'deom'"),
        (("demo", "--orders", "many"), "--orders: invalid int value"),
        (("demo", "--seed", "-1"), "--seed: '-1' is not a whole number from 0"),
        (("demo", "--seed", "x"), "--seed: 'x' is not a whole number from 0"),
        (("demo", "--port", "70000"), "--port: '70000' is not a whole number from 0 to 65535"),
        (("demo", "--customers", "0"), "--customers: '0' is not a whole number from 1"),
        (("demo", "--rejected", "101"), "--rejected: '101' is not a whole number from 0 to 100"),
        (("demo", "--relay", "shop.relay"), "--relay: 'shop.relay' is not of the form module:attribute"),
        (("demo", "--ordres", "5"), "unrecognized arguments: --ordres"),
    ],
)
def test_arguments_that_cannot_be_read_are_named(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, the argument, and what it should be."""
    assert says in usage(capsys, *arguments)


@pytest.mark.parametrize("orders", ["0", "-5", "19", "10001"])
def test_a_number_of_orders_out_of_range_is_a_usage_error(orders: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and the range."""
    assert main(["demo", "--orders", orders]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("outbox demo: --orders: a demo takes 20 to 10,000 orders")
    assert said.out == ""


def test_a_dump_that_cannot_be_left_is_a_usage_error_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, at once, for a directory that is not empty and for a path that is none."""
    (tmp_path / "something").touch()
    assert main(["demo", "--dump", str(tmp_path)]) == 2
    assert main(["demo", "--dump", str(tmp_path / "something")]) == 2
    said = capsys.readouterr().err
    assert f"outbox demo: --dump {tmp_path}: not empty" in said
    assert "not a directory" in said


def test_a_recount_of_no_dump_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and the file that is missing."""
    assert main(["demo", "--recount", str(tmp_path)]) == 2
    assert "schedule.json" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`outbox --version` names the distribution and its version."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"dynamodb-outbox {__version__}\n"


def test_a_recount_as_json_is_one_object(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0 and one line on stdout, nothing on stderr."""
    assert main(["demo", "--recount", str(dump), "--json"]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1
    assert json.loads(said.out)["lost"] == 0
    assert said.err == ""


def test_a_recount_for_people_is_a_table_and_a_line_for_each_promise(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The three lanes side by side, and six promises."""
    assert main(["demo", "--recount", str(dump)]) == 0
    out = capsys.readouterr().out
    assert "write, then publish" in out
    assert "LOST: happened, and nobody was told" in out
    assert [line[:4] for line in out.splitlines() if line.startswith("✓")] == [f"✓ P{n}" for n in range(1, 7)]
    assert "\x1b" not in out


def test_a_broken_promise_is_status_1_and_its_possible_reason_is_shown(
    broken_dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The promise is marked, the event named, and the end of what the relay printed is there."""
    assert main(["demo", "--recount", str(broken_dump)]) == 1
    said = capsys.readouterr()
    assert "✗ P2" in said.out
    assert "lost: 1 (F" in said.out
    assert said.err == "the relay printed, at the end:\nit went wrong here\n"


def test_a_reader_that_goes_away_is_no_traceback(dump: Path) -> None:
    """`outbox … | head` ends quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "dynamodb_outbox.cli", "demo", "--recount", str(dump)]
    with open(writer, "wb") as out:  # noqa: PTH123 -- a file descriptor
        ended = subprocess.run(arguments, stdout=out, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert ended.returncode == 3
    assert ended.stderr == ""


NOW = Progress("all lanes, with faults", 2.5, 30, {"outbox": 3}, {"outbox": 5}, kills=1, happened=("the bus is out",))


def test_progress_on_anything_but_a_terminal_is_lines() -> None:
    """The schedule first; then a line when the stage changes or something happens, and none when nothing does."""
    stream = io.StringIO()
    with progress(SCHEDULE, stream=stream) as observe:
        observe(NOW)
        observe(replace(NOW, seconds=2.7, happened=()))
        observe(replace(NOW, seconds=3.0, stage="waiting", happened=()))
    lines = stream.getvalue().splitlines()
    assert lines[: len(SCHEDULE.describe())] == SCHEDULE.describe()
    assert lines[-3:] == ["  2.5 s  all lanes, with faults", "  2.5 s  the bus is out", "  3.0 s  waiting"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_progress_on_a_terminal_is_a_live_view() -> None:
    """Bars for the lanes, the state of the bus, and the lines of what happened above them."""
    stream = Terminal()
    with progress(SCHEDULE, stream=stream) as observe:
        observe(NOW)
        observe(replace(NOW, out=True, happened=()))
    text = stream.getvalue()
    assert "the bus is out" in text
    assert "\x1b[" in text


@pytest.mark.parametrize("ignored", [True, False])
def test_a_hang_up_that_is_ignored_stays_ignored(ignored: bool) -> None:
    """Under nohup the end of the terminal does not end the command; whatever was set is set again afterwards."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    seen = []
    try:
        with _ended_by_signals():
            seen.append(signal.getsignal(signal.SIGHUP))
        assert (seen[0] is signal.SIG_IGN) is ignored
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)
