"""The arguments of `outbox redrive`."""

from __future__ import annotations

import argparse
from typing import Any

from dynamodb_outbox.cli.outbox_arguments import add_table

__all__ = ["add_to"]

_EPILOG = """\
Variables of the environment count where an option is not given: those of the ready-made functions (OUTBOX_TABLE,
OUTBOX_LAYOUT, OUTBOX_SINK, ...: docs/aws-lambda.md), and AWS's own for Region, credentials and endpoints. Parked events
are redriven by `outbox parked redrive`. What to do when: docs/recovery.md.

exit status: 0 all that was found is accounted for, 1 something is not, 2 arguments, 3 it could not be done, 130, 143 or
129 it was ended by Ctrl-C, SIGTERM or SIGHUP
"""


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "redrive",
        help="publish what an event source mapping has given up (its on-failure destination)",
        description="Publish what an event source mapping has given up, from its on-failure destination.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--from-queue", metavar="URL", help="an SQS queue; messages are deleted when they are done")
    where.add_argument("--from-s3", metavar="URI", help="s3://bucket/beginning: objects; they are left as they are")
    add_table(parser)
    add("--sink", metavar="ARN", help="where events go, as OUTBOX_SINK has it: the relay's sink")
    add("--gone", action="store_true", help="publish records, too, that were published before they left the table")
    add("--forget-gone", action="store_true", help="delete messages, too, of records that were published before that")
    add(
        "--forget-lost",
        action="store_true",
        help="delete messages, too, of records that the stream has no more, or that are none by the layout",
    )
    add("--dry-run", action="store_true", help="say what would be published; messages are received, and let go")
    add("--json", action="store_true", help="print the report as one line of JSON")
    parser.set_defaults(draws=False, when_ended="ended; what was not done can be redriven again")
