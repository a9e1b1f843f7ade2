"""What happens in a run, decided beforehand: who writes what and when, which faults strike, how everything is set up.

A scenario is made from one seed and then stands for itself: all of it can be read, changed and shrunk. Whatever is
still left to chance in the run (how long a request takes, how a stream mixes its records) is drawn from the seed and
the name of what it is about; which of two things comes first that are due in the same millisecond, from the seed and
that millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.choices import Ordering, Settle  # noqa: TC001 -- `choice` reads the annotations of Settings
from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.faults import (
    CONSUMED,
    LASTING,
    RECOVERY,
    SILENT,
    USUAL,
    FaultPlan,
    PlannedFault,
)
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.planning import (
    AFTER_LONG_MS,
    AIMS,
    Moments,
    aimed,
    at_consumers,
    lasting_at_consumers,
    long_fault,
    planned,
)
from dynamodb_outbox.testing.simulation.recovery import (
    OPERATOR,
    SWEEPER,
    Operation,
    operations,
    operator_settings,
    recovery_faults,
    sweeper_settings,
)
from dynamodb_outbox.testing.simulation.unfit import BY_HAND
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dynamodb_outbox.testing.simulation.unfit import Amiss

__all__ = ["DESTINATIONS", "Scenario", "Settings", "generate"]

_FOREVER = -1
_QUIET_MS = 900_000
"""After the last fault: longer than all pauses of a relay and its event source together."""

_REFUSED, _ROW = 0.55, 0.9

KINDS: tuple[Literal["create", "count", "overwrite"], ...] = ("create", "count", "overwrite")

WAYS: tuple[Settle, ...] = ("expire", "expire", "mark", "delete", "none")
"""Ways of settling, the usual one twice as often."""

EVENTS = (60, 64)
"""Events of a scenario, about."""

FAULT_COUNT = (6, 14)
COINCIDENCES = (0, 4)
"""Faults besides that aim at the worst moment."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the world of a scenario is set up; times in milliseconds. The defaults are the plainest world.

    shards, order       of the stream: `order` is what keeps the order in which it was committed
    spread_ms, lag_ms   how far apart records get their place in the stream, and become visible, at most
    destinations        each has a bus, a function and an event source mapping of its own
    parallelization, batch_size, window_ms, bisect, retries, starting     of the event source mappings
    record_age_s        after which they give a record up, in seconds; -1, here and for retries: never
    tolerant            destinations whose bus takes the events that are poison to others
    instances           warm instances of a function
    function_timeout_ms of a function
    ordering            of the relay: "key" or "none"
    in_flight           of the relay: requests to the bus at the same time
    on_poison           of the relay: "park" or "park_key"
    filtered            whether the mappings have the filter for INSERTs of records
    settle              what settling makes of a record, by the layout of its writer
    relay_settle        what the layout of the relay has instead, as in the middle of a deployment
    consumers           instances of the consumer that may be at work at once, where there is one; 0: there is none
    retention_ms        after which the stream forgets a record
    sweep_every_ms      how often a sweeper comes; 0: there is none
    sweepers            how many sweeps begin at a time
    sweep_timeout_ms    of a sweeper's function
    min_age_ms          of the records that it sweeps
    index_lag_ms        how far the index is behind the table, at most
    """

    shards: int = 1
    order: Literal["partition", "item-only"] = "partition"
    spread_ms: int = 0
    lag_ms: int = 0
    destinations: tuple[str, ...] = ("orders",)
    parallelization: int = 1
    batch_size: int = 10
    window_ms: int = 0
    bisect: bool = False
    retries: int = _FOREVER
    record_age_s: int = _FOREVER
    starting: Literal["TRIM_HORIZON", "LATEST"] = "TRIM_HORIZON"
    tolerant: tuple[str, ...] = ()
    instances: int = 1
    function_timeout_ms: int = 20_000
    ordering: Ordering = "key"
    in_flight: int = 8
    on_poison: Literal["park", "park_key"] = "park"
    filtered: bool = True
    settle: Settle = "expire"
    relay_settle: Settle = "expire"
    consumers: int = 0
    retention_ms: int = STREAM_RETENTION_MS
    sweep_every_ms: int = 0
    sweepers: int = 1
    sweep_timeout_ms: int = 120_000
    min_age_ms: int = 20_000
    index_lag_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run before it happens. Faults stop at `faults_until_ms`; by `ends_ms` everything has to be done."""

    seed: int
    settings: Settings
    writes: tuple[Write, ...]
    faults: tuple[PlannedFault, ...]
    faults_until_ms: int
    operations: tuple[Operation, ...] = ()

    @property
    def ends_ms(self) -> int:
        """The end of the run."""
        return self.faults_until_ms + _QUIET_MS

    @property
    def plan(self) -> FaultPlan:
        """The faults as the world takes them."""
        return FaultPlan(self.faults, self.faults_until_ms)

    @property
    def terms(self) -> Terms:
        """What is promised under these settings: order (P4) where the stream and the mapping give it."""
        settings = self.settings
        ordered = settings.ordering == "key"
        ordered_keys = (
            ordered
            and settings.order == "partition"
            and settings.parallelization == 1
            and settings.retries == _FOREVER
            and settings.record_age_s == _FOREVER
        )
        return Terms(
            destinations=settings.destinations,
            ordered_keys=ordered_keys,
            ordered_records=ordered,
            parks_keys=settings.on_poison == "park_key",
            parked_keys=ordered_keys and settings.on_poison == "park_key" and not self.operations,
            settle=settings.settle,
            swept=settings.sweep_every_ms > 0,
            min_age_ms=settings.min_age_ms,
            redriven=any(one.of and one.at_ms > self.faults_until_ms for one in self.operations),
        )

    @property
    def events(self) -> int:
        """How many events its writers mean to commit."""
        return sum(len(write.keys) for write in self.writes)

    def plainer(self) -> Sequence[Callable[[Scenario], Scenario]]:
        """Return the steps that make a scenario plainer in one respect each: a setting, or a kind of write."""
        settings = [_plainer_setting(name) for name in Settings.__dataclass_fields__]
        more = [_with_one_consumer, _without_commands, _of_new_items, _with_one_event_each, _with_each_fault_once]
        return [*settings, *more]

    def __str__(self) -> str:
        plain = Settings()
        changed = [
            f"{name}={getattr(self.settings, name)!r}"
            for name in Settings.__dataclass_fields__
            if getattr(self.settings, name) != getattr(plain, name)
        ]
        lines = [f"seed {self.seed}; settings: {', '.join(changed) or 'the plainest'}"]
        lines += [f"  {write.at_ms / 1000:9.3f} s  {_told(write)}" for write in self.writes]
        lines += [f"  {fault.at_ms / 1000:9.3f} s  fault {_fault(fault)}" for fault in self.faults]
        lines += [f"  {one.at_ms / 1000:9.3f} s  an operator {one.does}" for one in self.operations]
        return "\n".join(lines)


