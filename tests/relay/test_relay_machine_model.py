"""The relay machine under random faults, resets, refusals and deadlines, against a world that knows the truth."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from relay_simulation import (
    CONTENT,
    FOUND,
    MISSING,
    OK,
    SILENT,
    TARGET,
    THROTTLED,
    TRANSIENT,
    UNKNOWN,
    UNSURE,
    Simulation,
)

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.commands import NOWHERE, Entry, Publish, Settings
from dynamodb_outbox.core.relay.health import Health
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Outcome, Presence, RequestFailed, Verified
from dynamodb_outbox.core.relay.states import TRANSITIONS, Cause, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.choices import OnPoison

pytestmark = pytest.mark.usefixtures("uncovered")

RESULTS: Sequence[Fault | None] = (None, None, None, TRANSIENT, UNKNOWN, THROTTLED, CONTENT, TARGET)
FOUND_OR_NOT = (OK, OK, UNSURE, SILENT, MISSING)
POISON: Sequence[OnPoison] = ("park", "park_key", "block")

keys = st.sampled_from("abcdefgh")
local_faults = st.sampled_from((*(None,) * 9, CONTENT))
places = st.sampled_from((*(0, 1, 2) * 4, NOWHERE))
events = st.tuples(st.integers(1, 120), local_faults, places, st.sampled_from((*(False,) * 6, True)))
records = st.lists(st.tuples(keys, st.lists(events, min_size=1, max_size=3)), min_size=2, max_size=12)
limits = st.builds(SinkLimits, entries=st.integers(1, 5), request_bytes=st.integers(60, 300), entry_bytes=st.just(120))
figures = st.builds(
    Settings,
    on_poison=st.sampled_from(POISON),
    max_in_flight=st.integers(1, 4),
    max_table_calls=st.integers(1, 2),
    settle_batch=st.integers(1, 3),
    read_batch=st.integers(1, 3),
    park_limit=st.integers(1, 4),
    verified_ms=st.sampled_from((300, 60_000)),
    breaker_failures=st.sampled_from((None, 1, 3)),
    breaker_base_ms=st.just(200),
    rate_limit=st.sampled_from((None, None, 2, 40)),
)
healths = st.dictionaries(
    st.integers(0, 2),
    st.sampled_from(
        (
            Health(),
            Health(presence=Presence.MISSING),
            Health(presence=Presence.UNSURE, verified_until_ms=400, at_once=1),
            replace(FOUND, failures=2, openings=3, open_until_ms=500),
        )
    ),
)

Drawn = list[tuple[str, list[tuple[int, "Fault | None", int, bool]]]]
HITS: Counter[tuple[State, Cause]] = Counter()
"""Of the rule-based machine, in all of its runs."""


def entries_of(drawn: Drawn, destinations: int) -> list[Entry]:
    """Lay out the events of numbered records."""
    return [
        Entry(number, key, size, CONTENT if place == NOWHERE else fault, _place(place, destinations), accepted)
        if not (accepted and place == NOWHERE)
        else Entry(number, key, size, CONTENT, NOWHERE)
        for number, (key, ones) in enumerate(drawn)
        for size, fault, place, accepted in ones
    ]


def _place(place: int, destinations: int) -> int:
    return place if place == NOWHERE else place % destinations


class RelayModel(RuleBasedStateMachine):
    """Facts in any order; `Simulation` checks every command."""

    simulation: Simulation

    @initialize(
        drawn=records,
        figures=figures,
        ordered=st.booleans(),
        limits=st.lists(limits, min_size=1, max_size=3),
        health=healths,
        parked_keys=st.sets(keys, max_size=2),
        idle=st.sets(st.integers(0, 11), max_size=2),
        publish_ms=st.integers(0, 3000),
        extra_ms=st.integers(0, 500),
    )
    def start(
        self,
        *,
        drawn: Drawn,
        figures: Settings,
        ordered: bool,
        limits: list[SinkLimits],
        health: dict[int, Health],
        parked_keys: set[str],
        idle: set[int],
        publish_ms: int,
        extra_ms: int,
    ) -> None:
        """Begin an invocation."""
        self.simulation = Simulation(
            entries_of(drawn, len(limits)),
            replace(figures, ordered=ordered or figures.on_poison == "park_key"),
            limits,
            health=health,
            parked_keys=parked_keys if figures.on_poison == "park_key" else (),
            idle=idle,
            publish_until_ms=publish_ms,
            table_until_ms=publish_ms + extra_ms,
            hits=HITS,
        )
        self.simulation.start()

    @precondition(lambda self: self.simulation.verifies)
    @rule(data=st.data(), found=st.sampled_from(FOUND_OR_NOT))
    def find(self, data: st.DataObject, found: Verified) -> None:
        """Say what is known of a destination."""
        self.simulation.finish_verify(data.draw(st.sampled_from(self.simulation.verifies)), found)

    @precondition(lambda self: self.simulation.reads)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """Say which keys are parked; some of them cannot be read."""
        read = data.draw(st.sampled_from(self.simulation.reads))
        self.simulation.finish_read(read, data.draw(st.sets(st.sampled_from(read.keys))))

    @precondition(lambda self: self.simulation.publishes)
    @rule(data=st.data(), u=st.floats(0, 1, exclude_max=True))
    def answer(self, data: st.DataObject, u: float) -> None:
        """Answer with a result for each entry."""
        self.simulation.u = u
        publish = data.draw(st.sampled_from(self.simulation.publishes))
        results = data.draw(
            st.lists(st.sampled_from(RESULTS), min_size=len(publish.entries), max_size=len(publish.entries))
        )
        self.simulation.finish_publish(publish, Answered(tuple(results)))

    @precondition(lambda self: self.simulation.publishes)
    @rule(
        data=st.data(),
        fault=st.sampled_from((TRANSIENT, UNKNOWN, THROTTLED, CONTENT, CONTENT, TARGET)),
        u=st.floats(0, 1, exclude_max=True),
    )
    def fail_request(self, data: st.DataObject, fault: Fault, u: float) -> None:
        """Fail a request as a whole."""
        self.simulation.u = u
        self.simulation.finish_publish(data.draw(st.sampled_from(self.simulation.publishes)), RequestFailed(fault))

    @precondition(lambda self: self.simulation.publishes)
    @rule(data=st.data(), length=st.integers(0, 7))
    def answer_wrong_length(self, data: st.DataObject, length: int) -> None:
        """Answer with too few results, or too many."""
        publish = data.draw(st.sampled_from(self.simulation.publishes))
        if length == len(publish.entries):
            length += 1
        self.simulation.finish_publish(publish, Answered((None,) * length))

    @precondition(lambda self: self.simulation.parks)
    @rule(data=st.data(), parked=st.booleans(), new=st.booleans(), lost=st.booleans())
    def end_park(self, data: st.DataObject, parked: bool, new: bool, lost: bool) -> None:
        """Store a record as parked, or find it so, or be turned away, or lose the answer."""
        park = data.draw(st.sampled_from(self.simulation.parks))
        self.simulation.finish_park(park, parked=parked, new=new, lost=lost)

    @precondition(lambda self: self.simulation.settles)
    @rule(data=st.data())
    def end_settle(self, data: st.DataObject) -> None:
        """End a settle call; some of its records may be tried again."""
        settle = data.draw(st.sampled_from(self.simulation.settles))
        again = data.draw(st.lists(st.sampled_from(settle.records), unique=True))
        self.simulation.finish_settle(settle, tuple(again))

    @rule(ms=st.integers(0, 800))
    def wait(self, ms: int) -> None:
        """Let time go by."""
        self.simulation.pass_time(ms)

    @invariant()
    def waits_for_something(self) -> None:
        """Whoever is not done has something under way, or a time to wake at."""
        s = self.simulation
        under_way = [*s.publishes, *s.verifies, *s.reads, *s.parks, *s.settles]
        assert s.done or under_way or s.wake_ms is not None

    def teardown(self) -> None:
        """Let the invocation come to its end."""
        if hasattr(self, "simulation"):
            check_end(self.simulation)


def check_end(simulation: Simulation) -> None:
    """Drain, and hold the answer against the truth: what is done may be forgotten, what is not is delivered again."""
    done = simulation.drain()
    for number, entry in enumerate(simulation.entries):
        forgotten = done.lowest is None or entry.record < done.lowest
        assert not forgotten or simulation.is_done(number), "lost"
    assert simulation.parked <= simulation.poison or simulation.settings.on_poison == "park_key"
    assert simulation.settings.on_poison != "block" or not simulation.parked
    assert not {State.INFLIGHT, State.PARKING} & set(simulation.machine.progress.tally())
    assert not any(simulation.settled[simulation.entries[number].record] for number in simulation.parked)
    taken = {*simulation.accepted, *simulation.remembered_in_turn()}
    pending = {entry.record for number, entry in enumerate(simulation.entries) if number not in taken}
    accepted = {entry.record for entry in simulation.entries} - pending - simulation.idle
    assert len(accepted) == sum(simulation.settled.values()) + simulation.machine.unsettled
    most = -(-len(accepted) // simulation.settings.settle_batch) + sum(simulation.retried.values())
    assert simulation.settle_calls <= most, "more calls to settle than needed"
    check_order(simulation)


def check_order(simulation: Simulation) -> None:
    """Of each key, first acceptances are in the order of the stream, and nothing follows what is not done."""
    last: dict[object, int] = {}
    for number in simulation.accepted:
        key = simulation.key(number)
        assert last.get(key, -1) < number, "reordered"
        last[key] = number
    for key, number in last.items():
        before = (other for other in range(number) if simulation.key(other) == key)
        assert all(simulation.is_done(other) for other in before), "overtaken"


TestRelayModel = RelayModel.TestCase
TestRelayModel.settings = hypothesis_settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_every_cell_of_the_table_is_hit() -> None:
    """By the same machine with examples that are the same each time; the report says how often each was."""
    HITS.clear()
    same = hypothesis_settings(max_examples=250, stateful_step_count=40, deadline=None, derandomize=True, database=None)
    run_state_machine_as_test(RelayModel, settings=same)  # type: ignore[no-untyped-call]  # of Hypothesis
    print()  # noqa: T201 -- the report
    for (before, cause), after in sorted(TRANSITIONS.items()):
        move = f"{before.name} --{cause.name.lower()}--> {after.name}"
        print(f"{HITS[before, cause]:8} {move}")  # noqa: T201
    assert set(HITS) == set(TRANSITIONS)


def random_outcome(rng: random.Random, publish: Publish) -> Outcome:
    """Draw what a request comes to; mostly good."""
    if rng.random() < 0.25:
        return RequestFailed(rng.choice((TRANSIENT, UNKNOWN, CONTENT)))
    faults: tuple[Fault | None, ...] = (None,) * 12 + (TRANSIENT, UNKNOWN, CONTENT)
    results = [rng.choice(faults) for _ in publish.entries]
    if rng.random() < 0.01:
        results[-1] = TARGET
    return Answered(tuple(results))


def run_at_random(seed: int, hits: Counter[tuple[State, Cause]]) -> Simulation:
    """One invocation from one seed, to its end."""
    rng = random.Random(seed)  # noqa: S311 -- a simulation
    entries = [
        Entry(record, rng.choice("abcdef"), rng.randint(1, 100), CONTENT if rng.random() < 0.03 else None)
        for record in range(rng.randint(1, 40))
        for _ in range(rng.choice((1, 1, 1, 3)))
    ]
    settings = Settings(ordered=rng.random() < 0.8)
    simulation = Simulation(entries, settings, [SinkLimits(5, 300, 100)], publish_until_ms=4000, hits=hits)
    simulation.start()
    while simulation.done is None:
        simulation.u = rng.random()
        if simulation.publishes:
            publish = rng.choice(simulation.publishes)
            simulation.now_ms += rng.randint(0, 60)
            simulation.finish_publish(publish, random_outcome(rng, publish))
        elif simulation.parks:
            simulation.finish_park(rng.choice(simulation.parks), parked=rng.random() < 0.9, lost=rng.random() < 0.5)
        elif simulation.settles:
            settle = rng.choice(simulation.settles)
            simulation.finish_settle(settle, settle.records[: rng.choice((0, 0, 1))])
        else:
            assert simulation.wake_ms is not None
            simulation.pass_time(simulation.wake_ms - simulation.now_ms)
    return simulation


def test_hundreds_of_seeded_invocations_keep_what_always_holds() -> None:
    """Longer ones than the rules make, with faults as they come."""
    hits: Counter[tuple[State, Cause]] = Counter()
    for seed in range(300):
        check_end(run_at_random(seed, hits))
    assert len(hits) >= len(TRANSITIONS) - 2


@pytest.mark.parametrize("ordered", [True, False])
def test_without_faults_everything_is_accepted_and_settled_once(ordered: bool) -> None:
    """A batch that meets no fault is published once, in the stream's order within each key, and settled."""
    entries = [Entry(record, "abc"[record % 3], 10) for record in range(200)]
    simulation = Simulation(entries, Settings(ordered=ordered))
    simulation.start()
    assert simulation.drain().lowest is None
    assert set(simulation.sent.values()) == {1}
    assert all(simulation.settled[record] == 1 for record in range(200))
    for key in "abc" if ordered else ():
        order = [number for number in simulation.accepted if entries[number].key == key]
        assert order == sorted(order)


