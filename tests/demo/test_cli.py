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
from dynamodb_outbox.cli.render import print_report
from dynamodb_outbox.local.demo import Progress, plan, report_of, write_dump
from dynamodb_outbox.local.demo.evidence import LaneEvidence
from dynamodb_outbox.local.demo.schedule import LANES

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
        (("demo", "--orders", "many"), "--orders: 'many' is not a whole number"),
        (("demo", "--seed", "-1"), "--seed: '-1' is not a whole number from 0"),
        (("demo", "--seed", "x"), "--seed: 'x' is not a whole number from 0"),
        (("demo", "--port", "70000"), "--port: '70000' is not a whole number from 0 to 65535"),
        (("demo", "--customers", "1.5"), "--customers: '1.5' is not a whole number"),
        (("demo", "--rejected", "101"), "--rejected: '101' is not a whole number from 0 to 100"),
        (("demo", "--relay", "shop.relay"), "--relay: 'shop.relay' is not of the form module:attribute"),
        (("demo", "--ordres", "5"), "no option --ordres; did you mean --orders?"),
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


@pytest.mark.parametrize("customers", ["-1", "0", "31"])
def test_a_number_of_customers_out_of_range_is_a_usage_error(
    customers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and the range, which is that of the orders."""
    assert main(["demo", "--orders", "30", "--customers", customers]) == 2
    said = capsys.readouterr()
    assert said.err == f"outbox demo: --customers: 30 orders are of 1 to 30 customers, not of {customers}\n"
    assert said.out == ""


def test_the_help_states_ranges_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """What may be chosen, what is chosen otherwise, what a rejection does not do, and every exit status."""
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "20 to 10,000 (default: 300)" in said
    assert "1 to the number of orders (default: a fifth of them, at most 40)" in said
    assert "0 to 100 (default: 5); none more than twice in a row" in said
    assert all(status in said for status in ("0 every", "1 a", "2 arg", "3 it", "130, 143 or 129"))


@pytest.mark.parametrize(
    ("option", "handler", "says"),
    [
        ("--relay", "json:nosuch", "module 'json' has no attribute 'nosuch'"),
        ("--relay", "nosuch:thing", "ModuleNotFoundError: No module named 'nosuch'"),
        ("--consumer", "json:__name__", "is not callable"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_a_usage_error(
    option: str, handler: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and the reason as the last line, and not a traceback: nobody takes it for a broken promise."""
    assert main(["demo", "--json", option, handler]) == 2
    said = capfd.readouterr()
    assert said.err.splitlines()[-1] == f"outbox demo: {option} {handler}: {says}"
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("given", [("--orders", "40"), ("--rejected", "5"), ("--relay", "a:b"), ("--port", "0")])
def test_a_recount_takes_no_options_of_a_run(
    given: tuple[str, str], dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are named, even where they say what the default says, instead of being ignored."""
    assert main(["demo", "--recount", str(dump), "--json", *given]) == 2
    said = capsys.readouterr()
    assert said.err == f"outbox demo: --recount runs nothing: it cannot be combined with {given[0]}\n"
    assert said.out == ""


def test_what_is_printed_for_programs_needs_no_rich(dump: Path) -> None:
    """--json works where rich is not installed; without it, the message says so, and how to install in either case."""
    program = (
        "import sys; sys.modules['rich'] = None; from dynamodb_outbox.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = [sys.executable, "-c", program, "demo", "--recount", str(dump)]
    ended = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["lost"] == 0
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (3, "")
    for word in ("rich", "--json", "pip install 'dynamodb-outbox[cli,local]'", "pip install -e '.[cli,local]'"):
        assert word in ended.stderr


def test_a_latency_of_no_events_is_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no calm event was accepted there is no median."""
    nothing = replace(made().evidence(), lanes={lane: LaneEvidence((), (), ()) for lane in LANES})
    print_report(report_of(nothing))
    said = capsys.readouterr().out
    assert "without faults: no events\n" in said
    assert "None" not in said


def test_one_is_not_called_many(capsys: pytest.CaptureFixture[str]) -> None:
    """A single event, entry, answer or kill is said in the singular."""
    report = report_of(made().evidence())
    ones = dict.fromkeys(("bus_rejections", "partial_failures", "relay_kills", "lost_answers"), 1)
    print_report(replace(report, figures={**report.figures, **ones, "latency_ms": {"p50": 1, "p99": 1, "samples": 1}}))
    said = capsys.readouterr().out
    assert "1 ms (99 %), 1 event\n" in said
    assert "1 entry rejected in 1 answer, 1 relay kill, 1 answer lost after the commit" in said


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


def test_a_kill_that_did_not_happen_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All promises held, but not under what was announced: the figures are there, and a line that says so."""
    short = made()
    short.kills.clear()
    write_dump(tmp_path / "dump", short.evidence())
    assert main(["demo", "--recount", str(tmp_path / "dump"), "--json"]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["relay_kills"] == 0
    assert said.err == "outbox demo: it did not show what it announced: 0 of 3 planned relay kills happened\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("orders.json", b"\xff\xfe"),
        ("orders.json", b"5"),
        ("orders.json", b"[1]"),
        ("orders.json", b'[{"pk": "a"}]'),
        ("orders.json", b'[{"pk": "a", "sk": 5}]'),
        ("orders.json", b'[{"pk": "a", "sk": "OUTBOX#1", "at": "x"}]'),
        ("orders.json", b'[{"pk": "a", "sk": "OUTBOX#1", "at": Infinity}]'),
        ("orders.json", b'[{"pk": "a", "sk": "OUTBOX#1", "events": "[1]"}]'),
        ("orders.json", b"[" * 100_000),
        ("consumer.json", b"null"),
        ("consumer.json", b'[{"pk": "a", "sk": "b", "event": "c"}]'),
        ("kills.jsonl", b"5\n"),
        ("kills.jsonl", b"{}\n"),
        ("run.json", b"[]"),
        ("schedule.json", b"null"),
        ("schedule.json", b'{"orders": [5]}'),
        ("acceptances.jsonl", b'{"detail": "{}"}\n'),
        ("deliveries.jsonl", b'"text"\n'),
        ("verdicts.jsonl", b'{"verdict": "committed"}\n'),
        ("faults.jsonl", b'{"kind": "held", "what": null}\n'),
    ],
)
def test_a_recount_of_a_damaged_dump_is_a_usage_error(
    name: str, content: bytes, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and one sentence, never a traceback nor the status of a broken promise."""
    (dump / name).write_bytes(content)
    assert main(["demo", "--recount", str(dump), "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"outbox demo: --recount {dump}")
    assert said.err.count("\n") == 1


def test_a_log_is_shown_whatever_bytes_it_has(broken_dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a function printed is its own business, and nothing is counted from it."""
    (broken_dump / "relay.log").write_bytes(b"\xff here\n")
    assert main(["demo", "--recount", str(broken_dump), "--json"]) == 1
    assert capsys.readouterr().err == "the relay printed, at the end:\n\ufffd here\n"


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
    with progress(SCHEDULE, stream=stream, live=True) as observe:
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
    with progress(SCHEDULE, stream=stream, live=True) as observe:
        observe(NOW)
        observe(replace(NOW, out=True, happened=()))
    text = stream.getvalue()
    assert "the bus is out" in text
    assert "\x1b[" in text


def test_progress_beside_json_is_lines_on_a_terminal_too() -> None:
    """Where nothing may be drawn, a terminal gets what a file gets."""
    stream = Terminal()
    with progress(SCHEDULE, stream=stream, live=False) as observe:
        observe(NOW)
    assert "  2.5 s  the bus is out\n" in stream.getvalue()
    assert "\x1b[" not in stream.getvalue()


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
