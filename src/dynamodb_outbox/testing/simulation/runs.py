"""Many runs, one for each seed, and what came of them.

Seeds are independent of each other, so several processes may share them.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.arguments import flag, refusal
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation.choice import Choice, names_of, number_of, seeds_of, settings_of
from dynamodb_outbox.testing.simulation.facts import Accepted, Committed
from dynamodb_outbox.testing.simulation.faults import USUAL
from dynamodb_outbox.testing.simulation.guard import standing
from dynamodb_outbox.testing.simulation.kernel import Threads
from dynamodb_outbox.testing.simulation.making import Made
from dynamodb_outbox.testing.simulation.recoveries import recoveries
from dynamodb_outbox.testing.simulation.report import Failure, Report, told
from dynamodb_outbox.testing.simulation.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from dynamodb_outbox.testing.simulation.history import History
    from dynamodb_outbox.testing.simulation.scenario import Scenario
    from dynamodb_outbox.testing.simulation.world import MakeConsumer, MakeHandler

__all__ = ["simulate"]


_SEEDS = range(200)
_COLLECTED = (50_000, 20, 100)
"""When Python's collector runs there: what a run makes lives to its end, and looking at it costs a tenth."""
_SLICES = 8
"""Of the seeds, for each process: a slice that takes longer than others holds nobody up."""

_MOST = 1_000_000
"""Of processes, and of runs to make a failure smaller."""
_GARBAGE = 100_000
"""New objects after which the collector looks for garbage in the midst of a run: hardly ever."""

NOT_AGAIN = (
    "This did not happen again when the same seed was run a second time: the handler keeps state outside of `world`\n"
    "(in a module, in a file, by real time or chance). So no run can be repeated, and this one was not made smaller."
)
"""What is said of a failure that may not be seen again."""


def simulate(
    make_handler: MakeHandler,
    *,
    seeds: Iterable[int] = _SEEDS,
    processes: int = 1,
    destinations: int = 1,
    ordered: bool = True,
    poison: bool = True,
    foreign: bool = True,
    sweeper: MakeHandler | None = None,
    operator: bool = False,
    consumer: MakeConsumer | None = None,
    faults: Collection[str] = USUAL,
    without: Collection[str] = (),
    settings: Mapping[str, Any] | None = None,
    stop_at_first: bool = True,
    shrink_runs: int = 200,
) -> Report:
    """Run a Lambda handler that relays outbox records through a bad day for each seed, and report on what came of it.

    `make_handler(world)` is called in each new instance of the function and returns its handler, `(event, context) ->
    answer`; see `FunctionWorld` for the clients and the clock that it must use, and `making.Made` for `sweeper` and
    `consumer`, which make other handlers. `choice.Choice` says of all other arguments what they are, but for

    seeds           a run is the same whenever its seed is the same
    processes       share the seeds; with more than one, what makes handlers must be functions of a module
    stop_at_first   whether to stop at a seed that fails; the later ones of the same process are not run then
    shrink_runs     how many runs may be spent on making the first failure small; 0: it is told as it is

    What the handler prints and logs is in the timeline of a failure, and nowhere else. `time.sleep` waits in virtual
    time; `datetime.now` and `time.time` are real, and make a run another one each time: `world.clock` is to be used.

    `report.check()` raises SimulationFailed for the first failure. What follows ends everything at once, because it
    says nothing about a relay: ConfigurationError for arguments that cannot be, for what makes a handler and raises
    (but for a failed call of a client, which is an instance that could not be loaded) or returns what cannot be called;
    NotSimulated for what is asked of the world and not in it. So does a KeyboardInterrupt that comes from the keyboard;
    one that a handler raises is the death of its process.
    """
    made = Made(make_handler, sweeper, consumer)
    all_seeds, chosen = seeds_of(seeds), settings_of(settings)
    number_of(processes, "processes", least=1, most=_MOST)
    number_of(shrink_runs, "shrink_runs", least=0, most=_MOST)
    flag(stop_at_first, refusal("simulate", "stop_at_first"))
    named = names_of(faults, "faults"), names_of(without, "without")
    of = (ordered, poison, *named, destinations, chosen, foreign)
    choice = Choice(*of, sweeper=sweeper is not None, operator=operator, consumer=consumer is not None)
    report = Report()
    for part in _parts(made, choice, all_seeds, processes, stop_at_first=stop_at_first):
        report.add(part)
    if report.failures and shrink_runs:
        report.failures[0] = _smaller(made, choice, report.failures[0], shrink_runs)
    return report


