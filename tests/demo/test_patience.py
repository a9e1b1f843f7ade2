"""Patience: a wait ends when it is done, when nothing moves any more, or when its time is over."""

from __future__ import annotations

import pytest

from dynamodb_outbox.local.demo.patience import Patience


def over_after(looks: list[tuple[float, bool, object]]) -> float | None:
    """Return the time of the look at which a wait from 0 was over, None when it was not."""
    patience = Patience(0, within_s=100, still_s=2, quiet_s=10)
    return next((now for now, done, picture in looks if patience.over(now, done=done, picture=picture)), None)


@pytest.mark.parametrize(
    ("looks", "end"),
    [
        ([(1, False, 1), (2, True, 2), (3, True, 3), (4, True, 4)], 4),  # done for two seconds
        ([(1, True, 1), (2, False, 2), (3, True, 3), (4.9, True, 4)], None),  # not done in between
        ([(1, False, 1), (5, False, 1), (10.9, False, 1), (11, False, 1)], 11),  # nothing moved for ten seconds
        ([(1, False, 1), (9, False, 2), (18, False, 2), (19, False, 2)], 19),  # something moved at 9
        ([(float(second), False, second) for second in range(1, 120)], 100),  # its time was over
    ],
)
def test_a_wait_is_over(looks: list[tuple[float, bool, object]], end: float | None) -> None:
    """See the comment at each case: time, whether done, and what the world looked like."""
    assert over_after(looks) == end


def test_what_is_to_be_done_for_no_time_is_over_at_once() -> None:
    """With still_s=0 the first look that finds it done ends the wait."""
    assert Patience(0, within_s=1, still_s=0).over(0.1, done=True, picture=0)
