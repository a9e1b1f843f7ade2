"""The command `outbox`: it parses, calls, renders, and does nothing else.

Exit statuses: 0 done; 1 the answer is no (a promise was broken); 2 the arguments cannot be used; 3 it could not be done
(an extra is missing, a port is taken, there is no Region, there are no credentials, nobody answers, …); 128 and the
signal's number when Ctrl-C (130), SIGTERM (143) or SIGHUP (129) ended it. Messages go to stderr, without a traceback.

Parsing needs nothing but the standard library. What a command needs is imported when it runs, so that a missing extra
is a sentence that names it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import signal
import sys
from typing import TYPE_CHECKING

from dynamodb_outbox._version import __version__
from dynamodb_outbox.cli import (
    consume_arguments,
    cost_arguments,
    demo_arguments,
    doctor_arguments,
    guarantees_arguments,
    infra_arguments,
    outbox_arguments,
    package_arguments,
    parked_arguments,
    redrive_arguments,
)
from dynamodb_outbox.cli.shell_words import in_shell_words, with_advice
from dynamodb_outbox.cli.unusable import STATUS, Unusable
from dynamodb_outbox.errors import ConfigurationError, NoClient, OutboxError
from dynamodb_outbox.process.options import OptionParser
from dynamodb_outbox.words import extra

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from types import FrameType

__all__ = ["CliExtraMissing", "main"]

_FAILED = 3
_SIGNALLED = 128


class CliExtraMissing(OutboxError):
    """The packages of the extra `[cli]` are not installed."""

    def __init__(self, package: str) -> None:
        self.package = package
        super().__init__(
            f"output for people cannot be drawn without the package {package}; --json does without it. Install the "
            f"extras [cli,local]: {extra('cli,local')}"
        )


class _Signalled(BaseException):
    """A signal asked the command to end. Not an Exception: nothing may take it for an error to be handled."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (None: the process's own) and return its exit status."""
    options = _parser().parse_args(argv)
    try:
        with _ended_by_signals():
            return _run(options)
    except BrokenPipeError:
        # Whoever read the output is gone: let the interpreter's own last flush go nowhere, instead of failing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except (OutboxError, OSError) as error:
        return _complain(options, with_advice(error), _FAILED)
    except _Signalled as ended:
        return _complain(options, options.when_ended, _SIGNALLED + ended.number)


def _run(options: argparse.Namespace) -> int:
    if options.draws and not options.json and importlib.util.find_spec("rich") is None:
        raise CliExtraMissing("rich")
    command = importlib.import_module(f"dynamodb_outbox.cli.{options.command}")
    try:
        status: int = command.run(options)
    except Unusable as error:
        return _complain(options, str(error), STATUS)
    except NoClient:
        raise
    except ConfigurationError as error:
        return _complain(options, in_shell_words(error, options), STATUS)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(prog="outbox", description="Commit a change and its domain events to DynamoDB in one write.")
    parser.add_argument("--version", action="version", version=f"dynamodb-outbox {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo_arguments.add_to(commands)
    outbox_arguments.add_sweep_to(commands)
    outbox_arguments.add_status_to(commands)
    parked_arguments.add_to(commands)
    redrive_arguments.add_to(commands)
    consume_arguments.add_to(commands)
    infra_arguments.add_to(commands)
    package_arguments.add_to(commands)
    guarantees_arguments.add_to(commands)
    cost_arguments.add_to(commands)
    doctor_arguments.add_to(commands)
    return parser


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the first SIGINT, SIGTERM or SIGHUP unwind the command; what cleans up then is not interrupted by more.

    A SIGHUP that is ignored (nohup) stays ignored.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def end(number: int, _frame: FrameType | None) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise _Signalled(number)

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(options: argparse.Namespace, message: str, status: int) -> int:
    sys.stderr.write(f"outbox {options.command}: {message}\n")
    return status
