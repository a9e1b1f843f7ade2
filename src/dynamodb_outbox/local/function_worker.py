"""The child of `FunctionProcess`: loads the function, then answers invocations until its input ends.

The function may do what it likes to its process: close standard output, raise what cannot be printed, fork. None of it
may change what becomes of the invocation. A fork of the function that comes back here has the copy of somebody's work
and no request of its own: it has lost the connection with the fork, and ends without a word.

SIGINT and SIGTERM are for the parent to act upon, and do nothing here. They are handled, not ignored: what is ignored
stays so in every program that the function starts, which nobody could end then. What it forks has them as they were.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.local.frames import receive_frame, send_frame
from dynamodb_outbox.process.handlers import handler_fault
from dynamodb_outbox.process.importing import is_missing
from dynamodb_outbox.process.lifeline import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

__all__ = ["LambdaContext", "main"]


@dataclass(frozen=True)
class LambdaContext:
    """The second argument of a Lambda function, as far as a local process can know it. Names and types are Lambda's."""

    function_name: str
    aws_request_id: str
    memory_limit_in_mb: str
    deadline: float
    function_version: str = "$LATEST"
    identity: None = None
    client_context: None = None

    @property
    def invoked_function_arn(self) -> str:
        """An ARN that names this function and no real account."""
        return f"arn:aws:lambda:us-east-1:000000000000:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        """The log group this function would have."""
        return f"/aws/lambda/{self.function_name}"

    @property
    def log_stream_name(self) -> str:
        """There is no log stream; what the function prints goes to the terminal."""
        return "local"

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the process is ended, 0 when that is overdue."""
        return max(0, int((self.deadline - time.monotonic()) * 1000))


def main(argv: Sequence[str] | None = None) -> int:
    """Serve invocations on a socket; return 0 at the end of the input, 1 when the function cannot be loaded."""
    parser = argparse.ArgumentParser(prog="python -m dynamodb_outbox.local.function_worker", description=__doc__)
    parser.add_argument("handler", help="module:attribute")
    parser.add_argument("--socket", type=int, required=True, help="file descriptor of the connection")
    parser.add_argument("--lifeline", type=int, required=True, help="file descriptor that ends with the parent")
    parser.add_argument("--name", required=True, help="what the context says")
    parser.add_argument("--memory", required=True, metavar="MB", help="what the context says")
    options = parser.parse_args(argv)
    _leave_signals_to_the_parent()
    end_with_parent(options.lifeline)
    with socket.socket(fileno=options.socket) as connection:
        for fd in (options.socket, options.lifeline):
            os.set_inheritable(fd, False)
        os.register_at_fork(after_in_child=connection.close)
        # The parent may have closed the connection: no more work.
        with contextlib.suppress(ConnectionError):
            return _serve(_Replies(connection, os.getpid()), options)
    return 0


def _leave_signals_to_the_parent() -> None:
    before = {number: signal.signal(number, _do_nothing) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.siginterrupt(number, False)  # nor do they cut short what the function waits for

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is _do_nothing:  # and not one that the function has set
                signal.signal(number, handler)

    os.register_at_fork(after_in_child=restore)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


@dataclass(frozen=True)
class _Replies:
    """The way back to the parent, for the process `pid` alone."""

    connection: socket.socket
    pid: int

    def send(self, request_id: str | None, content: dict[str, Any]) -> None:
        if os.getpid() != self.pid:
            os._exit(0)  # a fork of the function: nothing of what the original would run at its end is for it to run
        send_frame(self.connection, _encoded({"request_id": request_id, **content}))


def _serve(replies: _Replies, options: argparse.Namespace) -> int:
    loaded = _load(options.handler)
    if isinstance(loaded, dict):
        replies.send(None, loaded)
        return 1
    replies.send(None, {"ready": True})
    while True:
        invocation, event = (json.loads(receive_frame(replies.connection)) for _ in range(2))
        context = LambdaContext(options.name, invocation["request_id"], options.memory, invocation["deadline"])
        replies.send(context.aws_request_id, _run(loaded, event, context))


def _load(handler: str) -> Callable[[Any, Any], Any] | dict[str, Any]:
    module, _, attribute = handler.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        return _error("Runtime.HandlerNotFound", f"{handler}: {_text(error)}")
    except SystemExit as error:  # named as on Lambda, where the process is gone
        return _error("Runtime.ExitError", f"{handler}: it ends the process when it is imported (SystemExit: {error})")
    except Exception as error:  # noqa: BLE001 -- the user's module may raise anything; it is reported
        if not is_missing(error, module):
            _show_traceback()
        return _error("Runtime.ImportModuleError", f"{handler}: {type(error).__name__}: {_text(error)}")
    if (fault := handler_fault(found)) is not None:
        return _error("Runtime.HandlerNotFound", f"{handler} {fault}")
    function: Callable[[Any, Any], Any] = found
    return function


def _run(function: Callable[[Any, Any], Any], event: Any, context: LambdaContext) -> dict[str, Any]:
    try:
        answer = function(event, context)
    except Exception as error:  # noqa: BLE001 -- the user's function may raise anything; it is reported
        _show_traceback()
        return _error(type(error).__name__, _text(error))
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, None, or whatever the function has put in its place
                stream.flush()
    return {"answer": answer}


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


def _encoded(reply: dict[str, Any]) -> bytes:
    try:
        return json.dumps(reply, allow_nan=False).encode()
    except Exception as error:  # noqa: BLE001 -- objects of the user's are asked for what they hold; it is reported
        failure = _error("Runtime.MarshalError", f"the answer is not JSON: {_text(error)}")
        return json.dumps({"request_id": reply["request_id"], **failure}).encode()


def _show_traceback() -> None:
    with contextlib.suppress(Exception):  # the function may have closed standard error, too
        traceback.print_exc()


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 -- the user's exception may raise anything when it is asked for its text
        return f"its text cannot be had: {type(second).__name__}"


if __name__ == "__main__":
    sys.exit(main())
