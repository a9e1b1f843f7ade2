"""What is around an outbox: where events go, the alarms and who they tell, the bucket of a claim check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.doctor.inventory import Inventory, Piece, Seen, Unseen, name_in, same_arn
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.reading import alarm_of, target_of, topic_of
from dynamodb_outbox.doctor.resource_policies import bucket_policy, topic_policy
from dynamodb_outbox.doctor.system import Alarm, Bucket, Function, Store, Target, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ARCHIVE", "GIVEN_UP", "alarms_of", "payloads_of", "sinks_of", "store_at", "target_at", "topics_of"]

ARCHIVE = "AWS::Events::Archive"
GIVEN_UP = "aws/lambda/"
"""What the keys of objects begin with that a mapping stores [LDG]."""

_STORES = ("AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::SNS::Topic")
_TARGETS = ("AWS::Events::EventBus", "AWS::SNS::Topic", "AWS::SQS::Queue")
_PREFIXES = (("Prefix",), ("Filter", "Prefix"), ("Filter", "And", "Prefix"))


def sinks_of(relays: Sequence[Function]) -> Seen[tuple[str, ...]]:
    """Return the ARNs of where events go, each once."""
    found: dict[str, None] = {}
    for each in relays:
        sinks = each.settings.sinks
        if isinstance(sinks, Unseen):
            return sinks
        found |= dict.fromkeys(sinks.values())
    return tuple(found)


def target_at(inventory: Inventory, arn: str) -> Target:
    """Return where events go, by its ARN."""
    archives = [
        str(each.properties.get("ArchiveName") or each.id)
        for each in inventory.of(ARCHIVE)
        if same_arn(str(each.properties.get("SourceArn")), arn)
    ]
    lacking = inventory.lacks(ARCHIVE)
    known: Seen[tuple[str, ...]] = tuple(archives) if archives or lacking is None else lacking
    return target_of(arn, inventory.at(arn, *_TARGETS), known)


def alarms_of(inventory: Inventory) -> Seen[tuple[Alarm, ...]]:
    """Return the alarms; composite ones count where they notify for others."""
    lacking = inventory.lacks("AWS::CloudWatch::Alarm")
    pieces = inventory.of("AWS::CloudWatch::Alarm")
    if lacking is not None and not pieces:
        return lacking
    composites = [Properties(each.properties) for each in inventory.of("AWS::CloudWatch::CompositeAlarm")]
    return tuple(alarm_of(each, _relayed(each, composites)) for each in pieces)


def _relayed(piece: Piece, composites: Sequence[Properties]) -> Seen[bool]:
    """Return whether a composite alarm notifies for an alarm."""
    hidden: Unseen | None = None
    for each in composites:
        enabled, actions = each.flag("ActionsEnabled", default=True), each.texts("AlarmActions")
        rule = each.text("AlarmRule")
        if enabled is False or actions == () or (isinstance(rule, str) and not _is_named(piece, rule)):
            continue
        unseen = next((part for part in (enabled, actions, rule) if isinstance(part, Unseen)), None)
        if unseen is None:
            return True
        hidden = unseen
    return hidden or False


def _is_named(piece: Piece, rule: str) -> bool:
    name = str(piece.properties.get("AlarmName") or piece.id)
    return f'"{name}"' in rule or f"({name})" in rule or piece.arn in rule


def topics_of(inventory: Inventory, alarms: Iterable[Alarm]) -> dict[str, Seen[Topic | None]]:
    """Return the topics that alarms notify, by ARN."""
    arns = {arn for alarm in alarms if isinstance(alarm.actions, tuple) for arn in alarm.actions if ":sns:" in arn}
    found: dict[str, Seen[Topic | None]] = {}
    for arn in sorted(arns):
        piece = inventory.at(arn, "AWS::SNS::Topic")
        found[arn] = (
            topic_of(piece, _subscribed(inventory, arn), topic_policy(piece, inventory))
            if isinstance(piece, Piece)
            else piece
        )
    return found


def _subscribed(inventory: Inventory, arn: str) -> Seen[int]:
    """Return how many subscriptions to a topic are resources of their own."""
    topics = [Properties(each.properties).text("TopicArn") for each in inventory.of("AWS::SNS::Subscription")]
    count = topics.count(arn)
    hidden = next((each for each in topics if isinstance(each, Unseen)), None)
    return count or hidden or inventory.lacks("AWS::SNS::Subscription") or 0


def store_at(inventory: Inventory, arn: str) -> Seen[Store | None]:
    """Return where a mapping stores what it gives up, by its ARN."""
    piece = inventory.at(arn, *_STORES)
    if piece is None or isinstance(piece, Unseen):
        return piece
    found = Properties(piece.properties)
    if piece.kind != "AWS::S3::Bucket":
        return Store(key=found.text("KmsMasterKeyId"), days=None, policy=None)
    encryption = found.parts("BucketEncryption", "ServerSideEncryptionConfiguration")
    keys = (
        encryption
        if isinstance(encryption, Unseen)
        else [each.text("ServerSideEncryptionByDefault", "KMSMasterKeyID") for each in encryption]
    )
    return Store(
        key=keys if isinstance(keys, Unseen) else next(iter(keys), None),
        days=_days(found, GIVEN_UP),
        policy=bucket_policy(piece, inventory),
    )


def payloads_of(inventory: Inventory, bucket: str | None, prefix: str) -> Bucket | None:
    """Return the bucket of the claim check that the user told of."""
    if bucket is None:
        return None
    named = next((each for each in inventory.of("AWS::S3::Bucket") if each.id == bucket), None)
    piece = named or inventory.at(f"arn:aws:s3:::{bucket}", "AWS::S3::Bucket")
    if not isinstance(piece, Piece):
        days = piece or Unseen("the bucket is not there")
        return Bucket(name=bucket, exists=piece or False, prefix=prefix, days=days)
    name = name_in(piece.arn)
    return Bucket(name=name, exists=True, prefix=prefix, days=_days(Properties(piece.properties), prefix))


def _days(bucket: Properties, prefix: str) -> Seen[int | None]:
    """Return after how many days the first rule that is about a prefix removes objects."""
    rules = bucket.parts("LifecycleConfiguration", "Rules")
    if isinstance(rules, Unseen):
        return rules
    found: list[int] = []
    for each in rules:
        prefixes = [each.text(*path) for path in _PREFIXES]
        days = each.number("ExpirationInDays")
        hidden = next((value for value in (days, *prefixes) if isinstance(value, Unseen)), None)
        if hidden is not None:
            return hidden
        of = next((value for value in prefixes if value), "")
        if each.raw("Status") == "Enabled" and isinstance(days, int) and prefix.startswith(str(of)):
            found.append(days)
    return min(found, default=None)
