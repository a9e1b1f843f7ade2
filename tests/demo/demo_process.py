"""`outbox` as a process of its own, and a look at what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dynamodb_outbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
SOURCE = Path(dynamodb_outbox.__file__).parent.parent
_WITHIN_S = 90.0

WITH_HANG_UP = (
    "import signal, sys\n"
    "signal.signal(signal.SIGHUP, signal.{handling})\n"
    "from dynamodb_outbox.cli import main\n"
    "sys.exit(main(sys.argv[1:]))"
)
"""The command as a program that was started with this `handling` of SIGHUP, whatever the tests were started with."""


@contextmanager
def outbox(
    *arguments: str, scratch: Path, program: Sequence[str] = ("-m", "dynamodb_outbox.cli")
) -> Iterator[subprocess.Popen[str]]:
    """Run the command with `scratch` as the directory for temporary files; it is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, *program, *arguments],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(map(str, (HERE, SOURCE)))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end; return the exit status, stdout and stderr."""
    stdout, stderr = process.communicate(timeout=_WITHIN_S)
    return process.returncode, stdout, stderr


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """Read stderr until a line contains `wanted`; return what was read."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if wanted in line:
            break
    return "".join(lines)


def processes_of(scratch: Path) -> dict[int, str]:
    """Return the processes that were started with a path in `scratch` among their arguments: id to command line."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue  # it ended meanwhile
        if str(scratch) in command:
            found[int(path.parent.name)] = command
    return found


def wait_until_none(scratch: Path, within_s: float = 10.0) -> dict[int, str]:
    """Wait until no process of `scratch` is left; return those that are left after `within_s` seconds."""
    end = time.monotonic() + within_s
    while (left := processes_of(scratch)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def kill(pid: int) -> None:
    """End one process by SIGKILL."""
    os.kill(pid, signal.SIGKILL)
