"""Virtual time for code that blocks: everything happens in one order, decided by the clock and one seed.

A *strand* is a thread of the simulated world. At any moment exactly one of them runs; it runs until it waits, and then
hands on to whatever is due next. So code that sleeps, sends requests and waits for answers runs as it is, years pass in
a second, and the same seed gives the same run to the last step. Of two things that are due at the same millisecond the
seed decides which comes first.

A strand can be killed. It then ends where it waits, as a process does that loses its machine: what it had asked of
others still happens, and it hears nothing of it. Python runs its `finally` blocks; whatever they ask of the world is
refused with `Killed` again, so they have no effect on it.

Nothing here knows what is simulated.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

__all__ = ["Kernel", "Killed", "Mailbox", "Strand", "Threads"]

T = TypeVar("T")

_FORGET_AFTER = 256
"""Strands after which those that ended are forgotten."""


class Killed(BaseException):
    """Ends a strand that was killed. No Exception, so that code which catches those does not survive its own end."""


class Threads:
    """Threads that carry strands, kept for the next ones. Several kernels may share them, one after the other."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._all: list[_Thread] = []

    def carry(self, strand: Strand) -> None:
        """Let a strand live on a thread that carries nothing."""
        if self._idle:
            thread = self._idle.pop()
        else:
            thread = _Thread(self._idle)
            self._all.append(thread)
        thread.carry(strand)

    def close(self) -> None:
        """End the threads. No strand may be on one of them any more."""
        for thread in self._all:
            thread.end()
        self._all.clear()
        self._idle.clear()


class _Thread:
    def __init__(self, idle: list[_Thread]) -> None:
        self._baton = threading.Lock()
        self._baton.acquire()
        self._strand: Strand | None = None
        self._idle = idle
        self._thread = threading.Thread(target=self._live, name="strand", daemon=True)
        self._thread.start()

    def carry(self, strand: Strand | None) -> None:
        self._strand = strand
        self._baton.release()

    def end(self) -> None:
        self.carry(None)
        self._thread.join()

    def _live(self) -> None:
        while True:
            self._baton.acquire()
            strand, self._strand = self._strand, None
            if strand is None:
                return
            strand.live()
            self._idle.append(self)  # before the next strand runs, which may be carried by it
            strand.leave()


class Strand:
    """A thread of the simulated world, made by `Kernel.spawn`. A real one carries it from its first turn on."""

    def __init__(self, kernel: Kernel, name: str, body: Callable[[], object]) -> None:
        self.name = name
        self.alive = True
        self.killed = False
        self.turn = 0  # how often it was resumed: a wake-up for an earlier wait is void
        self.begun = False
        self.baton = threading.Lock()
        self.baton.acquire()
        self._kernel = kernel
        self._body = body

    def kill(self) -> None:
        """End the strand where it waits. One that kills itself ends at its next call to the kernel."""
        self.killed = True
        if not self.begun:
            self.alive = False
        elif self.alive and self._kernel.current is not self:
            self._kernel.wake(self)

    def live(self) -> None:
        """Do what it is there for. What it raises is for `Kernel.run` to raise, where somebody can see it."""
        try:
            if not self.killed:
                self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 -- as said above
            self._kernel.fail(error)
        self.alive = False

    def leave(self) -> None:
        """Hand on to whatever is due next, for good."""
        self._kernel.hand_on()


