"""The child of `FunctionProcess`: loads the function, then answers invocations until its input ends."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.local.frames import receive_frame, send_frame
from dynamodb_outbox.process.lifeline import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent(options.lifeline)
    with socket.socket(fileno=options.socket) as connection:
        loaded = _load(options.handler)
        if isinstance(loaded, dict):
            _send(connection, loaded)
            return 1
        _send(connection, {"ready": True})
        with contextlib.suppress(ConnectionError):  # the parent has closed the connection: no more work
            while True:
                invocation, event = (json.loads(receive_frame(connection)) for _ in range(2))
                context = LambdaContext(options.name, invocation["request_id"], options.memory, invocation["deadline"])
                _send(connection, _run(loaded, event, context))
    return 0


def _load(handler: str) -> Callable[[Any, Any], Any] | dict[str, Any]:
    module, _, attribute = handler.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        return _error("Runtime.HandlerNotFound", f"{handler}: {error}")
    except Exception as error:  # noqa: BLE001 -- the user's module may raise anything; it is reported
        traceback.print_exc()
        return _error("Runtime.ImportModuleError", f"{handler}: {type(error).__name__}: {error}")
    if not callable(found):
        return _error("Runtime.HandlerNotFound", f"{handler} is not callable")
    return found  # type: ignore[no-any-return]  # whatever the user's module holds


def _run(function: Callable[[Any, Any], Any], event: Any, context: LambdaContext) -> dict[str, Any]:
    try:
        answer = function(event, context)
    except Exception as error:  # noqa: BLE001 -- the user's function may raise anything; it is reported
        traceback.print_exc()
        return _error(type(error).__name__, str(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    try:
        json.dumps(answer, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return _error("Runtime.MarshalError", f"the answer is not JSON: {error}")
    return {"answer": answer}


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


def _send(connection: socket.socket, reply: dict[str, Any]) -> None:
    send_frame(connection, json.dumps(reply).encode())


if __name__ == "__main__":
    sys.exit(main())
