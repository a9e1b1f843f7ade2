"""The alarms of a deployment, and its dashboard: what an operator is told, and what there is to look at.

Each alarm is for one way in which events may be late, held, or lost. A metric that is missing is not an alarm, but for
the sweeper's invocations: it runs by the clock, so none at all means that nobody sweeps.

*Silence* is what no other alarm sees. A mapping that was disabled or deleted, or that reads the stream of a table that
has another stream by now, has no iterator age and no errors: it has no metrics at all. Then the table is written to,
and nothing of its stream is polled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.metrics import NAMESPACE, OLDEST_PENDING, PARKED, TABLE
from dynamodb_outbox.infra.references import REGION, TABLE_NAME, Attribute, Value, joined
from dynamodb_outbox.infra.resources import Alarm, Dashboard, Metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.infra.deployment import Deployment

__all__ = ["alarms", "dashboard"]

_LAMBDA = "AWS/Lambda"
_MINUTE_S = 60
_FIVE_S = 5 * _MINUTE_S

_RELAY = {"FunctionName": Attribute("Relay", "name")}
_SWEEPER = {"FunctionName": Attribute("Sweeper", "name")}
_MAPPING = {"EventSourceMappingUUID": Attribute("RelayStream", "id")}


def alarms(deployment: Deployment, notify: Value) -> tuple[Alarm, ...]:
    """Return the alarms, which notify the topic with the ARN `notify`."""
    late_ms = deployment.lag_minutes * _MINUTE_S * 1000
    sweep_s = _sweep_period_s(deployment)
    ours = {TABLE: TABLE_NAME}

    def alarm(what: str, words: str, says: str, *metrics: Metric, **more: Any) -> Alarm:
        return Alarm(
            id=f"{what}Alarm", name=f"{deployment.prefix}-{words}", says=says, metrics=metrics, notify=notify, **more
        )

    return (
        alarm(
            "IteratorAge",
            "iterator-age",
            "The relay is behind its stream. Records are gone from it after 24 hours.",
            _metric("IteratorAge", _RELAY, "Maximum", _MINUTE_S),
            threshold=late_ms,
            periods=5,
            datapoints=3,
        ),
        alarm(
            "Dropped",
            "dropped",
            "The mapping gave records up, and stored them nowhere. They are still pending in the table.",
            _metric("DroppedEventCount", _MAPPING),
        ),
        alarm(
            "GivenUp",
            "given-up",
            "The mapping gave records up, and stored them at its on-failure destination.",
            _metric("OnFailureDestinationDeliveredEventCount", _MAPPING),
        ),
        alarm(
            "GivenUpFailed",
            "given-up-failed",
            "The mapping could not store at its on-failure destination what it gave up.",
            _metric("DestinationDeliveryFailures", _RELAY),
        ),
        alarm(
            "RelayErrors",
            "relay-errors",
            "The relay failed as a whole: its set-up is wrong, or it ran out of time. Its log has the reason.",
            _metric("Errors", _RELAY),
        ),
        alarm(
            "RelayThrottles",
            "relay-throttles",
            "The relay was not started for want of concurrency. Raise what is reserved, or the account's.",
            _metric("Throttles", _RELAY),
            periods=3,
            datapoints=3,
        ),
        alarm(
            "Parked",
            "parked",
            "Events are parked: their sink can never accept them as they are. Somebody has to decide.",
            _metric(PARKED, ours, "Maximum", sweep_s, namespace=NAMESPACE),
        ),
        alarm(
            "OldestPending",
            "oldest-pending",
            "A committed event has not been published for a long time.",
            _metric(OLDEST_PENDING, ours, "Maximum", sweep_s, namespace=NAMESPACE),
            threshold=late_ms + 2 * sweep_s * 1000,
        ),
        alarm(
            "Silence",
            "silence",
            "The table is written to, and nothing of its stream is read: the mapping is disabled, or reads another.",
            Metric(
                id="writes",
                namespace="AWS/DynamoDB",
                name="ConsumedWriteCapacityUnits",
                dimensions={"TableName": TABLE_NAME},
                statistic="Sum",
                period_s=_FIVE_S,
            ),
            _metric("PolledEventCount", _MAPPING, id="polled"),
            expression="IF(writes > 0 AND SUM([polled, writes * 0]) == 0, 1, 0)",
            periods=3,
            datapoints=3,
        ),
        alarm(
            "SweeperErrors",
            "sweeper-errors",
            "The sweeper failed. Its log has the reason.",
            _metric("Errors", _SWEEPER),
            periods=3,
            datapoints=2,
        ),
        alarm(
            "SweeperStopped",
            "sweeper-stopped",
            "The sweeper does not run: what the stream misses stays pending.",
            _metric("Invocations", _SWEEPER, period_s=sweep_s),
            comparison="LessThanThreshold",
            threshold=1,
            periods=3,
            datapoints=3,
            missing="breaching",
        ),
    )


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


def _sweep_period_s(deployment: Deployment) -> int:
    """Return a period that holds a sweep at least, of those that CloudWatch takes: a multiple of a minute."""
    return max(_FIVE_S, 2 * deployment.sweep_minutes * _MINUTE_S)


_MAPPED = (
    "PolledEventCount",
    "FilteredOutEventCount",
    "InvokedEventCount",
    "FailedInvokeEventCount",
    "DroppedEventCount",
    "OnFailureDestinationDeliveredEventCount",
)
_WIDGETS: tuple[tuple[str, str, tuple[tuple[str, str, Mapping[str, Value]], ...]], ...] = (
    ("How late the relay is (ms)", "Maximum", ((_LAMBDA, "IteratorAge", _RELAY),)),
    ("Records of the stream", "Sum", tuple((_LAMBDA, name, _MAPPING) for name in _MAPPED)),
    ("Relay", "Sum", tuple((_LAMBDA, name, _RELAY) for name in ("Invocations", "Errors", "Throttles"))),
    ("Relay: duration (ms)", "Maximum", ((_LAMBDA, "Duration", _RELAY),)),
    ("Relay: concurrency", "Maximum", ((_LAMBDA, "ConcurrentExecutions", _RELAY),)),
    ("Sweeper", "Sum", tuple((_LAMBDA, name, _SWEEPER) for name in ("Invocations", "Errors"))),
)
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 6


def dashboard(deployment: Deployment, watched: Sequence[Alarm]) -> Dashboard:
    """Return the dashboard: the alarms, and the metrics behind them."""
    ours = {TABLE: TABLE_NAME}
    own = (
        ("Parked records", "Maximum", ((NAMESPACE, PARKED, ours),)),
        ("Oldest pending record (ms)", "Maximum", ((NAMESPACE, OLDEST_PENDING, ours),)),
        ("Writes", "Sum", (("AWS/DynamoDB", "ConsumedWriteCapacityUnits", {"TableName": TABLE_NAME}),)),
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