class Kernel:
    """The clock and the order of all that happens. `now_ms` is virtual time, in milliseconds from 0.

    `order` decides between what is due at once, for each millisecond by itself: what is due in one leaves the luck of
    all others as it was. Without `threads` the kernel has some of its own.
    """

    def __init__(self, order: random.Random, threads: Threads | None = None) -> None:
        self.now_ms = 0
        self.current: Strand | None = None
        self._failure: BaseException | None = None
        self._luck = order.getrandbits(32)
        self._at_once: dict[int, int] = {}
        """For each millisecond, how much was due in it so far."""
        self._threads = Threads() if threads is None else threads
        self._shared = threads is not None
        self._due: list[tuple[int, int, int, Callable[[], object] | Strand, int]] = []
        self._count = 0
        self._until_ms = 0
        self._closing = False
        self._main = threading.Lock()
        self._main.acquire()
        self._strands: list[Strand] = []
        self._forget_at = _FORGET_AFTER

    # --- for everybody ---

    def call_at(self, at_ms: int, action: Callable[[], object]) -> None:
        """Run `action` at a time, now at the earliest. It must not wait."""
        self._schedule(at_ms, action, 0)

    def spawn(self, name: str, body: Callable[[], object], *, at_ms: int | None = None) -> Strand:
        """Start a strand, now or at a time."""
        strand = Strand(self, name, body)
        if len(self._strands) > self._forget_at:
            self._strands = [one for one in self._strands if one.alive]
            self._forget_at = len(self._strands) + _FORGET_AFTER
        if self._closing:
            strand.kill()
            return strand
        self._strands.append(strand)
        self._schedule(self.now_ms if at_ms is None else at_ms, strand, 0)
        return strand

    def wake(self, strand: Strand) -> None:
        """Let a waiting strand go on, now."""
        self._schedule(self.now_ms, strand, strand.turn)

    def run(self, until_ms: int) -> None:
        """Let everything happen that is due up to and including `until_ms`. Raises what a strand raised."""
        self._until_ms = until_ms
        self._next()
        self._main.acquire()
        if self._failure is not None:
            raise self._failure
        self.now_ms = max(self.now_ms, until_ms)

    def close(self) -> None:
        """End every strand, and the threads that are the kernel's own. The kernel is of no use after that."""
        self._due.clear()
        self._failure = None
        self._closing = True
        for strand in self._strands:
            strand.kill()
        self._until_ms = self.now_ms
        self._next()
        self._main.acquire()
        if not self._shared:
            self._threads.close()

    def fail(self, error: BaseException) -> None:
        """Stop the run, which raises `error`."""
        if self._failure is None and not self._closing:
            self._failure = error

    # --- for strands ---

    def here(self) -> Strand:
        """Return the strand that runs. Raises Killed when it was killed, RuntimeError outside of strands."""
        strand = self.current
        if strand is None:
            raise RuntimeError("only a strand of the simulation can wait")
        if strand.killed:
            raise Killed
        return strand

    def sleep(self, duration_ms: int) -> None:
        """Wait for a time. Raises Killed."""
        self.wait(until_ms=self.now_ms + max(0, duration_ms))

    def wait(self, until_ms: int | None = None) -> None:
        """Wait to be woken, or for a time, whichever is first. Raises Killed."""
        strand = self.here()
        if until_ms is not None:
            self._schedule(until_ms, strand, strand.turn)
        if self._next() is not strand:
            strand.baton.acquire()
        if strand.killed:
            raise Killed

    # --- the order ---

    def hand_on(self) -> None:
        """Let whatever is due next happen; the last call of a strand."""
        self._next()

    def _schedule(self, at_ms: int, what: Callable[[], object] | Strand, turn: int) -> None:
        at_ms = max(at_ms, self.now_ms)
        self._count += 1
        nth = self._at_once[at_ms] = self._at_once.get(at_ms, 0) + 1
        heapq.heappush(self._due, (at_ms, hash((self._luck, at_ms, nth)), self._count, what, turn))

    def _next(self) -> Strand | None:
        """Hand on to the strand that is due next, or back to `run`; return that strand, None for `run`.

        Actions run here, on the thread that gives way. That one goes on at once when it is its own turn again.
        """
        before, self.current = self.current, None
        while self._failure is None and self._due and self._due[0][0] <= self._until_ms:
            self.now_ms, _, _, what, turn = heapq.heappop(self._due)
            if not isinstance(what, Strand):
                try:
                    what()
                except BaseException as error:  # noqa: BLE001 -- as in Strand.live
                    self.fail(error)
            elif what.alive and what.turn == turn:
                what.turn += 1
                self.current = what
                if what is not before:
                    self._resume(what)
                return what
        self._main.release()
        return None

    def _resume(self, strand: Strand) -> None:
        if strand.begun:
            strand.baton.release()
        else:
            strand.begun = True
            self._threads.carry(strand)


class Mailbox(Generic[T]):
    """A queue between strands; `put` may also be called from an action."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._items: deque[T] = deque()
        self._reader: Strand | None = None

    def put(self, item: T) -> None:
        """Add an item, and wake who waits for one."""
        self._items.append(item)
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._kernel.wake(reader)

    def get(self, *, until_ms: int | None = None) -> T | None:
        """Return the next item; None when there is none by `until_ms`. For one strand at a time. Raises Killed."""
        if not self._wait_for_one(until_ms):
            return None
        return self._items.popleft()

    def take(self) -> T:
        """Return the next item, however long it takes. For one strand at a time. Raises Killed."""
        self._wait_for_one(None)
        return self._items.popleft()

    def _wait_for_one(self, until_ms: int | None) -> bool:
        strand = self._kernel.here()
        while not self._items:
            if until_ms is not None and self._kernel.now_ms >= until_ms:
                self._reader = None
                return False
            self._reader = strand
            self._kernel.wait(until_ms)
        self._reader = None
        return True
