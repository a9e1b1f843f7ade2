"""One process at a time: two event sources on one checkpoint would hand each item's records over side by side.

The lock is the kernel's, on a file of its own beside the checkpoint (which is replaced as a whole, and its locks with
it). It is gone with the process that holds it, however it ended; the empty file stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["InUse", "alone_with"]

_LOOK_EVERY_S = 0.05


class InUse(OutboxError):
    """Another process is at work with the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is in use by another process: end that one, or name another file")


@contextlib.contextmanager
def alone_with(path: Path, *, within_s: float = 5.0) -> Iterator[None]:
    """Be the one process that works with the file at `path`, which need not be there.

    A symbolic link and the file it leads to are one. Waits `within_s` for one that is about to end. Raises InUse, and
    OSError when there can be no file at `path`.
    """
    fd = os.open(os.path.realpath(path) + ".lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + within_s
        while not _locked(fd):
            if time.monotonic() >= deadline:
                raise InUse(path)
            time.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
