"""The end of a child process: bringing it about for all that the child started, and putting it into words."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    import subprocess

__all__ = ["how_it_ended", "signal_group"]


def signal_group(leader: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a child that leads a process group, and to the whole group. One that is gone is no error."""
    # PermissionError: what macOS says when all that is left of the group is a zombie.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader.pid, number)


def how_it_ended(exit_code: int) -> str:
    """Return `Popen.returncode` as the rest of a sentence: "was ended by signal 9", "ended with status 3"."""
    return f"was ended by signal {-exit_code}" if exit_code < 0 else f"ended with status {exit_code}"
