"""The demo's processes besides the engine: the buses, the relay and the consumer.

Each is started in a group of its own, so that Ctrl-C at a terminal reaches the demo alone, which then ends them in
order, and so that one signal reaches a function together with its event source. Their standard input is a pipe that
this process holds: they end when it ends, however that happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.environment import child_environment
from dynamodb_outbox.process.ending import how_it_ended, signal_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Child", "ChildDied", "first_line"]

_TAIL_CHARACTERS = 2_000
_LOOK_S = 0.05


class ChildDied(OutboxError):
    """A process of the demo ended by itself: `name`, its `exit_code`, the `tail` of what it wrote."""

    def __init__(self, name: str, exit_code: int, tail: str) -> None:
        self.name = name
        self.exit_code = exit_code
        self.tail = tail
        said = f". It wrote: {tail}" if tail else " and wrote nothing"
        super().__init__(f"the {name} {how_it_ended(exit_code)}{said}")


class Child:
    """`python -m MODULE ARGUMENTS…` in a process group of its own; what it prints goes to a file in `logs`.

    With `speaks`, its standard output is kept apart, to be read as `stdout`.
    """

    def __init__(self, name: str, arguments: Sequence[str], *, logs: Path, speaks: bool = False) -> None:
        self.name = name
        self._speaks = speaks
        self._arguments = (*arguments, "--exit-with-parent")
        self._log = logs / f"{name.replace(' ', '-')}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, which is also that of the group; None while there is none."""
        return None if self._process is None else self._process.pid

    @property
    def stdout(self) -> IO[bytes]:
        """What the process writes to its standard output; only of one that `speaks`, and after its start."""
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        return self._process.stdout

    def start(self) -> None:
        """Start the process. It may be started again after `end`."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- our own interpreter and arguments
                [sys.executable, "-m", *self._arguments],
                env=child_environment(os.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self._speaks else log,
                stderr=log,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise ChildDied when the process ended though nobody ended it."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise ChildDied(self.name, code, self.log()[-_TAIL_CHARACTERS:].strip())

    def log(self) -> str:
        """Return what the process has printed, through all its lives."""
        with contextlib.suppress(FileNotFoundError):
            return self._log.read_bytes().decode("utf-8", "replace")
        return ""

    def end(self) -> None:
        """End the whole group, by SIGKILL: what any of these processes knows is on file by then. May be repeated."""
        process, self._process = self._process, None
        if process is None:
            return
        signal_group(process, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def first_line(child: Child, *, within_s: float) -> Any:
    """Return the first line that a child writes, read as JSON. Raises ChildDied, and TimeoutError after `within_s`."""
    end = time.monotonic() + within_s
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while not selector.select(_LOOK_S):
            child.check()
            if time.monotonic() > end:
                raise TimeoutError(f"the {child.name} did not start within {within_s:g} s")
    line = child.stdout.readline()
    while not line:  # the end of its output: it is about to be dead
        child.check()
        time.sleep(_LOOK_S)
    return json.loads(line)
