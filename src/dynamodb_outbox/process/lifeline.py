"""Child processes that never outlive the process that started them, not even one ended by SIGKILL.

The parent holds the write end of a pipe; a thread of the child waits on the read end. When the parent is gone, however
it went, the kernel closes the write end, the child reads end-of-file and ends itself at once. The thread also compares
its parent's id every second, because a fork of the parent (multiprocessing) would inherit the write end and keep the
pipe open.

Linux offers PR_SET_PDEATHSIG for this. It is not used: it fires when the THREAD that started the child ends, which
would kill a child that some worker thread happened to start, and it does not exist on other systems. The pipe behaves
the same on Linux and on macOS. Its one weakness is native code that holds the interpreter's lock for ever.

Run as a program it wraps a module: `python -m dynamodb_outbox.process.lifeline --fd 5 --remove DIR -- hypercorn ARGS…`
"""

from __future__ import annotations

import argparse
import os
import runpy
import select
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Lifeline", "end_with_parent", "main"]

_PARENT_CHECK_S = 1.0
_REMOVE_WITHIN_S = 2.0
_ORPHANED = 113
"""The exit status of a child that ended because its parent was gone."""


class Lifeline:
    """The parent's end: give `child_fd` to the child, call `started()` after the spawn and `cut()` to end the child."""

    def __init__(self) -> None:
        self.child_fd, self._held_fd = os.pipe()

    def started(self) -> None:
        """Close this process's copy of the child's end; the child has its own by now."""
        if self.child_fd >= 0:
            os.close(self.child_fd)
            self.child_fd = -1

    def cut(self) -> None:
        """Let go: a child that still runs ends itself. May be called again."""
        self.started()
        if self._held_fd >= 0:
            os.close(self._held_fd)
            self._held_fd = -1


def end_with_parent(fd: int, *, cleanup: Callable[[], None] | None = None) -> None:
    """Start the thread that ends this process when the parent is gone; `cleanup` runs first.

    `fd` is the read end of the parent's `Lifeline`, or another input that ends with the parent. Nothing is flushed and
    no handler runs: what this process was doing is cut off, as it would be by SIGKILL. The leader of a process group
    takes its whole group along.
    """
    parent = os.getppid()

    def watch() -> None:
        try:
            while os.getppid() == parent and not _ended(fd):
                pass
            if cleanup is not None:
                cleanup()
        finally:
            _end()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _ended(fd: int) -> bool:
    """Wait a while for the end of the input; what is written to it is read and means nothing."""
    readable, _, _ = select.select([fd], [], [], _PARENT_CHECK_S)
    return bool(readable) and not os.read(fd, 4096)


def _end() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(_ORPHANED)


def _remove(directory: Path) -> None:
    """Remove a directory that others, about to end like this process, may still be writing to."""
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.02)


def main(argv: Sequence[str] | None = None) -> None:
    """Watch the parent and run a module as if by `python -m`, in this process."""
    parser = argparse.ArgumentParser(prog="python -m dynamodb_outbox.process.lifeline", description=main.__doc__)
    parser.add_argument("--fd", type=int, required=True, help="read end of the parent's pipe")
    parser.add_argument(
        "--remove",
        type=Path,
        action="append",
        default=[],
        help="a directory to remove when the parent is gone, repeatable",
    )
    parser.add_argument("module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)

    def cleanup() -> None:
        for directory in options.remove:
            _remove(directory)

    end_with_parent(options.fd, cleanup=cleanup)
    sys.argv = [options.module, *options.arguments]
    runpy.run_module(options.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
