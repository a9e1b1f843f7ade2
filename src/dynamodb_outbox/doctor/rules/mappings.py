"""The settings of the event source mapping.

What is right for a relay that keeps the order of a key is wrong for one that does not: the table in
docs/infrastructure.md has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.doctor.checks import Check, Said, Severity, of_mappings, relay_of
from dynamodb_outbox.doctor.inventory import seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import StreamMapping, System

__all__ = ["CHECKS"]

_RETENTION_S = STREAM_RETENTION_MS // 1000
_SHORTEST_AGE_S = 3600
_LONGEST_AGE_S = _RETENTION_S - 2 * 3600
_FEW = 10
_LONG_WINDOW_S = 10
_UPDATE = "aws lambda update-event-source-mapping --uuid <mapping> "


def _ordering(mapping: StreamMapping, system: System) -> str:
    return seen(relay_of(mapping, system).settings.ordering)


def _responses(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if "ReportBatchItemFailures" not in seen(mapping.responses):
        yield f"FunctionResponseTypes is {list(seen(mapping.responses))}"


def _bisect(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if not seen(mapping.bisects):
        yield "BisectBatchOnFunctionError is off"


def _parallel(mapping: StreamMapping, system: System) -> Iterator[Said]:
    factor = seen(mapping.parallelization)
    if factor > 1 and _ordering(mapping, system) == "key":
        yield f"ParallelizationFactor is {factor}, and the relay's ordering 'key'"


def _retries_ordered(mapping: StreamMapping, system: System) -> Iterator[Said]:
    retries = seen(mapping.retries)
    if retries >= 0 and _ordering(mapping, system) == "key":
        yield f"MaximumRetryAttempts is {retries}, and the relay's ordering 'key'"


def _retries_unordered(mapping: StreamMapping, system: System) -> Iterator[Said]:
    if seen(mapping.retries) < 0 and _ordering(mapping, system) == "none":
        yield "MaximumRetryAttempts is -1, and the relay's ordering 'none'"


def _age(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    age = seen(mapping.record_age_s)
    if age < 0 or age > _LONGEST_AGE_S:
        yield f"MaximumRecordAgeInSeconds is {age}; a stream forgets after {_RETENTION_S}"


def _age_short(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    age = seen(mapping.record_age_s)
    if 0 <= age < _SHORTEST_AGE_S:
        yield f"MaximumRecordAgeInSeconds is {age}"


def _batch(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if seen(mapping.batch_size) < _FEW:
        yield f"BatchSize is {mapping.batch_size}"


def _window(mapping: StreamMapping, system: System) -> Iterator[Said]:
    window = seen(mapping.window_s)
    swept = [seen(each.settings.min_age_s) for each in system.sweepers] if isinstance(system.sweepers, tuple) else []
    if window > _LONG_WINDOW_S:
        overtaken = f", and the sweeper takes what is {min(swept)} s old" if swept and window >= min(swept) else ""
        yield f"MaximumBatchingWindowInSeconds is {window}{overtaken}"


def _tumbling(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if seen(mapping.tumbling_s):
        yield f"TumblingWindowInSeconds is {mapping.tumbling_s}"


def _metrics(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if "EventCount" not in seen(mapping.metrics):
        yield "MetricsConfig has no EventCount"


CHECKS = (
    Check(
        id="partial-failures",
        severity=Severity.ERROR,
        asks="ReportBatchItemFailures is on",
        about=of_mappings,
        look=_responses,
        consequence="What the relay answers as failed counts as done: the stream brings it no more.",
        command=_UPDATE + "--function-response-types ReportBatchItemFailures",
        snippet="FunctionResponseTypes: [ReportBatchItemFailures]",
    ),
    Check(
        id="bisect",
        severity=Severity.WARNING,
        asks="BisectBatchOnFunctionError is on",
        about=of_mappings,
        look=_bisect,
        consequence="One record that fails the invocation takes the whole batch with it when it is given up.",
        command=_UPDATE + "--bisect-batch-on-function-error",
        snippet="BisectBatchOnFunctionError: true",
    ),
    Check(
        id="parallelization",
        severity=Severity.ERROR,
        asks="ParallelizationFactor is 1 where order is kept",
        about=of_mappings,
        look=_parallel,
        consequence="The records of a key are different items: several invocations publish them in any order.",
        command=_UPDATE + "--parallelization-factor 1",
        snippet="ParallelizationFactor: 1",
    ),
    Check(
        id="retries-ordered",
        severity=Severity.WARNING,
        asks="Retries are without end where order is kept",
        about=of_mappings,
        look=_retries_ordered,
        consequence="A bus that is down for a while uses them up: events are given up, and later ones of their key "
        "overtake them.",
        command=_UPDATE + "--maximum-retry-attempts -1",
        snippet="MaximumRetryAttempts: -1",
    ),
    Check(
        id="retries-unordered",
        severity=Severity.WARNING,
        asks="Retries have an end where no order is kept",
        about=of_mappings,
        look=_retries_unordered,
        consequence="What fails time and again holds its shard until it is too old, and nothing needs it to.",
        command=_UPDATE + "--maximum-retry-attempts 100",
        snippet="MaximumRetryAttempts: 100",
    ),
    Check(
        id="record-age",
        severity=Severity.WARNING,
        asks="MaximumRecordAgeInSeconds is well below the stream's 24 hours",
        about=of_mappings,
        look=_age,
        consequence="The stream forgets a record before the mapping gives it up: no destination gets it, no metric "
        "counts it.",
        command=_UPDATE + "--maximum-record-age-in-seconds 43200",
        snippet="MaximumRecordAgeInSeconds: 43200",
    ),
    Check(
        id="record-age-short",
        severity=Severity.WARNING,
        asks="MaximumRecordAgeInSeconds is an hour at least",
        about=of_mappings,
        look=_age_short,
        consequence="A bus that is down for that long has its events given up.",
        command=_UPDATE + "--maximum-record-age-in-seconds 43200",
        snippet="MaximumRecordAgeInSeconds: 43200",
    ),
    Check(
        id="batch-size",
        severity=Severity.NOTE,
        asks="BatchSize is 10 at least",
        about=of_mappings,
        look=_batch,
        consequence="Publish requests, which take 10 events or more, go out nearly empty; a backlog takes that much "
        "longer.",
        command=_UPDATE + "--batch-size 1000",
        snippet="BatchSize: 1000",
    ),
    Check(
        id="batching-window",
        severity=Severity.NOTE,
        asks="The batching window is 10 seconds at most",
        about=of_mappings,
        look=_window,
        consequence="Every event may wait for that long, and be swept meanwhile.",
        command=_UPDATE + "--maximum-batching-window-in-seconds 0",
        snippet="MaximumBatchingWindowInSeconds: 0",
    ),
    Check(
        id="tumbling-window",
        severity=Severity.WARNING,
        asks="There is no tumbling window",
        about=of_mappings,
        look=_tumbling,
        consequence="Lambda asks for a state to carry on in each answer, which a relay has not, and invokes it once "
        "more at the end of each window.",
        command=_UPDATE + "--tumbling-window-in-seconds 0",
        snippet="remove TumblingWindowInSeconds",
    ),
    Check(
        id="event-count",
        severity=Severity.WARNING,
        asks="The mapping's metrics (EventCount) are on",
        about=of_mappings,
        look=_metrics,
        consequence="Nobody can be told of records that were dropped or given up, or that the mapping is silent.",
        command=_UPDATE + "--metrics-config Metrics=EventCount",
        snippet="MetricsConfig: {Metrics: [EventCount]}",
    ),
)
