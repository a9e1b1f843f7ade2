"""A function in a process of its own, run the way Lambda runs one.

It is loaded once and called many times, one invocation at a time. It has a time-out that is kept by SIGKILL, whatever
the code is doing. An exception leaves the process as it is; a death or a time-out makes the next invocation start a new
one. What it prints goes where this process's output goes and cannot touch the protocol, which has a socket of its own.

Every reply names its request. One that names another (the function forked, and its child answered as well) ends the
process and fails the invocation: an answer that is taken for that of another batch loses events.

The child joins this process's group, so that ending the group ends both, and does not react to SIGINT and SIGTERM:
whether to finish the invocation is this process's decision. `dynamodb_outbox.process.lifeline` ends it when this
process is gone. `dynamodb_outbox.local.function_worker` is its program, `.frames` says how the two talk.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.arguments import whole
from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Responded
from dynamodb_outbox.core.limits import FUNCTION_INIT_MS, FUNCTION_LONGEST_MS, FUNCTION_MEMORY_MB, FUNCTION_TIMEOUT_MS
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.frames import receive_frame, send_frame
from dynamodb_outbox.process.ending import how_it_ended
from dynamodb_outbox.process.lifeline import Lifeline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

__all__ = ["Function", "FunctionProcess"]

_CLOSE_GRACE_S = 2.0


class Function(Protocol):
    """What an event source invokes."""

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Run the function on `event`, to its end."""
        ...


