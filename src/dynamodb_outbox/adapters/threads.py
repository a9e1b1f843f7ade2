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
        self.begin()
        _CREWS.add(self)

    def begin(self) -> None:
        """Begin without a thread, and without what was given to those that there were."""
        self._work = _Work()
        weakref.finalize(self, self._work.end).atexit = False

    def start(self, task: Callable[[], object]) -> None:
        """Have a task done. Raises RuntimeError when it never will be: there is no thread, and none can be started."""
        with self._work.lock:
            if self._work.threads < min(self._size, self._work.left + 1):
                self._start_thread()
            self._work.left += 1
            self._work.tasks.put(task)

    def results(self) -> ThreadResults[Any]:
        """Return a new queue."""
        return ThreadResults()

    def _start_thread(self) -> None:
        name = f"{self._name}_{self._work.threads}"
        try:
            threading.Thread(target=self._work.go_on, name=name, daemon=True).start()
        except RuntimeError:
            if not self._work.threads:
                raise
        else:
            self._work.threads += 1


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


_CREWS: weakref.WeakSet[ThreadCrew] = weakref.WeakSet()


def _begin_all() -> None:
    for crew in _CREWS:
        crew.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)
