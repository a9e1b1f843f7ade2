"""The arguments of `outbox sweep` and `outbox status`, and the variables that they stand for."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

__all__ = ["add_status_to", "add_sweep_to", "add_table", "count", "environment_of"]

_MOST_SECONDS = 7 * 24 * 3600
_VARIABLES = {"table": "OUTBOX_TABLE", "sink": "OUTBOX_SINK", "layout": "OUTBOX_LAYOUT", "min_age": "OUTBOX_MIN_AGE"}
_SWEEP_EPILOG = """\
Variables of the environment count where an option is not given: those of the ready-made functions (OUTBOX_SINK,
OUTBOX_LAYOUT, OUTBOX_ON_POISON, ...: docs/aws-lambda.md), and AWS's own for Region, credentials and endpoints.

exit status: 0 nothing that is old enough was left, 1 something was, 2 arguments, 3 it could not be done, 130, 143 or
129 it was ended by Ctrl-C, SIGTERM or SIGHUP
"""
_STATUS_EPILOG = """\
OUTBOX_LAYOUT counts where --layout is not given, and AWS's own variables for Region, credentials and endpoints.

exit status: 0 all is well, 1 the oldest pending record is too old or too many are parked, 2 arguments, 3 it could not
be told
"""


def add_sweep_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "sweep",
        help="publish pending records that the stream has not brought",
        description="Publish pending records that the stream has not brought: every minute, or once.",
        epilog=_SWEEP_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add_table(parser)
    add("--sink", metavar="ARN", help="where events go, as OUTBOX_SINK has it: the relay's sink")
    add("--min-age", type=_seconds, metavar="SECONDS", help="how old a record is before it is swept (default: 300)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--every", type=_seconds, metavar="SECONDS", default=60, help="the time between two sweeps (60)")
    how.add_argument("--once", action="store_true", help="sweep once, and end")
    how.add_argument("--dry-run", action="store_true", help="say once what would be published, and do nothing")
    add("--json", action="store_true", help="print each report as one line of JSON")
    parser.set_defaults(draws=False, when_ended="ended; what is pending is left to the next sweep")


def add_status_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "status",
        help="how much is pending and parked, and when it was last swept",
        description="How much is pending and parked, since when, and when it was last swept.",
        epilog=_STATUS_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add_table(parser)
    add(
        "--max-age",
        type=_seconds,
        metavar="SECONDS",
        default=900,
        help="how old the oldest pending record may be (default: 900)",
    )
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="that of a local event source: how far that is in the stream. How far Lambda is, CloudWatch tells, as "
        "IteratorAge",
    )
    add("--max-parked", type=count, metavar="N", default=0, help="how many records may be parked (default: 0)")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(draws=False, when_ended="ended")


def environment_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables of the environment, with the options in their place; and let clients find the endpoint."""
    if options.endpoint_url is not None:
        os.environ["AWS_ENDPOINT_URL"] = options.endpoint_url
    given = {_VARIABLES[name]: getattr(options, name, None) for name in _VARIABLES}
    return {**os.environ, **{name: str(value) for name, value in given.items() if value is not None}}


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which table it is, and where."""
    add = parser.add_argument
    add("--table", metavar="NAME", help="the table's name or ARN, as OUTBOX_TABLE has it")
    add("--layout", metavar="JSON", help="the writer's Layout, as OUTBOX_LAYOUT has it")
    add("--endpoint-url", metavar="URL", help="where AWS is, for another engine: AWS_ENDPOINT_URL")


def _seconds(text: str) -> int:
    return _whole(text, _MOST_SECONDS)


def count(text: str) -> int:
    """Return a number that is given as an argument, 0 or more."""
    return _whole(text, 10**9)


def _whole(text: str, most: int) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1  # noqa: PLR2004 -- digits
    if not 0 <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {most}")
    return value
