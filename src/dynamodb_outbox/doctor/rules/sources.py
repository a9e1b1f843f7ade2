"""What brings records to the relay: that it is there, and a mapping on the stream that counts, and who else reads."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import GLOBAL_STREAM_READERS, STREAM_READERS
from dynamodb_outbox.core.record.place import stream_filter
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
from dynamodb_outbox.doctor.inventory import Unseen, same_arn, seen
from dynamodb_outbox.doctor.mapping_checks import mapping_check
from dynamodb_outbox.infra.plan import UNORDERED_RETRIES
from dynamodb_outbox.infra.resources import RECORD_AGE_S
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Function, StreamMapping, System
    from dynamodb_outbox.layout import Layout

__all__ = ["CHECKS"]


def _no_relay(system: System, _same: System) -> Iterator[Said]:
    seen(system.unseen_relay)
    if not system.relays and not seen(system.mappings):
        yield f"of {counted(seen(system.readers), 'mapping')} on its stream none is known for a relay's"


def _missing(function: Function, system: System) -> Iterator[Said]:
    if any(each.function == function.name for each in seen(system.mappings)):
        return
    seen(system.unseen_mapping)
    layout, ordering = function.settings.layout, function.settings.ordering
    stream = None if isinstance(system.table, Unseen) else system.table.stream
    words = {
        "stream": stream if isinstance(stream, str) else "<the table's stream>",
        "retries": str(UNORDERED_RETRIES if ordering == "none" else -1),
        "filter": "<the layout's filter>" if isinstance(layout, Unseen) else shlex.quote(_criteria(layout)),
    }
    yield Evidence("no event source mapping from the table's stream", words)


def _criteria(layout: Layout) -> str:
    return json.dumps({"Filters": [{"Pattern": json.dumps(stream_filter(layout))}]})


def _disabled(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if not seen(mapping.enabled):
        yield f"its state is {seen(mapping.state)}"


def _stale(mapping: StreamMapping, system: System) -> Iterator[Said]:
    latest, read = seen(seen(system.table).stream), seen(mapping.stream)
    if latest is not None and not same_arn(latest, read):
        yield Evidence(f"it reads {read}, and the table's stream is {latest}", {"stream": latest})


def _troubled(mapping: StreamMapping, system: System) -> Iterator[Said]:
    result = seen(mapping.result)
    if result is not None and result.upper().startswith("PROBLEM"):
        group = relay_of(mapping, system).log_group
        yield Evidence(
            f"its last result: {result}",
            {"group": f"/aws/lambda/{mapping.function}" if isinstance(group, Unseen) else group},
        )


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
    if readers > STREAM_READERS:
        yield f"{readers} mappings read the table's stream"
    elif readers > GLOBAL_STREAM_READERS and (others := seen(seen(system.table).replicas)):
        yield f"{readers} mappings read the table's stream, and it has replicas in {', '.join(sorted(others))}"


def _start(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    start = seen(mapping.start)
    if start != "TRIM_HORIZON":
        yield f"StartingPosition is {start}"


CHECKS = (
    Check(
        id="relay-missing",
        severity=Severity.ERROR,
        asks="A relay is there: a ready-made function, or one that --relay names",
        about=of_system,
        look=_no_relay,
        consequence="Nothing is relayed but what a sweeper finds in the index.",
        command="`outbox infra` prints one; --relay names a function of your own",
        closes=("stream",),
    ),
    Check(
        id="mapping-missing",
        severity=Severity.ERROR,
        asks="A mapping brings the table's stream to the relay",
        about=of_functions,
        look=_missing,
        consequence="Nothing is relayed but what a sweeper finds in the index.",
        command="aws lambda create-event-source-mapping --function-name <function> --event-source-arn <stream> "
        "--starting-position TRIM_HORIZON --batch-size 1000 --parallelization-factor 1 "
        f"--maximum-retry-attempts <retries> --maximum-record-age-in-seconds {RECORD_AGE_S} "
        "--bisect-batch-on-function-error --function-response-types ReportBatchItemFailures "
        "--metrics-config Metrics=EventCount --filter-criteria <filter> --destination-config "
        '\'{"OnFailure":{"Destination":"arn:aws:s3:::<a bucket>"}}\'',
        snippet="a mapping as `outbox infra` prints it",
        closes=("stream",),
    ),
    mapping_check(
        "mapping-disabled",
        Severity.ERROR,
        asks="The mapping is enabled",
        look=_disabled,
        consequence="Nothing is relayed, and after 24 hours the stream forgets.",
        option="--enabled",
        snippet="Enabled: true",
        closes=("stream",),
    ),
    Check(
        id="stream-stale",
        severity=Severity.ERROR,
        asks="The mapping reads the table's latest stream",
        about=of_mappings,
        look=_stale,
        consequence="The stream was switched off and on: the mapping reads one that nothing is written to any more.",
        command="delete the mapping, and make it for <stream>; meanwhile a sweeper has what is in the index "
        "(nothing with settle='none')",
        snippet="EventSourceArn: !GetAtt <the table>.StreamArn",
        closes=("stream",),
    ),
    Check(
        id="mapping-troubled",
        severity=Severity.WARNING,
        asks="The mapping's last result is no problem",
        about=of_mappings,
        look=_troubled,
        consequence="Invocations fail, or the mapping cannot read the stream or store what it gives up.",
        command="aws logs tail <group> --since 1h",
        limits=("P2",),
    ),
    Check(
        id="relayed-twice",
        severity=Severity.WARNING,
        asks="One mapping relays a record",
        about=of_system,
        look=_several,
        consequence="Each event is published by each of them, and the one takes the other's settling for its own.",
        command="keep one relay: fan-out belongs to the bus",
        breaks=("P4",),
        limits=("P2",),
    ),
    Check(
        id="stream-readers",
        severity=Severity.WARNING,
        asks="At most two mappings read the stream, and one where the table has replicas (Pipes read it, too, and are "
        "not counted)",
        about=of_system,
        look=_readers,
        consequence="Shards are read by so many at once without throttling: with more, all of them come late.",
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
        "until then a sweeper has what was missed and is in the index (nothing with settle='none')",
        snippet="StartingPosition: TRIM_HORIZON",
        limits=("P2", "P4"),
    ),
)
