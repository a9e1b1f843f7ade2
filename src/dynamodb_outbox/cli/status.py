"""`outbox status`: how much is pending and parked, when it was last swept, how far a local source is in the stream."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox.cli.outbox_arguments import environment_of
from dynamodb_outbox.cli.told import moment, span
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.environment.settings import layout_from
from dynamodb_outbox.local.position import positions_of
from dynamodb_outbox.recover import status_of
from dynamodb_outbox.sdk.clients import OwnClient, table_config
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from dynamodb_outbox.local.position import ShardPosition
    from dynamodb_outbox.recover import OutboxStatus

__all__ = ["run"]

_NOT_WELL = 1
_TIMEOUT_S = 5.0


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when all is well, 1 when the oldest pending record is too old or too many are parked.

    Raises Unusable and ConfigurationError for what the options and variables say, TableUnavailable when the status
    cannot be told.
    """
    environment = environment_of(options)
    table = environment.get("OUTBOX_TABLE", "").strip()
    if not table:
        raise Unusable("--table is not given, and OUTBOX_TABLE not set: neither names the outbox's table")
    status = status_of(table, layout=layout_from(environment))
    shards = None if options.checkpoint is None else _shards(options.checkpoint, table)
    wrong = _wrong(status, options.max_age, options.max_parked)
    if options.json:
        stream = None if shards is None else [shard.to_json() for shard in shards]
        sys.stdout.write(json.dumps({**status.to_json(), "stream": stream, "wrong": wrong}) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in [*_told(status), *_told_of(shards, status.at_ms)]))
    sys.stdout.flush()
    for what in wrong:
        sys.stderr.write(f"outbox status: {what}\n")
    return _NOT_WELL if wrong else 0


def _shards(checkpoint: Path, table: str) -> tuple[ShardPosition, ...]:
    config = table_config(_TIMEOUT_S)
    tables, streams = (OwnClient(service, config).get() for service in ("dynamodb", "dynamodbstreams"))
    return positions_of(checkpoint, table, tables=tables, streams=streams)


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


def _told_of(shards: Sequence[ShardPosition] | None, now_ms: int) -> list[str]:
    """Return the line about the stream, if somebody asked for it."""
    if shards is None:
        return []
    unread = [shard.unread_since_ms for shard in shards if shard.unread_since_ms is not None]
    told = f"the first unread record is {span(max(0, now_ms - min(unread)))} old" if unread else "all is read"
    lost = sum(shard.lost for shard in shards)
    more = f"; records of {counted(lost, 'shard')} were forgotten unread" if lost else ""
    return [f"stream:     {told}{more}"]
