"""Child processes end with their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox.process.lifeline import Lifeline
from processes import gone

if TYPE_CHECKING:
    from pathlib import Path

WRAPPER = [sys.executable, "-m", "dynamodb_outbox.process.lifeline"]


def test_the_wrapper_runs_a_module_as_python_would(tmp_path: Path) -> None:
    """Arguments, standard output and the exit status are the module's own."""
    (tmp_path / "program.py").write_text("import sys\nprint(__name__, sys.argv)\nsys.exit(7)\n")
    line = Lifeline()
    ended = subprocess.run(
        [*WRAPPER, "--fd", str(line.child_fd), "program", "--flag", "--fd", "x"],
        pass_fds=[line.child_fd],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    line.cut()
    line.cut()
    assert ended.returncode == 7
    assert ended.stdout.startswith("__main__ [")
    assert ended.stdout.rstrip().endswith("'--flag', '--fd', 'x']")


def test_cutting_the_line_ends_the_child_and_removes_its_directory(tmp_path: Path) -> None:
    """The child is gone and its directory, too, though it caught no signal."""
    directory = tmp_path / "private"
    directory.mkdir()
    (tmp_path / "program.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    line = Lifeline()
    child = subprocess.Popen(
        [*WRAPPER, "--fd", str(line.child_fd), "--remove", str(directory), "program"],
        pass_fds=[line.child_fd],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    with child:
        line.started()
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert child.poll() is None
        line.cut()
        assert child.wait(10) == 113
    assert not directory.exists()


def test_a_grandchild_that_holds_the_line_does_not_keep_the_child(tmp_path: Path) -> None:
    """A fork of the parent keeps the pipe open; the child notices that its parent is gone all the same."""
    program = f"""
import os, subprocess, sys, time
from dynamodb_outbox.process.lifeline import Lifeline
line = Lifeline()
child = subprocess.Popen([*{WRAPPER!r}, "--fd", str(line.child_fd), "program"], pass_fds=[line.child_fd])
line.started()
if os.fork() == 0:
    time.sleep(20)  # holds the pipe
    os._exit(0)
print("forked", flush=True)
time.sleep(60)
"""
    (tmp_path / "program.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert parent.stdout is not None
    lines = {parent.stdout.readline().strip() for _ in range(2)}
    [child] = [int(line) for line in lines if line.isdigit()]
    parent.kill()
    parent.wait()
    try:
        assert gone(child)
    finally:
        parent.stdout.close()
        os.killpg(parent.pid, 9)
