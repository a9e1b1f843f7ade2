"""Tasks side by side in a simulated process: `ports.Crew`, of strands."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dynamodb_outbox.testing.simulation.kernel import Killed, Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.testing.simulation.kernel import Kernel
    from dynamodb_outbox.testing.simulation.process import Process

__all__ = ["StrandCrew", "StrandResults"]

T = TypeVar("T")


class StrandResults(Generic[T]):
    """`ports.Results` between strands."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._mailbox: Mailbox[T] = Mailbox(kernel)

    def put(self, result: T) -> None:
        """Add a result. Raises Killed."""
        self._kernel.here()
        self._mailbox.put(result)

    def get(self, timeout_ms: int | None) -> T | None:
        """Wait for the next result. Raises Killed."""
        return self._mailbox.get(until_ms=None if timeout_ms is None else self._kernel.now_ms + timeout_ms)


class StrandCrew:
    """A crew of `size` strands of a process; it ends with that."""

    def __init__(self, kernel: Kernel, process: Process, size: int) -> None:
        self._kernel = kernel
        self._process = process
        self._size = size
        self._working = 0
        self._waiting: deque[Callable[[], object]] = deque()

    def start(self, task: Callable[[], object]) -> None:
        """Have a task done. Raises Killed in a process that was killed."""
        self._kernel.here()
        self._waiting.append(task)
        if self._working < self._size:
            self._working += 1
            self._process.spawn("crew", self._work)

    def results(self) -> StrandResults[Any]:
        """Return a new queue."""
        return StrandResults(self._kernel)

    def _work(self) -> None:
        while self._waiting:
            task = self._waiting.popleft()
            try:
                task()
            except Killed:
                raise
            except BaseException:  # noqa: BLE001, S110 -- as the port says: what a task raises is lost
                pass
        self._working -= 1
