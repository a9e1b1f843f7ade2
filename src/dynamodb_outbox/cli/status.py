"""`outbox status`: how much is pending and parked, and when it was last swept."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox.aws_lambda import layout_from
from dynamodb_outbox.cli.demo_arguments import Unusable
from dynamodb_outbox.cli.outbox_arguments import environment_of
from dynamodb_outbox.cli.told import moment, span
from dynamodb_outbox.errors import InvalidEnvironment
from dynamodb_outbox.recover import status_of
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    import argparse

    from dynamodb_outbox.recover import OutboxStatus

__all__ = ["run"]

_NOT_WELL = 1


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when all is well, 1 when the oldest pending record is too old or too many are parked.

    Raises Unusable for what the options and variables say, TableUnavailable when the status cannot be told.
    """
    environment = environment_of(options)
    table = environment.get("OUTBOX_TABLE", "").strip()
    if not table:
        raise Unusable("--table is not given, and OUTBOX_TABLE not set: neither names the outbox's table")
    try:
        status = status_of(table, layout=layout_from(environment))
    except InvalidEnvironment as error:
        raise Unusable(str(error)) from None
    wrong = _wrong(status, options.max_age, options.max_parked)
    if options.json:
        sys.stdout.write(json.dumps({**status.to_json(), "wrong": wrong}) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _told(status)))
    sys.stdout.flush()
    for what in wrong:
        sys.stderr.write(f"outbox status: {what}\n")
    return _NOT_WELL if wrong else 0


def _wrong(status: OutboxStatus, max_age_s: int, max_parked: int) -> list[str]:
    """Return what somebody has to look at."""
    wrong = []
    if status.age_ms > 1000 * max_age_s:
        wrong.append(f"the oldest pending record is {span(status.age_ms)} old, more than {max_age_s} s")
    if status.parked > max_parked:
        wrong.append(f"{counted(status.parked, 'record')} parked, more than {max_parked}")
    return wrong


def _told(status: OutboxStatus) -> list[str]:
    pending, parked = str(status.pending), str(status.parked)
    if status.pending_since_ms is not None:
        pending += f", the oldest {span(status.age_ms)} old"
    if status.parked_since_ms is not None:
        parked += f", the oldest written {moment(status.parked_since_ms)}"
    swept = "none has left a trace" if status.swept_ms is None else moment(status.swept_ms)
    now = f"; {counted(status.sweeping, 'partition')} being swept now" if status.sweeping else ""
    return [f"pending:    {pending}", f"parked:     {parked}", f"last sweep that found something: {swept}{now}"]
