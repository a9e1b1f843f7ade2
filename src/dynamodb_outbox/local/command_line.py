"""What the two event sources have in common as programs: their arguments, their signals, their errors."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import FUNCTION_TIMEOUT_MS
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.client import REGION
from dynamodb_outbox.local.environment import function_environment, withheld_endpoints
from dynamodb_outbox.local.function import FunctionProcess
from dynamodb_outbox.process.lifeline import end_with_parent
from dynamodb_outbox.process.options import OptionParser
from dynamodb_outbox.process.stop import StopFlag, stop_on_signals
from dynamodb_outbox.words import failure

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HandlerUnusable", "check_loads", "common_arguments", "function_process", "run_until_stopped", "setting"]

_NO_HANDLER = ("Runtime.ImportModuleError", "Runtime.HandlerNotFound", "Runtime.ExitError")
_log = logging.getLogger(__name__)


class HandlerUnusable(OutboxError):
    """The handler cannot be loaded: `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"--handler {reason}")


def common_arguments(module: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments that every event source takes."""
    parser = OptionParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--endpoint", required=True, metavar="URL", help="the engine, for the source and the function")
    parser.add_argument("--account", required=True, metavar="DIGITS", help="12 digits, used as the access key")
    parser.add_argument("--region", default=REGION)
    parser.add_argument("--handler", required=True, metavar="MODULE:ATTRIBUTE", help="the function")
    parser.add_argument("--function-name", default="local-function", help="what its context says")
    parser.add_argument(
        "--timeout-ms", type=int, default=FUNCTION_TIMEOUT_MS, metavar="N", help="of one invocation (%(default)s)"
    )
    parser.add_argument(
        "--env",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="the function's environment, repeatable",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append a JSON line for everything that happens")
    parser.add_argument("--exit-with-parent", action="store_true", help="end at once when standard input ends")
    parser.set_defaults(program=parser.prog)
    return parser


def function_process(options: argparse.Namespace) -> FunctionProcess:
    """Return the function that the common arguments name, with AWS pointing at the engine.

    Endpoints that are exported for real work stay behind, which is said: somebody may have meant them.
    """
    for name in withheld_endpoints(os.environ, dict(options.env), options.endpoint):
        _log.warning(
            "%s is exported, and the function does not get it: its endpoint is %s. --env %s=URL gives another one",
            *(name, options.endpoint, name),
        )
    return FunctionProcess(
        options.handler,
        timeout_ms=options.timeout_ms,
        name=options.function_name,
        environment=function_environment(
            options.endpoint, options.account, region=options.region, extra=dict(options.env)
        ),
    )


def check_loads(function: FunctionProcess) -> None:
    """Load a function before anything is read for it. Raises HandlerUnusable: it is misspelt, or cannot be imported.

    One that takes too long is tried again with the first invocation.
    """
    failure = function.load()
    if failure is not None and failure.kind in _NO_HANDLER:
        raise HandlerUnusable(failure.message)


def setting(text: str) -> tuple[str, str]:
    """Return a name and its value, of NAME=VALUE: for argparse."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE; for an empty value give {name or 'NAME'}=")
    return name, value


def run_until_stopped(options: argparse.Namespace, run: Callable[[StopFlag], None]) -> int:
    """Run with SIGTERM and SIGINT asking to stop; return the exit status, with errors and warnings on stderr.

    `options.program` is what errors begin with.
    """
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    if options.exit_with_parent:
        if sys.stdin is None:
            print(f"{options.program}: error: --exit-with-parent, and standard input is closed", file=sys.stderr)  # noqa: T201 -- as below
            return 1
        end_with_parent(sys.stdin.fileno())
    try:
        with stop_on_signals(signal.SIGTERM, signal.SIGINT) as stop:
            run(stop)
    except (OutboxError, ValueError, OSError) as error:
        print(f"{options.program}: error: {failure(error)}", file=sys.stderr)  # noqa: T201 -- a program's message to its user
        return 1
    return 0
