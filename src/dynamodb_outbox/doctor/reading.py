"""From resources to what the rules look at: a table, a mapping, an alarm, where events go.

Where a property is not there, what counts is the default of the service. An account's answers name every property.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import BATCH_RECORDS, FUNCTION_MEMORY_MB, FUNCTION_TIMEOUT_MS
from dynamodb_outbox.doctor.inventory import ANY_REGION, Seen, Unseen, function_name, segments
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.system import Alarm, Index, Keys, Metric, Schedule, StreamMapping, Table, Target, Topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.choices import SinkKind
    from dynamodb_outbox.doctor.inventory import Piece
    from dynamodb_outbox.doctor.resource_policies import Policy

__all__ = [
    "DEFAULT_MEMORY_MB",
    "DEFAULT_TIMEOUT_S",
    "alarm_of",
    "kind_of",
    "mapping_of",
    "schedule_of",
    "table_of",
    "target_of",
    "topic_of",
]

DEFAULT_TIMEOUT_S = FUNCTION_TIMEOUT_MS // 1000
DEFAULT_MEMORY_MB = FUNCTION_MEMORY_MB
_FOREVER = -1
_CONFIRMED = ("Enabled", "Enabling", "Updating", "Creating")
_RUNNING = ("ENABLED", "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS")
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_MINUTES = {"minute": 1.0, "hour": 60.0, "day": 1440.0}


def table_of(piece: Piece) -> Table:
    """Return a table: one of a Region, or a global one as this Region's replica has it."""
    found = Properties(piece.properties)
    replicas = _replicas(found, segments(piece.arn)[3])
    replica = None if isinstance(replicas, Unseen) else replicas[0]
    own = found if replica is None or piece.kind == "AWS::DynamoDB::Table" else Properties(replica)
    enabled = found.flag("TimeToLiveSpecification", "Enabled")
    view = found.text("StreamSpecification", "StreamViewType")
    return Table(
        name=str(found.raw("TableName") or piece.id),
        arn=piece.arn,
        status=found.text("TableStatus"),
        stream=found.text("StreamArn") if view is not None else None,
        view=view,
        keys=_keys(found, found),
        indexes=_indexes(found),
        ttl=found.text("TimeToLiveSpecification", "AttributeName") if enabled is True else _hidden(enabled),
        recovery=own.flag("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"),
        protected=own.flag("DeletionProtectionEnabled"),
        replicas=replicas if isinstance(replicas, Unseen) else replicas[1],
        consistency=_or(found.text("MultiRegionConsistency"), "EVENTUAL"),
        key=(found if found.raw("SSESpecification", "KMSMasterKeyId") else own).text(
            "SSESpecification", "KMSMasterKeyId"
        ),
        ttl_values=found.items("TimeToLiveValues"),
        by_hand=_number(found, "WrittenByHand", 0),
    )


def _hidden(value: Seen[bool]) -> Unseen | None:
    return value if isinstance(value, Unseen) else None


def _or(value: Seen[str | None], default: str) -> Seen[str]:
    return default if value is None else value


def _replicas(found: Properties, region: str) -> Seen[tuple[Mapping[str, Any] | None, tuple[str, ...]]]:
    """Return this Region's replica, where a global table describes it, and the names of the other Regions."""
    parts = found.parts("Replicas")
    if isinstance(parts, Unseen):
        return parts
    named: dict[str, Any] = {}
    for each in parts:
        name = each.text("Region")
        if isinstance(name, Unseen):
            return name
        named[str(name)] = each.raw()
    own = region if region in named else ANY_REGION if ANY_REGION in named else None
    if own is None and region == ANY_REGION and named:
        own = next(iter(named))  # whichever it is deployed to: replicas of a template are alike, or should be
    return named.get(own or ""), tuple(name for name in named if name != own)


