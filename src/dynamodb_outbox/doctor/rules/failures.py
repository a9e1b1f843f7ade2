"""Where the mapping stores what it gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, of_mappings, relay_of
from dynamodb_outbox.doctor.encryption import key_denied
from dynamodb_outbox.doctor.inventory import name_in, seen
from dynamodb_outbox.doctor.mapping_checks import mapping_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import StreamMapping, System

__all__ = ["CHECKS"]


def _missing(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if seen(mapping.on_failure) is None:
        yield "no on-failure destination"


def _gone(mapping: StreamMapping, system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    if arn is not None and seen(system.failures[arn]) is None:
        yield Evidence(f"{arn} is not there", {"destination": name_in(arn)})


def _locked(mapping: StreamMapping, system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    store = None if arn is None else seen(system.failures[arn])
    if store is not None:
        yield from key_denied(relay_of(mapping, system), str(arn), seen(store.key))


def _numbers_alone(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    if arn is not None and ":s3:" not in arn:
        yield f"the on-failure destination is {arn}"


CHECKS = (
    mapping_check(
        "on-failure-missing",
        Severity.WARNING,
        asks="The mapping has an on-failure destination",
        look=_missing,
        consequence="What is given up is gone from the stream, and nobody knows which records these were.",
        option='--destination-config \'{"OnFailure":{"Destination":"arn:aws:s3:::<a bucket>"}}\'',
        snippet="DestinationConfig: {OnFailure: {Destination: !GetAtt <a bucket>.Arn}}",
        closes=("failure",),
    ),
    Check(
        id="on-failure-gone",
        severity=Severity.ERROR,
        asks="The on-failure destination is there",
        about=of_mappings,
        look=_gone,
        consequence="What is given up is dropped.",
        command="make <destination> again, or name another one",
        closes=("failure",),
    ),
    Check(
        id="on-failure-key",
        severity=Severity.ERROR,
        asks="The relay's role may use the KMS key of a queue or topic for what is given up",
        about=of_mappings,
        look=_locked,
        consequence="Lambda cannot store what is given up: it is dropped.",
        command="allow kms:Decrypt and kms:GenerateDataKey on <key>: `outbox infra ... --on-failure-kms-key`",
        closes=("failure",),
    ),
    mapping_check(
        "on-failure-numbers",
        Severity.NOTE,
        asks="The on-failure destination is a bucket",
        look=_numbers_alone,
        consequence="Queues and topics get sequence numbers alone, which nobody can look up once the stream has "
        "forgotten them, after 24 hours.",
        option='--destination-config \'{"OnFailure":{"Destination":"arn:aws:s3:::<a bucket>"}}\'',
        snippet="DestinationConfig: {OnFailure: {Destination: !GetAtt <a bucket>.Arn}}",
    ),
)
