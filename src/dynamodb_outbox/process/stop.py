"""A request to stop that a signal handler can make.

`threading.Event` cannot be set from a signal handler: the handler runs in the thread that may be inside the event's own
lock. A flag and a pipe can: whoever waits is woken by the pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["StopFlag", "stop_on_signals"]


class StopFlag:
    """Set once, from any thread or signal handler."""

    def __init__(self) -> None:
        self._set = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def set(self) -> None:
        """Ask to stop. May be repeated."""
        if not self._set:
            self._set = True
            os.write(self._writer, b"x")

    def is_set(self) -> bool:
        """Whether a stop was asked for."""
        return self._set

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a stop is asked for, at most so long (None: for ever); return whether it was."""
        if not self._set and (seconds is None or seconds > 0):
            select.select([self._reader], [], [], seconds)
        return self._set

    def close(self) -> None:
        """Release the pipe. From now on the flag counts as set: a late `set` must not write into somebody's file."""
        self._set = True
        os.close(self._reader)
        os.close(self._writer)


@contextlib.contextmanager
def stop_on_signals(*signals: signal.Signals, once: bool = False) -> Iterator[StopFlag]:
    """Inside the block, these signals set the flag instead of ending the process. For the main thread only.

    `once`: the first one alone, and any further one does what it did before.
    """
    flag = StopFlag()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(_number: int, _frame: FrameType | None) -> None:
        flag.set()
        if once:
            restore()

    before = {number: signal.getsignal(number) for number in signals}
    try:
        for number in signals:
            signal.signal(number, ask)
        yield flag
    finally:
        restore()
        flag.close()