_AMISS: dict[Amiss, str] = {
    "refused": "poison",
    "wide": "with an integer that is too wide",
    "long type": "a row of a type that is too long",
    "no time": "a row without a time",
    "no JSON": "a row whose payload is no JSON",
    "taken column": "a row with another use for a column, and without a time",
}


def _told(write: Write) -> str:
    amiss = f" ({_AMISS[write.amiss]})"
    events = ", ".join(key + (amiss if place in write.poison else "") for place, key in enumerate(write.keys))
    how = (
        " by hand"
        if write.by_hand
        else ""
        if not write.command
        else " as a command, twice,"
        if write.repeated
        else " as a command"
    )
    return f"{write.writer} writes {write.change} ({write.kind}){how} with events of {events}"


_AMOUNTS = {
    **dict.fromkeys(LASTING, "for {:,} ms"),
    **dict.fromkeys(SILENT, "in silence"),
    "trim": "of what is older than {:,} ms",
    "late_visibility": "for {:,} ms",
    "consumer_frozen": "for {:,} ms",
}
"""What an amount says of a fault; of the others, by how much."""

AT_ITS_TIME = LASTING | {"late_visibility", "operator_delete", "shard_split", "source_killed", "trim", "ttl_delete"}
"""Kinds that strike when the plan says; the others are armed then, and wait for what they can strike."""


def _fault(fault: PlannedFault) -> str:
    words = [fault.kind]
    if fault.where:
        words.append(f"at {fault.where}")
    if fault.amount_ms:
        words.append(_AMOUNTS.get(fault.kind, "by {:,} ms").format(fault.amount_ms))
    if fault.nth:
        words.append(f"at boundary {fault.nth} of an effect")
    if fault.kind not in AT_ITS_TIME:
        words.append("at the next chance" if fault.times == 1 else f"at the next {fault.times} chances")
    return " ".join(words)


def _plainer_setting(name: str) -> Callable[[Scenario], Scenario]:
    plain: dict[str, Any] = {name: getattr(Settings(), name)}
    return lambda one: replace(one, settings=replace(one.settings, **plain))


