"""Tasks side by side, in threads: `ports.Crew`.

A thread is started when a task comes and all that there are have one, up to the crew's size, and is kept. Where the
system has no thread to give, the task waits for one of those that there are: fewer threads do less at a time. Only a
crew without any thread refuses a task, and a task that was refused is never done: it enters the queue last of all.

Threads are not copied by a fork: in the child a crew begins anew.

The threads know the queue and not the crew, so that a crew that nobody holds any more ends them; and they are daemons,
so that a process which ends does not wait for them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ThreadCrew", "ThreadResults"]

T = TypeVar("T")


class ThreadResults(Generic[T]):
    """`ports.Results` between threads."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[T] = SimpleQueue()

    def put(self, result: T) -> None:
        """Add a result."""
        self._queue.put(result)

    def get(self, timeout_ms: int | None) -> T | None:
        """Wait for the next result, for `timeout_ms` at most; a negative time is none."""
        try:
            return self._queue.get(timeout=None if timeout_ms is None else max(0, timeout_ms) / 1000)
        except Empty:
            return None


class ThreadCrew:
    """A crew of `size` threads, named `name` in a debugger. It may be used from several threads at once."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._begun = self._begin()

    def start(self, task: Callable[[], object]) -> None:
        """Have a task done. Raises RuntimeError when it never will be: there is no thread, and none can be started."""
        process, work = self._begun
        if process != os.getpid():
            self._begun = _, work = self._begin()
        with work.lock:
            if work.threads < min(self._size, work.left + 1):
                self._start_thread(work)
            work.left += 1
            work.tasks.put(task)

    def results(self) -> ThreadResults[Any]:
        """Return a new queue."""
        return ThreadResults()

    def _begin(self) -> tuple[int, _Work]:
        """Return the process that this is, and what the crew's threads in it share."""
        work = _Work()
        weakref.finalize(self, work.end).atexit = False
        return os.getpid(), work

    def _start_thread(self, work: _Work) -> None:
        name = f"{self._name}_{work.threads}"
        try:
            threading.Thread(target=work.go_on, name=name, daemon=True).start()
        except RuntimeError:
            if not work.threads:
                raise
        else:
            work.threads += 1


class _Work:
    """What the threads of a crew share; `left` counts the tasks that have not ended."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.threads = 0
        self.left = 0

    def go_on(self) -> None:
        """Do tasks until there are no more to come."""
        while (task := self.tasks.get()) is not None:
            with contextlib.suppress(BaseException):  # as the port says: what a task raises is lost
                task()
            del task  # it may hold the crew
            with self.lock:
                self.left -= 1

    def end(self) -> None:
        """Let the threads end when what there is has been done."""
        for _ in range(self.threads):
            self.tasks.put(None)
