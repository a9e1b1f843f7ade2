"""Where the mapping stores what it gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.limits import NOT_GIVEN_UP_TO
from dynamodb_outbox.doctor.around import GIVEN_UP
from dynamodb_outbox.doctor.checks import Check, Evidence, Said, Severity, of_mappings, relay_of
from dynamodb_outbox.doctor.encryption import BUCKET, key_denied
from dynamodb_outbox.doctor.inventory import name_in, seen
from dynamodb_outbox.doctor.mapping_checks import mapping_check
from dynamodb_outbox.doctor.resource_policies import Call, denies, who_is
from dynamodb_outbox.infra.plan import KEPT_DAYS
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Store, StreamMapping, System

__all__ = ["CHECKS"]

_LEAST_DAYS = 14
"""As long as a queue can keep what is given up."""
_TO_A_BUCKET = '--destination-config \'{"OnFailure":{"Destination":"arn:aws:s3:::<a bucket>"}}\''
_BUCKET_SNIPPET = "DestinationConfig: {OnFailure: {Destination: !GetAtt <a bucket>.Arn}}"


def _missing(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    if seen(mapping.on_failure) is None:
        yield "no on-failure destination"


def _gone(mapping: StreamMapping, system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    if arn is not None and seen(system.failures[arn]) is None:
        yield Evidence(f"{arn} is not there", {"destination": name_in(arn)})


def _fifo(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    if arn is not None and not _is_bucket(arn) and arn.endswith(NOT_GIVEN_UP_TO):
        yield f"the on-failure destination {arn} is FIFO"


def _locked(mapping: StreamMapping, system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    store = None if arn is None else seen(system.failures[arn])
    if store is not None:
        actions = {"actions": BUCKET} if _is_bucket(str(arn)) else {}
        yield from key_denied(relay_of(mapping, system), str(arn), seen(store.key), **actions)


def _is_bucket(arn: str) -> bool:
    return ":s3:" in arn


def _bucket(mapping: StreamMapping, system: System) -> tuple[str, Store] | None:
    """Return the bucket for what is given up, by its ARN; None where there is none, or something else."""
    arn = seen(mapping.on_failure)
    store = seen(system.failures[arn]) if arn is not None and _is_bucket(arn) else None
    return None if arn is None or store is None else (arn, store)


def _denied(mapping: StreamMapping, system: System) -> Iterator[Said]:
    found = _bucket(mapping, system)
    if found is None or all(each.allows or each.conditional for each in seen(found[1].policy) or ()):
        return
    arn, store = found
    who = who_is(seen(relay_of(mapping, system).role))
    calls = (Call(who, "s3:PutObject", f"{arn}/{GIVEN_UP}x"), Call(who, "s3:ListBucket", arn))
    denied = [each.action for each in calls if seen(denies(store.policy, each))]
    if denied:
        yield Evidence(f"the policy of {arn} denies {' and '.join(denied)}", {"bucket": name_in(arn)})


def _early(mapping: StreamMapping, system: System) -> Iterator[Said]:
    found = _bucket(mapping, system)
    days = None if found is None else seen(found[1].days)
    if found is not None and days is not None and days < _LEAST_DAYS:
        said = f"a lifecycle rule of {found[0]} removes {GIVEN_UP}* after {counted(days, 'day')}"
        yield Evidence(said, {"bucket": name_in(found[0])})


def _numbers_alone(mapping: StreamMapping, _system: System) -> Iterator[Said]:
    arn = seen(mapping.on_failure)
    if arn is not None and not _is_bucket(arn):
        yield f"the on-failure destination is {arn}"


CHECKS = (
    mapping_check(
        "on-failure-missing",
        Severity.WARNING,
        asks="The mapping has an on-failure destination",
        look=_missing,
        consequence="What is given up is gone from the stream, and nobody knows which records these were.",
        option=_TO_A_BUCKET,
        snippet=_BUCKET_SNIPPET,
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
    mapping_check(
        "on-failure-fifo",
        Severity.ERROR,
        asks="The on-failure destination is no FIFO queue or topic",
        look=_fifo,
        consequence="Lambda cannot store what is given up: it is dropped.",
        option=_TO_A_BUCKET,
        snippet=_BUCKET_SNIPPET,
        closes=("failure",),
    ),
    Check(
        id="on-failure-key",
        severity=Severity.ERROR,
        asks="The relay's role may use the KMS key of the on-failure destination",
        about=of_mappings,
        look=_locked,
        consequence="Lambda cannot store what is given up: it is dropped.",
        command="allow <actions> on <key>: `outbox infra ... --on-failure-kms-key`",
        closes=("failure",),
    ),
    Check(
        id="on-failure-denied",
        severity=Severity.ERROR,
        asks="The policy of the bucket for what is given up does not deny it to the relay's role",
        about=of_mappings,
        look=_denied,
        consequence="Lambda cannot store what is given up: it is dropped.",
        command="give the denial in the policy of <bucket> a condition that the relay's role does not meet",
        closes=("failure",),
    ),
    Check(
        id="on-failure-early",
        severity=Severity.WARNING,
        asks=f"That bucket keeps what is given up for {_LEAST_DAYS} days at least",
        about=of_mappings,
        look=_early,
        consequence="It is gone before somebody has redriven it.",
        command=f"let the rule of <bucket> have Days: {KEPT_DAYS}, or another prefix",
        snippet=f"ExpirationInDays: {KEPT_DAYS}",
        closes=("failure",),
    ),
    mapping_check(
        "on-failure-numbers",
        Severity.NOTE,
        asks="The on-failure destination is a bucket",
        look=_numbers_alone,
        consequence="Queues and topics get sequence numbers alone, which nobody can look up once the stream has "
        "forgotten them, after 24 hours.",
        option=_TO_A_BUCKET,
        snippet=_BUCKET_SNIPPET,
    ),
)
