"""Alarms can start: with every setting that a deployment takes, their metrics have as many values as they look for."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import RECORD_AGE_S, Alarm

if TYPE_CHECKING:
    from collections.abc import Iterator

BACKOFF_S = 60
"""The longest that Lambda is taken to wait before a batch is handed over again."""
LATE_S = 60
"""How late a schedule may be."""
DAY_S = 86_400
"""As far back as CloudWatch looks by periods of less than an hour [BC, PutMetricAlarm]."""
SETTINGS: list[dict[str, Any]] = [
    {"timeout_s": timeout_s, "sweep_minutes": sweep_minutes, "lag_minutes": lag_minutes}
    for timeout_s, sweep_minutes, lag_minutes in product(
        (15, 29, 30, 31, 45, 61, 900), (1, 2, 3, 5, 7, 29, 30, 60), (1, 360)
    )
]


def longest_gap_s(metric: str, function: str, deployment: Deployment) -> int:
    """Return the longest time from one value of a metric to the next, while there is what its alarm is for.

    Values of Lambda are those of invocations: a relay that is behind has one after the other, a sweeper is on a
    schedule. A table is written to all the time where its silence means something.
    """
    of_sweep_s = 60 * deployment.sweep_minutes + LATE_S
    if function == "Sweeper" or metric == "OldestPending":
        return of_sweep_s
    return {"IteratorAge": deployment.timeout_s + BACKOFF_S, "Throttles": BACKOFF_S}.get(metric, 1)


def values_in(alarm: Alarm, deployment: Deployment) -> int:
    """Return in how many of the periods that an alarm looks at its metric has a value, at least."""
    period_s = alarm.metrics[0].period_s
    function = getattr(alarm.metrics[0].dimensions.get("FunctionName"), "resource", "")
    gap_s = max(longest_gap_s(each.name, function, deployment) for each in alarm.metrics)
    return alarm.periods if gap_s <= period_s else alarm.periods * period_s // gap_s


def made() -> Iterator[tuple[Deployment, dict[str, Alarm]]]:
    """Yield each deployment, and its alarms by id."""
    for settings in SETTINGS:
        deployment = Deployment(table="shop", sink="bus:orders", notify="ops@example.com", **settings)
        yield deployment, {each.id: each for each in resources_of(deployment) if isinstance(each, Alarm)}


def test_an_alarm_has_the_values_that_it_takes_to_start() -> None:
    """Else nothing that happens could ever start it. One value is enough where a single one is a fault."""
    for deployment, alarms in made():
        for each in alarms.values():
            assert each.datapoints == 1 or values_in(each, deployment) >= each.datapoints, (each, deployment)
            assert each.periods * each.metrics[0].period_s <= DAY_S, (each, deployment)


def test_what_is_late_is_told_while_the_mapping_still_tries() -> None:
    """And hours before it gives up: the oldest age is reached, and lasts for as long as the alarm looks."""
    for deployment, alarms in made():
        alarm = alarms["IteratorAgeAlarm"]
        told_s = alarm.threshold // 1000 + alarm.periods * alarm.metrics[0].period_s
        assert told_s <= RECORD_AGE_S - 3 * 3600, deployment


def test_a_sweeper_that_runs_is_not_told_to_have_stopped() -> None:
    """What is missing counts there, so each period has a sweep, also of a schedule that is late."""
    for deployment, alarms in made():
        alarm = alarms["SweeperStoppedAlarm"]
        assert (alarm.missing, values_in(alarm, deployment)) == ("breaching", alarm.periods), deployment


def test_an_alarm_on_the_table_says_of_what_is_missing_what_cloudwatch_makes_of_it() -> None:
    """It stays as it is [BC, PutMetricAlarm], and no other answer is given."""
    for _, alarms in made():
        for each in alarms.values():
            on_the_table = any(metric.namespace == "AWS/DynamoDB" for metric in each.metrics)
            assert on_the_table is (each.missing == "ignore"), each
