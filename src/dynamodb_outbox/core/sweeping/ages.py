"""Which pending records are old enough to be swept.

A record that is younger is the relay's: it is on its way, and to publish it here as well would be a duplicate. How long
it may be on its way is the larger of a least age and twice the relay's lag, as far as that has been measured (below).

Ages are told by the clock of the record's writer. A record that is dated more than five minutes ahead would not become
old for as long as its writer's clock is ahead, which may be years. Nothing is known of its age then but that it has
been written, and it counts as just old enough: after all that are older, and before all that are too young.

*The lag* is measured where a sweep meets the relay: a record that the index named as pending, and that the consistent
read a moment later finds no longer so, has been settled just now, by somebody else, at that age. A relay that is an
hour behind works at the oldest records, and so do sweeps: they meet at once. What was measured counts for ten minutes
from when it was last seen; by then the relay has caught up, or is met again.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AHEAD_MS", "LAG_COUNTS_MS", "NO_LAG", "Ages", "Lag"]

AHEAD_MS = 5 * 60 * 1000
"""A record dated further ahead than that is not waited for."""

LAG_COUNTS_MS = 10 * 60 * 1000
_FACTOR = 2
"""How many times the lag a record has to be old."""


@dataclass(frozen=True)
class Lag:
    """By how much the relay was behind when it was last met, and when that was, on a clock that never goes back."""

    ms: int = 0
    seen_ms: int = 0

    def at(self, steady_ms: int) -> int:
        """Return what counts now."""
        return self.ms if steady_ms < self.seen_ms + LAG_COUNTS_MS else 0

    def met(self, age_ms: int, steady_ms: int) -> Lag:
        """Take in that a record of this age was settled by somebody else just now."""
        return self if age_ms < self.at(steady_ms) else Lag(age_ms, steady_ms)


NO_LAG = Lag()


@dataclass(frozen=True)
class Ages:
    """What is old enough at `now_ms` (wall-clock time) when that takes `least_ms`."""

    now_ms: int
    least_ms: int

    @staticmethod
    def of(now_ms: int, min_age_ms: int, lag_ms: int) -> Ages:
        """Return the ages for a least age and a lag."""
        return Ages(now_ms, max(min_age_ms, _FACTOR * lag_ms))

    @property
    def cutoff_ms(self) -> int:
        """The date of the youngest record that is old enough."""
        return self.now_ms - self.least_ms

    def is_ahead(self, at_ms: int) -> bool:
        """Whether a date is so far ahead that it says nothing of an age."""
        return at_ms > self.now_ms + AHEAD_MS

    def dated(self, at_ms: int) -> int:
        """Return the date that counts."""
        return self.cutoff_ms if self.is_ahead(at_ms) else at_ms

    def is_due(self, at_ms: int) -> bool:
        """Whether a record of that date is to be swept."""
        return self.dated(at_ms) <= self.cutoff_ms
