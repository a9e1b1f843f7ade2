"""The event source mapping: that there is one, on the stream that counts, and each of its settings.

What is right for a relay that keeps the order of a key is wrong for one that does not: the table in
docs/infrastructure.md has both.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import STREAM_RETENTION_MS
from dynamodb_outbox.doctor.checks import (
    Check,
    Evidence,
    Said,
    Severity,
    of_functions,
    of_mappings,
    of_system,
    relay_of,
)
from dynamodb_outbox.doctor.inventory import same_arn, seen
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Function, StreamMapping, System

__all__ = ["CHECKS"]

_READERS = 2  # [LDG] of a shard at the same time
_RETENTION_S = STREAM_RETENTION_MS // 1000
_SHORTEST_AGE_S = 3600
_LONGEST_AGE_S = _RETENTION_S - 2 * 3600
_FEW = 10
_LONG_WINDOW_S = 10
_UPDATE = "aws lambda update-event-source-mapping --uuid <mapping> "


def _ordering(mapping: StreamMapping, system: System) -> str:
    return seen(relay_of(mapping, system).settings.ordering)


def _no_relay(system: System, _same: System) -> Iterator[Said]:
    seen(system.unseen_relay)
    if not system.relays and not seen(system.mappings):
        yield f"of {counted(seen(system.readers), 'mapping')} on its stream none is known for a relay's"


def _missing(function: Function, system: System) -> Iterator[Said]:
    if not any(each.function == function.name for each in seen(system.mappings)):
        yield "no event source mapping from the table's stream"


def _disabled(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if not seen(mapping.enabled):
        yield f"its state is {seen(mapping.state)}"


def _stale(mapping: StreamMapping, system: System) -> Iterator[Said]:
    latest, read = seen(seen(system.table).stream), seen(mapping.stream)
    if latest is not None and not same_arn(latest, read):
        yield Evidence(f"it reads {read}, and the table's stream is {latest}", {"stream": latest})


def _troubled(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    result = seen(mapping.result)
    if result is not None and result.upper().startswith("PROBLEM"):
        yield f"its last result: {result}"


def _several(system: System, _same: System) -> Iterator[Said]:
    together: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    mappings = seen(system.mappings)
    for each in mappings if len(mappings) > 1 else ():
        if each.enabled is not False:
            together[seen(each.stream), seen(each.filters)].append(each.name)
    for names in together.values():
        if len(names) > 1:
            yield f"{len(names)} mappings relay the same records: {', '.join(names)}"


def _readers(system: System, _same: System) -> Iterator[Said]:
    readers = seen(system.readers)
    if readers > _READERS:
        yield f"{readers} mappings read the table's stream"


def _start(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    start = seen(mapping.start)
    if start != "TRIM_HORIZON":
        yield f"StartingPosition is {start}"


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
        id="relay-missing",
        severity=Severity.ERROR,
        asks="A relay is there: a ready-made function, or one that --relay names",
        about=of_system,
        look=_no_relay,
        consequence="Nothing is relayed; events wait for the sweeper, if there is one.",
        command="`outbox infra` prints one; --relay names a function of your own",
    ),
    Check(
        id="mapping-missing",
        severity=Severity.ERROR,
        asks="A mapping brings the table's stream to the relay",
        about=of_functions,
        look=_missing,
        consequence="Nothing is relayed; events wait for the sweeper, if there is one.",
        command="aws lambda create-event-source-mapping --function-name <function> --starting-position TRIM_HORIZON "
        "--function-response-types ReportBatchItemFailures --bisect-batch-on-function-error --event-source-arn ...",
        snippet="a mapping as `outbox infra` prints it",
    ),
    Check(
        id="mapping-disabled",
        severity=Severity.ERROR,
        asks="The mapping is enabled",
        about=of_mappings,
        look=_disabled,
        consequence="Nothing is relayed, and after 24 hours the stream forgets.",
        command=_UPDATE + "--enabled",
        snippet="Enabled: true",
    ),
    Check(
        id="stream-stale",
        severity=Severity.ERROR,
        asks="The mapping reads the table's latest stream",
        about=of_mappings,
        look=_stale,
        consequence="The stream was switched off and on: the mapping reads one that nothing is written to any more.",
        command="delete the mapping, and make it for <stream>; what was written meanwhile is swept",
        snippet="EventSourceArn: !GetAtt <the table>.StreamArn",
    ),
    Check(
        id="mapping-troubled",
        severity=Severity.WARNING,
        asks="The mapping's last result is no problem",
        about=of_mappings,
        look=_troubled,
        consequence="Invocations fail, or the mapping cannot read the stream or store what it gives up.",
        command="aws logs tail /aws/lambda/<the relay> --since 1h",
    ),
    Check(
        id="relayed-twice",
        severity=Severity.WARNING,
        asks="One mapping relays a record",
        about=of_system,
        look=_several,
        consequence="Each event is published by each of them, and the one takes the other's settling for its own.",
        command="keep one relay: fan-out belongs to the bus",
    ),
    Check(
        id="stream-readers",
        severity=Severity.WARNING,
        asks="At most two mappings read the stream",
        about=of_system,
        look=_readers,
        consequence="Shards are read by two at once without throttling: with more, all of them come late.",
        command="let the other consumers read from the bus",
    ),
    Check(
        id="starting-position",
        severity=Severity.WARNING,
        asks="The mapping starts at TRIM_HORIZON",
        about=of_mappings,
        look=_start,
        consequence="What is written while the mapping is made or changed may be missed, for minutes.",
        command="the position of a mapping cannot be changed: make it anew with TRIM_HORIZON when it is replaced; "
        "until then the sweeper has what was missed",
        snippet="StartingPosition: TRIM_HORIZON",
    ),
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
