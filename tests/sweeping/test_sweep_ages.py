"""Which records are old enough, and how far behind the relay is taken to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_world import MINUTE, NOW_MS

from dynamodb_outbox.core.sweeping.ages import AHEAD_MS, LAG_COUNTS_MS, NO_LAG, Ages, Lag

TIMES = st.integers(0, 2 * NOW_MS)


@pytest.mark.parametrize(
    ("min_age", "lag", "age", "due"),
    [
        (5, 0, 5, True),
        (5, 0, 4.99, False),
        (5, 2, 5, True),  # twice the lag is less than the least age
        (5, 3, 5.99, False),
        (5, 3, 6, True),
        (0, 0, 0, True),
        (5, 0, -4, False),  # a little ahead: it will be old in time
        (5, 0, -5, False),
        (5, 0, -5.01, True),  # nobody waits for that
        (5, 60, -60 * 24 * 365, True),
    ],
)
def test_a_record_is_due_when_it_is_old_enough_or_dated_far_ahead(
    min_age: int, lag: int, age: float, due: bool
) -> None:
    """Old enough is the larger of the least age and twice the lag; the ages are minutes."""
    ages = Ages.of(NOW_MS, min_age * MINUTE, lag * MINUTE)
    assert ages.is_due(NOW_MS - round(age * MINUTE)) is due


@given(TIMES, TIMES, st.integers(0, 24 * 60 * MINUTE), st.integers(0, 24 * 60 * MINUTE))
def test_what_is_dated_far_ahead_stands_between_the_old_and_the_young(
    one: int, other: int, min_age: int, lag: int
) -> None:
    """Of two records, one due and one not, the due one has the lower date; ahead ones are the last of the due."""
    ages = Ages.of(NOW_MS, min_age, lag)
    if ages.is_due(one) and not ages.is_due(other):
        assert ages.dated(one) < ages.dated(other)
    if ages.is_ahead(one):
        assert ages.dated(one) == ages.cutoff_ms
    else:
        assert ages.dated(one) == one
    assert ages.is_ahead(one) is (one > NOW_MS + AHEAD_MS)


def test_a_lag_counts_for_ten_minutes_from_when_it_was_last_met() -> None:
    """It grows at once, and shrinks only when it has not been met for that long."""
    lag = NO_LAG.met(60 * MINUTE, 1_000)
    assert lag.at(1_000) == 60 * MINUTE
    assert lag.met(10 * MINUTE, 2_000) == lag
    again = lag.met(70 * MINUTE, 2_000)
    assert again == Lag(70 * MINUTE, 2_000)
    assert again.at(2_000 + LAG_COUNTS_MS - 1) == 70 * MINUTE
    assert again.at(2_000 + LAG_COUNTS_MS) == 0
    assert again.met(1_000, 2_000 + LAG_COUNTS_MS) == Lag(1_000, 2_000 + LAG_COUNTS_MS)
