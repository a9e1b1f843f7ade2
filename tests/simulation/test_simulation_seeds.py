"""This library's own relay through thousands of bad days."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from dynamodb_outbox.testing.simulation import (
    FAULTS,
    Scenario,
    check,
    consumer_handler,
    generate,
    relay_handler,
    run,
    simulate,
    sweeper_handler,
)
from dynamodb_outbox.testing.simulation.facts import Accepted, Trimmed
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.writers import Write

SEEDS = 2_000  # more by hand: python -m dynamodb_outbox.testing.simulation --seeds 20000 --processes 2
OFTEN = 50
UNRECOVERED = "open"
EXEMPT = {
    "ttl_delete": "what TTL deletes was published a minute ago: nothing is open by its nature",
    "replicated": "a record of another Region is nobody's here: nothing is open by its nature",
    "target_vanishes": "it is off unless asked for, as no answer tells of it: see the test below",
}
"""Kinds of faults that do not strike anything open, and why."""


@pytest.mark.usefixtures("uncovered")
def test_thousands_of_bad_days() -> None:
    """Nothing is violated, each day is a bad one, and every kind of fault struck often enough to mean something."""
    report = simulate(
        relay_handler,
        sweeper=sweeper_handler,
        operator=True,
        consumer=consumer_handler,
        seeds=range(SEEDS),
        processes=2,
    )
    report.check()
    assert report.runs == SEEDS
    assert median(report.events) >= 60
    assert {kind: report.effective[kind] for kind in FAULTS.keys() - EXEMPT if report.effective[kind] < OFTEN} == {}
    assert min(report.faults[kind] for kind in ("replicated", "ttl_delete")) >= OFTEN
    assert {kind for kind, how in report.recoveries if how == UNRECOVERED} == set()
    assert report.accepted > sum(report.events) * 0.9
    for by in ("swept", "redriven"):
        assert sum(times for (_, how), times in report.recoveries.items() if how == by) > 50


@pytest.mark.usefixtures("uncovered")
def test_days_on_which_the_bus_vanishes_too() -> None:
    """With all other faults around it, nothing is lost but what nobody could have noticed in its first minute."""
    report = simulate(relay_handler, seeds=range(SEEDS // 20), processes=2, faults=FAULTS)
    report.check()
    assert report.effective["target_vanishes"] >= 10


@pytest.mark.usefixtures("uncovered")
def test_days_on_which_keys_are_parked() -> None:
    """What follows a parked event in its key is parked, in whatever instance, and nothing is lost."""
    settings = {"ordering": "key", "on_poison": "park_key"}
    simulate(relay_handler, sweeper=sweeper_handler, seeds=range(SEEDS // 20), processes=2, settings=settings).check()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_is_a_run(seed: int) -> None:
    """The same seed gives the same ledger, to the last fact, whatever ran before it."""
    first = run(generate(seed), relay_handler)
    run(generate(seed + 100), relay_handler)
    assert run(generate(seed), relay_handler) == first


def test_leaving_a_fault_out_leaves_the_run_alone_until_it_would_have_struck() -> None:
    """What chance decides depends on what it is about, so a scenario can shrink and go on failing for its reason."""
    scenario = next(one for one in map(generate, range(99)) if one.faults and one.faults[-1].at_ms > 20_000)
    last = scenario.faults[-1]
    with_it, without = (
        [fact for fact in run(one, relay_handler) if fact.at_ms < last.at_ms]
        for one in (scenario, replace(scenario, faults=scenario.faults[:-1]))
    )
    assert with_it == without
    assert len(with_it) > 100


def test_a_trimmed_parent_that_is_still_being_retried_holds_its_children_back() -> None:
    """Its records are in the hands of the event source: were a child read meanwhile, a later event would overtake."""
    scenario = Scenario(
        seed=147,
        settings=Settings(),
        writes=tuple(
            Write(at_ms=at_ms, writer="writer-1", change=change, keys=("B",))
            for at_ms, change in ((62_115, "c12"), (75_318, "c16"))
        ),
        faults=(
            PlannedFault("missing_target", 52_440, amount_ms=24_000),
            PlannedFault("shard_split", 62_502),
            PlannedFault("trim", 73_938, amount_ms=4_661),
        ),
        faults_until_ms=90_000,
    )
    facts = run(scenario, relay_handler)
    assert check(facts, scenario.terms) == []
    (trimmed,) = (place for place, fact in enumerate(facts) if isinstance(fact, Trimmed))
    assert sum(isinstance(fact, Accepted) for fact in facts[trimmed:]) == 2


def test_it_holds_back_the_children_of_a_child_that_was_trimmed_unread() -> None:
    """They are later still; that nobody read the shard between them changes nothing."""
    scenario = Scenario(
        seed=19448,
        settings=Settings(window_ms=1_291),
        writes=tuple(
            Write(at_ms=at_ms, writer="writer-3", change=change, keys=("D",))
            for at_ms, change in ((23_247, "c39"), (82_216, "c34"))
        ),
        faults=(
            PlannedFault("access_denied", 1_591, where="orders", amount_ms=120_000),
            PlannedFault("shard_split", 28_471),
            PlannedFault("shard_split", 38_063),
            PlannedFault("trim", 52_802, amount_ms=10_470),
        ),
        faults_until_ms=130_000,
    )
    facts = run(scenario, relay_handler)
    assert check(facts, scenario.terms) == []
    assert any(isinstance(fact, Trimmed) for fact in facts)
    assert len([fact for fact in facts if isinstance(fact, Accepted)]) == 2
