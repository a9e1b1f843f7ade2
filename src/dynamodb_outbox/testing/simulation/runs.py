"""Many runs, one for each seed, and what came of them.

Handlers are run as they are; what they log is switched off meanwhile, because thousands of bad days have a lot to say.
Seeds are independent of each other, so several processes may share them.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation.facts import Accepted, Committed
from dynamodb_outbox.testing.simulation.faults import FAULTS, UNSEEN, USUAL
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.invariants import INVARIANTS, check
from dynamodb_outbox.testing.simulation.kernel import Threads
from dynamodb_outbox.testing.simulation.recoveries import recoveries
from dynamodb_outbox.testing.simulation.report import Failure, Report, told
from dynamodb_outbox.testing.simulation.scenario import DESTINATIONS, generate
from dynamodb_outbox.testing.simulation.shrink import shrink
from dynamodb_outbox.testing.simulation.world import run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.invariants import Violation
    from dynamodb_outbox.testing.simulation.scenario import Scenario
    from dynamodb_outbox.testing.simulation.world import FunctionWorld

    MakeHandler = Callable[[FunctionWorld], Callable[[Any, Any], Any]]

__all__ = ["simulate"]

_SEEDS = range(200)
_SLICES = 8
"""Of the seeds, for each process: a slice that takes longer than others holds nobody up."""


_GARBAGE = 5_000
"""New objects after which the collector looks for garbage; at Python's own 700 it takes a tenth of the time."""


@dataclass(frozen=True)
class _Choice:
    """What is asked of a handler, and what happens to it."""

    ordered: bool
    poison: bool
    faults: frozenset[str]
    without: frozenset[str]
    destinations: int
    park_keys: bool

    def scenario(self, seed: int) -> Scenario:
        scenario = generate(seed, destinations=self.destinations, also=self.faults & UNSEEN)
        faults = tuple(fault for fault in scenario.faults if fault.kind in self.faults)
        writes = scenario.writes if self.poison else tuple(replace(write, poison=()) for write in scenario.writes)
        settings = scenario.settings
        if self.park_keys and settings.ordering == "key":
            settings = replace(settings, on_poison="park_key")
        return replace(scenario, faults=faults, writes=writes, settings=settings)

    def terms(self, scenario: Scenario) -> Terms:
        return scenario.terms if self.ordered else Terms(scenario.settings.destinations, False, False)

    @property
    def options(self) -> str:
        """The arguments of `simulate` that make this choice, those that are as usual left out."""
        given = {
            "destinations": (self.destinations, 1),
            "ordered": (self.ordered, True),
            "poison": (self.poison, True),
            "park_keys": (self.park_keys, False),
            "faults": (sorted(self.faults), sorted(USUAL)),
            "without": (sorted(self.without), []),
        }
        return "".join(f", {name}={value!r}" for name, (value, usual) in given.items() if value != usual)

    def broken(self, scenario: Scenario, facts: list[Fact]) -> tuple[Violation, ...]:
        found = check(facts, self.terms(scenario))
        return tuple(violation for violation in found if violation.invariant not in self.without)


