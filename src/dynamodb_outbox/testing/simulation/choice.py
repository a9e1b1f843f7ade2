"""What somebody chose for runs: the arguments of `simulate`, looked at before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from dynamodb_outbox.arguments import flag, mapping, refusal, shown, text, whole
from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation.faults import CONSUMED, FAULTS, FOREIGN, RECOVERY, UNSEEN, USUAL
from dynamodb_outbox.testing.simulation.history import Terms, history
from dynamodb_outbox.testing.simulation.invariants import INVARIANTS, broken
from dynamodb_outbox.testing.simulation.scenario import DESTINATIONS, Settings, generate
from dynamodb_outbox.testing.simulation.sweeping import sweeper_handler
from dynamodb_outbox.testing.simulation.world import mapping_of, run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.history import History
    from dynamodb_outbox.testing.simulation.invariants import Violation
    from dynamodb_outbox.testing.simulation.kernel import Threads
    from dynamodb_outbox.testing.simulation.making import Made
    from dynamodb_outbox.testing.simulation.scenario import Scenario

__all__ = ["SETTINGS", "Choice", "names_of", "number_of", "seeds_of", "settings_of"]

SETTINGS = tuple(name for name in Settings.__dataclass_fields__ if name not in ("destinations", "tolerant"))
"""Settings that can be chosen."""

_AS_OF_MAPPINGS = {
    "batching_window_ms": "window_ms",
    "bisect_on_error": "bisect",
    "maximum_record_age_s": "record_age_s",
    "maximum_retry_attempts": "retries",
    "parallelization_factor": "parallelization",
}
"""What `MappingConfig` calls some of them."""

_RANGES = {
    "shards": (1, 100),
    "spread_ms": (0, 60_000),
    "lag_ms": (0, 60_000),
    "instances": (1, 100),
    "in_flight": (1, 100),
    "consumers": (0, 100),
    "function_timeout_ms": (1_000, 900_000),
    "retention_ms": (100, STREAM_RETENTION_MS),
    "sweep_every_ms": (0, 3_600_000),
    "sweepers": (1, 10),
    "sweep_timeout_ms": (1_000, 900_000),
    "min_age_ms": (0, 900_000),
    "index_lag_ms": (0, 600_000),
}
"""Of those that are not a mapping's; Lambda ends a function after 15 minutes."""


class Name(str):
    """A text that is shown as the name of something."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Choice:
    """What is asked of a handler, and what happens to it.

    ordered         whether the events of one key have to be accepted in order, where the stream gives them in order
    poison          whether some events are such that the bus can never accept them
    faults          the kinds of faults that there may be, of FAULTS; all unless given, but for `target_vanishes`
    without         invariants that the handler is not asked to keep, of INVARIANTS
    destinations    1 or 2. Each has a bus, a function and an event source mapping of its own; with two they share the
                    table, and what one bus takes may be poison to the other. This library's relay is not made for that:
                    what it settles and parks is the state of a record, not of a destination. Fan-out is for the bus
    settings        of the world, the same in each run: {"parallelization": 4, "batch_size": 1}; docs/simulation.md has
                    the names. The others are drawn for each seed
    foreign         whether there are other writers too: some of the events that can never be accepted are rows put in
                    by hand, which nobody can read or send, or records that another library wrote, with integers that
                    are too wide; and records of other Regions of a global table come in
    sweeper         whether there is one, in half of the runs
    operator        whether there is, in some of the runs, somebody who redrives what is parked, discards some of it,
                    and redrives what the event source gave up, with this library's own code
    consumer        whether there is one, in a fifth of the runs

    Raises ConfigurationError for a name, a number or a setting that there is not, and for faults none of which can
    strike.
    """

    ordered: bool = True
    poison: bool = True
    faults: frozenset[str] = USUAL
    without: frozenset[str] = frozenset()
    destinations: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    foreign: bool = True
    sweeper: bool = False
    operator: bool = False
    consumer: bool = False

    def __post_init__(self) -> None:
        for name in ("ordered", "poison", "foreign", "operator"):
            flag(getattr(self, name), _refusal(name))
        if self.settings.get("consumers") and not self.consumer:
            raise ConfigurationError("simulate(settings={'consumers': ...}): it takes a consumer, consumer=...")
        whole(self.destinations, _refusal("destinations"), least=1, most=len(DESTINATIONS))
        if (self.sweeper or self.operator) and self.destinations > 1:
            who = "a sweeper" if self.sweeper else "an operator"
            raise ConfigurationError(f"simulate(destinations=2): {who} publishes to one destination.")
        if self.settings.get("sweep_every_ms") and not self.sweeper:
            raise ConfigurationError("simulate(settings={'sweep_every_ms': ...}): it takes a sweeper, sweeper=...")
        for names, known in ((self.faults, FAULTS), (self.without, INVARIANTS)):
            if unknown := sorted(names - known.keys()):
                raise ConfigurationError(f"simulate: there is no {', '.join(unknown)}; there are {', '.join(known)}.")
        self._check_faults()

    def _check_faults(self) -> None:
        """Raise ConfigurationError when none of the chosen faults can strike, because nobody is there to be struck."""
        consumed = self.consumer and self.settings.get("consumers") != 0
        needed = (
            (CONSUMED, consumed, "a consumer, consumer=..."),
            (RECOVERY, self.sweeper or self.operator, "a sweeper, sweeper=..., or operator=True"),
            (FOREIGN, self.foreign, "foreign=True"),
        )
        absent = [(kinds & self.faults, what) for kinds, there, what in needed if not there]
        if self.faults and self.faults == frozenset().union(*(kinds for kinds, _ in absent)):
            takes = " and ".join(what for kinds, what in absent if kinds)
            raise ConfigurationError(f"simulate(faults={sorted(self.faults)}): none can strike; that takes {takes}.")

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed, as far as it is chosen by nobody."""
        scenario = generate(
            seed,
            destinations=self.destinations,
            also=self.faults & UNSEEN,
            sweeper=self.sweeper,
            operator=self.operator,
            consumers=self.settings.get("consumers") if self.consumer else 0,
        )
        kinds = self.faults if self.foreign else self.faults - FOREIGN
        faults = tuple(fault for fault in scenario.faults if fault.kind in kinds)
        writes = scenario.writes
        if not self.poison:
            writes = tuple(replace(write, poison=()) for write in writes)
        if not self.foreign:
            writes = tuple(replace(write, amiss="refused") for write in writes)
        return replace(scenario, faults=faults, writes=writes, settings=replace(scenario.settings, **self.settings))

    def terms(self, scenario: Scenario) -> Terms:
        """Return what is asked for in a run."""
        terms = scenario.terms
        return terms if self.ordered else replace(terms, ordered_keys=False, ordered_records=False, parked_keys=False)

    @property
    def options(self) -> str:
        """The arguments of `simulate` that make this choice, those that are as usual left out."""
        given: dict[str, tuple[Any, Any]] = {
            "destinations": (self.destinations, 1),
            "ordered": (self.ordered, True),
            "poison": (self.poison, True),
            "foreign": (self.foreign, True),
            "sweeper": (Name("make_sweeper") if self.sweeper else None, None),
            "operator": (self.operator, False),
            "faults": (sorted(self.faults), sorted(USUAL)),
            "without": (sorted(self.without), []),
            "settings": (dict(self.settings), {}),
            "consumer": (Name("make_consumer") if self.consumer else None, None),
        }
        return "".join(f", {name}={value!r}" for name, (value, usual) in given.items() if value != usual)

    def run(self, scenario: Scenario, made: Made, threads: Threads) -> list[Fact]:
        """Run a scenario of this choice."""
        sweeper = made.sweeper or sweeper_handler
        return run(scenario, made.handler, sweeper=sweeper, consumer=made.consumer, threads=threads)

    def read(self, scenario: Scenario, facts: Sequence[Fact]) -> History:
        """Read the ledger of a run of this choice."""
        return history(facts, self.terms(scenario))

    def broken(self, of: History) -> tuple[Violation, ...]:
        """Return what a run broke of what is asked for."""
        return tuple(broken(of, without=self.without))


