"""Consumers on real processes, killed again and again: each event is applied once, and tells once of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bad_deliveries import bad_deliveries

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account

DELIVERIES, EVENTS, KILLS = 300, 90, 3


@pytest.mark.slow
@pytest.mark.usefixtures("uncovered")
def test_each_event_is_applied_once_however_it_is_delivered(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More often than once, in no order, to two processes at once, which die in the midst of their work."""
    outcome = bad_deliveries(engine.url, engine.account, tmp_path, deliveries=DELIVERIES, events=EVENTS, kills=KILLS)
    with capsys.disabled():
        print(f"\n{outcome}")  # noqa: T201 -- what the test is there to show
    assert (outcome.effects, outcome.twice, outcome.missing, outcome.own_wrong) == (EVENTS, 0, 0, 0)
    assert (outcome.total, outcome.kills, outcome.drained) == (EVENTS, KILLS, 2)
    assert outcome.handled["Duplicate"] >= DELIVERIES - EVENTS