def _with_one_consumer(one: Scenario) -> Scenario:
    return replace(one, settings=replace(one.settings, consumers=min(1, one.settings.consumers)))


def _without_commands(one: Scenario) -> Scenario:
    return replace(one, writes=tuple(replace(write, command=False, repeated=False) for write in one.writes))


def _of_new_items(one: Scenario) -> Scenario:
    return replace(one, writes=tuple(replace(write, kind="create") for write in one.writes))


def _with_one_event_each(one: Scenario) -> Scenario:
    fewer = [
        replace(write, keys=write.keys[:1], poison=tuple(place for place in write.poison if not place))
        for write in one.writes
    ]
    return replace(one, writes=tuple(fewer))


def _with_each_fault_once(one: Scenario) -> Scenario:
    return replace(one, faults=tuple(replace(fault, times=1) for fault in one.faults))


# --- from a seed ------------------------------------------------------------------------------------------------------

DESTINATIONS = ("orders", "audit")
"""As many as there may be in a run."""


def generate(
    seed: int,
    *,
    events: tuple[int, int] = EVENTS,
    faults: tuple[int, int] = FAULT_COUNT,
    destinations: int = 1,
    also: Collection[str] = (),
    sweeper: bool = False,
    operator: bool = False,
    consumers: int | None = None,
) -> Scenario:
    """Return the scenario of a seed: with about so many events and faults, from least to most.

    Each of the kinds of faults `also`, which are none of the usual ones, comes once. With `sweeper` there is one in
    half of the seeds, and all else is as without. With `operator` there is one in some, and in half of these the
    mapping gives up. With so many `consumers` unless that is None: then chance decides.
    """
    chance = Chance(seed).of("scenario")
    settings = _settings(chance.of("settings"), DESTINATIONS[:destinations])
    if consumers is not None:
        settings = replace(settings, consumers=consumers)
    lasting_ms = chance.whole(30_000, 120_000, "lasting")
    writes = _writes(chance.of("writes"), chance.whole(*events, "events"), lasting_ms)
    age_ms = None if settings.record_age_s == _FOREVER else settings.record_age_s * 1_000
    until_ms = lasting_ms + chance.whole(2_000, 60_000, "until")
    long = [one for one in [long_fault(chance.of("long"), settings.destinations, lasting_ms, age_ms)] if one]
    kinds = sorted(USUAL - RECOVERY - CONSUMED)
    chosen = [kinds[chance.whole(0, len(kinds) - 1, "kind", n)] for n in range(chance.whole(*faults, "faults"))]
    where, armed_ms = settings.destinations, until_ms * 3 // 4
    drawn = [planned(chance.of("fault", n), kind, where, armed_ms) for n, kind in enumerate(chosen)]
    moments = Moments(writes, [*long, *(fault for fault in drawn if fault.kind in LASTING)])
    drawn = [aimed(chance.of("aim", n), fault, moments) for n, fault in enumerate(drawn)]
    for n in range(chance.whole(*COINCIDENCES, "coincidences")):
        one = chance.of("coincidence", n)
        kind = AIMS[one.whole(0, len(AIMS) - 1, "kind")]
        drawn.append(aimed(one, planned(one, kind, where, armed_ms), moments, 1))
    drawn += [planned(chance.of("also", kind), kind, where, armed_ms) for kind in sorted(also)]
    if settings.consumers:
        drawn += at_consumers(chance.of("consumers"), armed_ms)
        drawn += lasting_at_consumers(chance.of("consumers", "lasting"), armed_ms)
    if sweeper and (more := sweeper_settings(chance.of("sweeper"))):
        settings = replace(settings, **more)
        forgets = "retention_ms" in more
        drawn += recovery_faults(chance.of("sweeper", "faults"), SWEEPER, where, armed_ms, forgets=forgets)
    scenario = Scenario(
        seed=seed,
        settings=settings,
        writes=writes,
        faults=tuple(sorted([*long, *drawn], key=lambda fault: fault.at_ms)),
        faults_until_ms=max([until_ms, *(one.at_ms + one.amount_ms + AFTER_LONG_MS for one in long)]),
    )
    return _operated(scenario, chance.of("operator"), armed_ms) if operator else scenario


