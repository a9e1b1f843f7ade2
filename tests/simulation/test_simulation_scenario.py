"""Scenarios: made from a seed, explicit, and of the size and variety that the simulation is meant to have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import median

from dynamodb_outbox.testing.simulation.faults import FAULTS
from dynamodb_outbox.testing.simulation.scenario import KINDS, Scenario, Settings, generate

SOME = [generate(seed) for seed in range(300)]


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
    kinds = Counter(fault.kind for one in SOME for fault in one.faults)
    assert kinds.keys() == FAULTS.keys()
    assert min(kinds.values()) >= 10
    for name in Settings.__dataclass_fields__:
        assert len({getattr(one.settings, name) for one in SOME}) > 1, name
    writes = [write for one in SOME for write in one.writes]
    assert any(len(set(write.keys)) > 1 for write in writes)
    assert any(write.poison for write in writes)
    assert {write.kind for write in writes} == set(KINDS)


def test_order_is_promised_where_the_design_promises_it() -> None:
    """P4 between records: an ordered relay, order within partitions, one lane, retries for ever."""
    one = replace(SOME[0], settings=Settings())
    assert one.terms.ordered_keys
    for unordered in (
        Settings(order="item-only"),
        Settings(parallelization=2),
        Settings(ordering="none"),
        Settings(retries=3),
    ):
        assert not replace(one, settings=unordered).terms.ordered_keys
    assert replace(one, settings=Settings(parallelization=2)).terms.ordered_records
    assert not replace(one, settings=Settings(ordering="none")).terms.ordered_records


def test_finite_retries_come_with_an_unordered_relay_alone() -> None:
    """As the design has it: with an ordered relay a record that is given up would be overtaken."""
    assert all(one.settings.ordering == "none" for one in SOME if one.settings.retries >= 0)


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
