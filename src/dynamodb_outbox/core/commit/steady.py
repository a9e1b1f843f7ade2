"""A time line that is safe to measure a token's life on.

A wall clock may be set back, which would make an old token look young. A monotonic clock may stand still while a
virtual machine is paused, as AWS Lambda does between invocations, with the same effect. Of the two the one that says
more time has passed is believed, and what was once believed is not taken back.
"""

from __future__ import annotations

__all__ = ["SteadyTime"]


class SteadyTime:
    """Epoch milliseconds that start at `wall_ms` and never fall behind either clock, nor go back."""

    def __init__(self, wall_ms: int, monotonic_ms: int) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._passed_ms = 0

    def now_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """Return the time, from a new reading of both clocks."""
        self._passed_ms = max(self._passed_ms, wall_ms - self._wall_ms, monotonic_ms - self._monotonic_ms)
        return self._wall_ms + self._passed_ms