def _keys(schema: Properties, table: Properties) -> Seen[Keys]:
    keys, types = schema.parts("KeySchema"), table.parts("AttributeDefinitions")
    if isinstance(keys, Unseen):
        return keys
    ordered = sorted(keys, key=lambda each: str(each.raw("KeyType")))  # HASH, RANGE
    names = [each.text("AttributeName") for each in ordered]
    told = () if isinstance(types, Unseen) else types
    known = {each.text("AttributeName"): each.text("AttributeType") for each in told}
    kinds = [types if isinstance(types, Unseen) else known.get(each) for each in names]
    hidden = next((each for each in (*names, *kinds) if isinstance(each, Unseen)), None)
    return hidden or tuple((str(name), _text(kind)) for name, kind in zip(names, kinds, strict=True))


def _text(value: Seen[str | None]) -> str | None:
    return None if isinstance(value, Unseen) else value


def _indexes(table: Properties) -> Seen[tuple[Index, ...]]:
    found = table.parts("GlobalSecondaryIndexes")
    if isinstance(found, Unseen):
        return found
    return tuple(
        Index(
            name=str(each.raw("IndexName")),
            status=each.text("IndexStatus"),
            keys=_keys(each, table),
            projected=None
            if each.raw("Projection", "ProjectionType") == "ALL"
            else each.texts("Projection", "NonKeyAttributes"),
        )
        for each in found
    )


def mapping_of(piece: Piece) -> StreamMapping:
    """Return an event source mapping. Raises nothing for one on another kind of source."""
    found = Properties(piece.properties)
    function = found.text("FunctionName")
    state, enabled = found.text("State"), found.flag("Enabled", default=True)
    if isinstance(state, str):
        enabled = state in _CONFIRMED
    filters = found.parts("FilterCriteria", "Filters")
    return StreamMapping(
        id=piece.arn.rpartition(":")[2],
        name=piece.id,
        function="" if function is None or isinstance(function, Unseen) else function_name(function),
        stream=_or(found.text("EventSourceArn"), ""),
        enabled=enabled,
        state=_or(state, "Enabled" if enabled is True else "Disabled"),
        result=found.text("LastProcessingResult"),
        batch_size=_number(found, "BatchSize", BATCH_RECORDS),
        window_s=_number(found, "MaximumBatchingWindowInSeconds", 0),
        tumbling_s=_number(found, "TumblingWindowInSeconds", 0),
        parallelization=_number(found, "ParallelizationFactor", 1),
        retries=_number(found, "MaximumRetryAttempts", _FOREVER),
        record_age_s=_number(found, "MaximumRecordAgeInSeconds", _FOREVER),
        bisects=found.flag("BisectBatchOnFunctionError"),
        responses=found.texts("FunctionResponseTypes"),
        start=found.text("StartingPosition"),
        filters=filters if isinstance(filters, Unseen) else _all_text([each.text("Pattern") for each in filters]),
        on_failure=found.text("DestinationConfig", "OnFailure", "Destination"),
        metrics=found.texts("MetricsConfig", "Metrics"),
    )


def _number(found: Properties, name: str, default: int) -> Seen[int]:
    value = found.number(name, default=default)
    return default if value is None else value


def _all_text(values: list[Seen[str | None]]) -> Seen[tuple[str, ...]]:
    hidden = next((each for each in values if isinstance(each, Unseen)), None)
    return hidden if hidden is not None else tuple(str(each or "") for each in values)


def alarm_of(piece: Piece, relayed: Seen[bool]) -> Alarm:
    """Return an alarm; `relayed` is whether another one notifies for it."""
    found = Properties(piece.properties)
    return Alarm(
        name=str(found.raw("AlarmName") or piece.id),
        metrics=_metrics(found),
        computed=_is_computed(found),
        comparison=found.text("ComparisonOperator"),
        threshold=found.decimal("Threshold"),
        missing=found.text("TreatMissingData"),
        enabled=found.flag("ActionsEnabled", default=True),
        actions=found.texts("AlarmActions"),
        relayed=relayed,
    )


