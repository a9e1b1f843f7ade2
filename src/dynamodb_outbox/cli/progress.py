"""A demo's progress: a live view on a terminal, plain lines anywhere else and for programs."""

from __future__ import annotations

import contextlib
import importlib
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.local.demo import Observer, Progress, Schedule

__all__ = ["progress"]


@contextlib.contextmanager
def progress(schedule: Schedule, *, stream: IO[str], live: bool) -> Iterator[Observer]:
    """Print the schedule, and yield an observer that shows the progress of its demo on `stream`.

    `live` allows a view that is drawn anew all the time, for a stream that is a terminal. Only that needs rich.
    """
    for line in schedule.describe():
        stream.write(line + "\n")
    stream.write("\n")
    stream.flush()
    if live and stream.isatty():
        with importlib.import_module("dynamodb_outbox.cli.live").live_view(stream) as observer:
            yield observer
    else:
        yield _Lines(stream)


class _Lines:
    """Writes a line when something changes."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._stage = ""

    def __call__(self, now: Progress) -> None:
        new = [*((now.stage,) if now.stage != self._stage else ()), *now.happened]
        self._stage = now.stage
        for line in new:
            self._stream.write(f"{now.seconds:5.1f} s  {line}\n")
        if new:
            self._stream.flush()
