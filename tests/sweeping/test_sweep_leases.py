"""Who may sweep a partition, by whatever clocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_world import LEASE, MINUTE, NOW_MS

from dynamodb_outbox.core.record.leases import Lease
from dynamodb_outbox.core.sweeping.leases import MAY_TAKE, SKEW_MS, Held, Now, Standing, left_by, standing, wanted
from dynamodb_outbox.core.sweeping.tenure import Tenure

END = NOW_MS + 30_000
THEIRS = Lease("other", 7, END)
LONG = Lease("other", 7, NOW_MS + 5 * LEASE, lasts_ms=5 * LEASE)


@pytest.mark.parametrize(
    ("lease", "now_ms", "expected"),
    [
        (None, NOW_MS, Standing.NONE),
        (Lease("", 8, 0, NOW_MS), NOW_MS, Standing.LEFT),
        (Lease("me", 7, END), NOW_MS, Standing.OWN),
        (THEIRS, NOW_MS, Standing.LASTS),
        (THEIRS, END + SKEW_MS - 1, Standing.LASTS),  # the two clocks may differ by that much
        (THEIRS, END + SKEW_MS, Standing.OVER),
        (THEIRS, END - LEASE - SKEW_MS, Standing.LASTS),
        (THEIRS, END - LEASE - SKEW_MS - 1, Standing.ABSURD),  # this clock went back, or theirs was ahead
        (LONG, NOW_MS, Standing.LASTS),  # who took it has other time-outs
        (LONG, NOW_MS - SKEW_MS - 1, Standing.ABSURD),
        (replace(LONG, until_ms=NOW_MS + 365 * 24 * 60 * MINUTE), NOW_MS, Standing.ABSURD),
    ],
)
def test_what_a_stored_lease_is_to_who_asks(lease: Lease | None, now_ms: int, expected: Standing) -> None:
    """The whole table of standings."""
    assert standing(lease, "me", now_ms) is expected


def test_only_a_lease_that_lasts_keeps_others_out() -> None:
    """Everything else may be taken: a wrong clock costs duplicates, and never keeps everybody out for good."""
    assert [each for each in Standing if not MAY_TAKE[each]] == [Standing.LASTS]


@given(st.integers(-(10**13), 10**13), st.integers(-(10**13), 10**13), st.integers(1, 10**7))
def test_no_lease_keeps_others_out_for_longer_than_it_lasts_and_clocks_differ(
    until_ms: int, now_ms: int, lasts_ms: int
) -> None:
    """Whatever its date and the clock of who asks: a moment later by that much it may be taken."""
    lease = Lease("other", 1, until_ms, lasts_ms=lasts_ms)
    later = now_ms + lasts_ms + 2 * SKEW_MS
    assert MAY_TAKE[standing(lease, "me", now_ms)] or MAY_TAKE[standing(lease, "me", later)]


def test_each_write_has_a_version_of_its_own_and_leaving_notes_the_time() -> None:
    """So whoever saw another one is refused."""
    taken = wanted("me", None, NOW_MS, LEASE)
    assert taken == Lease("me", 1, NOW_MS + LEASE)
    kept = wanted("me", taken, NOW_MS + 20_000, LEASE)
    assert kept == Lease("me", 2, NOW_MS + 20_000 + LEASE)
    left = left_by(kept, NOW_MS + MINUTE)
    assert left == Lease("", 3, 0, NOW_MS + MINUTE)
    longer = Lease("other", 4, NOW_MS + 5 * LEASE, NOW_MS + MINUTE, 5 * LEASE)
    assert wanted("other", left, NOW_MS, 5 * LEASE) == longer


@pytest.mark.parametrize(
    ("wall", "steady", "left"),
    [
        (0, 0, LEASE),
        (20_000, 20_000, LEASE - 20_000),
        (-3_600_000, 20_000, LEASE - 20_000),  # the wall clock was set back
        (20_000, 0, LEASE - 20_000),  # the process was frozen, and the steady clock with it
        (3_600_000, 20_000, 0),  # set ahead, or asleep for an hour: better ask
        (0, LEASE + 1, 0),
    ],
)
def test_the_own_lease_ends_by_the_clock_that_says_more(wall: int, steady: int, left: int) -> None:
    """From before the request that wrote it."""
    held = Held(Lease("me", 1, NOW_MS + LEASE), Now(NOW_MS, 1_000))
    assert held.left_ms(Now(NOW_MS + wall, 1_000 + steady), LEASE) == left


def test_a_tenure_goes_from_seen_to_left() -> None:
    """It is missing until it is written, counts from before the request, and is missing again when it is lost."""
    now = Now(NOW_MS, 1_000)
    tenure = Tenure("me", LEASE)
    assert (tenure.is_missing, tenure.is_held, tenure.left_ms(now), tenure.last(now)) == (True, False, 0, None)
    assert tenure.may_be_taken(Lease("", 4, 0), now)
    asked = tenure.next(now)
    assert tenure.is_missing
    tenure.written()
    later = Now(NOW_MS + 5_000, 6_000)
    assert (tenure.seen, tenure.is_held, tenure.left_ms(later)) == (asked, True, LEASE - 5_000)
    assert tenure.last(later) == Lease("", 6, 0, NOW_MS + 5_000)
    tenure.lost()
    assert (tenure.is_missing, tenure.last(later)) == (True, None)
    assert not tenure.may_be_taken(THEIRS, now)


def test_where_there_is_no_lease_none_is_missing() -> None:
    """A table whose keys are no text has no place for it."""
    tenure = Tenure("me", None)
    assert (tenure.is_missing, tenure.is_held) == (False, False)
    assert tenure.left_ms(Now(0, 0)) > 3_600_000
