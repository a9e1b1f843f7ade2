"""The arguments of `outbox demo`, and what can be said about them without running anything."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dynamodb_outbox.cli.unusable import Unusable

__all__ = ["add_to", "check_recount"]

_MAX_PORT = 65_535
_MAX_SEED = 2**63 - 1
_EPILOG = """\
The demo starts an AWS engine on this machine, injects faults that are planned from the seed, and ends with an account
drawn up from evidence alone: what the buses accepted, what was delivered, what the tables hold. --dump leaves that
evidence, and --recount draws up the account from it again.

exit status: 0 every promise held, 1 a promise was broken, 2 arguments, 3 it could not be run or not show
what it announced, 130, 143 or 129 it was ended by Ctrl-C, SIGTERM or SIGHUP
"""


_CUSTOMERS = "how many customers the orders are of, 1 to the number of orders (default: a fifth of them, at most 40)"
_REJECTED = (
    "percentage of entries that the bus rejects, 0 to 100 (default: 5); none more than twice in a row, so that all of "
    "them get through in the end"
)
_OF_A_RUN = ("orders", "seed", "customers", "rejected", "dump", "port", "relay", "consumer")


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
    add("--orders", type=_whole, metavar="N", help="how many orders are submitted, 20 to 10,000 (default: 300)")
    add("--seed", type=_seed, metavar="S", help="plans the orders and the faults (default: a new one, printed)")
    add("--customers", type=_whole, metavar="N", help=_CUSTOMERS)
    add("--rejected", type=_percent, metavar="P", help=_REJECTED)
    add("--json", action="store_true", help="print one JSON object on stdout; progress goes to stderr")
    add("--dump", type=Path, metavar="DIR", help="leave the evidence in DIR (new or empty)")
    add("--recount", type=Path, metavar="DIR", help="run nothing: draw up the account from the evidence in DIR")
    add("--port", type=_port, metavar="P", help="port of the engine (default: a free one)")
    add("--relay", type=_handler, metavar="MODULE:ATTRIBUTE", help="your own relay: does it keep the promises?")
    add("--consumer", type=_handler, metavar="MODULE:ATTRIBUTE", help="your own consumer, likewise")
    parser.set_defaults(draws=True, when_ended="ended early; nothing of it is left")


def check_recount(options: argparse.Namespace) -> None:
    """Raise Unusable when --recount, which runs nothing, comes with options of a run."""
    given = [f"--{name}" for name in _OF_A_RUN if getattr(options, name) is not None]
    if options.recount is not None and given:
        raise Unusable(f"--recount runs nothing: it cannot be combined with {', '.join(given)}")


def _seed(text: str) -> int:
    return _number(text, 0, _MAX_SEED)


def _port(text: str) -> int:
    return _number(text, 0, _MAX_PORT)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


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
