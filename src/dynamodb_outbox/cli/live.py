"""The live view of a demo on a terminal. Needs rich."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dynamodb_outbox.local.demo import Observer, Progress
    from dynamodb_outbox.local.demo.schedule import Lane

__all__ = ["live_view"]

_TITLES: Mapping[Lane, str] = {
    "outbox": "outbox",
    "write_then_publish": "write, then publish",
    "publish_then_write": "publish, then write",
}


@contextlib.contextmanager
def live_view(stream: IO[str]) -> Iterator[Observer]:
    """Yield an observer that draws the progress on `stream`, a terminal; the drawing is gone afterwards."""
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
        announced = f"{counted(now.accepted.get(lane, 0), 'event')} on the bus"
        table.add_row(title, bar, f"{done} of {counted(now.orders, 'order')}", announced)
    bus = Text("the bus is OUT", style="bold red") if now.out else Text("the bus is up")
    return Group(
        Text(f"{now.seconds:5.1f} s  {now.stage}", style="bold"), table, bus, Text(f"relay kills: {now.kills}")
    )