def simulate(
    make_handler: MakeHandler,
    *,
    seeds: Iterable[int] = _SEEDS,
    processes: int = 1,
    destinations: int = 1,
    ordered: bool = True,
    poison: bool = True,
    park_keys: bool = False,
    faults: Collection[str] = USUAL,
    without: Collection[str] = (),
    stop_at_first: bool = True,
    shrink_runs: int = 200,
) -> Report:
    """Run a Lambda handler that relays outbox records through a bad day for each seed, and report on what came of it.

    `make_handler(world)` is called in each new instance of the function and returns its handler, `(event, context) ->
    answer`; see `FunctionWorld` for the clients and the clock that it must use. It may be called for several instances
    and destinations at once.

    A destination has a bus, a function and an event source mapping of its own; with two they share the table, and what
    one bus takes may be poison to the other. This library's relay is not made for that: what it settles and parks is
    the state of a record, not of a destination. Fan-out is for the bus.

    seeds           a run is the same whenever its seed is the same
    processes       share the seeds; with more than one `make_handler` must be a function of a module
    destinations    1 or 2
    ordered         whether the events of one key have to be accepted in order, where the stream gives them in order
    poison          whether some events are such that the bus can never accept them
    park_keys       whether what follows a parked event in its key has to be parked too, where there is an order;
                    `world.on_poison` is "park_key" then
    faults          the kinds of faults that there may be, of FAULTS; all unless given, but for `target_vanishes`
    without         invariants that the handler is not asked to keep, of INVARIANTS
    stop_at_first   whether to stop at a seed that fails; the later ones of the same process are not run then
    shrink_runs     how many runs may be spent on making the first failure small; 0: it is told as it is

    `report.check()` raises SimulationFailed for the first failure. Raises ConfigurationError for a kind of fault, an
    invariant or a number of destinations that there is not, and what the world raises when code does what cannot be
    simulated.
    """
    choice = _Choice(ordered, poison, frozenset(faults), frozenset(without), destinations, park_keys)
    if not 1 <= destinations <= len(DESTINATIONS):
        raise ConfigurationError(f"simulate(destinations={destinations}): 1 or {len(DESTINATIONS)}.")
    for names, known in ((choice.faults, FAULTS), (choice.without, INVARIANTS)):
        if unknown := sorted(names - known.keys()):
            raise ConfigurationError(f"simulate: there is no {', '.join(unknown)}; there are {', '.join(known)}.")
    seeds = list(seeds)
    report = Report()
    if processes == 1:
        report.add(_some(make_handler, choice, seeds, stop_at_first=stop_at_first))
    else:
        for part in _shared(make_handler, choice, seeds, processes, stop_at_first=stop_at_first):
            report.add(part)
    if report.failures and shrink_runs:
        report.failures[0] = _smaller(make_handler, choice, report.failures[0], shrink_runs)
    return report


def _shared(
    make_handler: MakeHandler, choice: _Choice, seeds: list[int], processes: int, *, stop_at_first: bool
) -> Iterator[Report]:
    slices = [part for n in range(processes * _SLICES) if (part := seeds[n :: processes * _SLICES])]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_some, make_handler, choice, part, stop_at_first=stop_at_first) for part in slices]
        for future in futures:
            report = future.result()
            yield report
            if report.failures and stop_at_first:
                pool.shutdown(cancel_futures=True)
                return


def _some(make_handler: MakeHandler, choice: _Choice, seeds: Iterable[int], *, stop_at_first: bool) -> Report:
    """Run some seeds, one after the other."""
    report = Report()
    with _quietly(), contextlib.closing(Threads()) as threads:
        for seed in seeds:
            scenario = choice.scenario(seed)
            facts = run(scenario, make_handler, threads=threads)
            terms = choice.terms(scenario)
            report.events.append(
                sum(len(events) for fact in facts if isinstance(fact, Committed) for _, events in fact.records)
            )
            report.accepted += sum(isinstance(fact, Accepted) for fact in facts)
            report.recoveries += recoveries(facts, terms)
            violations = choice.broken(scenario, facts)
            if violations:
                text = told(scenario, violations, facts, terms, choice.options)
                report.failures.append(Failure(seed, violations, scenario, text))
                if stop_at_first:
                    break
    return report


def _smaller(make_handler: MakeHandler, choice: _Choice, failure: Failure, most_runs: int) -> Failure:
    """Shrink the scenario of a failure to one that breaks the same invariant first.

    A handler that keeps something from run to run may break nothing the second time: its failure stays as it was.
    """
    wanted = failure.invariant
    with _quietly(), contextlib.closing(Threads()) as threads:

        def fails(scenario: Scenario) -> bool:
            found = choice.broken(scenario, run(scenario, make_handler, threads=threads))
            return wanted in {violation.invariant for violation in found}

        scenario = shrink(failure.scenario, fails, most_runs=most_runs)
        facts = run(scenario, make_handler, threads=threads)
    violations = sorted(choice.broken(scenario, facts), key=lambda violation: violation.invariant != wanted)
    if not violations:
        return failure
    text = told(scenario, violations, facts, choice.terms(scenario), choice.options)
    return Failure(failure.seed, tuple(violations), scenario, text)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Switch logging off, and let the collector of garbage look less often; both are as they were afterwards."""
    disabled, (young, *older) = logging.root.manager.disable, gc.get_threshold()
    logging.disable(logging.CRITICAL)
    gc.set_threshold(max(young, _GARBAGE) if young else 0, *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
        logging.disable(disabled)