def _parts(made: Made, choice: Choice, seeds: list[int], processes: int, *, stop_at_first: bool) -> Iterator[Report]:
    """Run all seeds, here or in processes that share them."""
    if processes > 1:
        return _shared(made, choice, seeds, processes, stop_at_first=stop_at_first)
    return iter([_some(made, choice, seeds, stop_at_first=stop_at_first)])


def _shared(made: Made, choice: Choice, seeds: list[int], processes: int, *, stop_at_first: bool) -> Iterator[Report]:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise _not_started(processes)
    made.check_sendable(processes)
    slices = [part for n in range(processes * _SLICES) if (part := seeds[n :: processes * _SLICES])]
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawning, initializer=gc.set_threshold, initargs=_COLLECTED) as pool:
        try:
            futures = [pool.submit(_some, made, choice, part, stop_at_first=stop_at_first) for part in slices]
        except BrokenProcessPool:
            raise _not_started(processes) from None
        for future in futures:
            try:
                report = future.result()
            except BrokenProcessPool:
                raise _not_started(processes) from None
            yield report
            if report.failures and stop_at_first:
                pool.shutdown(cancel_futures=True)
                return


def _not_started(processes: int) -> ConfigurationError:
    return ConfigurationError(
        f"simulate(processes={processes}): the processes could not start. Each of them imports the script anew: call "
        'simulate below `if __name__ == "__main__":`, and let make_handler be in a file; or processes=1.'
    )


def _some(made: Made, choice: Choice, seeds: Iterable[int], *, stop_at_first: bool) -> Report:
    """Run some seeds, one after the other."""
    report = Report()
    with _lightly(), standing(), contextlib.closing(Threads()) as threads:
        for seed in seeds:
            _add_run(report, seed, made, choice, threads)
            if report.failures and stop_at_first:
                break
    return report


def _add_run(report: Report, seed: int, made: Made, choice: Choice, threads: Threads) -> None:
    scenario = choice.scenario(seed)
    of = _ran(scenario, made, choice, threads)
    report.events.append(sum(len(events) for _, fact in of.each(Committed) for _, events in fact.records))
    report.accepted += len(of.each(Accepted))
    report.recoveries += recoveries(of)
    violations = choice.broken(of)
    if violations:
        report.failures.append(Failure(seed, violations, scenario, told(scenario, violations, of, choice.options)))


def _ran(scenario: Scenario, made: Made, choice: Choice, threads: Threads) -> History:
    """Run a scenario, and read its ledger. What the run before left behind is taken away first."""
    if gc.isenabled():
        gc.collect(0)
    return choice.read(scenario, choice.run(scenario, made, threads))


def _smaller(made: Made, choice: Choice, failure: Failure, most_runs: int) -> Failure:
    """Shrink the scenario of a failure to one that breaks the same invariant first.

    A handler that keeps something from run to run may break nothing the second time: its failure stays as it was, and
    says so.
    """
    wanted = failure.invariant
    with _lightly(), standing(), contextlib.closing(Threads()) as threads:

        def fails(scenario: Scenario) -> bool:
            found = choice.broken(_ran(scenario, made, choice, threads))
            return wanted in {violation.invariant for violation in found}

        if not fails(failure.scenario):
            return _not_again(failure)
        scenario = shrink(failure.scenario, fails, most_runs=most_runs)
        of = _ran(scenario, made, choice, threads)
    violations = sorted(choice.broken(of), key=lambda violation: violation.invariant != wanted)
    if not violations:
        return _not_again(failure)
    text = told(scenario, violations, of, choice.options)
    return Failure(failure.seed, tuple(violations), scenario, text)


def _not_again(failure: Failure) -> Failure:
    """Return a failure that did not happen in a second run of the same scenario, which it says."""
    first, _, rest = failure.text.partition("\n")
    return replace(failure, text=f"{first}\n\n{NOT_AGAIN}\n{rest}")


@contextlib.contextmanager
def _lightly() -> Iterator[None]:
    """Let the collector of garbage look between runs (`_ran`), and at what was made since alone.

    A run is a world of its own, and dies as one: in its midst there is little garbage, and much that lives.
    """
    young, *older = gc.get_threshold()
    gc.set_threshold(max(young, _GARBAGE) if young else 0, *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
