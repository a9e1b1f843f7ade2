"""Clock and entropy of the operating system."""

from __future__ import annotations

import os
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


class SystemEntropy:
    """`ports.Entropy` over `os.urandom`, read anew at each call: a forked or restored process repeats nothing."""

    def bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        return os.urandom(count)

    def unit(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        return int.from_bytes(os.urandom(7), "big") / (1 << 56)
