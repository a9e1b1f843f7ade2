"""What each function may do: no more than the calls that it makes, and those that Lambda makes in its name.

Every statement names single actions and single resources. Which calls a function makes follows from the deployment:

    PartiQLUpdate, PartiQLDelete  settling; the second where records are deleted
    GetItem                       what is under a record's keys by now: before it is parked, and for other layouts
    PutItem, UpdateItem           parking; nothing is parked with on_poison="block". The sweeper writes its leases too
    BatchGetItem                  markers of parked keys; the sweeper also reads records by it, one by one
    Query                         the sweeper: the index, and where there is a sort key the partition of a key
    the sink's two or three       publishing, and asking whether the destination is there

Of an event bus the default bus of its Region is part: when a bus is not found the sink asks for that one, to learn
whose account it is in. Were that refused, it could not be told that the bus is missing, and events would be published
to nobody.

In the name of the relay's role Lambda reads the stream and stores what it gives up; in both names it writes the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.infra.destinations import default_buses
from dynamodb_outbox.infra.references import TABLE_ARN, Local, Value, joined
from dynamodb_outbox.infra.resources import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.infra.deployment import Deployment

__all__ = ["relay_statements", "sweeper_statements"]

_PUBLISHING = {
    "bus": ("events:PutEvents", "events:DescribeEventBus"),
    "topic": ("sns:Publish", "sns:GetTopicAttributes"),
    "queue": ("sqs:SendMessage", "sqs:GetQueueUrl", "sqs:GetQueueAttributes"),
}
_STREAM = ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")


def relay_statements(deployment: Deployment, log_group: str, on_failure: Value) -> tuple[Statement, ...]:
    """Return what the relay's role may do; `on_failure` is the ARN of where its mapping stores what it gives up."""
    actions = [*_settling(deployment), "GetItem"]
    if deployment.on_poison != "block":
        actions += ["PutItem", "UpdateItem"]
    if deployment.on_poison == "park_key":
        actions.append("BatchGetItem")
    return (
        Statement(sid="Records", actions=_dynamodb(actions), resources=(TABLE_ARN,)),
        *_publishing(deployment),
        Statement(sid="Stream", actions=_dynamodb(_STREAM), resources=(joined(TABLE_ARN, "/stream/*"),)),
        *_given_up(deployment, on_failure),
        *_keys(deployment),
        *_key("GivenUpKey", deployment.on_failure_kms_key, deployment.on_failure_kind.lower()),
        _log(log_group),
    )


def sweeper_statements(deployment: Deployment, log_group: str) -> tuple[Statement, ...]:
    """Return what the sweeper's role may do."""
    actions = [*_settling(deployment), "GetItem", "BatchGetItem", "PutItem"]
    if deployment.layout.sk is not None:
        actions.append("Query")
    if deployment.on_poison != "block":
        actions.append("UpdateItem")
    index = joined(TABLE_ARN, f"/index/{deployment.layout.index}")
    return (
        Statement(sid="Records", actions=_dynamodb(actions), resources=(TABLE_ARN,)),
        Statement(sid="Pending", actions=_dynamodb(["Query"]), resources=(index,)),
        *_publishing(deployment),
        *_keys(deployment),
        _log(log_group),
    )


def _settling(deployment: Deployment) -> list[str]:
    return ["PartiQLUpdate", "PartiQLDelete"] if deployment.layout.settle == "delete" else ["PartiQLUpdate"]


def _dynamodb(actions: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"dynamodb:{action}" for action in sorted(actions))


def _publishing(deployment: Deployment) -> Iterator[Statement]:
    for kind, actions in _PUBLISHING.items():
        if arns := tuple(each.arn for each in deployment.destinations if each.kind == kind):
            yield Statement(sid=f"Publish{kind.title()}", actions=actions, resources=arns)
            own = default_buses(deployment.destinations) if kind == "bus" else ()
            if others := tuple(each for each in own if each not in arns):
                yield Statement(sid="WhoseAccount", actions=actions[1:], resources=others)


def _given_up(deployment: Deployment, arn: Value) -> Iterator[Statement]:
    """Yield what Lambda needs to store what is given up. Of S3 it is both actions, and so begin the keys [LDG]."""
    kind = deployment.on_failure_kind
    if kind == "S3":
        objects = joined(arn, "/aws/lambda/*")
        yield Statement(sid="GivenUp", actions=("s3:PutObject",), resources=(objects,))
        yield Statement(sid="GivenUpBucket", actions=("s3:ListBucket",), resources=(arn,))
    else:
        action = "sqs:SendMessage" if kind == "SQS" else "sns:Publish"
        yield Statement(sid="GivenUp", actions=(action,), resources=(arn,))


def _keys(deployment: Deployment) -> Iterator[Statement]:
    """Yield what encryption needs: used by AWS's services in the role's name, and by nobody else."""
    yield from _key("Key", deployment.kms_key, "dynamodb", "s3")
    yield from _key("SinkKey", deployment.sink_kms_key, "sns", "sqs")


def _key(sid: str, key: str | None, *services: str) -> Iterator[Statement]:
    if key is not None:
        via = {"kms:ViaService": [f"{service}.*.amazonaws.com" for service in services]}
        actions = ("kms:Decrypt", "kms:GenerateDataKey")
        yield Statement(sid=sid, actions=actions, resources=(key,), condition={"StringLike": via})


def _log(log_group: str) -> Statement:
    return Statement(
        sid="Log",
        actions=("logs:CreateLogStream", "logs:PutLogEvents"),
        resources=(Local("logs", f"log-group:{log_group}:*"),),
    )
