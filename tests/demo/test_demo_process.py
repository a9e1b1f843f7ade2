"""The demo as a process: a whole run under all faults, and every way in which it cannot come to its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from demo_process import WITH_HANG_UP, finish, kill, outbox, processes_of, read_until, wait_until_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
    pytest.mark.usefixtures("uncovered"),
]

ZERO = ("lost", "phantom", "effects_applied_twice", "out_of_order_keys", "pending")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Make a directory for the temporary files of a run."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    return directory


def left(scratch: Path) -> list[object]:
    """Return what a run left: its processes and its files."""
    return [*wait_until_none(scratch).values(), *scratch.iterdir()]


@pytest.mark.usefixtures("engine_extra")
def test_a_demo_under_all_faults_keeps_its_promises_and_can_be_recounted(scratch: Path, tmp_path: Path) -> None:
    """Every kind of fault happened, no promise was broken, both dual writes went wrong, and the dump says the same."""
    dump = tmp_path / "dump"
    with outbox("demo", "--orders", "40", "--seed", "2", "--json", "--dump", str(dump), scratch=scratch) as process:
        status, stdout, stderr = finish(process)
    assert status == 0, stderr
    assert stdout.count("\n") == 1
    figures = json.loads(stdout)
    assert [figures[name] for name in ZERO] == [0] * len(ZERO)
    assert (figures["orders"], figures["seed"], figures["parked"]) == (40, 2, 1)
    assert figures["committed"] + figures["rejected"] == 40
    assert figures["rejected"] >= 1
    second = figures["invoices"]
    assert [second[name] for name in (*ZERO, "parked")] == [0] * (len(ZERO) + 1)
    assert second["events"] == second["published"] == figures["published"]
    assert second["deliveries"] == second["published"] + second["duplicates_delivered"]
    assert figures["relay_kills"] == 3
    for name in ("partial_failures", "bus_rejections", "duplicates_delivered", "lost_answers", "published"):
        assert figures[name] > 0, name
    assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p99"]
    assert figures["dual_write"]["write_then_publish"]["lost"] > 0
    assert figures["dual_write"]["publish_then_write"]["phantom"] > 0
    assert set(figures["promises"]) == {"P1", "P2", "P3", "P4", "P5", "P6"}
    assert "seed 2: 40 orders" in stderr
    assert left(scratch) == []
    with outbox("demo", "--recount", str(dump), "--json", scratch=scratch) as process:
        status, again, _ = finish(process)
    assert (status, json.loads(again)) == (0, figures)


MISTAKES = {
    "without_reading_results": ("--relay", "P2", "lost: "),
    "without_the_gate": ("--relay", "P4", "out_of_order_keys: "),
    "with_the_highest_number": ("--relay", "P2", "lost: "),
    "that_parks_everything": ("--relay", "P2", "parked_wrongly: "),
    "without_the_inbox": ("--consumer", "P5", "effects_applied_twice: "),
}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[int, str, str]]]:
    """Run a demo with each of the broken functions, two at a time; return a look-up of what came of it, by name.

    What a batch holds depends on the machine's speed: a mistake that met no batch of its kind gets another seed.
    """
    arguments = ("--orders", "40", "--customers", "3", "--rejected", "25", "--json")

    def run(handler: str) -> tuple[int, str, str]:
        broken = (MISTAKES[handler][0], f"broken_functions:{handler}")
        came = (0, "", "")
        for seed in ("5", "6", "7"):
            scratch = tmp_path_factory.mktemp(handler)
            with outbox("demo", *arguments, "--seed", seed, *broken, scratch=scratch) as process:
                came = finish(process)
            if MISTAKES[handler][2] in came[1]:
                break
        return came

    with ThreadPoolExecutor(2) as pool:
        runs = {handler: pool.submit(run, handler) for handler in MISTAKES}
        yield lambda handler: runs[handler].result()


@pytest.mark.slow
@pytest.mark.usefixtures("engine_extra")
@pytest.mark.parametrize("handler", MISTAKES)
def test_a_function_with_one_mistake_fails_the_demo(
    handler: str, spoilt: Callable[[str], tuple[int, str, str]]
) -> None:
    """With this one mistake the demo ends with status 1 and names the promise that was broken."""
    _, promise, says = MISTAKES[handler]
    status, stdout, stderr = spoilt(handler)
    assert status == 1, stderr
    broken = json.loads(stdout)["promises"][promise]
    assert any(one.startswith(says) for one in broken), broken


@pytest.mark.usefixtures("engine_extra")
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_a_demo_that_is_interrupted_leaves_nothing(number: int, status: int, scratch: Path) -> None:
    """Ctrl-C (a terminal sends it to the whole group), SIGTERM, SIGHUP: a sentence, no traceback, nothing left."""
    program = ("-c", WITH_HANG_UP.format(handling="SIG_DFL"))
    with outbox("demo", "--orders", "40", "--seed", "1", "--json", scratch=scratch, program=program) as process:
        seen = read_until(process, "measuring")
        assert len(processes_of(scratch)) >= 6
        os.killpg(process.pid, number)
        ended, stdout, stderr = finish(process)
    assert (ended, stdout) == (status, "")
    assert stderr.endswith("outbox demo: ended early; nothing of it is left\n")
    assert "Traceback" not in seen + stderr
    assert left(scratch) == []


@pytest.mark.slow
@pytest.mark.usefixtures("engine_extra")
def test_a_demo_under_nohup_outlives_its_terminal(scratch: Path) -> None:
    """A SIGHUP that is ignored when it starts does not end it: it goes on, and can still be ended otherwise."""
    program = ("-c", WITH_HANG_UP.format(handling="SIG_IGN"))
    with outbox("demo", "--orders", "40", "--seed", "1", "--json", scratch=scratch, program=program) as process:
        read_until(process, "waking")
        os.killpg(process.pid, signal.SIGHUP)
        assert "all lanes" in read_until(process, "all lanes")
        process.terminate()
        ended, _, _ = finish(process)
    assert ended == 143
    assert left(scratch) == []


@pytest.mark.slow
@pytest.mark.usefixtures("engine_extra")
def test_an_engine_that_dies_ends_the_demo_with_a_sentence(scratch: Path) -> None:
    """The engine's death is the message, not the errors that follow from it; nothing is left."""
    with outbox("demo", "--orders", "40", "--seed", "1", "--json", scratch=scratch) as process:
        seen = read_until(process, "measuring")
        kill(next(pid for pid, command in processes_of(scratch).items() if "ministack" in command))
        ended, stdout, stderr = finish(process)
    assert (ended, stdout) == (3, "")
    assert "outbox demo: the local engine was ended by signal 9" in stderr
    assert "Traceback" not in seen + stderr
    assert left(scratch) == []


