"""The fault-injecting bus as a process of its own.

    python -m dynamodb_outbox.testing.faultbus --upstream URL [--plan FILE] [--evidence DIR] [--port N]
                                               [--exit-with-parent]

Prints one JSON line with its `url` when it serves. SIGTERM and Ctrl-C end it at once with status 0: what was accepted
is in the evidence by then. With `--exit-with-parent` it is cut off when its standard input ends (status 113), so
whoever starts it with a pipe there takes it along, even when killed. Status 2: it could not start as told. Status 1:
the evidence could not be written any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.process.lifeline import end_with_parent
from dynamodb_outbox.process.options import OptionParser
from dynamodb_outbox.process.stop import stop_on_signals
from dynamodb_outbox.testing.faultbus.bus import FaultBus
from dynamodb_outbox.testing.faultbus.errors import FaultPlanInvalid
from dynamodb_outbox.testing.faultbus.plan import FaultPlan

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from dynamodb_outbox.process.stop import StopFlag

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop; return the exit status."""
    options = _parser().parse_args(argv)
    if options.exit_with_parent:
        end_with_parent(sys.stdin.fileno())
    with stop_on_signals(signal.SIGTERM, signal.SIGINT) as stop:
        return _serve(options, stop)


def _serve(options: argparse.Namespace, stop: StopFlag) -> int:
    try:
        plan = FaultPlan() if options.plan is None else _read_plan(options.plan)
        bus = FaultBus(options.upstream, plan, port=options.port, evidence=options.evidence, on_failure=stop.set)
        bus.start()
    except OutboxError as error:
        return _complain(error, 2)
    with contextlib.suppress(BrokenPipeError):  # whoever started it is gone or does not listen
        sys.stdout.write(json.dumps({"url": bus.url, "port": bus.port, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
    stop.wait()
    try:
        bus.close()
    except OutboxError as error:
        return _complain(error, 1)
    return 0


def _complain(error: OutboxError, status: int) -> int:
    sys.stderr.write(f"fault bus: {error}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python -m dynamodb_outbox.testing.faultbus",
        description="A stand-in for an event bus that misbehaves on a plan.",
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="the endpoint behind the bus")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="the fault plan, JSON (default: no faults)")
    parser.add_argument("--evidence", type=Path, metavar="DIR", help="where accepted.jsonl and faults.jsonl go")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="the port to listen on (default: any free one)"
    )
    parser.add_argument("--exit-with-parent", action="store_true", help="end at once when standard input ends")
    return parser


def _read_plan(path: Path) -> FaultPlan:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FaultPlanInvalid(str(path), f"cannot be read: {error}") from error
    try:
        return FaultPlan.from_json(text)
    except FaultPlanInvalid as error:
        raise FaultPlanInvalid(f"{path}: {error.where}", error.reason) from error


if __name__ == "__main__":
    sys.exit(main())
