"""The arguments of `outbox consume`."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_to"]

_EPILOG = """\
INBOX is an Inbox, or any handler that Lambda would call, by module and attribute (billing:inbox), importable from the
current directory or PYTHONPATH. SIGTERM and Ctrl-C drain: nothing more is begun, and what has been begun is finished. A
second one ends the command at once; messages that were worked on come again. AWS_ENDPOINT_URL is another endpoint.

exit status: 0 it was asked to stop, 2 arguments, 3 the queue cannot be read, 130 or 143 it was ended at once
"""


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "consume",
        help="apply the events of an SQS queue, in containers and for development",
        description="Apply the events of an SQS queue, as Lambda would, with the same consumer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(draws=False)
    add = parser.add_argument
    add("inbox", metavar="MODULE:INBOX", help="the consumer")
    add("--queue", required=True, metavar="URL", help="the queue, standard or FIFO")
    add(
        "--concurrency",
        type=_number(1, 1000),
        default=8,
        metavar="N",
        help="messages, or groups of a FIFO queue, worked on at once (default: 8)",
    )
    add(
        "--hold",
        type=_number(3, 43_200),
        default=60,
        metavar="SECONDS",
        help="when the messages of a worker that was killed, and those that failed, come again (default: 60)",
    )
    parser.set_defaults(draws=False, when_ended="ended at once; messages that were worked on come again")


def _number(least: int, most: int) -> Any:
    def number(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() else least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most:,}")
        return value

    return number
