"""The alarms of a deployment, and its dashboard: what an operator is told, and what there is to look at.

Each alarm is for one way in which events may be late, held, or lost. A metric that is missing is not an alarm, but for
the sweeper's invocations: it runs by the clock, so none at all means that nobody sweeps.

An alarm can start only if its metric has as many values, in the periods that are looked at, as have to be too high. So
a period is as long as it takes until there is one: of the relay the longest invocation, of the sweeper the time from
one sweep to the next.

*Silence* is what no other alarm sees. A mapping that was disabled or deleted, or that reads the stream of a table that
has another stream by now, has no iterator age and no errors: it has no metrics at all. Then the table is written to,
and nothing of its stream is polled. Where the table is not written to, CloudWatch leaves an alarm on a metric of
DynamoDB as it is, whatever is asked of it [BC, PutMetricAlarm]; which is right here: what was silent still is.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.metrics import (
    AGE,
    FAILED,
    NAMESPACE,
    OLDEST_PENDING,
    PARKED,
    PUBLISHED,
    RETRIED,
    SUPPRESSED,
    TABLE,
)
from dynamodb_outbox.infra.references import REGION, TABLE_NAME, Attribute, Value, joined
from dynamodb_outbox.infra.resources import EVENT_COUNTS, Alarm, Dashboard, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dynamodb_outbox.infra.deployment import Deployment

__all__ = ["alarms", "alarms_for", "dashboard"]

_LAMBDA = "AWS/Lambda"
_MINUTE_S = 60
_FIVE_S = 5 * _MINUTE_S

_RELAY = {"FunctionName": Attribute("Relay", "name")}
_SWEEPER = {"FunctionName": Attribute("Sweeper", "name")}
_TABLE = {"TableName": TABLE_NAME}
_OURS = {TABLE: TABLE_NAME}
_MAPPING = {"EventSourceMappingUUID": Attribute("RelayStream", "id")}


def alarms(deployment: Deployment, notify: Value) -> tuple[Alarm, ...]:
    """Return the alarms, which notify the topic with the ARN `notify`."""
    return alarms_for(
        deployment.prefix,
        notify,
        timeout_s=deployment.timeout_s,
        lag_minutes=deployment.lag_minutes,
        sweep_minutes=deployment.sweep_minutes,
    )


def alarms_for(
    prefix: str, notify: Value, *, timeout_s: int, lag_minutes: int, sweep_minutes: int
) -> tuple[Alarm, ...]:
    """Return the alarms of any deployment: these are all that they depend on, as `Deployment` has it."""
    found = _Alarms(prefix, notify, timeout_s, lag_minutes, sweep_minutes)
    return (*found.of_relay(), *found.of_records(), *found.of_sweeper())


class _Alarms:
    """Makes the alarms of a deployment."""

    def __init__(self, prefix: str, notify: Value, timeout_s: int, lag_minutes: int, sweep_minutes: int) -> None:
        self._prefix = prefix
        self._notify = notify
        self._late_ms = lag_minutes * _MINUTE_S * 1000
        self._invocation_s = _MINUTE_S * math.ceil(2 * timeout_s / _MINUTE_S)
        """A period in which an invocation of the relay begins, also when each one takes as long as it may."""
        self._sweep_s = max(_FIVE_S, 2 * sweep_minutes * _MINUTE_S)
        """A period in which there is a sweep."""
        self._from_sweep_to_sweep_s = max(_FIVE_S, sweep_minutes * _MINUTE_S)

    def of_relay(self) -> Iterator[Alarm]:
        """Yield those on the relay's function and its mapping."""
        yield self._alarm(
            "IteratorAge",
            "The relay is behind its stream. Records are gone from it after 24 hours.",
            _metric("IteratorAge", _RELAY, "Maximum", self._invocation_s),
            threshold=self._late_ms,
            periods=5,
            datapoints=3,
        )
        yield self._alarm(
            "Dropped",
            "The mapping gave records up, and stored them nowhere. The table has them; those in its index are swept.",
            _metric("DroppedEventCount", _MAPPING),
        )
        yield self._alarm(
            "GivenUp",
            "The mapping gave records up, and stored them at its on-failure destination.",
            _metric("OnFailureDestinationDeliveredEventCount", _MAPPING),
        )
        yield self._alarm(
            "GivenUpFailed",
            "The mapping could not store at its on-failure destination what it gave up.",
            _metric("DestinationDeliveryFailures", _RELAY),
        )
        yield self._alarm(
            "RelayErrors",
            "The relay failed as a whole: its set-up is wrong, or it ran out of time. Its log has the reason.",
            _metric("Errors", _RELAY),
        )
        yield self._alarm(
            "RelayThrottles",
            "The relay was not started for want of concurrency. Raise what is reserved, or the account's.",
            _metric("Throttles", _RELAY),
            periods=3,
            datapoints=3,
        )

    def of_records(self) -> Iterator[Alarm]:
        """Yield those on what becomes of the records."""
        yield self._alarm(
            "Parked",
            "Events were parked: their sink can never accept them as they are. Somebody has to decide.",
            _metric(PARKED, _OURS, namespace=NAMESPACE),
        )
        yield self._alarm(
            "OldestPending",
            "A committed event has not been published for a long time.",
            _metric(OLDEST_PENDING, _OURS, "Maximum", self._sweep_s, namespace=NAMESPACE),
            threshold=self._late_ms + 2 * self._sweep_s * 1000,
        )
        yield self._alarm(
            "Silence",
            "The table is written to, and nothing of its stream is read: the mapping is disabled, or reads another.",
            _metric("ConsumedWriteCapacityUnits", _TABLE, namespace="AWS/DynamoDB", id="writes"),
            _metric("PolledEventCount", _MAPPING, id="polled"),
            expression="IF(writes > 0 AND SUM([polled, writes * 0]) == 0, 1, 0)",
            periods=3,
            datapoints=3,
            missing="ignore",
        )

    def of_sweeper(self) -> Iterator[Alarm]:
        """Yield those on the sweeper's function."""
        yield self._alarm(
            "SweeperErrors",
            "The sweeper failed. Its log has the reason.",
            _metric("Errors", _SWEEPER, period_s=self._from_sweep_to_sweep_s),
            periods=3,
            datapoints=2,
        )
        yield self._alarm(
            "SweeperStopped",
            "The sweeper does not run: what the stream misses is not published.",
            _metric("Invocations", _SWEEPER, period_s=self._sweep_s),
            comparison="LessThanThreshold",
            threshold=1,
            periods=3,
            datapoints=3,
            missing="breaching",
        )

    def _alarm(self, what: str, says: str, *metrics: Metric, **more: Any) -> Alarm:
        found = Alarm(id=f"{what}Alarm", name="", says=says, metrics=metrics, notify=self._notify, **more)
        return replace(found, name=f"{self._prefix}-{found.slug}")


