"""Pairs of rounds: ours and the rival's in turn, so that a machine that slows down slows both.

The figure is CPU time of the process (user and system, all threads), not wall-clock time: the services are answered
inside the process, so waiting plays no part. A ratio is taken pair by pair, and the median is the figure.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Median CPU microseconds for one unit of work, and the ratio ours/rival: median, least and most of the pairs."""

    name: str
    rival: str
    unit: str
    ours_us: float
    rival_us: float
    ratio: float
    least: float
    most: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.ratio:.2f} x {self.rival} ({self.least:.2f} to {self.most:.2f}); "
            f"{self.ours_us:,.0f} against {self.rival_us:,.0f} us of CPU per {self.unit}"
        )


def compare(
    name: str, rival: str, unit: str, *, ours: Callable[[], int], theirs: Callable[[], int], pairs: int
) -> Comparison:
    """Run both in turn, `pairs` times after a warm-up of each; a round returns the units of work it did."""
    ours()
    theirs()
    figures = [(_cpu_us(ours), _cpu_us(theirs)) for _ in range(pairs)]
    ratios = [one / other for one, other in figures]
    return Comparison(
        name=name,
        rival=rival,
        unit=unit,
        ours_us=statistics.median(one for one, _ in figures),
        rival_us=statistics.median(other for _, other in figures),
        ratio=statistics.median(ratios),
        least=min(ratios),
        most=max(ratios),
    )


def _cpu_us(work: Callable[[], int]) -> float:
    gc.collect()
    before = time.process_time()
    units = work()
    return (time.process_time() - before) * 1e6 / units
