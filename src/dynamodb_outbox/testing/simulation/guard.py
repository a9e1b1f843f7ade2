"""While a run is going on, its handlers reach nothing real: no server, no clock that they could sleep by, no terminal.

Handlers are run as they are, so what they reach past their world is met where Python keeps it: the HTTP session of
botocore, `time.sleep` (in every module that has it under this name), the standard streams, the loggers and the start of
threads. All of it is as before when the last run has ended, and for code that is not a handler's all the time, but for
botocore: a request that gets out by a way nobody thought of does harm, one that is refused too much does none.

What a handler prints and logs becomes facts of the ledger. Its threads are allowed as long as they keep to themselves.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from botocore.httpsession import URLLib3Session

from dynamodb_outbox.testing.simulation.facts import Said
from dynamodb_outbox.testing.simulation.kernel import StrandThread
from dynamodb_outbox.testing.simulation.process import Process
from dynamodb_outbox.testing.simulation.refusal import NotSimulated, Outside, called_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from dynamodb_outbox.testing.simulation.facts import Ledger
    from dynamodb_outbox.testing.simulation.kernel import Kernel

__all__ = ["guarded", "standing"]

_JOIN_S = 0.5
"""Real time that threads of handlers are given to end after a run, all together."""


@dataclass
class _Run:
    kernel: Kernel
    ledger: Ledger
    threads: list[threading.Thread] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)
    """Process -> what it has printed of a line."""

    def say(self, how: str, text: str) -> None:
        """Note what the handler says that is at work."""
        process = self.kernel.here().owner
        if isinstance(process, Process):
            now_ms = self.kernel.now_ms
            self.ledger.note(Said(now_ms, process.name, process.owner, process.invocation, how, text))

    def print(self, text: str) -> None:
        """Note the lines that are complete."""
        process = self.kernel.here().owner
        if isinstance(process, Process):
            *lines, rest = (self.lines.get(process.name, "") + text).split("\n")
            self.lines[process.name] = rest
            for line in filter(None, lines):
                self.say("prints", repr(line))


_LOCK = threading.Lock()
_RUNS: list[_Run] = []
_STANDING: list[object] = []
"""Who keeps the guard up between runs."""
_OF_HANDLERS: WeakKeyDictionary[threading.Thread, _Run] = WeakKeyDictionary()
_UNDO: list[Callable[[], None]] = []


@contextmanager
def guarded(kernel: Kernel, ledger: Ledger) -> Iterator[None]:
    """Guard a run of a kernel, whose handlers' words go into a ledger.

    Raises at its end what the kernel refused, if the run itself did not.
    """
    run = _Run(kernel, ledger)
    with _LOCK:
        _put_up()
        _RUNS.append(run)
    try:
        yield
        until_s = time.monotonic() + _JOIN_S
        for thread in run.threads:
            thread.join(max(0.0, until_s - time.monotonic()))
    finally:
        with _LOCK:
            _RUNS.remove(run)
            _take_down()
    if kernel.refused is not None:
        raise kernel.refused


@contextmanager
def standing() -> Iterator[None]:
    """Keep the guard up from the first run to the last: to look through all modules each time takes time."""
    keeper = object()
    with _LOCK:
        _STANDING.append(keeper)
    try:
        yield
    finally:
        with _LOCK:
            _STANDING.remove(keeper)
            _take_down()


def _run_here() -> _Run | None:
    """Return the run of which a strand asks this."""
    return next((run for run in _RUNS if run.kernel.is_here()), None)


def _run_of_thread() -> _Run | None:
    """Return the run of whose handler it is a thread that asks this."""
    return _OF_HANDLERS.get(threading.current_thread())


# --- what is put up ---------------------------------------------------------------------------------------------------

_sleep = time.sleep
_start = threading.Thread.start
_handle = logging.Logger.handle


def _put_up() -> None:
    if _UNDO:
        return
    _replace(URLLib3Session, "send", _send_nothing)
    _replace(threading.Thread, "start", _start_noted)
    _replace(logging.Logger, "handle", _handle_log)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("sleep") is _sleep:
            _replace(module, "sleep", _sleep_virtually)
    for name in ("stdout", "stderr"):
        _replace(sys, name, _Stream(getattr(sys, name)))


def _take_down() -> None:
    while _UNDO and not _RUNS and not _STANDING:
        _UNDO.pop()()


def _replace(where: Any, name: str, by: Any) -> None:
    before = getattr(where, name)

    def undo() -> None:
        if getattr(where, name) is by:
            setattr(where, name, before)

    setattr(where, name, by)
    _UNDO.append(undo)


def _send_nothing(_: Any, request: Any) -> Any:
    """Stand for `URLLib3Session.send`."""
    error = NotSimulated(
        f"a request to {request.url} was about to be really sent{called_from()}: take the client from the world that "
        'make_handler gets, as world.client("events").'
    )
    run = _run_here() or _run_of_thread()
    for one in [run] if run is not None else _RUNS:
        one.kernel.refused = one.kernel.refused or error
        one.kernel.fail(error)
    if run is not None:
        run.kernel.stop(error)
    raise error


def _sleep_virtually(seconds: float) -> None:
    """Stand for `time.sleep`."""
    run, of_thread = _run_here(), _run_of_thread()
    if run is not None and seconds >= 0:
        run.kernel.sleep(-int(-1000 * seconds // 1))
    elif of_thread is not None and of_thread in _RUNS:
        of_thread.kernel.here()
    else:
        _sleep(seconds)


def _start_noted(thread: threading.Thread) -> None:
    """Stand for `Thread.start`: threads that handlers start, and their threads, are known by it."""
    run = None if isinstance(thread, StrandThread) else _run_here() or _run_of_thread()
    if run is not None:
        _OF_HANDLERS[thread] = run
        run.threads.append(thread)
        body = thread.run

        def run_quietly() -> None:
            with suppress(Outside):  # `NotSimulated` is raised where the run was started
                body()

        thread.run = run_quietly  # type: ignore[method-assign]  # of this thread alone
    _start(thread)


def _handle_log(logger: logging.Logger, record: logging.LogRecord) -> None:
    """Stand for `Logger.handle`."""
    run = _run_here()
    if run is not None:
        run.say("logs", f"{record.levelname} {record.name}: {_message(record)}")
    elif _run_of_thread() is None:
        _handle(logger, record)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 -- as logging itself: a record that cannot be formatted harms nobody
        return str(record.msg)


class _Stream:
    """Stands for a standard stream; what it is not asked to write is the stream's own business."""

    def __init__(self, real: TextIO) -> None:
        self._real = real

    def write(self, text: str) -> int:
        """Write, or note what a handler prints; its threads print nowhere."""
        run = _run_here()
        if run is not None:
            run.print(text)
        elif _run_of_thread() is None:
            return self._real.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
