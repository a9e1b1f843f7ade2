"""What came of many runs: how much happened in them, what was recovered from and how, and the failure, if any.

The first failure is told in full: which invariant, the scenario shrunk to what matters, and its timeline. Of the others
their seeds are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.testing.simulation.consuming.facts import Subscribed
from dynamodb_outbox.testing.simulation.recoveries import NOTHING_OPEN
from dynamodb_outbox.testing.simulation.timeline import timeline
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dynamodb_outbox.testing.simulation.history import History
    from dynamodb_outbox.testing.simulation.invariants import Violation
    from dynamodb_outbox.testing.simulation.scenario import Scenario

__all__ = ["Failure", "Report", "SimulationFailed", "told"]

_TOLD = 20


@dataclass(frozen=True)
class Failure:
    """A seed that broke something: what it broke, and a scenario that breaks the first of that, shrunk if asked for.

    `text` tells it for people, with a timeline of the scenario.
    """

    seed: int
    violations: tuple[Violation, ...]
    scenario: Scenario
    text: str

    @property
    def invariant(self) -> str:
        """The first invariant that was broken."""
        return self.violations[0].invariant


class SimulationFailed(OutboxError, AssertionError):
    """A simulated run broke an invariant. `failure` has the seed, the violations and the scenario; this tells them."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.text)

    def __reduce__(self) -> tuple[type[SimulationFailed], tuple[Failure]]:
        return type(self), (self.failure,)


@dataclass
class Report:
    """What came of some runs.

    events      how many events were committed in each of them
    accepted    how many acceptances there were, duplicates included
    recoveries  how often each kind of fault struck, by what came of it
    failures    in order of seeds; the first of them is told in full
    """

    events: list[int] = field(default_factory=list)
    accepted: int = 0
    recoveries: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return len(self.events)

    @property
    def faults(self) -> Counter[str]:
        """How often each kind of fault struck."""
        found: Counter[str] = Counter()
        for (kind, _), times in self.recoveries.items():
            found[kind] += times
        return found

    @property
    def effective(self) -> Counter[str]:
        """How often each kind of fault struck something: an event that was not done, or a writer at work."""
        found: Counter[str] = Counter()
        for (kind, how), times in self.recoveries.items():
            found[kind] += times * (how != NOTHING_OPEN)
        return found

    def add(self, other: Report) -> None:
        """Take in what came of other runs."""
        self.events += other.events
        self.accepted += other.accepted
        self.recoveries += other.recoveries
        self.failures = sorted([*self.failures, *other.failures], key=_seed)

    def check(self) -> None:
        """Raise SimulationFailed for the first failure, if there is one."""
        if self.failures:
            raise SimulationFailed(self.failures[0])

    def __str__(self) -> str:
        faults = self.faults
        half = median(self.events or [0])
        counts = {
            "run": self.runs,
            "event": sum(self.events),
            "acceptance": self.accepted,
            "fault": sum(faults.values()),
            "failure": len(self.failures),
        }
        said = [f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counts.items()]
        said[1] += f" committed (median {half:.0f} a run)"
        first = ", ".join(said)
        struck = [f"{kind:<24}{faults[kind]:>8,}  {_ways(self.recoveries, kind)}" for kind in sorted(faults)]
        return "\n".join([first, *struck, *self._broken()])

    def _broken(self) -> list[str]:
        """Return a line for each invariant that was broken first in a run, with the seeds."""
        seeds: defaultdict[str, list[int]] = defaultdict(list)
        for failure in self.failures:
            seeds[failure.invariant].append(failure.seed)
        return [f"broken: {name}, by {counted(len(some), 'seed')}: {_some(some)}" for name, some in seeds.items()]


def _some(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds[:_TOLD])) + (", ..." if len(seeds) > _TOLD else "")


def _seed(failure: Failure) -> int:
    return failure.seed


def _ways(recoveries: Counter[tuple[str, str]], kind: str) -> str:
    ways = Counter({how: times for (one, how), times in recoveries.items() if one == kind})
    return ", ".join(f"{how} {times:,}" for how, times in ways.most_common())


def told(scenario: Scenario, violations: Iterable[Violation], of: History, options: str = "") -> str:
    """Return a failure in words: what broke, in which scenario, how it came to that, and how to see it again.

    `options` are those of the call of `simulate`, as its further arguments.
    """
    first, *others = violations
    again = f"run(failure.scenario, make_handler{', consumer=make_consumer' * bool(of.each(Subscribed))})"
    more = f"; also broken: {', '.join(one.invariant for one in others)}" if others else ""
    return "\n".join(
        [
            f"{first.invariant}: {first.words}{more}",
            "",
            "The scenario:",
            str(scenario),
            "",
            "What happened (> shows the violation):",
            timeline(of.facts, of.terms, marked=first.facts),
            "",
            f"Again: simulate(make_handler, seeds=[{scenario.seed}]{options}), or {again}.",
        ]
    )