def _is_computed(found: Properties) -> bool:
    parts = found.parts("Metrics")
    return isinstance(parts, tuple) and any(each.raw("Expression") is not None for each in parts)


def _metrics(found: Properties) -> Seen[tuple[Metric, ...]]:
    if found.raw("MetricName") is not None:
        metric = _metric(found)
        return metric if isinstance(metric, Unseen) else (metric,)
    parts = found.parts("Metrics")
    if isinstance(parts, Unseen):
        return parts
    stats = [each.part("MetricStat", "Metric") for each in parts if each.raw("MetricStat") is not None]
    metrics = [_metric(each) for each in stats]
    return next((each for each in metrics if isinstance(each, Unseen)), None) or tuple(
        each for each in metrics if isinstance(each, Metric)
    )


def _metric(found: Properties) -> Seen[Metric]:
    dimensions = found.parts("Dimensions")
    if isinstance(dimensions, Unseen):
        return dimensions
    pairs = {str(each.raw("Name")): _or(each.text("Value"), "") for each in dimensions}
    return Metric(namespace=str(found.raw("Namespace")), name=str(found.raw("MetricName")), dimensions=pairs)


def topic_of(piece: Piece, subscriptions: Seen[int], policy: Policy) -> Topic:
    """Return a topic that is notified; `subscriptions` counts those that are resources of their own."""
    found = Properties(piece.properties)
    counted = found.number("Subscribed")  # as an account tells it
    if counted is None:
        inside = found.items("Subscription")
        known = _count(inside) + (subscriptions if isinstance(subscriptions, int) else 0)
        hidden = next((each for each in (inside, subscriptions) if isinstance(each, Unseen)), None)
        counted = known or hidden or 0
    return Topic(
        name=str(found.raw("TopicName") or piece.id),
        arn=piece.arn,
        subscribed=counted,
        key=found.text("KmsMasterKeyId"),
        policy=policy,
    )


def _count(items: Seen[tuple[Any, ...]]) -> int:
    return 0 if isinstance(items, Unseen) else len(items)


def kind_of(arn: str) -> SinkKind:
    """Return the kind of a sink's ARN, which a sink has taken."""
    service, fifo = segments(arn)[2], arn.endswith(".fifo")
    if service == "events":
        return "bus"
    if service == "sns":
        return "topic.fifo" if fifo else "topic"
    return "queue.fifo" if fifo else "queue"


def target_of(arn: str, piece: Seen[Piece | None], archives: Seen[tuple[str, ...]]) -> Target:
    """Return where events go; `piece` is None when it is known not to be there."""
    if isinstance(piece, Unseen):
        return Target(arn=arn, kind=kind_of(arn), exists=piece, key=piece, most_bytes=piece, archives=archives)
    found = Properties({} if piece is None else piece.properties)
    key = found.text("KmsMasterKeyId")
    return Target(
        arn=arn,
        kind=kind_of(arn),
        exists=piece is not None,
        key=key if key is not None else found.text("KmsKeyIdentifier"),
        most_bytes=found.number("MaximumMessageSize"),
        archives=archives,
    )


def schedule_of(piece: Piece, allowed: Seen[bool]) -> Schedule:
    """Return a schedule that may invoke what it is for, or not; minutes are seen where it says them by a rate."""
    found = Properties(piece.properties)
    state = found.text("State")
    return Schedule(
        name=str(found.raw("Name") or piece.id),
        arn=piece.arn,
        allowed=allowed,
        enabled=state if isinstance(state, Unseen) else state in (None, *_RUNNING),
        minutes=_minutes(found.text("ScheduleExpression")),
    )


def _minutes(expression: Seen[str | None]) -> Seen[float]:
    if isinstance(expression, Unseen):
        return expression
    told = _RATE.fullmatch(expression or "")
    return Unseen(f"when {expression} runs is not worked out") if told is None else int(told[1]) * _MINUTES[told[2]]
