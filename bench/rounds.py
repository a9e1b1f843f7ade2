"""Pairs of rounds: ours and the rival's in turn, so that a machine that slows down slows both.

The figure is CPU time of the process (user and system, all threads), not wall-clock time: the services are answered
inside the process, so waiting plays no part. A ratio is taken pair by pair, and the median is the figure. Many short
rounds say more than few long ones: what disturbs the machine for a while then disturbs both sides of a pair.
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
    """Median CPU microseconds for one unit of work, and the ratio ours/rival: median and quartiles of the pairs."""

    name: str
    rival: str
    unit: str
    ours_us: float
    rival_us: float
    pairs: int
    ratio: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.ratio:.2f} x {self.rival} "
            f"(half of {self.pairs} pairs: {self.lower:.2f} to {self.upper:.2f}); "
            f"{self.ours_us:,.0f} against {self.rival_us:,.0f} us of CPU per {self.unit}"
        )


def compare(
    name: str, rival: str, unit: str, *, ours: Callable[[], int], theirs: Callable[[], int], pairs: int
) -> Comparison:
    """Run both in turn, `pairs` times after a warm-up of each; a round returns the units of work it did."""
    ours()
    theirs()
    figures = [(_cpu_us(ours), _cpu_us(theirs)) for _ in range(pairs)]
    lower, ratio, upper = statistics.quantiles([one / other for one, other in figures], n=4)
    return Comparison(
        name=name,
        rival=rival,
        unit=unit,
        ours_us=statistics.median(one for one, _ in figures),
        rival_us=statistics.median(other for _, other in figures),
        pairs=pairs,
        ratio=ratio,
        lower=lower,
        upper=upper,
    )


def _cpu_us(work: Callable[[], int]) -> float:
    gc.collect()
    before = time.process_time()
    units = work()
    return (time.process_time() - before) * 1e6 / units
