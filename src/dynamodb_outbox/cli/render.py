"""A demo's outcome for people: one table, and a line for each promise."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from dynamodb_outbox.local.demo.report import COLUMNS
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.local.demo import Report

__all__ = ["print_report"]

_WIDTH = 100
_SHOWN = ("LOST", "PHANTOM")


class _Console(Console):
    """A console that says when its reader has gone, instead of ending the process with a status that means no."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_report(report: Report) -> None:
    """Print the table and the promises to stdout; in colour on a terminal."""
    console = _Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    table = Table(title="the same orders, the same faults, three ways to write them")
    for place, head in enumerate(COLUMNS):
        table.add_column(head, justify="left" if place == 0 else "right")
    for title, *cells in report.table:
        loud = title.startswith(_SHOWN)
        table.add_row(title, *(f"[bold red]{cell}[/]" if loud and cell != "0" else cell for cell in cells))
    console.print(table)
    console.soft_wrap = True  # sentences are not broken up: they may be searched for
    figures = report.figures
    console.print(_latency(figures["latency_ms"]))
    console.print(_faults(figures))
    for promise in report.promises:
        console.print(str(promise), style="green" if promise.kept else "bold red", markup=False)
    console.print(f"seed {figures['seed']}, {figures['seconds']} s")


def _latency(latency: Mapping[str, Any]) -> str:
    if not latency["samples"]:
        return "from commit to acceptance, without faults: no events"
    return (
        f"from commit to acceptance, without faults: {latency['p50']} ms (median), {latency['p99']} ms (99 %), "
        f"{counted(latency['samples'], 'event')}"
    )


def _faults(figures: Mapping[str, Any]) -> str:
    return (
        f"faults met by the outbox: {counted(figures['bus_rejections'], 'entry', 'entries')} rejected in "
        f"{counted(figures['partial_failures'], 'answer')}, {counted(figures['relay_kills'], 'relay kill')}, "
        f"{counted(figures['lost_answers'], 'answer')} lost after the commit"
    )
