"""`python -m dynamodb_outbox.local`: the engine on this machine, with a table, until it is stopped.

    python -m dynamodb_outbox.local --table shop --bus orders --queue billing

Each table has the default layout, a stream of both images and a TTL attribute; each queue gets every event of each bus,
and every message of each topic. All is made in us-east-1, whatever Region the shell has, and gone at the end.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, REGION
from dynamodb_outbox.local.engine import Engine
from dynamodb_outbox.local.provision import create_bus, create_queue, create_table, create_topic, route, subscribe
from dynamodb_outbox.process.options import OptionParser
from dynamodb_outbox.process.stop import stop_on_signals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["main"]

_ALIVE_EVERY_S = 1.0
_PORT = 4566
_PROGRAM = "python -m dynamodb_outbox.local"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; return the exit status: 0 when it was asked to stop."""
    options = _parser().parse_args(argv)
    try:
        with stop_on_signals(signal.SIGTERM, signal.SIGINT) as stop, Engine(options.port) as engine:
            _provide(engine, options)
            ready = f"{engine.url} answers, account {DEFAULT_ACCOUNT}, Region {REGION}"
            print(ready, flush=True)  # noqa: T201 -- what it was started for
            while not stop.wait(_ALIVE_EVERY_S):
                engine.check()
    except OutboxError as error:
        print(f"{_PROGRAM}: error: {error}", file=sys.stderr)  # noqa: T201 -- a program's message to its user
        return 1
    return 0


def _provide(engine: Engine, options: argparse.Namespace) -> None:
    tables, events, sns, sqs = (engine.client(service) for service in ("dynamodb", "events", "sns", "sqs"))
    for table in options.table:
        create_table(tables, table, view_type="NEW_AND_OLD_IMAGES")
    for bus in options.bus:
        create_bus(events, bus)
    topics = [create_topic(sns, topic) for topic in options.topic]
    for name in options.queue:
        queue = create_queue(sqs, name)
        for bus in options.bus:
            route(events, sqs, bus=bus, queue=queue, rule=f"all-to-{name}")
        for topic in topics:
            subscribe(sns, sqs, topic=topic, queue=queue)


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(prog=_PROGRAM, description="Run the local engine until it is stopped.")
    parser.add_argument("--port", type=int, default=_PORT, help="on 127.0.0.1; 0 takes a free one (%(default)s)")
    for what, meaning in (
        ("table", "make a table with a stream"),
        ("bus", "make an event bus"),
        ("topic", "make an SNS topic, a FIFO one when its name ends in .fifo"),
        (
            "queue",
            "make a queue that gets every event of the buses, and of the topics as it is, without SNS's envelope",
        ),
    ):
        parser.add_argument(f"--{what}", action="append", default=[], metavar="NAME", help=f"{meaning}, repeatable")
    return parser


if __name__ == "__main__":
    sys.exit(main())
