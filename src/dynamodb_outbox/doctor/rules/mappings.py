"""The settings of the event source mapping.

What is right for a relay that keeps the order of a key is wrong for one that does not: the table in
docs/infrastructure.md has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.doctor.checks import Said, Severity, relay_of
from dynamodb_outbox.doctor.inventory import seen
from dynamodb_outbox.doctor.mapping_checks import mapping_check
from dynamodb_outbox.infra.plan import UNORDERED_RETRIES
from dynamodb_outbox.infra.resources import RECORD_AGE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import StreamMapping, System

__all__ = ["CHECKS"]

_RETENTION_S = STREAM_RETENTION_MS // 1000
_SHORTEST_AGE_S = 3600
_LONGEST_AGE_S = _RETENTION_S - 2 * 3600
_FEW = 10
_LONG_WINDOW_S = 10


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
    sweepers = system.sweepers if isinstance(system.sweepers, tuple) else ()
    swept = [seen(each.settings.min_age_s) for each in sweepers if seen(each.settings.layout).settle != "none"]
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
    mapping_check(
        "partial-failures",
        Severity.ERROR,
        asks="ReportBatchItemFailures is on",
        look=_responses,
        consequence="What the relay answers as failed counts as done: the stream brings it no more.",
        option="--function-response-types ReportBatchItemFailures",
        snippet="FunctionResponseTypes: [ReportBatchItemFailures]",
        breaks=("P4",),
        closes=("stream",),
    ),
    mapping_check(
        "bisect",
        Severity.WARNING,
        asks="BisectBatchOnFunctionError is on",
        look=_bisect,
        consequence="One record that fails the invocation takes the whole batch with it when it is given up.",
        option="--bisect-batch-on-function-error",
        snippet="BisectBatchOnFunctionError: true",
    ),
    mapping_check(
        "parallelization",
        Severity.ERROR,
        asks="ParallelizationFactor is 1 where order is kept",
        look=_parallel,
        consequence="The records of a key are different items: several invocations publish them in any order.",
        option="--parallelization-factor 1",
        snippet="ParallelizationFactor: 1",
        breaks=("P4",),
    ),
    mapping_check(
        "retries-ordered",
        Severity.WARNING,
        asks="Retries are without end where order is kept",
        look=_retries_ordered,
        consequence="A bus that is down for a while uses them up: events are given up, and later ones of their key "
        "overtake them.",
        option="--maximum-retry-attempts -1",
        snippet="MaximumRetryAttempts: -1",
        limits=("P4",),
    ),
    mapping_check(
        "retries-unordered",
        Severity.WARNING,
        asks="Retries have an end where no order is kept",
        look=_retries_unordered,
        consequence="What fails time and again holds its shard until it is too old, and nothing needs it to.",
        option=f"--maximum-retry-attempts {UNORDERED_RETRIES}",
        snippet=f"MaximumRetryAttempts: {UNORDERED_RETRIES}",
    ),
    mapping_check(
        "record-age",
        Severity.WARNING,
        asks="MaximumRecordAgeInSeconds is well below the stream's 24 hours",
        look=_age,
        consequence="The stream forgets a record before the mapping gives it up: no destination gets it, no metric "
        "counts it.",
        option=f"--maximum-record-age-in-seconds {RECORD_AGE_S}",
        snippet=f"MaximumRecordAgeInSeconds: {RECORD_AGE_S}",
        closes=("failure",),
    ),
    mapping_check(
        "record-age-short",
        Severity.WARNING,
        asks="MaximumRecordAgeInSeconds is an hour at least",
        look=_age_short,
        consequence="A bus that is down for that long has its events given up.",
        option=f"--maximum-record-age-in-seconds {RECORD_AGE_S}",
        snippet=f"MaximumRecordAgeInSeconds: {RECORD_AGE_S}",
        limits=("P4",),
    ),
    mapping_check(
        "batch-size",
        Severity.NOTE,
        asks="BatchSize is 10 at least",
        look=_batch,
        consequence="Publish requests, which take 10 events or more, go out nearly empty; a backlog takes that much "
        "longer.",
        option="--batch-size 1000",
        snippet="BatchSize: 1000",
    ),
    mapping_check(
        "batching-window",
        Severity.NOTE,
        asks="The batching window is 10 seconds at most",
        look=_window,
        consequence="Every event may wait for that long, and be swept meanwhile.",
        option="--maximum-batching-window-in-seconds 0",
        snippet="MaximumBatchingWindowInSeconds: 0",
    ),
    mapping_check(
        "tumbling-window",
        Severity.WARNING,
        asks="There is no tumbling window",
        look=_tumbling,
        consequence="Lambda asks for a state to carry on in each answer, which a relay has not, and invokes it once "
        "more at the end of each window.",
        option="--tumbling-window-in-seconds 0",
        snippet="remove TumblingWindowInSeconds",
    ),
    mapping_check(
        "event-count",
        Severity.WARNING,
        asks="The mapping's metrics (EventCount) are on",
        look=_metrics,
        consequence="Nobody can be told of records that were dropped or given up, or that the mapping is silent.",
        option="--metrics-config Metrics=EventCount",
        snippet="MetricsConfig: {Metrics: [EventCount]}",
    ),
)