def seeds_of(given: Iterable[int]) -> list[int]:
    """Return the seeds. Raises ConfigurationError for what is no whole number, and for none: nothing would be run."""
    refuse = _refusal("seeds")
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise refuse(f"is {shown(given)}; several whole numbers are needed, as in range(200).")
    seeds = list(given)
    if not seeds:
        raise refuse("is empty: nothing would be run.")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise refuse(f"has {shown(seed)}, and a seed is a whole number.")
    return seeds


def names_of(given: Collection[str], argument: str) -> frozenset[str]:
    """Return the names that an argument has. Raises ConfigurationError for what are no names, one text among them."""
    refuse = _refusal(argument)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise refuse(f"is {shown(given)}; several names are needed, as in [{shown(given)}].")
    return frozenset(text(name, _refusal(f"{argument}: a name")) for name in given)


def number_of(given: int, argument: str, *, least: int, most: int) -> int:
    """Return a whole number. Raises ConfigurationError for anything else."""
    return whole(given, _refusal(argument), least=least, most=most)


def _refusal(argument: str) -> Refusal:
    return refusal("simulate", argument)


def settings_of(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return settings by the names of `Settings`; those of `MappingConfig` are understood too.

    Raises ConfigurationError for a name that is neither, for one that is given twice, and for a value that cannot be.
    """
    settings: dict[str, Any] = {}
    for said, value in mapping(given, _refusal("settings")).items():
        name = _AS_OF_MAPPINGS.get(text(said, _refusal("settings: a name")), said)
        if name in settings:
            raise ConfigurationError(f"simulate(settings=...): {name} is given twice, once as {said}.")
        settings[name] = value
    if unknown := sorted(settings.keys() - set(SETTINGS)):
        raise ConfigurationError(
            f"simulate(settings=...): there is no {', '.join(unknown)} to be set; there are {', '.join(SETTINGS)}."
        )
    kinds = get_type_hints(Settings)
    for name, value in settings.items():
        possible = get_args(kinds[name])
        if (possible and value not in possible) or type(value) is not type(getattr(Settings(), name)):
            wanted = " or ".join(map(repr, possible)) or f"of type {kinds[name].__name__}"
            raise ConfigurationError(f"simulate(settings={{{name!r}: {value!r}}}): has to be {wanted}.")
        low, high = _RANGES.get(name, (value, value))
        if not low <= value <= high:
            raise ConfigurationError(f"simulate(settings={{{name!r}: {value!r}}}): {low:,} to {high:,}.")
    mapping_of(replace(Settings(), **settings))
    return settings
