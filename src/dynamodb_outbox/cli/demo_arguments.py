"""The arguments of `outbox demo`, and what can be said about them without running anything."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dynamodb_outbox.errors import OutboxError

__all__ = ["STATUS", "Unusable", "add_to"]

STATUS = 2
"""The exit status for arguments that cannot be used; argparse's own."""

_MAX_PORT = 65_535
_MAX_SEED = 2**63 - 1
_EPILOG = """\
The demo starts an AWS engine on this machine, injects faults that are planned from the seed, and ends with an account
drawn up from evidence alone: what the buses accepted, what was delivered, what the tables hold. --dump leaves that
evidence, and --recount draws up the account from it again.

exit status: 0 every promise held, 1 a promise was broken, 2 arguments, 3 it could not be run
"""


class Unusable(OutboxError):
    """An argument cannot be used; the message says which and why."""


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser(
        "demo",
        help="orders, events and faults, end to end, beside two dual writes",
        description="Orders, events and faults, end to end, beside the same orders written as two kinds of dual write.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--orders", type=int, default=300, metavar="N", help="how many orders are submitted (300; at least 20)")
    add("--seed", type=_seed, metavar="S", help="plans the orders and the faults (default: a new one, printed)")
    add("--customers", type=_count, metavar="N", help="how many customers the orders are of (at most 40)")
    add("--rejected", type=_percent, default=5, metavar="P", help="percentage of entries that the bus rejects (5)")
    add("--json", action="store_true", help="print one JSON object on stdout; progress goes to stderr")
    add("--dump", type=Path, metavar="DIR", help="leave the evidence in DIR (new or empty)")
    add("--recount", type=Path, metavar="DIR", help="run nothing: draw up the account from the evidence in DIR")
    add("--port", type=_port, default=0, metavar="P", help="port of the engine (default: a free one)")
    add("--relay", type=_handler, metavar="MODULE:ATTRIBUTE", help="your own relay: does it keep the promises?")
    add("--consumer", type=_handler, metavar="MODULE:ATTRIBUTE", help="your own consumer, likewise")


def _seed(text: str) -> int:
    return _number(text, 0, _MAX_SEED)


def _port(text: str) -> int:
    return _number(text, 0, _MAX_PORT)


def _count(text: str) -> int:
    return _number(text, 1, _MAX_SEED)


def _percent(text: str) -> int:
    return _number(text, 0, 100)


def _number(text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return value


def _handler(text: str) -> str:
    module, _, attribute = text.partition(":")
    if not module or not attribute:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form module:attribute, like shop.relay:handler")
    return text
