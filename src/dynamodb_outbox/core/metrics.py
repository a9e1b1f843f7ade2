"""The library's metrics: their names, units and meaning, and how a fact becomes values of them, as one table.

What reports them (`dynamodb_outbox.metrics`), what alarms on them (`infra.alarms`) and the table in docs/metrics.md are
all told by it. All have one dimension, the table, so that they cost the same however many functions report them;
`Failed` has the code besides. A code is whatever a sink says; as a dimension it is text that CloudWatch takes, and each
new one is a metric that is paid for, so an observer tells no more than `CODES` of them apart.

A metric is a function of a fact to its values; without one nothing is reported, which is not the same as 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import DIMENSION_LENGTH, METRIC_VALUES
from dynamodb_outbox.core.relay.facts import Relayed
from dynamodb_outbox.core.sweeping.commands import Swept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "AGE",
    "CODE",
    "CODES",
    "FAILED",
    "METRICS",
    "NAMESPACE",
    "OLDEST_PENDING",
    "OTHER",
    "PARKED",
    "PUBLISHED",
    "RETRIED",
    "SUPPRESSED",
    "TABLE",
    "Metric",
    "dimension",
    "values_of",
]

NAMESPACE = "DynamoDBOutbox"
TABLE = "Table"
CODE = "Code"
CODES, OTHER = 50, "Other"
"""How many codes an observer tells apart, and what it calls the further ones."""
PUBLISHED, RETRIED, SUPPRESSED = "Published", "Retried", "DuplicatesSuppressed"
PARKED, FAILED, AGE, OLDEST_PENDING = "Parked", "Failed", "Age", "OldestPending"

_NOT_PRINTABLE = re.compile(r"[^ -~]")


@dataclass(frozen=True)
class Metric:
    """One metric: its name, CloudWatch's unit of it, what it says, of which fact, and its values there."""

    name: str
    unit: str
    says: str
    of: type[Relayed] | type[Swept]
    values: Callable[[Any], Sequence[float]]


def _count(of: Callable[[Relayed], int]) -> Callable[[Relayed], Sequence[float]]:
    return lambda fact: (of(fact),)


def _fill(fact: Relayed) -> Sequence[float]:
    return (100 * fact.sent / fact.room,) if fact.room else ()


def _ages(fact: Relayed) -> Sequence[float]:
    """Return the ages, or as many of them as a document takes, evenly from the least to the greatest."""
    ages = sorted(fact.ages_ms)
    if len(ages) <= METRIC_VALUES:
        return ages
    return [ages[place * (len(ages) - 1) // (METRIC_VALUES - 1)] for place in range(METRIC_VALUES)]


METRICS = (
    Metric(PUBLISHED, "Count", "events that their sink accepted", Relayed, _count(lambda fact: fact.accepted)),
    Metric(
        SUPPRESSED,
        "Count",
        "events that were delivered again and not published again, since the instance knew them as accepted",
        Relayed,
        _count(lambda fact: fact.known),
    ),
    Metric(
        RETRIED,
        "Count",
        "events that met a fault and were accepted after it, in the same invocation",
        Relayed,
        _count(lambda fact: fact.recovered),
    ),
    Metric(PARKED, "Count", "events that were stored as parked", Relayed, _count(lambda fact: fact.parked)),
    Metric(
        FAILED,
        "Count",
        "events that were neither accepted nor parked in an invocation; with the dimension `Code` by the last fault",
        Relayed,
        _count(lambda fact: sum(fact.failed.values())),
    ),
    Metric(
        "SettleFailures",
        "Count",
        "records that were published and could not be settled; a sweep publishes them again",
        Relayed,
        _count(lambda fact: fact.unsettled),
    ),
    Metric("BatchFill", "Percent", "how full publish requests were, by entries", Relayed, _fill),
    Metric(
        AGE,
        "Milliseconds",
        "from the event's time, which is that of its commit, to its acceptance; of more than 100 events in one "
        "invocation 100, evenly from the least to the greatest",
        Relayed,
        _ages,
    ),
    Metric(
        "SplitKeys",
        "Count",
        "ordering keys of which events came from two partitions of the table, and so have no order",
        Relayed,
        _count(lambda fact: fact.split_keys),
    ),
    Metric(
        OLDEST_PENDING,
        "Milliseconds",
        "how old the oldest pending record is that a sweep was named by the index; 0 where there was none",
        Swept,
        lambda fact: (fact.report.oldest_ms,),
    ),
    Metric(
        "SweptAccepted",
        "Count",
        "events that a sweep published: what the stream has missed; they are in `Published`, too",
        Swept,
        lambda fact: (fact.report.accepted,),
    ),
    Metric(
        "SweptLeft",
        "Count",
        "records that are old enough, and that a sweep could not publish",
        Swept,
        lambda fact: (fact.report.left,),
    ),
)


def dimension(text: str) -> str:
    """Return text as the value of a dimension: CloudWatch takes printable ASCII that is not blank, and not too much."""
    told = _NOT_PRINTABLE.sub("?", text)[:DIMENSION_LENGTH]
    return told if told.strip() else "Unknown"


def values_of(fact: object) -> dict[Metric, Sequence[float]]:
    """Return the metrics of a fact that have values; none for one that is measured by none."""
    found = {metric: metric.values(fact) for metric in METRICS if isinstance(fact, metric.of)}
    return {metric: values for metric, values in found.items() if values}
