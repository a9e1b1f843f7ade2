"""Where events go: that it is there, and what it takes and keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import MAX_EVENT_BYTES
from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, of_all_functions, of_targets
from dynamodb_outbox.doctor.encryption import key_denied
from dynamodb_outbox.doctor.inventory import ANY_REGION, seen, segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Function, System, Target

__all__ = ["CHECKS"]


def _gone(target: Target, _system: System) -> Iterator[Said]:
    if not seen(target.exists):
        yield f"{target.arn} is not there"


def _unordered(target: Target, system: System) -> Iterator[Said]:
    if target.kind not in ("topic", "queue"):
        return
    relays = [each.settings for each in system.relays if target.arn in seen(each.settings.sinks).values()]
    if any(seen(each.ordering) == "key" for each in relays):
        yield f"{target.name} is a standard {target.kind}, and the relay's ordering 'key'"


def _small(target: Target, _system: System) -> Iterator[Said]:
    most = None if target.kind == "bus" else seen(target.most_bytes)
    if most is not None and most < MAX_EVENT_BYTES:
        yield Evidence(f"MaximumMessageSize is {most:,}", {"bytes": str(MAX_EVENT_BYTES)})


def _locked(function: Function, system: System) -> Iterator[Said]:
    for target in seen(system.targets):
        key = None if target.kind == "bus" else seen(target.key)
        yield from key_denied(function, f"{target.kind} {target.name}", key)


def _archived(target: Target, _system: System) -> Iterator[Said]:
    if target.kind != "bus" or (isinstance(target.archives, tuple) and target.archives):
        return
    if seen(target.exists) and not seen(target.archives):
        yield f"{target.name} has no archive"


def _elsewhere(target: Target, system: System) -> Iterator[Said]:
    region, own = segments(target.arn)[3], segments(seen(system.table_arn))[3]
    if ANY_REGION not in (region, own) and region != own:
        yield f"it is in {region}, and the table in {own}"


CHECKS = (
    Check(
        id="target-gone",
        severity=Severity.ERROR,
        asks="Where events go is there",
        about=of_targets,
        look=_gone,
        consequence="Events are held until the mapping gives them up, or the stream forgets them after 24 hours.",
        command="make <target>, or correct OUTBOX_SINK",
        closes=("stream", "sweep"),
    ),
    Check(
        id="target-unordered",
        severity=Severity.NOTE,
        asks="Topics and queues are FIFO where the relay keeps order",
        about=of_targets,
        look=_unordered,
        consequence="Its consumers see events in any order.",
        command="a FIFO one, or consumers that look at `sequence`; or ordering 'none', which is faster",
    ),
    Check(
        id="target-small",
        severity=Severity.WARNING,
        asks=f"A message may be as large as an event may ({MAX_EVENT_BYTES:,} bytes)",
        about=of_targets,
        look=_small,
        consequence="Events that were committed are refused for their size, and parked.",
        command="raise MaximumMessageSize to <bytes>, or lower max_event_bytes of Outbox",
        snippet="MaximumMessageSize: <bytes>",
    ),
    Check(
        id="target-key",
        severity=Severity.ERROR,
        asks="The roles may use the KMS key of a topic or queue",
        about=of_all_functions,
        look=_locked,
        consequence="Nothing can be published: events are held.",
        command="allow <actions> on <key>: `outbox infra ... --sink-kms-key`",
        closes=("own",),
    ),
    Check(
        id="archive",
        severity=Severity.NOTE,
        asks="A bus has an archive",
        about=of_targets,
        look=_archived,
        consequence="What consumers have lost cannot be replayed from the bus.",
        command="aws events create-archive --archive-name <target> --event-source-arn <arn> --retention-days 90",
        snippet="an AWS::Events::Archive of the bus, RetentionDays: 90",
    ),
    Check(
        id="target-region",
        severity=Severity.NOTE,
        asks="Where events go is in the table's Region",
        about=of_targets,
        look=_elsewhere,
        consequence="Each publish crosses Regions: it takes longer, and fails with either of them.",
        command="a bus of the table's Region, with a rule to the other one",
    ),
)