@pytest.mark.slow
@pytest.mark.usefixtures("engine_extra")
def test_a_bus_that_dies_ends_the_demo_with_a_sentence(scratch: Path) -> None:
    """So does the death of a bus, and it is named."""
    with outbox("demo", "--orders", "40", "--seed", "1", "--json", scratch=scratch) as process:
        read_until(process, "measuring")
        buses = {command: pid for pid, command in processes_of(scratch).items() if "faultbus" in command}
        kill(next(pid for command, pid in buses.items() if "publish_then_write" in command))
        ended, _, stderr = finish(process)
    assert ended == 3
    assert "outbox demo: the bus of publish_then_write was ended by signal 9" in stderr
    assert "Traceback" not in stderr
    assert left(scratch) == []


@pytest.mark.usefixtures("engine_extra")
def test_a_demo_that_is_killed_leaves_nothing(scratch: Path) -> None:
    """After SIGKILL nobody is left to clean up, and still no process stays, and no file."""
    with outbox("demo", "--orders", "40", "--seed", "1", "--json", scratch=scratch) as process:
        read_until(process, "measuring")
        assert len(list(scratch.iterdir())) == 2
        process.kill()
        finish(process)
    assert left(scratch) == []


@pytest.mark.usefixtures("engine_extra")
def test_a_port_that_is_taken_is_named(scratch: Path) -> None:
    """Status 3, the port and what to do, and nothing is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with outbox("demo", "--port", str(port), "--json", scratch=scratch) as process:
            status, stdout, stderr = finish(process)
    assert (status, stdout) == (3, "")
    said = stderr.splitlines()[-1]
    assert said.startswith("outbox demo: ")
    assert str(port) in said
    assert "in use" in said or "taken" in said
    assert "Traceback" not in stderr
    assert left(scratch) == []


@pytest.mark.parametrize(("package", "arguments"), [("ministack", ("--json",)), ("hypercorn", ()), ("rich", ())])
@pytest.mark.usefixtures("engine_extra")
def test_a_missing_extra_is_named(package: str, arguments: tuple[str, ...], scratch: Path) -> None:
    """Status 3, and the command that installs what is missing, when nothing but that is missing."""
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from dynamodb_outbox.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    with outbox("demo", *arguments, scratch=scratch, program=("-c", program)) as process:
        status, _, stderr = finish(process)
    assert status == 3
    assert package in stderr
    assert ("engine" in stderr, "ministack" in stderr) == (package != "rich",) * 2
    assert "pip install 'dynamodb-outbox[" in stderr
    assert "pip install -e '.[" in stderr
    assert "Traceback" not in stderr
    assert left(scratch) == []
