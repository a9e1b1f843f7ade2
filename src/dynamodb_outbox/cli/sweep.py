"""`outbox sweep`: the sweeper, every so often or once."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from dynamodb_outbox.aws_lambda import sweeper_from
from dynamodb_outbox.cli.outbox_arguments import environment_of
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    import argparse

    from dynamodb_outbox.recover import SweepReport

__all__ = ["run"]

_LEFT = 1


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when nothing that is old enough was left, 1 when something was.

    Without --once and --dry-run it goes on until a signal ends it. Raises ConfigurationError for what the options and
    variables say, TableUnavailable when a sweep cannot be done.
    """
    sweeper = sweeper_from(environment_of(options))
    if not (options.once or options.dry_run):
        sys.stderr.write(f"outbox sweep: every {options.every} s, until it is stopped; --once sweeps once\n")
        sys.stderr.flush()
    while True:
        report = sweeper.sweep(dry_run=options.dry_run)
        last = options.once or options.dry_run
        if last or options.json or not _is_idle(report):
            sys.stdout.write((json.dumps(report.to_json()) if options.json else _told(report)) + "\n")
            sys.stdout.flush()
        if last:
            return _LEFT if report.left or report.unread or report.stopped else 0
        time.sleep(options.every)


def _is_idle(report: SweepReport) -> bool:
    return report.idle + report.taken == report.partitions and not report.stopped


def _told(report: SweepReport) -> str:
    """Return a report in one line."""
    if _is_idle(report):
        return "nothing to do" + (f"; {_partitions(report.taken)} another sweep's" if report.taken else "")
    said = "would be published" if report.dry_run else "published or parked"
    told = [f"{counted(report.done, 'record')} of {counted(report.keys, 'key')} {said}"]
    more = {
        "event accepted": report.accepted,
        "event parked": report.parked,
        "record left, see the log": report.left,
        "record too young": report.young,
        "record of other Regions": report.elsewhere,
        "record of other layouts, left to a sweeper that has theirs": report.others,
    }
    for what, count in more.items():
        if count:
            noun, _, rest = what.partition(" ")
            told.append(f"{counted(count, noun)} {rest}")
    if report.taken:
        told.append(f"{_partitions(report.taken)} another sweep's")
    if report.unread:
        told.append(f"{_partitions(report.unread)} unread")
    if report.lag_ms:
        told.append(f"the relay is {report.lag_ms // 1000} s behind")
    if report.stopped:
        told.append(f"stopped: {report.stopped}")
    return "; ".join(told)


def _partitions(count: int) -> str:
    return f"{counted(count, 'partition')} {'is' if count == 1 else 'are'}"
