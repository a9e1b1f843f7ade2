"""The relay on real processes, and a bus that fails all the time: nothing is lost, no key is out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bad_day import Bus, bad_day

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account


@pytest.mark.parametrize(
    "bus", ["events", pytest.param("sqs", marks=pytest.mark.slow), pytest.param("sns", marks=pytest.mark.slow)]
)
def test_a_bad_day_loses_nothing_and_keeps_the_order(
    bus: Bus, engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """10 % of the entries refused in a 200, one outage, and connections that are reset."""
    day = bad_day(engine.url, engine.account, tmp_path, bus=bus, events=200, keys=20)
    with capsys.disabled():
        print(f"\n{bus}: {day}")  # noqa: T201 -- what the test is there to show
    assert (day.events, day.lost, day.reordered) == (200, 0, 0)
    assert {"entry_rejected", "outage", "reset_before", "reset_after"} <= day.faults.keys()
    assert day.delivered_twice == (None if bus == "events" else 0)
