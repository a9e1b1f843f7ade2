"""Tasks side by side, in threads: `ports.Crew`. The threads are started with the first task, and are kept."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
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
        self._pool: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()

    def start(self, task: Callable[[], object]) -> None:
        """Have a task done. Raises RuntimeError when the interpreter is ending, or no thread can be started."""
        self._started().submit(task)

    def results(self) -> ThreadResults[Any]:
        """Return a new queue."""
        return ThreadResults()

    def _started(self) -> ThreadPoolExecutor:
        with self._starting:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=self._name)
            return self._pool
