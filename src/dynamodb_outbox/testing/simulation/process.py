"""A process of the simulated world: its strands, its clock, its randomness, and its end.

All strands of a process end together when it is killed. What they had asked of others happens nevertheless. Nothing
else stops them: Lambda freezes an instance between invocations, here a strand that was left at work runs on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.testing.simulation.kernel import Kernel, Strand

__all__ = [
    "CLOCK_JUMP",
    "CONSUMER_PERILS",
    "FUNCTION_PERILS",
    "NO_PERILS",
    "RECOVERY_PERILS",
    "START_MS",
    "WRITER_PERILS",
    "Perils",
    "Process",
    "ProcessClock",
    "ProcessEntropy",
]

START_MS = 1_769_860_800_000
"""Wall-clock time at virtual time 0: 2026-01-31, 12:00 UTC."""

CLOCK_JUMP = "clock_jump"
"""The kind of fault that sets a process's clock off."""

_FORGET_AFTER = 64


@dataclass(frozen=True)
class Perils:
    """Which kinds of faults make a process die, and hang, at a boundary of an effect; "" is none.

    `freeze`: which makes it stand still for a while, after an effect.
    """

    crash: str = ""
    hang: str = ""
    freeze: str = ""


NO_PERILS = Perils()
FUNCTION_PERILS = Perils("crash", "function_timeout")
WRITER_PERILS = Perils("writer_crash")
CONSUMER_PERILS = Perils("consumer_crash", freeze="consumer_frozen")
RECOVERY_PERILS = Perils("recovery_crash", freeze="recovery_frozen")


class ProcessClock:
    """`ports.Clock` of a process. Its wall clock is off by `offset_ms`, which may change: the clock jumps then."""

    def __init__(self, kernel: Kernel, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms
        self._kernel = kernel

    def now_ms(self) -> int:
        """Return wall-clock time, epoch milliseconds."""
        return START_MS + self._kernel.now_ms + self.offset_ms

    def monotonic_ms(self) -> int:
        """Return virtual time."""
        return self._kernel.now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait. Raises Killed."""
        self._kernel.sleep(duration_ms)


class ProcessEntropy:
    """`ports.Entropy` of a process, from a seed."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed

    @cached_property
    def _random(self) -> random.Random:
        """Made when it is first asked for: not every process needs it, and it costs."""
        return random.Random(self._seed)  # noqa: S311 -- it has to be the same in each run

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes."""
        return self._random.randbytes(count)

    def unit(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        return self._random.random()

    def begin(self, seed: str) -> None:
        """Go on from another seed."""
        self._random.seed(seed)


class Process:
    """A process called `name`.

    owner         what faults call it: the writer, or the destination of the function, that it belongs to
    perils        what may happen to it at the boundaries of its effects
    invocation    the number of the invocation that it is at work on, or has been last; 0: none
    boundaries    how often it has stood before or after an effect; `Network` counts, whoever begins something new sets
                  it back to 0
    frozen_until_ms    until when it stands still, wherever an effect of it ends before that
    when_killed   called once, when it is killed
    """

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        seed: int | str,
        wall_offset_ms: int = 0,
        *,
        owner: str = "",
        perils: Perils = NO_PERILS,
    ) -> None:
        self.name = name
        self.owner = owner or name
        self.perils = perils
        self.alive = True
        self.invocation = 0
        self.boundaries = 0
        self.frozen_until_ms = 0
        self.clock = ProcessClock(kernel, wall_offset_ms)
        self.entropy = ProcessEntropy(f"{seed}/{name}")
        self.when_killed: Callable[[], None] | None = None
        self._kernel = kernel
        self._strands: list[Strand] = []

    def spawn(self, name: str, body: Callable[[], object]) -> None:
        """Start a strand of this process, now. A process that was killed starts nothing any more."""
        if not self.alive:
            return
        if len(self._strands) >= _FORGET_AFTER:
            self._strands = [strand for strand in self._strands if strand.alive]
        self._strands.append(self._kernel.spawn(f"{self.name}/{name}", body, owner=self))

    def kill(self) -> None:
        """End the process where it is. A strand of it that calls this ends at its next call to the kernel."""
        if not self.alive:
            return
        self.alive = False
        for strand in self._strands:
            strand.kill()
        self._strands.clear()
        if self.when_killed is not None:
            self.when_killed()
