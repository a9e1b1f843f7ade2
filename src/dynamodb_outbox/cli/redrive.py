"""`outbox redrive`: what an event source mapping has given up, published after all."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox.cli.outbox_arguments import environment_of
from dynamodb_outbox.cli.told import plain
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.environment.settings import settings_of
from dynamodb_outbox.environment.variables import SWEEP
from dynamodb_outbox.recover import FailedBatches
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    import argparse

    from dynamodb_outbox.recover import FailureReport

__all__ = ["run"]

_UNDONE = 1
_OF_THE_SWEEP = "min_age"


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when all that was found is accounted for, 1 when something is not.

    Raises Unusable and ConfigurationError for what the options and variables say; BucketUnavailable, QueueRefused,
    QueueUnavailable, TableUnavailable when it cannot be done.
    """
    forgotten = "--forget-lost" if options.forget_lost else "--forget-gone" if options.forget_gone else None
    if options.from_s3 is not None and forgotten is not None:
        raise Unusable(f"{forgotten} deletes messages of a queue: objects are left as they are")
    settings = settings_of(environment_of(options), SWEEP)
    arguments = {name: value for name, value in settings.arguments.items() if name != _OF_THE_SWEEP}
    batches = FailedBatches(settings.sink, layout=settings.layout, **arguments)
    if options.from_s3 is not None:
        report = batches.from_s3(options.from_s3, publish_gone=options.gone, dry_run=options.dry_run)
    else:
        report = batches.from_queue(
            options.from_queue,
            publish_gone=options.gone,
            forget_gone=options.forget_gone,
            forget_lost=options.forget_lost,
            dry_run=options.dry_run,
        )
    lines = [json.dumps(report.to_json())] if options.json else list(map(plain, _told(report)))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
    return 0 if report.is_complete else _UNDONE


def _told(report: FailureReport) -> list[str]:
    """Return a report in words: a line for each document that is not done, and the sum."""
    lines = [f"{kept.where}: {kept.why}" for kept in report.kept]
    if report.swept is not None:
        accepted = counted(report.swept.accepted, "event")
        lines.append(
            f"of records that are lost here the index of pending ones has those of an Outbox: swept, {accepted} "
            'accepted. It has none of hand-written rows, and none of settle="none"'
        )
    if report.overtaken:
        lines.append(
            f"{counted(report.overtaken, 'record')} behind a later event of the same key, which had been published: "
            "what was given up is out of the order of its key (no promise of P4)"
        )
    if report.undeleted:
        lines.append(f"{counted(report.undeleted, 'message')} done, and not deleted: they come again")
    if report.stopped:
        lines.append(f"stopped: {report.stopped}")
    said = "would be published" if report.dry_run else "published or parked"
    told = [
        f"{report.done} of {counted(report.batches, 'batch', 'batches')} accounted for",
        f"{report.published} of {counted(report.records, 'record')} {said}",
    ]
    more = {
        "event parked": report.parked,
        "record settled since": report.settled,
        "record published before it left the table": report.gone,
    }
    for what, count in more.items():
        noun, _, rest = what.partition(" ")
        told += [f"{counted(count, noun)} {rest}"] if count else []
    return [*lines, "; ".join(told)]
