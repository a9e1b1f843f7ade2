"""A demo's progress: a live view on a terminal, plain lines anywhere else."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dynamodb_outbox.local.demo import Observer, Progress, Schedule
    from dynamodb_outbox.local.demo.schedule import Lane

__all__ = ["progress"]

_TITLES: Mapping[Lane, str] = {
    "outbox": "outbox",
    "write_then_publish": "write, then publish",
    "publish_then_write": "publish, then write",
}


@contextlib.contextmanager
def progress(schedule: Schedule, *, stream: IO[str]) -> Iterator[Observer]:
    """Print the schedule, and yield an observer that shows the progress of its demo on `stream`."""
    for line in schedule.describe():
        stream.write(line + "\n")
    stream.write("\n")
    stream.flush()
    if stream.isatty():
        with _live(stream) as observer:
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


@contextlib.contextmanager
def _live(stream: IO[str]) -> Iterator[Observer]:
    console = Console(file=stream, highlight=False)
    with Live(console=console, refresh_per_second=8, transient=True) as live:

        def observe(now: Progress) -> None:
            for line in now.happened:
                live.console.print(f"{now.seconds:5.1f} s  {line}")
            live.update(_view(now))

        yield observe


def _view(now: Progress) -> Group:
    table = Table.grid(padding=(0, 2))
    for lane, title in _TITLES.items():
        done = now.submitted.get(lane, 0)
        bar = ProgressBar(total=now.orders, completed=done, width=30)
        table.add_row(title, bar, f"{done} of {now.orders} orders", f"{now.accepted.get(lane, 0)} events on the bus")
    bus = Text("the bus is OUT", style="bold red") if now.out else Text("the bus is up")
    return Group(
        Text(f"{now.seconds:5.1f} s  {now.stage}", style="bold"), table, bus, Text(f"relay kills: {now.kills}")
    )