def _operated(one: Scenario, chance: Chance, armed_ms: int) -> Scenario:
    """Return a scenario with an operator, if its seed has one."""
    changed = operator_settings(chance)
    if changed is None:
        return one
    more = recovery_faults(chance.of("faults"), OPERATOR, one.settings.destinations, armed_ms, forgets=False)
    return replace(
        one,
        settings=replace(one.settings, **changed),
        faults=tuple(sorted([*one.faults, *more], key=lambda fault: fault.at_ms)),
        operations=operations(chance.of("operations"), one.faults_until_ms, one.ends_ms),
    )


def _happens(chance: Chance, what: str, probability: float) -> bool:
    return chance.unit(what) < probability


def _settings(chance: Chance, destinations: tuple[str, ...]) -> Settings:
    ordering: Ordering = "none" if _happens(chance, "ordering", 0.2) else "key"
    gives_up = ordering == "none"
    retries = chance.whole(2, 6, "how many") if gives_up and _happens(chance, "retries", 0.4) else _FOREVER
    age_s = chance.whole(60, 90, "how old") if gives_up and _happens(chance, "record age", 0.25) else _FOREVER
    more = len(destinations) > 1
    settle, other = (WAYS[chance.whole(0, len(WAYS) - 1, what)] for what in ("settle", "other settle"))
    return Settings(
        shards=chance.whole(1, 3, "shards"),
        order="item-only" if _happens(chance, "order", 0.25) else "partition",
        spread_ms=chance.whole(0, 200, "spread"),
        lag_ms=chance.whole(0, 400, "lag"),
        destinations=destinations,
        parallelization=chance.whole(2, 4, "lanes") if _happens(chance, "parallel", 0.25) else 1,
        batch_size=chance.whole(3, 25, "batch"),
        window_ms=chance.whole(100, 1_500, "wait") if _happens(chance, "window", 0.5) else 0,
        bisect=_happens(chance, "bisect", 0.5),
        retries=retries,
        record_age_s=age_s,
        starting="LATEST" if _happens(chance, "latest", 0.08) else "TRIM_HORIZON",
        tolerant=tuple(one for one in destinations if more and _happens(chance, f"{one} is tolerant", 0.4)),
        instances=chance.whole(1, 3, "instances"),
        function_timeout_ms=chance.whole(12_000, 30_000, "timeout"),
        ordering=ordering,
        in_flight=chance.whole(1, 2, "in flight") if _happens(chance, "few in flight", 0.4) else 8,
        filtered=_happens(chance, "filtered", 0.5),
        settle=settle,
        relay_settle=other if _happens(chance, "deployment", 0.25) else settle,
        consumers=chance.whole(1, 3, "consumers") if _happens(chance, "consumed", 0.2) else 0,
    )


def _writes(chance: Chance, events: int, lasting_ms: int) -> tuple[Write, ...]:
    """Return changes with so many events, in order of time: most with one, some with several of one key or of two."""
    keys = [chr(ord("A") + n) for n in range(chance.whole(3, 8, "keys"))]
    writers = chance.whole(2, 4, "writers")
    poison = chance.unit("poison share") * 0.08
    writes: list[Write] = []
    left, n = events, 0
    while left > 0:
        one = chance.of(n)
        carried = min(left, one.whole(2, 4, "several") if _happens(one, "many", 0.2) else 1)
        first, second = (keys[one.whole(0, len(keys) - 1, which)] for which in ("first", "second"))
        spread = carried > 1 and _happens(one, "two keys", 0.5)
        command = _happens(one, "command", 0.3)
        amiss = _amiss(one, by_hand=carried == 1 and not command)
        writes.append(
            Write(
                at_ms=one.whole(0, lasting_ms, "at"),
                writer=f"writer-{one.whole(1, writers, 'writer')}",
                change=f"c{n}",
                keys=tuple(second if spread and place % 2 else first for place in range(carried)),
                kind=KINDS[one.whole(0, len(KINDS) - 1, "kind")],
                command=command,
                repeated=command and _happens(one, "repeated", 0.3),
                poison=tuple(place for place in range(carried) if _happens(one, f"poison {place}", poison)),
                amiss=amiss,
            )
        )
        left -= carried
        n += 1
    return tuple(sorted(writes, key=lambda write: write.at_ms))


def _amiss(chance: Chance, *, by_hand: bool) -> Amiss:
    """Return why the poisoned events of a change cannot pass, if there are any: most often their bus refuses them."""
    drawn = chance.unit("amiss")
    if drawn < _REFUSED:
        return "refused"
    return BY_HAND[chance.whole(0, len(BY_HAND) - 1, "way")] if by_hand and drawn < _ROW else "wide"
