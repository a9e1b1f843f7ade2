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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from relay_simulation import CONTENT, TARGET, TRANSIENT, UNKNOWN, Simulation

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.commands import Entry, Publish, Settings
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Outcome, RequestFailed
from dynamodb_outbox.core.relay.states import TRANSITIONS, Cause, State

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS: Sequence[Fault | None] = (None, None, None, TRANSIENT, UNKNOWN, CONTENT, TARGET)

keys = st.sampled_from("abcd")
local_faults = st.sampled_from((None, None, None, None, CONTENT))
records = st.lists(
    st.tuples(keys, st.lists(st.tuples(st.integers(1, 120), local_faults), min_size=1, max_size=3)),
    min_size=1,
    max_size=12,
)
figures = st.builds(
    Settings,
    limits=st.builds(
        SinkLimits, entries=st.integers(1, 5), request_bytes=st.integers(60, 300), entry_bytes=st.just(120)
    ),
    ordered=st.booleans(),
    max_in_flight=st.integers(1, 4),
    max_table_calls=st.integers(1, 2),
    settle_batch=st.integers(1, 3),
    park_limit=st.integers(1, 4),
)


def entries_of(drawn: Sequence[tuple[str, Sequence[tuple[int, Fault | None]]]]) -> list[Entry]:
    """Lay out the events of numbered records."""
    return [Entry(number, key, size, fault) for number, (key, events) in enumerate(drawn) for size, fault in events]


class RelayModel(RuleBasedStateMachine):
    """Facts in any order; `Simulation` checks every command."""

    simulation: Simulation

    @initialize(drawn=records, figures=figures, publish_ms=st.integers(0, 3000), extra_ms=st.integers(0, 500))
    def start(
        self, drawn: list[tuple[str, list[tuple[int, Fault | None]]]], figures: Settings, publish_ms: int, extra_ms: int
    ) -> None:
        """Begin an invocation."""
        self.simulation = Simulation(
            entries_of(drawn), figures, publish_until_ms=publish_ms, table_until_ms=publish_ms + extra_ms
        )
        self.simulation.start()

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
        fault=st.sampled_from((TRANSIENT, UNKNOWN, CONTENT, CONTENT, TARGET)),
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
        assert s.done or s.publishes or s.parks or s.settles or s.wake_ms is not None

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
    assert simulation.parked <= simulation.poison
    assert not {State.INFLIGHT, State.PARKING} & set(simulation.machine.tally())
    assert not any(simulation.settled[simulation.entries[number].record] for number in simulation.parked)
    pending = {entry.record for number, entry in enumerate(simulation.entries) if number not in simulation.accepted}
    accepted = {entry.record for entry in simulation.entries} - pending
    assert len(accepted) == sum(simulation.settled.values()) + simulation.machine.unsettled


TestRelayModel = RelayModel.TestCase
TestRelayModel.settings = hypothesis_settings(max_examples=300, stateful_step_count=40, deadline=None)


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
    simulation = Simulation(
        entries, Settings(SinkLimits(5, 300, 100), ordered=rng.random() < 0.8), publish_until_ms=4000, hits=hits
    )
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


def test_every_transition_of_the_table_is_taken() -> None:
    """The table holds no move that cannot happen: three hundred seeded invocations make each of them."""
    hits: Counter[tuple[State, Cause]] = Counter()
    for seed in range(300):
        check_end(run_at_random(seed, hits))
    # A fault of the target that was found without asking the bus freezes the head where it stands.
    Simulation([Entry(0, "a", 1, TARGET)], Settings(SinkLimits(5, 300, 100)), hits=hits).start()
    assert set(hits) == set(TRANSITIONS)


@pytest.mark.parametrize("ordered", [True, False])
def test_without_faults_everything_is_accepted_and_settled_once(ordered: bool) -> None:
    """A batch that meets no fault is published once, in the stream's order within each key, and settled."""
    entries = [Entry(record, "abc"[record % 3], 10) for record in range(200)]
    simulation = Simulation(entries, Settings(SinkLimits(10, 1000, 100), ordered=ordered))
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
    figures = Settings(SinkLimits(3, 100, 100), ordered=ordered, park_limit=limit)
    stored: dict[int, set[int]] = {}
    accepted: set[int] = set()
    recent: tuple[int, ...] = ()
    begin: int | None = 0
    while begin is not None:
        first = next(n for n, entry in enumerate(entries) if entry.record >= begin)
        rest = [replace(entry, record=entry.record - begin) for entry in entries[first:]]
        simulation = Simulation(rest, figures, recent_parks=recent if warm else ())
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
        recent = tuple(at - 60_000 for at in simulation.machine.recent_parks)
        lowest = simulation.done.lowest
        assert lowest != 0, "no progress in a window"
        begin = None if lowest is None else begin + lowest
    assert accepted == {n for n, is_poison in enumerate(poison) if not is_poison}
    assert set().union(*stored.values()) == {n for n, is_poison in enumerate(poison) if is_poison}
