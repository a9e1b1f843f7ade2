"""Shrinking: what is left fails in the same way, and nothing of it can be left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.testing.simulation.scenario import Scenario, Settings, generate
from dynamodb_outbox.testing.simulation.shrink import shrink, smallest

if TYPE_CHECKING:
    from collections.abc import Sequence


@given(st.sets(st.integers(0, 60), max_size=6), st.integers(61, 90))
def test_the_smallest_part_is_found(needed: set[int], count: int) -> None:
    """Of a list that fails because of a few of its parts, exactly these are left, in order."""
    assert smallest(range(count), lambda kept: needed <= set(kept)) == sorted(needed)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_nothing_more_can_be_left_out(parts: list[int]) -> None:
    """Also where many different parts fail: the result does, and does not without any one of its members."""
    limit = sum(parts) // 2

    def fails(kept: Sequence[int]) -> bool:
        return sum(kept) >= limit

    found = smallest(parts, fails)
    assert fails(found)
    assert not any(fails(found[:place] + found[place + 1 :]) for place in range(len(found)))


def test_a_scenario_shrinks_to_what_matters() -> None:
    """Writes, faults and settings that make no difference are gone; the seed stays."""
    scenario = next(one for one in map(generate, range(99)) if one.settings.shards > 1 and len(one.faults) > 3)
    write, fault = scenario.writes[5], scenario.faults[2]

    def fails(one: Scenario) -> bool:
        changes = {some.change for some in one.writes}
        return write.change in changes and fault.kind in {some.kind for some in one.faults} and one.settings.shards > 1

    small = shrink(scenario, fails)
    assert [one.change for one in small.writes] == [write.change]
    assert [one.kind for one in small.faults] == [fault.kind]
    assert small.settings == Settings(shards=scenario.settings.shards)
    assert small.seed == scenario.seed


def test_runs_are_bounded() -> None:
    """After as many runs as allowed the smallest so far is returned, and it fails."""
    runs = 0

    def fails(one: Scenario) -> bool:
        nonlocal runs
        runs += 1
        return len(one.writes) > 3

    scenario = generate(1)
    small = shrink(scenario, fails, most_runs=5)
    assert runs == 5
    assert 3 < len(small.writes) < len(scenario.writes)


def test_what_always_fails_shrinks_to_nothing() -> None:
    """A failure that needs no write and no fault is found to need none."""
    small = shrink(generate(1), lambda _: True)
    assert (small.writes, small.faults, small.settings) == ((), (), Settings())
