"""`outbox demo`: orders, events and faults, end to end, beside the same orders written as dual writes."""

from __future__ import annotations

import importlib
import json
import secrets
import sys
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.cli.demo_arguments import check_recount
from dynamodb_outbox.cli.progress import progress
from dynamodb_outbox.cli.unusable import Unusable
from dynamodb_outbox.local.demo import (
    FunctionUnusable,
    Settings,
    check_writable,
    plan,
    read_dump,
    report_of,
    write_dump,
)
from dynamodb_outbox.local.demo import run as run_demo
from dynamodb_outbox.local.demo.dump import DumpUnreadable, DumpUnwritable
from dynamodb_outbox.local.demo.schedule import CustomersOutOfRange, OrdersOutOfRange

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dynamodb_outbox.local.demo import Evidence, Report

__all__ = ["run"]

_SEEDS = 10_000
_SHOWN_CHARACTERS = 2_000
_BROKEN = 1
_UNSHOWN = 3


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when every promise held, 1 when one was broken, 3 when one was not put to the test.

    Raises Unusable for arguments that do not fit, and what `local.demo.run` raises.
    """
    check_recount(options)
    if options.recount is None:
        evidence = _run(options)
        report = report_of(evidence)
    else:
        evidence, report = _recount(options.recount)
    if options.json:
        sys.stdout.write(json.dumps(report.to_json()) + "\n")
        sys.stdout.flush()
    else:
        # Only now: what is printed for programs needs no more than the standard library.
        importlib.import_module("dynamodb_outbox.cli.render").print_report(report)
        sys.stdout.flush()
    for what in report.unshown:
        sys.stderr.write(f"outbox demo: it did not show what it announced: {what}\n")
    if report.kept and not report.unshown:
        return 0
    _show_logs(evidence)
    return _UNSHOWN if report.kept else _BROKEN


def _show_logs(evidence: Evidence) -> None:
    """Show the end of what the functions printed: a broken promise may have its reason there."""
    for name, log in evidence.logs.items():
        if log.strip():
            sys.stderr.write(f"the {name} printed, at the end:\n{log[-_SHOWN_CHARACTERS:].strip()}\n")


def _run(options: argparse.Namespace) -> Evidence:
    seed = options.seed if options.seed is not None else secrets.randbelow(_SEEDS)
    settings = Settings(seed=seed, **_chosen(options))
    try:
        schedule = plan(settings.orders, settings.seed, customers=settings.customers, rejected=settings.rejected)
        if options.dump is not None:
            check_writable(options.dump)
    except OrdersOutOfRange as error:
        raise Unusable(f"--orders: {error}") from None
    except CustomersOutOfRange as error:
        raise Unusable(f"--customers: {error}") from None
    except DumpUnwritable as error:
        raise Unusable(f"--dump {error}") from None
    try:
        with progress(schedule, stream=sys.stderr if options.json else sys.stdout, live=not options.json) as observe:
            evidence = run_demo(settings, observe)
    except FunctionUnusable as error:
        raise Unusable(f"--{error}") from None
    if options.dump is not None:
        write_dump(options.dump, evidence)
    return evidence


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were chosen; the others keep their defaults."""
    names = ("orders", "customers", "port", "relay", "consumer")
    chosen = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return chosen if options.rejected is None else {**chosen, "rejected": options.rejected / 100}


def _recount(directory: Path) -> tuple[Evidence, Report]:
    try:
        evidence = read_dump(directory)
        return evidence, _report_of_dump(directory, evidence)
    except DumpUnreadable as error:
        raise Unusable(f"--recount {error}") from None


def _report_of_dump(directory: Path, evidence: Evidence) -> Report:
    """Return the report; DumpUnreadable when the evidence does not have what a demo leaves: it comes from files."""
    try:
        return report_of(evidence)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DumpUnreadable(directory, f"not what a demo leaves ({type(error).__name__}: {error})") from None
