"""Two event sources on one checkpoint: the second one waits a moment, then says why it does not run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dynamodb_outbox
from dynamodb_outbox.local.alone import InUse, alone_with

HOLD = """
import sys
from pathlib import Path
from dynamodb_outbox.local.alone import alone_with
with alone_with(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[bytes]:
    """Start a process that holds the lock until it is ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(dynamodb_outbox.__file__).parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_second_process_is_refused_until_the_first_is_gone_however_it_went(tmp_path: Path) -> None:
    """Killed, it cannot clean up; nothing is left that would keep the next one out."""
    with holder(tmp_path / "cp") as first:
        with pytest.raises(InUse, match="another process"), alone_with(tmp_path / "cp", within_s=0.1):
            pytest.fail("two at once")
        with alone_with(tmp_path / "other", within_s=0):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
        with alone_with(tmp_path / "cp", within_s=0):
            pass


def test_one_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    """A restart need not be timed."""
    with holder(tmp_path / "cp") as first:
        assert first.stdin is not None
        first.stdin.close()
        with alone_with(tmp_path / "cp"):
            pass
        assert first.wait() == 0


def test_a_place_where_no_file_can_be_is_an_error_before_anything_is_done(tmp_path: Path) -> None:
    """The directory is missing: that is said now, and not after the first invocation."""
    with pytest.raises(FileNotFoundError, match="missing"), alone_with(tmp_path / "missing" / "cp"):
        pytest.fail("there is no such directory")
