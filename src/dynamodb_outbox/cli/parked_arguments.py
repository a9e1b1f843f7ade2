"""The arguments of `outbox parked`."""

from __future__ import annotations

import argparse
from typing import Any

from dynamodb_outbox.cli.outbox_arguments import add_table

__all__ = ["add_to"]

_EPILOG = """\
Variables of the environment count where an option is not given: those of the ready-made functions (OUTBOX_TABLE,
OUTBOX_LAYOUT, OUTBOX_SINK, ...: docs/aws-lambda.md), and AWS's own for Region, credentials and endpoints. What to do
when: docs/recovery.md.

exit status: 0 done, 1 something was left parked, or nothing is parked under an id, 2 arguments, 3 it could not be done,
130, 143 or 129 it was ended by Ctrl-C, SIGTERM or SIGHUP
"""


def add_to(commands: Any) -> None:
    """Add the command, and what it can do, to argparse's subparsers."""
    parser = commands.add_parser(
        "parked",
        help="parked events: look at them, publish them again, discard them",
        description="Parked events: look at them, publish them again, discard them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = _action(actions, "list", "what is parked, why and since when; never the data")
    _add_choice(listing, everything=None)
    show = _action(actions, "show", "all about one record, its data too")
    show.add_argument("id", metavar="ID", help="of the record, or of an event of it")
    redrive = _action(actions, "redrive", "publish parked events again, those of a key in order")
    _add_choice(redrive, everything="redrive all that is parked")
    redrive.add_argument("--sink", metavar="ARN", help="where events go, as OUTBOX_SINK has it: the relay's sink")
    discard = _action(actions, "discard", "decide that parked events are never published; their records are kept")
    _add_choice(discard, everything="discard all that is parked")
    discard.add_argument("--reason", required=True, metavar="TEXT", help="why; it is kept in the record")
    discard.add_argument(
        "--others",
        action="store_true",
        help="also where a record has events that were not refused, nor perhaps published",
    )
    for one in (redrive, discard):
        one.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        one.add_argument("--yes", action="store_true", help="do not ask back where --all is given on a terminal")
    parser.set_defaults(draws=False, when_ended="ended; what was not done is parked as it was, and can be run again")


def _action(actions: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_table(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_choice(parser: argparse.ArgumentParser, *, everything: str | None) -> None:
    add = parser.add_argument
    add("--id", action="append", default=[], metavar="ID", help="of a record, or of an event; may be given again")
    add("--key", metavar="KEY", help="an ordering key")
    add("--type", metavar="TYPE", help="the type of an event")
    if everything is not None:
        add("--all", action="store_true", help=everything)
