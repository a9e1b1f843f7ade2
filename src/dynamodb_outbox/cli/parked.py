"""`outbox parked`: what is parked, and what is decided of it."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.cli.outbox_arguments import environment_of
from dynamodb_outbox.cli.told import moment, plain
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.environment.settings import layout_from, settings_of
from dynamodb_outbox.environment.variables import SWEEP
from dynamodb_outbox.recover import ParkedRecords
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.recover import ParkedRecord, ParkedReport

__all__ = ["run"]

_UNDONE = 1
_TUNING = ("max_in_flight", "rate_limit_per_instance", "breaker_after")
_HEADS = ("id", "key", "events", "refused as", "times", "parked")


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when all that was asked for is done, 1 when something was left, or not found.

    Raises Unusable and ConfigurationError for what the options and variables say, TableUnavailable when the table
    cannot be read.
    """
    environment = environment_of(options)
    action = {"list": _list, "show": _show, "redrive": _redrive, "discard": _discard}[options.action]
    return action(_records(environment), options, environment)


def _records(environment: Mapping[str, str]) -> ParkedRecords:
    table = environment.get("OUTBOX_TABLE", "").strip()
    if not table:
        raise Unusable("--table is not given, and OUTBOX_TABLE not set: neither names the outbox's table")
    source = environment.get("OUTBOX_SOURCE", "").strip() or None
    return ParkedRecords(table, layout=layout_from(environment), source=source)


def _list(records: ParkedRecords, options: argparse.Namespace, _: Mapping[str, str]) -> int:
    found = records.list(ids=options.id, key=options.key, type=options.type)
    if options.json:
        _print(json.dumps([one.to_json() for one in found]))
    else:
        _print(*_table(found), f"{counted(len(found), 'record')} parked")
    return 0


def _show(records: ParkedRecords, options: argparse.Namespace, _: Mapping[str, str]) -> int:
    found = records.show(options.id)
    if options.json:
        _print(json.dumps([{**record.to_json(), "data": _data(events)} for record, events in found]))
    else:
        for record, events in found:
            _print(*_told(record, events), *_read_with(record, records))
    if not found:
        said = f"nothing is parked under the id {options.id!r} (discarded: docs/recovery.md)"
        sys.stderr.write(f"outbox parked: {said}\n")
    return 0 if found else _UNDONE


