"""The alarm `silence`, worked out: the local engine takes no alarm on an expression."""

from __future__ import annotations

import pytest
from metric_math import Point, starts

from deployments import DEPLOYMENTS
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import Alarm

(SILENCE,) = (
    each for each in resources_of(DEPLOYMENTS["plain"]) if isinstance(each, Alarm) and each.id == "SilenceAlarm"
)


@pytest.mark.parametrize(
    ("writes", "polled", "silent"),
    [
        ((9, 4, 7), (9, 4, 7), False),
        ((9, 4, 7), (0, 0, 0), True),
        ((9, 4, 7), (None, None, None), True),
        ((9, 4, 7), (None, 0, None), True),
        ((9, 4, 7), (None, None, 1), False),
        ((0, 0, 0), (0, 0, 0), False),
        ((0, 0, 0), (None, None, None), False),
        ((None, None, None), (None, None, None), False),
        ((None, None, None), (0, 0, 0), False),
        ((9, None, 7), (None, None, None), False),
        ((None, 0, 7), (3, None, 7), False),
    ],
    ids=[
        "all is well",
        "nothing is polled",
        "the mapping has no metrics at all",
        "none, or none at all",
        "it is polled again",
        "nobody writes",
        "nobody writes, and the mapping is gone",
        "the table has no metrics at all",
        "nor anything to poll",
        "it is written to now and then",
        "it has just begun",
    ],
)
def test_silence_is_writes_of_which_nothing_is_polled(
    writes: tuple[Point, ...], polled: tuple[Point, ...], silent: bool
) -> None:
    """In three periods, one after the other; a metric that is missing counts as nothing polled, and nothing written."""
    assert starts(SILENCE, [{"writes": w, "polled": p} for w, p in zip(writes, polled, strict=True)]) is silent


def test_silence_compares_what_is_written_to_the_table_with_what_the_mapping_polls() -> None:
    """Sums of the same periods, by the names that its expression uses."""
    assert {each.id: (each.name, each.statistic, each.period_s) for each in SILENCE.metrics} == {
        "writes": ("ConsumedWriteCapacityUnits", "Sum", 300),
        "polled": ("PolledEventCount", "Sum", 300),
    }