class FunctionProcess:
    """The function `handler` (`module:attribute`, importable in the child), called as `attribute(event, context)`.

    timeout_ms           an invocation that takes longer is ended by SIGKILL (3 s, as Lambda's own default)
    init_timeout_ms      the same for importing the module (10 s, as Lambda)
    name, memory_limit_in_mb   what the context says; the memory is not limited
    environment          the child's, in full; None: this process's own
    output               where what it prints goes; None: where this process's output goes

    Nothing is started before the first invocation, or `load`. Use it as a context manager, or call `close`. Raises
    ConfigurationError for a handler that is not of the form `module:attribute`, or a time-out that is not from 1 ms to
    15 minutes.
    """

    def __init__(
        self,
        handler: str,
        *,
        timeout_ms: int = FUNCTION_TIMEOUT_MS,
        init_timeout_ms: int = FUNCTION_INIT_MS,
        name: str = "local-function",
        memory_limit_in_mb: int = FUNCTION_MEMORY_MB,
        environment: Mapping[str, str] | None = None,
        output: IO[bytes] | int | None = None,
    ) -> None:
        module, _, attribute = handler.partition(":")
        if not module or not attribute:
            raise ConfigurationError(f"handler {handler!r}: module:attribute is wanted, like shop.relay:handler")
        for what, value in (("timeout_ms", timeout_ms), ("init_timeout_ms", init_timeout_ms)):
            whole(value, partial(_refused, what), least=1, most=FUNCTION_LONGEST_MS)
        self._handler = handler
        self._timeout_ms = timeout_ms
        self._init_timeout_ms = init_timeout_ms
        self._name = name
        self._memory_limit_in_mb = memory_limit_in_mb
        self._environment = environment
        self._output = output
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lifeline: Lifeline | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        return None if self._process is None else self._process.pid

    def load(self) -> FunctionFailed | None:
        """Start the child and load the function, unless that is done; return why it cannot be loaded, None when it can.

        The names of failures are those of `invoke`, which does the same first.
        """
        with self._one_at_a_time:
            return self._ready()

    def invoke(self, event: Mapping[str, Any]) -> Responded | FunctionFailed:
        """Run the function on `event` (JSON) and return its answer, or why there is none.

        The names of failures are Lambda's: `Sandbox.Timedout`, `Runtime.ExitError` (the process died),
        `Runtime.ImportModuleError`, `Runtime.HandlerNotFound`, `Runtime.MarshalError` (the answer is not JSON), and the
        class of an exception that the function raised; `Local.WrongReply` is our own (what came is no reply to this
        invocation). Raises TypeError or ValueError for an event that is not JSON.
        """
        text = json.dumps(event, allow_nan=False)
        with self._one_at_a_time:
            if (failure := self._ready()) is not None:
                return failure
            deadline = time.monotonic() + self._timeout_ms / 1000
            # The clock of `time.monotonic` is the same in all processes of a machine, and no one can set it.
            request_id = str(uuid.uuid4())
            head = json.dumps({"request_id": request_id, "deadline": deadline})
            reply = self._exchange([head.encode(), text.encode()], deadline, self._timeout_ms, request_id)
            if isinstance(reply, FunctionFailed):
                return reply
            if "error" in reply:
                return FunctionFailed(reply["error"]["type"], reply["error"]["message"])
            return Responded(reply["answer"])

    def close(self) -> None:
        """End the child: at once when it is idle. May be repeated; a later invocation starts a new one."""
        if self._process is None:
            return
        if self._socket is not None:
            self._socket.close()  # the end of the child's input: it leaves by itself
            self._socket = None
        try:
            self._process.wait(_CLOSE_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def __enter__(self) -> FunctionProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready(self) -> FunctionFailed | None:
        """Have a child that has loaded the function; why not, if that failed."""
        if self._process is not None and self._process.poll() is None:
            return None
        self._reap()
        self._start()
        deadline = time.monotonic() + self._init_timeout_ms / 1000
        reply = self._exchange([], deadline, self._init_timeout_ms, None)
        if isinstance(reply, FunctionFailed):
            return reply
        if "error" in reply:
            self.close()
            return FunctionFailed(reply["error"]["type"], reply["error"]["message"])
        return None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._lifeline = Lifeline()
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 -- our own interpreter and arguments
                [
                    *(sys.executable, "-u", "-m", "dynamodb_outbox.local.function_worker", self._handler),
                    *("--socket", str(theirs.fileno()), "--lifeline", str(self._lifeline.child_fd)),
                    *("--name", self._name, "--memory", str(self._memory_limit_in_mb)),
                ],
                env=None if self._environment is None else dict(self._environment),
                pass_fds=(theirs.fileno(), self._lifeline.child_fd),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
        self._lifeline.started()

    def _exchange(
        self, frames: list[bytes], deadline: float, timeout_ms: int, request_id: str | None
    ) -> dict[str, Any] | FunctionFailed:
        """Send frames and read the reply to `request_id`; a child that is late, dead or confused is gone afterwards."""
        assert self._socket is not None  # noqa: S101 -- set by _start, which every path here went through
        try:
            for frame in frames:
                send_frame(self._socket, frame, deadline=deadline)
            reply = _reply(receive_frame(self._socket, deadline=deadline), request_id)
        except TimeoutError:
            self._process_kill()
            return FunctionFailed("Sandbox.Timedout", f"{self._handler} took longer than {timeout_ms / 1000:g} s")
        except ConnectionError:
            return FunctionFailed("Runtime.ExitError", f"the process of {self._handler} {self._how_it_ended()}")
        if reply is None:
            self._process_kill()
            return FunctionFailed("Local.WrongReply", f"{self._handler} sent what is no reply to this invocation")
        return reply

    def _how_it_ended(self) -> str:
        assert self._process is not None  # noqa: S101 -- set by _start
        try:
            code = self._process.wait(_CLOSE_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process_kill()
            return "closed its connection"
        self._reap()
        return how_it_ended(code)

    def _process_kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._reap()

    def _reap(self) -> None:
        """Forget a child that is dead or dying."""
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._lifeline is not None:
            self._lifeline.cut()
            self._lifeline = None


def _refused(what: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{what} {reason}")


def _reply(frame: bytes, request_id: str | None) -> dict[str, Any] | None:
    """Return the reply to `request_id` that a frame holds, None when it holds anything else."""
    try:
        reply = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    if not isinstance(reply, dict) or reply.get("request_id", "") != request_id:
        return None
    return reply if reply.keys() & {"ready", "answer", "error"} else None
