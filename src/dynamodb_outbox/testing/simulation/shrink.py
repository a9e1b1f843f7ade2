"""Makes a failing scenario small: less happens in it, and it still fails in the same way.

Delta debugging (Zeller's ddmin) over the parts of a scenario: its writes, its faults, what an
operator does, and at last its settings, each
replaced by a plainer one. It works because a run draws its random decisions by what they are about (the order of what
is due in the same millisecond, by that millisecond) and not from one stream of numbers: without one fault, all the rest
of the run stays as it was until the fault's absence shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.testing.simulation.faults import PlannedFault
    from dynamodb_outbox.testing.simulation.recovery import Operation
    from dynamodb_outbox.testing.simulation.scenario import Scenario
    from dynamodb_outbox.testing.simulation.writers import Write

__all__ = ["shrink", "smallest"]

T = TypeVar("T")


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, most_runs: int = 300) -> Scenario:
    """Return a smaller scenario for which `fails` still holds; the given one when nothing can be left out.

    `fails` runs a scenario; it is called at most `most_runs` times, and must hold for the given one. The result fails
    no more when one write or one fault more is left out, unless the runs were used up.
    """
    tries = _Tries(fails, most_runs)
    while True:
        before = scenario
        scenario = _fewer_writes(scenario, tries.fails)
        scenario = _fewer_faults(scenario, tries.fails)
        scenario = _fewer_operations(scenario, tries.fails)
        for plainer in scenario.plainer():
            candidate = plainer(scenario)
            if candidate != scenario and tries.fails(candidate):
                scenario = candidate
        if scenario == before or not tries.left:
            return scenario


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of `parts`, in order, for which `fails` holds and of which no single one can be left out.

    `fails` must hold for all of `parts`.
    """
    if not parts or fails([]):
        return []
    kept = list(parts)
    size = len(kept)
    while size > 1:
        size = -(-size // 2)
        fewer = True
        while fewer:
            fewer = False
            start = 0
            while start < len(kept):
                rest = kept[:start] + kept[start + size :]
                if rest and fails(rest):
                    kept, fewer = rest, size == 1
                else:
                    start += size
    return kept


class _Tries:
    """Counts the runs; when they are used up, nothing smaller fails any more."""

    def __init__(self, fails: Callable[[Scenario], bool], most: int) -> None:
        self.left = most
        self._fails = fails

    def fails(self, scenario: Scenario) -> bool:
        if not self.left:
            return False
        self.left -= 1
        return self._fails(scenario)


def _fewer_writes(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    def still(writes: Sequence[Write]) -> bool:
        return fails(replace(scenario, writes=tuple(writes)))

    return replace(scenario, writes=tuple(smallest(scenario.writes, still)))


def _fewer_faults(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    def still(faults: Sequence[PlannedFault]) -> bool:
        return fails(replace(scenario, faults=tuple(faults)))

    return replace(scenario, faults=tuple(smallest(scenario.faults, still)))


def _fewer_operations(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    def still(operations: Sequence[Operation]) -> bool:
        return fails(replace(scenario, operations=tuple(operations)))

    return replace(scenario, operations=tuple(smallest(scenario.operations, still)))
