"""The role that SAM makes of a function's policies and events, as CloudFormation has it.

Which policies there are may hang on a condition. What of them is not worked out is noted as hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.inventory import Unseen
from dynamodb_outbox.doctor.template.values import NOTHING, is_reference

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.template.values import Values

__all__ = ["STREAM_EVENT", "Events", "role_properties"]

Events = Mapping[str, tuple[str, Mapping[str, Any]]]
"""A function's events by name: what kind each is of, and its properties."""

STREAM_EVENT = "DynamoDB"
_MANAGED = "arn:aws:iam::aws:policy/"
_BASIC = "AWSLambdaBasicExecutionRole"
_STREAM = "AWSLambdaDynamoDBExecutionRole"
_TRUST = {
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}]
}
_SEND = {"SQS": "sqs:SendMessage", "SNS": "sns:Publish"}

_TABLE_ARN = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${TableName}"
_READ = ("GetItem", "Scan", "Query", "BatchGetItem", "DescribeTable")
_WRITE = ("PutItem", "UpdateItem", "BatchWriteItem")
_POLICIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "DynamoDBCrudPolicy": (
        tuple(f"dynamodb:{each}" for each in (*_READ, *_WRITE, "DeleteItem", "ConditionCheckItem")),
        (_TABLE_ARN, _TABLE_ARN + "/index/*"),
    ),
    "DynamoDBReadPolicy": (tuple(f"dynamodb:{each}" for each in _READ), (_TABLE_ARN, _TABLE_ARN + "/index/*")),
    "DynamoDBWritePolicy": (tuple(f"dynamodb:{each}" for each in _WRITE), (_TABLE_ARN, _TABLE_ARN + "/index/*")),
    "DynamoDBStreamReadPolicy": (
        tuple(f"dynamodb:{each}" for each in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")),
        (_TABLE_ARN + "/stream/${StreamName}",),
    ),
    "EventBridgePutEventsPolicy": (
        ("events:PutEvents",),
        ("arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/${EventBusName}",),
    ),
    "SNSPublishMessagePolicy": (
        ("sns:Publish",),
        ("arn:${AWS::Partition}:sns:${AWS::Region}:${AWS::AccountId}:${TopicName}",),
    ),
    "SQSSendMessagePolicy": (
        ("sqs:SendMessage*",),
        ("arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:${QueueName}",),
    ),
    "S3WritePolicy": (
        ("s3:PutObject", "s3:PutObjectAcl", "s3:PutLifecycleConfiguration"),
        ("arn:${AWS::Partition}:s3:::${BucketName}", "arn:${AWS::Partition}:s3:::${BucketName}/*"),
    ),
    "S3CrudPolicy": (
        ("s3:GetObject", "s3:ListBucket", "s3:PutObject", "s3:DeleteObject"),
        ("arn:${AWS::Partition}:s3:::${BucketName}", "arn:${AWS::Partition}:s3:::${BucketName}/*"),
    ),
}
"""SAM's policy templates that are likely here: actions, and resources that their parameters are put into."""


def role_properties(
    id_: str, properties: Mapping[str, Any], events: Events, hidden: list[str], values: Values
) -> dict[str, Any]:
    """Return the properties of a function's role; `hidden` says what else it may have."""
    managed: list[Any] = [f"{_MANAGED}service-role/{_BASIC}"]
    inline: list[dict[str, Any]] = []
    for place, each in enumerate(_policies(properties, hidden, values)):
        name = f"{id_}RolePolicy{place}"
        if isinstance(each, str):
            managed.append(each if each.startswith("arn:") else _MANAGED + each)
        elif not isinstance(each, Mapping):
            raise TypeError(f"{each!r} is no policy")
        elif "Statement" in each:
            inline.append({"PolicyName": name, "PolicyDocument": each})
        elif is_reference(each):
            managed.append(each)
        else:
            inline += _of_templates(name, each, hidden)
    for event_name, (kind, said) in events.items():
        if kind == STREAM_EVENT:
            managed.append(f"{_MANAGED}service-role/{_STREAM}")
            inline += _of_failures(id_ + event_name, said, hidden, values)
    if properties.get("Tracing") == "Active":
        managed.append(f"{_MANAGED}AWSXrayWriteOnlyAccess")
    trust = properties.get("AssumeRolePolicyDocument") or _TRUST
    return {
        "AssumeRolePolicyDocument": trust,
        "ManagedPolicyArns": managed,
        "Policies": inline,
        "HiddenPolicies": hidden,
    }


def _policies(properties: Mapping[str, Any], hidden: list[str], values: Values) -> Iterator[Any]:
    """Yield the policies that a function names, of a condition the branch that counts."""
    given = values.branch(properties.get("Policies"))
    for each in given if isinstance(given, list) else [given]:
        found = values.branch(each)
        if isinstance(found, Unseen):
            hidden.append(f"a policy ({found.why})")
        elif found is not None and found is not NOTHING:
            yield found


def _of_templates(name: str, given: Mapping[str, Any], hidden: list[str]) -> Iterator[dict[str, Any]]:
    for template, parameters in given.items():
        if template not in _POLICIES:
            hidden.append(f"SAM's policy template {template}")
            continue
        actions, resources = _POLICIES[template]
        statement = {
            "Effect": "Allow",
            "Action": list(actions),
            "Resource": [{"Fn::Sub": [each, parameters or {}]} for each in resources],
        }
        yield {"PolicyName": f"{name} ({template})", "PolicyDocument": {"Statement": [statement]}}


def _of_failures(name: str, event: Mapping[str, Any], hidden: list[str], values: Values) -> Iterator[dict[str, Any]]:
    """Yield what SAM lets the role do with an on-failure destination whose type is told."""
    config = values.part(event.get("DestinationConfig"))
    told = config if isinstance(config, Unseen) else values.part(config.get("OnFailure"))
    kind = told if isinstance(told, Unseen) else values.of(told.get("Type"))
    if isinstance(told, Unseen) or isinstance(kind, Unseen):
        hidden.append(f"what an on-failure destination adds ({kind.why})")
        return
    arn = told.get("Destination")
    statements = []
    if kind in _SEND:
        statements = [{"Effect": "Allow", "Action": _SEND[kind], "Resource": arn}]
    elif kind == "S3":
        objects = {"Fn::Sub": ["${arn}/*", {"arn": arn}]}
        statements = [
            {"Effect": "Allow", "Action": "s3:PutObject", "Resource": objects},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn},
        ]
    if statements:
        yield {"PolicyName": f"{name}OnFailure", "PolicyDocument": {"Statement": statements}}
