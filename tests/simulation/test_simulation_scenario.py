"""Scenarios: made from a seed, explicit, and of the size and variety that the simulation is meant to have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import median

from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.faults import LASTING, UNSEEN, USUAL, PlannedFault
from dynamodb_outbox.testing.simulation.planning import AIMS, Moments, aimed
from dynamodb_outbox.testing.simulation.scenario import KINDS, Scenario, Settings, generate
from dynamodb_outbox.testing.simulation.writers import Write

SOME = [generate(seed) for seed in range(300)]
SWEPT = [generate(seed, sweeper=True) for seed in range(300)]
WITH_TWO = [generate(seed, destinations=2) for seed in range(100)]


def test_a_seed_is_a_scenario() -> None:
    """The same seed gives the same one, another seed another."""
    assert generate(3) == generate(3)
    assert len({str(one) for one in SOME}) == len(SOME)


def test_scenarios_are_large_enough_to_be_bad_days() -> None:
    """Events by the dozen, and faults while there is something to break."""
    assert median(one.events for one in SOME) >= 60
    assert all(fault.at_ms < one.faults_until_ms < one.ends_ms for one in SOME for fault in one.faults)
    assert all(write.at_ms < one.faults_until_ms for one in SOME for write in one.writes)


def test_every_kind_of_fault_and_every_setting_comes_up() -> None:
    """Nothing that a scenario can have is left out by chance, in 300 of them."""
    kinds = Counter(fault.kind for one in SWEPT for fault in one.faults)
    assert kinds.keys() == USUAL
    assert min(kinds.values()) >= 10
    for name in Settings.__dataclass_fields__.keys() - {"on_poison"}:  # which is asked for: simulate(settings=...)
        values = {getattr(one.settings, name) for one in [*SWEPT, *WITH_TWO]}
        assert len(values) > 1, name
    writes = [write for one in SOME for write in one.writes]
    assert any(len(set(write.keys)) > 1 for write in writes)
    assert any(write.poison for write in writes)
    assert {write.kind for write in writes} == set(KINDS)


def test_a_sweeper_comes_in_half_of_the_seeds_where_it_is_asked_for() -> None:
    """All else is the same day: what others do, and what befalls them, is as without."""
    swept = [one for one in SWEPT if one.settings.sweep_every_ms]
    assert 120 < len(swept) < 180
    assert [one for one in SWEPT if not one.settings.sweep_every_ms] == [
        one for one, other in zip(SOME, SWEPT, strict=True) if not other.settings.sweep_every_ms
    ]
    for plain, one in zip(SOME, SWEPT, strict=True):
        assert one.writes == plain.writes
        assert [fault for fault in one.faults if fault in plain.faults] == list(plain.faults)
    assert all(not one.settings.sweep_every_ms for one in SOME)
    short = [one for one in swept if one.settings.retention_ms < 60_000]
    assert 30 < len(short) < 75


def test_faults_are_somewhere() -> None:
    """What is about servers strikes one of them, or all; with two destinations others strike at one or either."""
    of_servers = {(fault.kind, fault.where) for one in SOME for fault in one.faults if fault.kind in ("outage", "slow")}
    assert of_servers == {(kind, where) for kind in ("outage", "slow") for where in ("", "orders", "table")} | {
        ("outage", "consumer")
    }
    assert {one.settings.destinations for one in SOME} == {("orders",)}
    assert {one.settings.destinations for one in WITH_TWO} == {("orders", "audit")}
    crashes = {fault.where for one in WITH_TWO for fault in one.faults if fault.kind == "crash"}
    assert crashes == {"", "orders", "audit"}


def test_unseen_faults_come_when_they_are_asked_for() -> None:
    """Besides all others, which stay as they are."""
    for kind in UNSEEN:
        plain, more = generate(5), generate(5, also=[kind])
        assert [fault for fault in more.faults if fault.kind != kind] == list(plain.faults)
        assert len(more.faults) == len(plain.faults) + 1


def test_a_fault_that_is_aimed_strikes_when_it_matters() -> None:
    """While another one lasts, when a poisoned event is on its way, or just after a write."""
    outage, day_ms = PlannedFault("outage", 50_000, amount_ms=10_000), 86_400_000
    poisoned = Write(at_ms=100_000, writer="w", change="c", keys=("A",), poison=(0,))
    plain = Write(at_ms=200_000, writer="w", change="d", keys=("A",))
    moments = Moments([poisoned, plain], [outage])
    hits: Counter[tuple[str, int]] = Counter()
    for kind in AIMS:
        for n in range(40):
            fault = aimed(Chance(n), PlannedFault(kind, day_ms), moments, 1)
            near = [at_ms for at_ms in (50_000, 100_000, 200_000) if at_ms <= fault.at_ms <= at_ms + 10_000]
            assert len(near) == 1, kind
            hits[kind, near[0]] += 1
    assert hits["crash", 50_000] > 5 < hits["crash", 100_000]
    assert hits["shard_split", 50_000] > 5 < hits["shard_split", 200_000]
    assert hits["trim", 50_000] == 40
    untouched = [PlannedFault("reset_after", day_ms), PlannedFault("crash", day_ms)]
    assert [aimed(Chance(1), fault, Moments([], []), 1) for fault in untouched] == untouched
    assert aimed(Chance(1), untouched[1], moments, 0) == untouched[1]


def test_some_days_are_longer_than_others() -> None:
    """Records get too old for their mappings, and iterators for the stream: something lasts for as long as that."""
    for one in SOME:
        if one.settings.record_age_s > 0:
            assert any(
                fault.kind in LASTING and fault.amount_ms > one.settings.record_age_s * 1000 for fault in one.faults
            )
    long = [one for one in SOME if one.faults_until_ms > 900_000]
    assert 1 <= len(long) < 15


def test_order_is_promised_where_the_design_promises_it() -> None:
    """P4 between records: an ordered relay, order within partitions, one lane, retries for ever."""
    one = replace(SOME[0], settings=Settings())
    assert one.terms.ordered_keys
    for unordered in (
        Settings(order="item-only"),
        Settings(parallelization=2),
        Settings(ordering="none"),
        Settings(retries=3),
        Settings(record_age_s=60),
    ):
        assert not replace(one, settings=unordered).terms.ordered_keys
    assert replace(one, settings=Settings(parallelization=2)).terms.ordered_records
    assert not replace(one, settings=Settings(ordering="none")).terms.ordered_records


def test_records_are_given_up_with_an_unordered_relay_alone() -> None:
    """As the design has it: with an ordered relay a record that is given up would be overtaken."""
    given_up = [one for one in SOME if one.settings.retries >= 0 or one.settings.record_age_s >= 0]
    assert {one.settings.ordering for one in given_up} == {"none"}


def test_a_scenario_can_be_made_plainer_setting_by_setting() -> None:
    """All steps together give the plainest settings, no commands, one event a change, and each fault once."""
    one: Scenario = SOME[0]
    for step in one.plainer():
        one = step(one)
    assert one.settings == Settings()
    assert {fault.times for fault in one.faults} == {1}
    assert not any(write.command or write.repeated for write in one.writes)
    assert {(len(write.keys), write.kind) for write in one.writes} == {(1, "create")}


def test_a_scenario_can_be_read() -> None:
    """Its text names the seed, what differs from the plainest world, each change, each fault."""
    one = next(some for some in SOME if some.settings != Settings() and any(write.command for write in some.writes))
    text = str(one)
    assert text.startswith(f"seed {one.seed}; settings: ")
    assert len(text.splitlines()) == 1 + len(one.writes) + len(one.faults)
    assert all(fault.kind in text for fault in one.faults)
    assert "as a command" in text
    assert str(replace(one, settings=Settings())).splitlines()[0].endswith("the plainest")
