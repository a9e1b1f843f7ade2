"""Looking at processes that are not this one's children."""

from __future__ import annotations

import subprocess
import time

__all__ = ["gone", "state"]


def state(pid: int) -> str:
    """Return the state letter of a process, "" when there is none."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1]


def gone(pid: int, *, within_s: float = 5.0) -> bool:
    """Wait for a process to end; return whether it did in that time. A zombie has ended."""
    deadline = time.monotonic() + within_s
    while state(pid) not in ("", "Z"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
