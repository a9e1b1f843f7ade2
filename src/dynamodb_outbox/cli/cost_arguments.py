"""The arguments of `outbox cost`: those of `infra.cost.Load`, by the same names, and prices."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["LOAD", "add_to"]

_SAYS = """\
What an outbox costs a month, line by line, beside a relay written by hand and an EventBridge Pipe. Prices are of one
Region and month (the output says which), without free tiers; --price sets one that is another for you.
"""

LOAD: dict[str, dict[str, Any]] = {
    "events": {"type": int, "metavar": "N", "help": "events a month (default: 1,000,000)"},
    "record-bytes": {"type": int, "metavar": "N", "help": "bytes of a record (default: 1,000)"},
    "item-bytes": {"type": int, "metavar": "N", "help": "bytes of the item that changes (default: 1,000)"},
    "guarded": {"action": "store_true", "default": None, "help": "commits have an idempotency_key"},
    "settle": {"help": "expire (default), mark, delete or none"},
    "sink": {"help": "bus (default), topic, topic.fifo, queue or queue.fifo; or as `outbox infra` takes it"},
    "per-invocation": {"type": int, "metavar": "N", "help": "records that the relay gets at once (default: 10)"},
    "call-ms": {"type": int, "metavar": "MS", "help": "how long a call of AWS takes (default: 20)"},
    "memory-mb": {"type": int, "metavar": "MB", "help": "of the functions (default: 512)"},
    "index-shards": {"type": int, "metavar": "N", "help": "partitions of the index (default: 16)"},
    "sweep-minutes": {"type": int, "metavar": "N", "help": "how often the sweeper runs (default: 1)"},
    "kept-days": {"type": int, "metavar": "N", "help": "for how long records are kept that expire (default: 7)"},
}
"""By name: what argparse is told of each."""


_MOST_USD = 1_000_000
"""No price is higher, and sums of the most events stay numbers that JSON can tell."""


def _price(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        usd = float(value)
    except ValueError:
        usd = -1
    if not name or not 0 <= usd <= _MOST_USD:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form NAME=USD, as bus=1.10, with 0 to {_MOST_USD:,} dollars"
        )
    return name, usd


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser("cost", help="what an outbox costs a month", description=_SAYS)
    parser.set_defaults(draws=False, when_ended="ended early")
    for name, settings in LOAD.items():
        parser.add_argument(f"--{name}", **settings)
    parser.add_argument(
        "--price", action="append", type=_price, metavar="NAME=USD", help="another price; once for each"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
