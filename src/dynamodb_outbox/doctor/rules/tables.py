"""The table: its stream, keys, index, TTL and recovery, and whether it is a global one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.table import table_of
from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, layouts_of, of_table
from dynamodb_outbox.doctor.inventory import seen
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.core.record.table import Index as Needed
    from dynamodb_outbox.doctor.system import Index, System, Table
    from dynamodb_outbox.layout import Layout

__all__ = ["CHECKS"]

_UNUSABLE = ("CREATING", "DELETING", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", "ARCHIVING", "ARCHIVED")
_REMEDIES = {
    "CREATING": "wait until it is ACTIVE, which takes minutes, and hours of a large table",
    "DELETING": "make it again when it is gone: this command has how, then",
}
_VIEWS = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
_MILLISECONDS = 10**11  # as seconds it is the year 5138, as milliseconds 1973


def _status(table: Table, _system: System) -> Iterator[Said]:
    if seen(table.status) in _UNUSABLE:
        yield f"TableStatus is {table.status}"


def _index_status(table: Table, system: System) -> Iterator[Said]:
    names = {layout.index for layout in layouts_of(system)}
    for index in seen(table.indexes):
        if index.name in names and (status := seen(index.status)) in _REMEDIES:
            yield Evidence(f"IndexStatus of {index.name} is {status}", {"remedy": _REMEDIES[str(status)]})


def _stream(table: Table, _system: System) -> Iterator[Said]:
    if seen(table.view) is None:
        yield "no stream"


def _view(table: Table, _system: System) -> Iterator[Said]:
    view = seen(table.view)
    if view is not None and view not in _VIEWS:
        yield f"StreamViewType is {view}"


def _keys(table: Table, system: System) -> Iterator[Said]:
    found = seen(table.keys)
    for wanted in dict.fromkeys(tuple(each.keys.types.items()) for each in layouts_of(system)):
        if wanted != found:
            yield Evidence(f"the keys are {_told(found)}, the layout's {_told(wanted)}", {"members": _members(found)})


def _members(keys: tuple[tuple[str, str | None], ...]) -> str:
    """Return what a layout says of keys that differ from its defaults, as JSON."""
    names = dict(zip(("pk", "sk"), (name for name, _ in keys), strict=False))
    types = {f"{what}_type": kind for what, (_, kind) in zip(("pk", "sk"), keys, strict=False) if kind in ("N", "B")}
    return json.dumps({"sk": None, **names, **types} if len(keys) == 1 else {**names, **types})


def _index(table: Table, system: System) -> Iterator[Said]:
    for layout in layouts_of(system):
        wanted = table_of(layout).index
        words = {"index": wanted.name, "pending": wanted.partition, "at": wanted.sort}
        words |= zip(("id", "key"), wanted.projected, strict=True)
        indexes = seen(table.indexes)
        first, anew = _taken_out(table, layout) if any(each.name == layout.index for each in indexes) else ("", "")
        for said in _index_faults(wanted, indexes):
            yield Evidence(said, {**words, "first": first, "anew": anew})


def _taken_out(table: Table, layout: Layout) -> tuple[str, str]:
    """Return how an index of that name is deleted, for an account and for a template: it cannot be changed."""
    deleted = json.dumps([{"Delete": {"IndexName": layout.index}}])
    account = f"aws dynamodb update-table --table-name {table.name} --global-secondary-index-updates '{deleted}'"
    return f"{account}; when it is gone: ", "deploy without the index, which cannot be changed; then with it: "


def _index_faults(needed: Needed, indexes: tuple[Index, ...]) -> Iterator[str]:
    name, found = needed.name, {each.name: each for each in indexes}
    if name not in found:
        yield f"no index {name}" + (f"; there are {', '.join(sorted(found))}" if found else "")
        return
    index, wanted = found[name], tuple(needed.types.items())
    if seen(index.keys) != wanted:
        yield f"the keys of {name} are {_told(seen(index.keys))}, and need to be {_told(wanted)}"
    projected = seen(index.projected)
    lacking = [] if projected is None else [each for each in needed.projected if each not in projected]
    if lacking:
        yield f"{name} does not project {' and '.join(lacking)}"


def _ttl_off(table: Table, system: System) -> Iterator[Said]:
    if seen(table.ttl) is None:
        yield Evidence("time to live is off", {"ttl": layouts_of(system)[0].ttl})


def _ttl_attribute(table: Table, system: System) -> Iterator[Said]:
    found = seen(table.ttl)
    for wanted in dict.fromkeys(each.ttl for each in layouts_of(system)):
        if found not in (None, wanted):
            yield Evidence(
                f"time to live is by {found}, and {wanted} is what is written", {"ttl": wanted, "found": str(found)}
            )


def _ttl_unit(table: Table, _system: System) -> Iterator[Said]:
    values = seen(table.ttl_values)
    texts = sum(1 for each in values if "N" not in each)
    large = sum(1 for each in values if _number(each.get("N")) > _MILLISECONDS)
    if texts:
        yield f"{texts} of {len(values)} values of {table.ttl} that were read are no numbers"
    if large:
        yield f"{large} of {len(values)} values of {table.ttl} that were read are in milliseconds"


def _by_hand(table: Table, _system: System) -> Iterator[Said]:
    count = seen(table.by_hand)
    if count:
        yield f"{counted(count, 'record')} written by hand among the items that were read"


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0


def _recovery(table: Table, _system: System) -> Iterator[Said]:
    if not seen(table.recovery):
        yield "point-in-time recovery is off"


def _protected(table: Table, _system: System) -> Iterator[Said]:
    if not seen(table.protected):
        yield "deletion protection is off"


def _strong(table: Table, _system: System) -> Iterator[Said]:
    if seen(table.consistency) == "STRONG":
        yield "a global table with multi-Region strong consistency"


def _replicas(table: Table, _system: System) -> Iterator[Said]:
    others = seen(table.replicas)
    if others and seen(table.consistency) != "STRONG":
        yield f"replicas in {', '.join(sorted(others))}"


def _told(keys: tuple[tuple[str, str | None], ...]) -> str:
    return ", ".join(f"{name} ({kind or '?'})" for name, kind in keys)


CHECKS = (
    Check(
        id="table-status",
        severity=Severity.ERROR,
        asks="The table can be written to and read (an account's alone)",
        about=of_table,
        look=_status,
        consequence="Nothing is committed, relayed or settled.",
        command="aws dynamodb describe-table --table-name <table>: it tells since when and, of a key, which: allow it "
        "again, or restore the table",
        closes=("stream", "sweep"),
    ),
    Check(
        id="stream-off",
        severity=Severity.ERROR,
        asks="The table has a stream",
        about=of_table,
        look=_stream,
        consequence="Nothing is relayed but what a sweeper finds in the index.",
        command="aws dynamodb update-table --table-name <table> "
        "--stream-specification StreamEnabled=true,StreamViewType=NEW_IMAGE",
        snippet="StreamSpecification: {StreamViewType: NEW_IMAGE}",
        closes=("stream",),
    ),
    Check(
        id="stream-view",
        severity=Severity.ERROR,
        asks="The stream's view has the new image",
        about=of_table,
        look=_view,
        consequence="Records arrive without their content, and each invocation fails.",
        command="a view cannot be changed: switch the stream off, on again with NEW_IMAGE, and make the mapping anew "
        "for the new stream ARN; meanwhile a sweeper has what is in the index (nothing with settle='none')",
        snippet="StreamSpecification: {StreamViewType: NEW_IMAGE}",
        closes=("stream",),
    ),
    Check(
        id="table-keys",
        severity=Severity.ERROR,
        asks="The table's keys are those of the layout",
        about=of_table,
        look=_keys,
        consequence="Records are not told from other items, or cannot be settled.",
        command="OUTBOX_LAYOUT of the function, or Layout(...), names the keys, beside what else it has: <members>",
        closes=("stream", "sweep"),
    ),
    Check(
        id="pending-index",
        severity=Severity.ERROR,
        asks="The index of pending records is there, with its keys and projection",
        about=of_table,
        look=_index,
        consequence="The sweeper fails, and nobody sees what is parked.",
        command="<first>aws dynamodb update-table --table-name <table> "
        "--attribute-definitions AttributeName=<pending>,AttributeType=S AttributeName=<at>,AttributeType=N "
        "--global-secondary-index-updates "
        '\'[{"Create":{"IndexName":"<index>","KeySchema":[{"AttributeName":"<pending>","KeyType":"HASH"},'
        '{"AttributeName":"<at>","KeyType":"RANGE"}],"Projection":{"ProjectionType":"INCLUDE",'
        '"NonKeyAttributes":["<id>","<key>"]}}}]\'',
        snippet="<anew>GlobalSecondaryIndexes: [{IndexName: <index>, KeySchema: "
        "[{AttributeName: <pending>, KeyType: HASH}, {AttributeName: <at>, KeyType: RANGE}], "
        "Projection: {ProjectionType: INCLUDE, NonKeyAttributes: [<id>, <key>]}}]",
        closes=("sweep",),
    ),
    Check(
        id="index-status",
        severity=Severity.ERROR,
        asks="That index can be read (an account's alone)",
        about=of_table,
        look=_index_status,
        consequence="Until it can, the sweeper fails, and nobody sees what is parked.",
        command="<remedy>",
        closes=("sweep",),
    ),
    Check(
        id="ttl-off",
        severity=Severity.WARNING,
        asks="Time to live is on",
        about=of_table,
        look=_ttl_off,
        consequence="Published records, guards and inbox records stay for good, and are paid for.",
        command="aws dynamodb update-time-to-live --table-name <table> "
        "--time-to-live-specification Enabled=true,AttributeName=<ttl>",
        snippet="TimeToLiveSpecification: {AttributeName: <ttl>, Enabled: true}",
    ),
    Check(
        id="ttl-attribute",
        severity=Severity.ERROR,
        asks="Time to live is by the attribute that is written",
        about=of_table,
        look=_ttl_attribute,
        consequence="What is published is never removed; records may be, by an attribute of another meaning.",
        command="aws dynamodb update-time-to-live --table-name <table> --time-to-live-specification "
        "Enabled=false,AttributeName=<found>; and an hour later, for a table takes one change an hour, "
        "Enabled=true,AttributeName=<ttl>. Or Layout(ttl='<found>') of writer and relay",
        snippet="TimeToLiveSpecification: {AttributeName: <found>, Enabled: false}, and in a deployment an hour later "
        "{AttributeName: <ttl>, Enabled: true}",
        limits=("P2",),
    ),
    Check(
        id="ttl-unit",
        severity=Severity.ERROR,
        asks="Values of that attribute are numbers of seconds (with --read-items; an account's alone)",
        about=lambda system: of_table(system) if system.source == "account" else (),
        look=_ttl_unit,
        consequence="DynamoDB ignores what is no number, and takes milliseconds for a year that never comes.",
        command="write epoch seconds, as a number: this library does; look for who else writes the attribute",
    ),
    Check(
        id="written-by-hand",
        severity=Severity.NOTE,
        asks="Pending records are in the index (with --read-items; an account's alone)",
        about=lambda system: of_table(system) if system.source == "account" else (),
        look=_by_hand,
        consequence="No sweeper sees them until they are parked: the stream, and redriving what the mapping gave up, "
        "are all they have.",
        command="write them with `outbox.records()`; until then keep the on-failure destination and its alarms",
        breaks=("P6",),
        limits=("P1", "P2"),
    ),
    Check(
        id="recovery-off",
        severity=Severity.WARNING,
        asks="Point-in-time recovery is on",
        about=of_table,
        look=_recovery,
        consequence="A table that was damaged cannot be brought back, and its stream is no audit log.",
        command="aws dynamodb update-continuous-backups --table-name <table> "
        "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
        snippet="PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}",
    ),
    Check(
        id="deletable",
        severity=Severity.NOTE,
        asks="Deletion protection is on",
        about=of_table,
        look=_protected,
        consequence="Whoever may delete the table deletes what is pending and parked with it.",
        command="aws dynamodb update-table --table-name <table> --deletion-protection-enabled",
        snippet="DeletionProtectionEnabled: true",
    ),
    Check(
        id="strong-consistency",
        severity=Severity.ERROR,
        asks="The table is no global table with multi-Region strong consistency",
        about=of_table,
        look=_strong,
        consequence="It takes no transactions: no event can be committed with its change. It has no TTL either.",
        command="a table of one Region, or a global one with eventual consistency, for entities and records",
        breaks=("P1", "P5", "P6"),
    ),
    Check(
        id="replicas",
        severity=Severity.NOTE,
        asks="The table is in one Region",
        about=of_table,
        look=_replicas,
        consequence="A record is published in the Region that it was written in: each Region that writes needs a relay "
        "and a sweeper of its own. There, one mapping may read a stream.",
        command="deploy `outbox infra` in each Region that writes",
        limits=("P2", "P4"),
    ),
)
