"""The arguments of `outbox doctor`."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from dynamodb_outbox.choices import Ordering
from dynamodb_outbox.cli.infra_arguments import pair
from dynamodb_outbox.cli.outbox_arguments import add_table, count

__all__ = ["add_to"]

_SAYS = """\
Looks at an outbox that is deployed, or at a template, and says what is wrong with it: the stream, each setting of the
mapping, the filter tried on records, the functions, TTL, index, roles, alarms, where events go. Nothing is changed.
What cannot be seen is said to be not seen. docs/doctor.md has all checks, and the calls that are made.
"""
_EPILOG = """\
OUTBOX_TABLE and OUTBOX_LAYOUT count where an option is not given, and AWS's own variables for Region, credentials and
endpoints. With --template nothing is asked of an account, and OUTBOX_TABLE does not count.

exit status: 0 nothing but notes was found, 1 warnings or errors were, 2 arguments, or a file that is no template, 3 the
account could not be looked at: no Region, no credentials, no such table, no answer
"""


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "doctor",
        help="what is wrong with an outbox that is deployed, or with a template",
        description=_SAYS,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(draws=False, when_ended="ended early")
    add = parser.add_argument
    add_table(parser)
    add("--template", metavar="FILE", help="look at a template of CloudFormation or SAM, in YAML or JSON; -: stdin")
    add("--parameter", action="append", type=pair, metavar="NAME=VALUE", default=[], help="of the template")
    add("--relay", action="append", metavar="NAME", default=[], help="the relay, where it is a function of your own")
    add("--sweeper", action="append", metavar="NAME", default=[], help="the sweeper, where it is one of your own")
    add("--ordering", choices=get_args(Ordering), default="key", help="of a relay of your own (default: key)")
    add("--claim-check", metavar="BUCKET[/PREFIX]", help="look at the bucket of the claim check, too")
    add(
        "--read-items",
        type=count,
        metavar="N",
        default=0,
        help="read so many items of the table, for their TTL attribute and records written by hand (default: 0)",
    )
    add("--json", action="store_true", help="print one JSON object")