poisoned = st.lists(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6),  # of a record: (poison, known at once)
    min_size=1,
    max_size=14,
)


@given(poisoned, st.integers(1, 4), st.integers(1, 3), st.booleans(), st.booleans())
@hypothesis_settings(max_examples=60, deadline=None)
def test_poison_never_stops_a_stream(
    drawn: list[list[tuple[bool, bool]]], keys: int, limit: int, warm: bool, ordered: bool
) -> None:
    """Delivered again until done, a batch of any poison ends; each event was accepted, or its record says parked."""
    entries = [
        Entry(record, str(record % keys), 1, CONTENT if poison and known else None)
        for record, events in enumerate(drawn)
        for poison, known in events
    ]
    poison = [is_poison for events in drawn for is_poison, _ in events]
    figures = Settings(ordered=ordered, park_limit=limit)
    stored: dict[int, set[int]] = {}
    accepted: set[int] = set()
    recent: tuple[tuple[int, int], ...] = ()
    begin: int | None = 0
    while begin is not None:
        first = next(n for n, entry in enumerate(entries) if entry.record >= begin)
        rest = [entry._replace(record=entry.record - begin) for entry in entries[first:]]
        simulation = Simulation(rest, figures, [SinkLimits(3, 100, 100)], recent_parks=recent if warm else ())
        simulation.start()
        while simulation.done is None:
            if simulation.parks:
                park = simulation.parks[0]
                before = stored.get(park.record + begin)
                stored.setdefault(park.record + begin, set()).update(first + number for number in park.refused)
                simulation.finish_park(park, parked=True, new=before is None)
            elif simulation.publishes:
                sent = simulation.publishes[0]
                simulation.finish_publish(
                    sent, Answered(tuple(CONTENT if poison[first + n] else None for n in sent.entries))
                )
            else:
                simulation.finish_settle(simulation.settles[0])
        accepted |= {first + number for number in simulation.accepted}
        recent = tuple((place, at - 60_000) for place, at in simulation.machine.carried.parks)
        lowest = simulation.done.lowest
        assert lowest != 0, "no progress in a window"
        begin = None if lowest is None else begin + lowest
    assert accepted == {n for n, is_poison in enumerate(poison) if not is_poison}
    assert set().union(*stored.values()) == {n for n, is_poison in enumerate(poison) if is_poison}
