"""Virtual time for code that blocks: everything happens in one order, decided by the clock and one seed.

A *strand* is a thread of the simulated world. At any moment exactly one of them runs; it runs until it waits, and then
hands on to whatever is due next. So code that sleeps, sends requests and waits for answers runs as it is, years pass in
a second, and the same seed gives the same run to the last step. Of two things that are due at the same millisecond the
seed decides which comes first.

A strand can be killed. It then ends where it waits, as a process does that loses its machine: what it had asked of
others still happens, and it hears nothing of it. Python runs its `finally` blocks; whatever they ask of the world is
refused with `Killed` again, so they have no effect on it.

Nothing of this holds for a thread that is not a strand. A call from one ends the run with `NotSimulated`; so does a
strand that does not come back for a minute of real time, because it waits for something that is not in this world. Such
a strand is given up: its thread is left behind, and finds every call refused.

Nothing here knows what is simulated.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from heapq import heappop, heappush
from threading import get_ident
from typing import TYPE_CHECKING, Generic, TypeVar

from dynamodb_outbox.testing.simulation.refusal import NotSimulated, Outside, called_from, place_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

    from dynamodb_outbox.errors import OutboxError

__all__ = ["Kernel", "Killed", "Mailbox", "Strand", "StrandThread", "Threads"]

T = TypeVar("T")

_FORGET_AFTER = 256
"""Strands after which those that ended are forgotten."""

PATIENCE_S = 60.0
"""Real time without a step after which a strand is given up; nothing that is simulated takes a thousandth of that."""
_GRACE_S = 1.0
"""The same when the run has failed, or is being ended."""
_LOOK_S = 0.1
_DEBUGGERS = frozenset(("bdb", "pdb", "pydevd", "_pydevd_bundle", "debugpy"))


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


class StrandThread(threading.Thread):
    """A thread that carries strands, one after the other: `strand` is the one that it carries, or did last."""

    strand: Strand


class _Thread:
    def __init__(self, idle: list[_Thread]) -> None:
        self._baton = threading.Lock()
        self._baton.acquire()
        self._strand: Strand | None = None
        self._idle = idle
        self._thread = StrandThread(target=self._live, name="strand", daemon=True)
        self._thread.start()

    def carry(self, strand: Strand | None) -> None:
        self._strand = strand
        self._baton.release()

    def end(self) -> None:
        self.carry(None)
        self._thread.join(_GRACE_S)  # one that was given up may not come back

    def _live(self) -> None:
        while True:
            self._baton.acquire()
            strand, self._strand = self._strand, None
            if strand is None:
                return
            self._thread.strand, strand.thread = strand, get_ident()
            strand.live()
            if strand.given_up:
                return
            self._idle.append(self)  # before the next strand runs, which may be carried by it
            strand.leave()


class Strand:
    """A thread of the simulated world, made by `Kernel.spawn`. A real one carries it from its first turn on.

    `owner` is whose strand it is; the kernel makes no use of it.
    """

    def __init__(self, kernel: Kernel, name: str, body: Callable[[], object], owner: object = None) -> None:
        self.name = name
        self.owner = owner
        self.thread = 0  # the real one's identity
        self.given_up = False
        self.alive = True
        self.killed = False
        self.turn = 0  # how often it was resumed: a wake-up for an earlier wait is void
        self.begun = False
        self.baton = threading.Lock()
        self.baton.acquire()
        self.kernel = kernel
        self._body = body

    def kill(self) -> None:
        """End the strand where it waits. One that kills itself ends at its next call to the kernel."""
        self.killed = True
        if not self.begun:
            self.alive = False
        elif self.alive and self.kernel.current is not self:
            self.kernel.wake(self)

    def live(self) -> None:
        """Do what it is there for. What it raises is for `Kernel.run` to raise, where somebody can see it."""
        try:
            if not self.killed:
                self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 -- as said above
            self.kernel.fail(error)
        self.alive = False
        self.forget()

    def forget(self) -> None:
        """Let go of what the strand was for, when it has ended or will not begin: its thread keeps it for a while."""
        self.owner, self._body = None, _nothing

    def leave(self) -> None:
        """Hand on to whatever is due next, for good."""
        self.kernel.hand_on()


class Kernel:
    """The clock and the order of all that happens. `now_ms` is virtual time, in milliseconds from 0.

    `order` decides between what is due at once, for each millisecond by itself: what is due in one leaves the luck of
    all others as it was. Without `threads` the kernel has some of its own. `refused` is the first thing that `stop` was
    called for, also after the end of the run.
    """

    def __init__(self, order: random.Random, threads: Threads | None = None) -> None:
        self.now_ms = 0
        self.current: Strand | None = None
        self.refused: NotSimulated | None = None
        self._failure: BaseException | None = None
        self._owner = threading.current_thread()
        self._given_up: set[int] = set()
        """Threads that were left behind."""
        self._luck = order.getrandbits(32)
        self._at_once: dict[int, int] = {}
        """For each millisecond, how much was due in it so far."""
        self._threads = Threads() if threads is None else threads
        self._shared = threads is not None
        self._due: list[tuple[int, int, int, Callable[[], object] | Strand, int]] = []
        self._count = 0
        self._steps = 0
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

    def spawn(self, name: str, body: Callable[[], object], *, at_ms: int | None = None, owner: object = None) -> Strand:
        """Start a strand, now or at a time."""
        strand = Strand(self, name, body, owner)
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
        """Let everything happen that is due up to and including `until_ms`. Raises what a strand raised.

        Raises NotSimulated for a call from a thread that is no strand, and when a strand does not come back.
        """
        self._until_ms = until_ms
        self._next()
        self._come_back()
        if self._failure is not None:
            raise self._failure
        self.now_ms = max(self.now_ms, until_ms)

    def close(self) -> None:
        """End every strand, and the threads that are the kernel's own. The kernel is of no use after that.

        A strand that does not end is given up after a second.
        """
        self._due.clear()
        self._failure = None
        self._closing = True
        for strand in self._strands:
            strand.kill()
        self._until_ms = self.now_ms
        self._next()
        while not self._come_back():
            self._next()
        for strand in self._strands:
            if not strand.begun:
                strand.forget()
        self._strands.clear()
        if not self._shared:
            self._threads.close()

    def fail(self, error: BaseException) -> None:
        """Stop the run, which raises `error`."""
        if self._failure is None and not self._closing:
            self._failure = error

    def stop(self, error: OutboxError) -> NoReturn:
        """Stop the run, which raises `error`, and whoever calls this: its thread, or strand, ends here."""
        if isinstance(error, NotSimulated) and self.refused is None:
            self.refused = error
        self.fail(error)
        if self.is_here():
            raise Killed
        raise error if self._is_ours(threading.current_thread()) else Outside

    # --- for strands ---

    def is_here(self) -> bool:
        """Whether it is the strand that runs which asks."""
        strand = self.current
        return strand is not None and strand.thread == get_ident()

    def here(self) -> Strand:
        """Return the strand that runs. Raises Killed when it was killed, RuntimeError outside of strands.

        A call from a thread that has nothing to do with the kernel stops the run.
        """
        strand = self.current
        if strand is None or strand.thread != get_ident():
            self._turn_away()
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

    # --- what is not of this world ---

    def _is_ours(self, thread: threading.Thread) -> bool:
        return thread is self._owner or isinstance(thread, StrandThread)

    def _turn_away(self) -> NoReturn:
        """Refuse a call that does not come from the strand that runs."""
        thread = threading.current_thread()
        if thread.ident in self._given_up:
            raise Killed
        if isinstance(thread, StrandThread) and thread.strand.kernel is not self:
            kept = f"a handler uses what it was given in another run{called_from()}: take clients, clock and crew from "
            thread.strand.kernel.stop(NotSimulated(kept + "the world that make_handler gets, and keep none of them."))
        if self._is_ours(thread):
            raise RuntimeError("only a strand of the simulation can wait")
        self.stop(
            NotSimulated(
                f"a handler calls its simulated world from a thread of its own{called_from()}, which runs outside of "
                "virtual time: start such work with world.crew(size), whose workers are simulated."
            )
        )

    def _come_back(self) -> bool:
        """Wait until nothing is due any more. False when a strand was given up: it does not come back."""
        seen, waited_s = -1, 0.0
        while not self._has_come_back():
            waited_s = waited_s + _LOOK_S if seen == self._steps else 0.0
            seen = self._steps
            limit_s = PATIENCE_S if self._failure is None and not self._closing else _GRACE_S
            if waited_s >= limit_s and self._give_up():
                return False
        return True

    def _has_come_back(self) -> bool:
        """Wait a little. Python interrupts the main thread alone, which no strand is: so it was not a handler."""
        try:
            return self._main.acquire(timeout=_LOOK_S)
        except KeyboardInterrupt as interrupt:
            if self._closing:
                raise
            self.fail(interrupt)  # what runs comes back first: two at once would be no world
            return False

    def _give_up(self) -> bool:
        """Leave the strand behind that runs, unless a debugger holds it."""
        strand = self.current
        frame = None if strand is None else sys._current_frames().get(strand.thread)  # noqa: SLF001 -- no other way
        if _is_debugged(frame):
            return False
        place = place_of(frame)
        self.fail(
            NotSimulated(
                f"a handler does not come back{f' ({place})' if place else ''}: in a minute of real time it neither "
                "returned nor called its world. It waits for a lock, a thread or a socket outside of virtual time, or "
                "works for that long: start work side by side with world.crew(size), and wait with world.clock."
            )
        )
        if strand is not None:
            strand.given_up, strand.alive = True, False
            self._given_up.add(strand.thread)
        self.current = None
        self._main = threading.Lock()  # it may still be released by who is left behind
        self._main.acquire()
        return True

    # --- the order ---

    def hand_on(self) -> None:
        """Let whatever is due next happen; the last call of a strand."""
        self._next()

    def _schedule(self, at_ms: int, what: Callable[[], object] | Strand, turn: int) -> None:
        at_ms = max(at_ms, self.now_ms)
        self._count += 1
        nth = self._at_once[at_ms] = self._at_once.get(at_ms, 0) + 1
        heappush(self._due, (at_ms, hash((self._luck, at_ms, nth)), self._count, what, turn))

    def _next(self) -> Strand | None:
        """Hand on to the strand that is due next, or back to `run`; return that strand, None for `run`.

        Actions run here, on the thread that gives way. That one goes on at once when it is its own turn again.
        """
        before, self.current = self.current, None
        self._steps += 1
        due, until_ms = self._due, self._until_ms
        while due and due[0][0] <= until_ms and self._failure is None:
            self.now_ms, _, _, what, turn = heappop(due)
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


def _nothing() -> None:
    pass


def _is_debugged(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return False


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
