"""Clock and entropy of the operating system."""

from __future__ import annotations

import os
import random
import time

__all__ = ["SystemClock", "SystemEntropy"]


class SystemClock:
    """`ports.Clock` over the `time` module."""

    def now_ms(self) -> int:
        """Return wall-clock time, epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait; a negative duration is none."""
        if duration_ms > 0:
            time.sleep(duration_ms / 1000)


_MOMENTS = 1_000_003
"""Nanoseconds after which the clock's part in a number repeats itself: a millisecond, and a prime."""


class SystemEntropy:
    """`ports.Entropy`. Bytes come from the operating system at each call: a forked or restored process repeats nothing.

    `unit` is asked for at each step of an invocation, and makes no system call, during which other threads would take
    the interpreter. It comes from a generator, moved on by the nanoseconds of the clock: they tell apart processes that
    were forked or restored with the same one.
    """

    def __init__(self) -> None:
        self._generator = random.Random()  # noqa: S311 -- for jitter, which is no secret

    def bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)

    def unit(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        return (self._generator.random() + time.time_ns() % _MOMENTS / _MOMENTS) % 1.0