def _metric(
    name: str,
    dimensions: Mapping[str, Value],
    statistic: str = "Sum",
    period_s: int = _FIVE_S,
    *,
    namespace: str = _LAMBDA,
    id: str = "value",  # noqa: A002 -- the word of CloudWatch
) -> Metric:
    return Metric(id=id, namespace=namespace, name=name, dimensions=dimensions, statistic=statistic, period_s=period_s)


_WIDGETS: tuple[tuple[str, str, tuple[tuple[str, str, Mapping[str, Value]], ...]], ...] = (
    ("How late the relay is (ms)", "Maximum", ((_LAMBDA, "IteratorAge", _RELAY),)),
    ("Records of the stream", "Sum", tuple((_LAMBDA, name, _MAPPING) for name in EVENT_COUNTS)),
    ("Relay", "Sum", tuple((_LAMBDA, name, _RELAY) for name in ("Invocations", "Errors", "Throttles"))),
    ("Relay: duration (ms)", "Maximum", ((_LAMBDA, "Duration", _RELAY),)),
    ("Relay: concurrency", "Maximum", ((_LAMBDA, "ConcurrentExecutions", _RELAY),)),
    ("Sweeper", "Sum", tuple((_LAMBDA, name, _SWEEPER) for name in ("Invocations", "Errors"))),
)
_EVENTS = (PUBLISHED, RETRIED, SUPPRESSED, FAILED, PARKED)
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 6


def dashboard(deployment: Deployment, watched: Sequence[Alarm]) -> Dashboard:
    """Return the dashboard: the alarms, and the metrics behind them."""
    own = (
        ("Events", "Sum", tuple((NAMESPACE, name, _OURS) for name in _EVENTS)),
        ("From commit to acceptance (ms)", "p99", ((NAMESPACE, AGE, _OURS),)),
        ("Oldest pending record (ms)", "Maximum", ((NAMESPACE, OLDEST_PENDING, _OURS),)),
        ("Writes", "Sum", (("AWS/DynamoDB", "ConsumedWriteCapacityUnits", _TABLE),)),
    )
    widgets: list[dict[str, Any]] = [
        {
            "type": "alarm",
            "width": _COLUMNS * _WIDTH,
            "height": 3,
            "properties": {"title": "Alarms", "alarms": [Attribute(each.id, "arn") for each in watched]},
        }
    ]
    for title, statistic, metrics in (*_WIDGETS, *own):
        lines = [
            [namespace, name, *(part for pair in dimensions.items() for part in pair)]
            for namespace, name, dimensions in metrics
        ]
        properties = {"title": title, "stat": statistic, "period": _FIVE_S, "region": REGION, "metrics": lines}
        widgets.append({"type": "metric", "width": _WIDTH, "height": _HEIGHT, "properties": properties})
    return Dashboard(
        id="Dashboard",
        name=deployment.prefix,
        body=joined('{"widgets": [\n  ', *_between(list(map(_json, widgets)), ",\n  "), "\n]}"),
    )


def _json(value: Any) -> Value:
    """Return JSON text with references in it."""
    if isinstance(value, dict):
        parts = [joined(f"{json.dumps(name)}: ", _json(inner)) for name, inner in value.items()]
        return joined("{", *_between(parts), "}")
    if isinstance(value, list):
        return joined("[", *_between([_json(inner) for inner in value]), "]")
    if isinstance(value, (str, int)):
        return json.dumps(value)
    return joined('"', value, '"')


def _between(parts: Sequence[Value], comma: str = ", ") -> list[Value]:
    found: list[Value] = []
    for place, part in enumerate(parts):
        found += [comma, part] if place else [part]
    return found
