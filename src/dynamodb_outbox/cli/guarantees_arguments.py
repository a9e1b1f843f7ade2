"""The arguments of `outbox guarantees`: those of `dynamodb_outbox.promises`."""

from __future__ import annotations

from typing import Any

__all__ = ["add_to"]

_SAYS = (
    "Which of the promises P1 to P7 hold for a set-up, why, and what would change it. Nothing is asked of an account."
)


def add_to(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    parser = commands.add_parser("guarantees", help="which promises hold for a set-up, and why", description=_SAYS)
    parser.set_defaults(draws=False, when_ended="ended early")
    add = parser.add_argument
    add("--layout", metavar="JSON", help="the writer's Layout, as OUTBOX_LAYOUT holds it")
    add("--settle", metavar="SETTLE", help="the layout's settle alone: expire, mark, delete or none")
    add("--ordering", default="key", help="key (default) or none")
    add("--on-poison", default="park", metavar="WHAT", help="park (default), park_key or block")
    add("--parallelization", type=int, default=1, metavar="N", help="of the relay's mapping (default: 1)")
    kinds = "bus (default), topic, topic.fifo, queue or queue.fifo; or as `outbox infra` takes it"
    add("--sink", default="bus", help=kinds)
    add("--no-sweeper", action="store_true", help="no sweeper runs")
    add("--no-bucket", action="store_true", help="the mapping's on-failure destination is no bucket")
    add("--hand-written", action="store_true", help="the records are another program's, and in no index")
    add("--json", action="store_true", help="print one JSON array")
