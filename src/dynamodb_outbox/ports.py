"""What the inner layers need from the world, as protocols. Adapters and sinks implement them; tests bring their own.

A port speaks in the core's values: no botocore exception crosses it.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock", "Entropy"]


class Clock(Protocol):
    """Time. Nothing else in the library asks the system for it."""

    def now_ms(self) -> int:
        """Return wall-clock time, epoch milliseconds. It may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, in milliseconds from an arbitrary start."""
        ...

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait."""
        ...


class Entropy(Protocol):
    """Randomness from the operating system, safe after a fork and after a restored snapshot."""

    def bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""
        ...

    def unit(self) -> float:
        """Return a number from 0 (included) to 1 (excluded), for jitter."""
        ...