def _redrive(records: ParkedRecords, options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    settings = settings_of(environment, SWEEP)
    tuning = {name: value for name, value in settings.arguments.items() if name in _TUNING}
    _check_choice(options)
    _ask_back(records, options, "published again")
    report = records.redrive(
        settings.sink,
        ids=options.id,
        key=options.key,
        type=options.type,
        all=options.all,
        dry_run=options.dry_run,
        **tuning,
    )
    return _reported(report, options)


def _discard(records: ParkedRecords, options: argparse.Namespace, _: Mapping[str, str]) -> int:
    _check_choice(options)
    _ask_back(records, options, "discarded")
    report = records.discard(
        options.reason,
        ids=options.id,
        key=options.key,
        type=options.type,
        all=options.all,
        others=options.others,
        dry_run=options.dry_run,
    )
    return _reported(report, options)


def _ask_back(records: ParkedRecords, options: argparse.Namespace, what: str) -> None:
    """Have somebody confirm that all is meant. Raises Unusable where they do not."""
    if not options.all or options.dry_run or options.yes or not sys.stdin.isatty():
        return
    sys.stderr.write(f"{counted(len(records.list()), 'record')} parked. Shall all of it be {what}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Unusable("nothing was done")


def _check_choice(options: argparse.Namespace) -> None:
    """Raise Unusable where nothing is chosen, or all and others: several options are to blame, as no argument is."""
    chosen = bool(options.id) or options.key is not None or options.type is not None
    if not chosen and not options.all:
        raise Unusable("which records? Say --id, --key or --type, or --all")
    if chosen and options.all:
        raise Unusable("--all is given, and others are chosen too: leave out --all, or --id, --key and --type")


def _reported(report: ParkedReport, options: argparse.Namespace) -> int:
    if options.json:
        _print(json.dumps(report.to_json()))
    else:
        _print(*_lines(report))
    return 0 if report.is_complete else _UNDONE


def _lines(report: ParkedReport) -> list[str]:
    """Return a report in words: a line for each record that is neither published nor discarded, and the sum."""
    lines = [f"{one.record.id} of key {one.record.key} {one.became}: {one.why}" for one in report.records if one.why]
    lines += [f"nothing is parked under the id {one}" for one in report.missing]
    lines += [f"the key {key} goes on" for key in report.released]
    lines += [f"the key {key} is parked still: {why}" for key, why in report.unreleased.items()]
    if overtaken := sum(one.overtaken for one in report.records):
        lines.append(
            f"{counted(overtaken, 'record')} behind a later event of the same key, which had been published: a parked "
            "event is out of the order of its key (no promise of P4)"
        )
    if report.unsettled:
        said = counted(report.unsettled, "record")
        lines.append(f"{said} published and parked still: run it again, which publishes a second time")
    if report.stopped:
        lines.append(f"stopped: {report.stopped}")
    sums = Counter(one.became for one in report.records)
    would = "would be " if report.dry_run else ""
    told = [f"{counted(count, 'record')} {would}{became}" for became, count in sorted(sums.items())]
    return [*lines, "; ".join(told) or "nothing that was asked for is parked"]


def _table(found: Iterable[ParkedRecord]) -> list[str]:
    """Return records as lines of columns."""
    rows = [
        (
            one.id,
            one.key,
            ", ".join(event.type for event in one.events) or "gone" if one.unreadable is None else "unreadable",
            one.code,
            str(one.attempts),
            "" if one.parked_ms is None else moment(one.parked_ms),
        )
        for one in found
    ]
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    lines = [_HEADS, *rows]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _told(record: ParkedRecord, events: Iterable[Event]) -> list[str]:
    """Return all about one record."""
    facts: dict[str, Any] = {
        "id": record.id,
        "key": record.key,
        "written": "" if record.written_ms is None else moment(record.written_ms),
        "parked": "" if record.parked_ms is None else moment(record.parked_ms),
        "refused as": record.code,
        "reason": record.reason,
        "times": record.attempts,
        "item": f"{json.dumps(dict(record.item), ensure_ascii=False)} ({record.kind})",
    }
    if record.unreadable is not None:
        facts["unreadable"] = record.unreadable
    if record.gone:
        facts["gone"] = "the record has been deleted; what stands for it can be discarded"
    lines = [f"{name + ':':<12}{value}" for name, value in facts.items()]
    for told, event in zip(record.events, events, strict=True):
        lines.append(f"event {event.id} ({event.type}){', refused' if told.refused else ''}:")
        lines.append(f"    {event.payload or (event.dataref.uri if event.dataref else '')}")
    return lines


def _read_with(record: ParkedRecord, records: ParkedRecords) -> list[str]:
    """Return how the item of a record that cannot be read is looked at, for whoever is to correct it."""
    if record.unreadable is None or record.kind == "apart":  # apart: the item is not the record
        return []
    types = records.layout.keys.types
    key = json.dumps({name: {types[name]: value} for name, value in record.item.items()}, ensure_ascii=False)
    return [f"as it is:   aws dynamodb get-item --table-name {shlex.quote(records.table)} --key {shlex.quote(key)}"]


def _data(events: Iterable[Event]) -> list[Any]:
    """Return the data of events, as text; that of a claim check is where its reference leads to."""
    return [event.payload if event.dataref is None else {"dataref": event.dataref.uri} for event in events]


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{plain(line)}\n" for line in lines))
    sys.stdout.flush()
