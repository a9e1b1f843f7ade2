"""The bucket of a claim check, where the user names it: that it is there, and how long it keeps objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.checks import Check, Said, Severity, Subject
from dynamodb_outbox.doctor.inventory import seen
from dynamodb_outbox.infra.plan import KEPT_DAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.doctor.system import Bucket, System

__all__ = ["CHECKS"]


def _of_payloads(system: System) -> tuple[Subject, ...]:
    bucket = system.payloads
    if bucket is None:
        return ()
    return (Subject(f"bucket {bucket.name}", bucket, {"bucket": bucket.name, "prefix": bucket.prefix}),)


def _gone(bucket: Bucket, _system: System) -> Iterator[Said]:
    if not seen(bucket.exists):
        yield "the bucket is not there"


def _forever(bucket: Bucket, _system: System) -> Iterator[Said]:
    if seen(bucket.exists) and seen(bucket.days) is None:
        yield f"no lifecycle rule removes {bucket.prefix}*"


def _early(bucket: Bucket, _system: System) -> Iterator[Said]:
    days = seen(bucket.days) if seen(bucket.exists) else None
    if days is not None and days < KEPT_DAYS:
        yield f"a lifecycle rule removes {bucket.prefix}* after {days} days"


_RULE = (
    'aws s3api put-bucket-lifecycle-configuration --bucket <bucket> --lifecycle-configuration \'{"Rules":[{"ID":'
    '"outbox","Status":"Enabled","Filter":{"Prefix":"<prefix>"},"Expiration":{"Days":'
    f"{KEPT_DAYS}}}}}]}}' (it replaces other rules)"
)
_SNIPPET = f"LifecycleConfiguration: {{Rules: [{{Status: Enabled, Prefix: <prefix>, ExpirationInDays: {KEPT_DAYS}}}]}}"

CHECKS = (
    Check(
        id="payloads-gone",
        severity=Severity.ERROR,
        asks="The bucket of the claim check is there (with --claim-check)",
        about=_of_payloads,
        look=_gone,
        consequence="Large events can neither be committed nor consumed.",
        command="aws s3 mb s3://<bucket>",
        limits=("P2",),
    ),
    Check(
        id="payloads-forever",
        severity=Severity.NOTE,
        asks="Its objects are removed some day (with --claim-check)",
        about=_of_payloads,
        look=_forever,
        consequence="Nothing is deleted on consuming: objects stay for good, and are paid for.",
        command=_RULE,
        snippet=_SNIPPET,
    ),
    Check(
        id="payloads-early",
        severity=Severity.ERROR,
        asks=f"They are kept for {KEPT_DAYS} days at least (with --claim-check)",
        about=_of_payloads,
        look=_early,
        consequence="What is parked, in a dead-letter queue, or replayed after that has lost its data.",
        command=_RULE,
        snippet=_SNIPPET,
        limits=("P2",),
    ),
)
