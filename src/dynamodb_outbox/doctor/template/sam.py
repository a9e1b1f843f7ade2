"""SAM's kinds, written out as CloudFormation's: functions, their roles, mappings and schedules, and simple tables.

That is done before values are worked out, so that a function of the template language may stand anywhere.

SAM's own transform is a library of 10 MB. What it makes of these kinds is documented, and a test holds this to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["written_out"]

_FUNCTION, _TABLE = "AWS::Serverless::Function", "AWS::Serverless::SimpleTable"
_GLOBALS = {_FUNCTION: "Function", _TABLE: "SimpleTable"}
_LOCAL = {"Role", "Policies", "FunctionName", "Events"}
_MANAGED = "arn:aws:iam::aws:policy/"
_BASIC = "AWSLambdaBasicExecutionRole"
_STREAM = "AWSLambdaDynamoDBExecutionRole"
_TYPES = {"String": "S", "Number": "N", "Binary": "B"}
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

Resources = dict[str, Any]


def written_out(template: Mapping[str, Any]) -> Resources:
    """Return the resources of a template, those of SAM as CloudFormation's under the ids that SAM gives them."""
    shared: Mapping[str, Any] = template.get("Globals") or {}
    found: Resources = {}
    for id_, resource in template["Resources"].items():
        if not isinstance(resource, Mapping):
            continue
        kind = str(resource.get("Type"))
        if kind not in _GLOBALS:
            found[id_] = resource
            continue
        common = shared.get(_GLOBALS[kind]) or {}
        properties = _merged(
            {name: each for name, each in common.items() if name not in _LOCAL}, resource.get("Properties") or {}
        )
        made = _function(id_, properties) if kind == _FUNCTION else {id_: _table(properties)}
        for one in made.values():
            if "Condition" in resource:
                one["Condition"] = resource["Condition"]
        found |= made
    _connect(template["Resources"], found)
    return found


def _merged(shared: Any, own: Any) -> Any:
    """Return a value with what all share: mappings are merged, lists appended, the rest is the value's own."""
    if (
        isinstance(shared, Mapping)
        and isinstance(own, Mapping)
        and not _is_reference(shared)
        and not _is_reference(own)
    ):
        names = dict.fromkeys((*shared, *own))
        return {
            name: _merged(shared[name], own[name]) if name in shared and name in own else {**shared, **own}[name]
            for name in names
        }
    return [*shared, *own] if isinstance(shared, list) and isinstance(own, list) else own


def _is_reference(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::"))


def _function(id_: str, properties: Mapping[str, Any]) -> Resources:
    plain = {name: value for name, value in properties.items() if name not in ("Events", "Policies")}
    events = properties.get("Events") or {}
    made: Resources = {}
    if "Role" not in plain:
        plain["Role"] = {"Fn::GetAtt": [f"{id_}Role", "Arn"]}
        made[f"{id_}Role"] = {"Type": "AWS::IAM::Role", "Properties": _role(id_, properties, events)}
    made[id_] = {"Type": "AWS::Lambda::Function", "Properties": plain}
    for name, event in events.items():
        kind, said = str(event.get("Type")), event.get("Properties") or {}
        if kind == "DynamoDB":
            made[id_ + name] = {"Type": "AWS::Lambda::EventSourceMapping", "Properties": _mapping(id_, said)}
        elif kind in ("Schedule", "ScheduleV2"):
            made[id_ + name] = _schedule(id_, kind, said)
    return made


def _mapping(id_: str, said: Mapping[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in said.items() if name != "Stream"}
    return {**left, "FunctionName": {"Ref": id_}, "EventSourceArn": said.get("Stream")}


def _schedule(id_: str, kind: str, said: Mapping[str, Any]) -> dict[str, Any]:
    target = {"Arn": {"Fn::GetAtt": [id_, "Arn"]}}
    if kind == "ScheduleV2":
        properties = {
            "ScheduleExpression": said.get("ScheduleExpression"),
            "State": said.get("State"),
            "Target": target,
        }
        return {"Type": "AWS::Scheduler::Schedule", "Properties": properties}
    state = said.get("State") or ("DISABLED" if str(said.get("Enabled", True)).lower() == "false" else "ENABLED")
    properties = {"ScheduleExpression": said.get("Schedule"), "State": state, "Targets": [target]}
    return {"Type": "AWS::Events::Rule", "Properties": properties}


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    key = properties.get("PrimaryKey") or {}
    name = key.get("Name", "id")
    made = {
        **{each: value for each, value in properties.items() if each != "PrimaryKey"},
        "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": _TYPES.get(key.get("Type", "String"), "S")}],
    }
    return {"Type": "AWS::DynamoDB::Table", "Properties": made}


def _role(id_: str, properties: Mapping[str, Any], events: Mapping[str, Any]) -> dict[str, Any]:
    """Return the role that SAM makes of a function's policies and events."""
    managed: list[Any] = [f"{_MANAGED}service-role/{_BASIC}"]
    inline: list[dict[str, Any]] = []
    hidden: list[str] = []
    given = properties.get("Policies") or []
    for place, each in enumerate(given if isinstance(given, list) else [given]):
        name = f"{id_}RolePolicy{place}"
        if isinstance(each, str):
            managed.append(each if each.startswith("arn:") else _MANAGED + each)
        elif "Statement" in each:
            inline.append({"PolicyName": name, "PolicyDocument": each})
        elif _is_reference(each):
            managed.append(each)
        else:
            inline += _of_templates(name, each, hidden)
    for event_name, event in events.items():
        if event.get("Type") == "DynamoDB":
            managed.append(f"{_MANAGED}service-role/{_STREAM}")
            inline += _of_failures(id_ + event_name, event.get("Properties") or {})
    if properties.get("Tracing") == "Active":
        managed.append(f"{_MANAGED}AWSXrayWriteOnlyAccess")
    return {"ManagedPolicyArns": managed, "Policies": inline, "HiddenPolicies": hidden}


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


def _of_failures(name: str, event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what SAM lets the role do with an on-failure destination whose type is told."""
    told = (event.get("DestinationConfig") or {}).get("OnFailure") or {}
    kind, arn = told.get("Type"), told.get("Destination")
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


def _connect(given: Mapping[str, Any], found: Resources) -> None:
    """Note at the roles of functions that connectors add something, which is not written out."""
    sources = [id_ for id_, each in given.items() if isinstance(each, Mapping) and each.get("Connectors")]
    for each in given.values():
        if isinstance(each, Mapping) and each.get("Type") == "AWS::Serverless::Connector":
            source = (each.get("Properties") or {}).get("Source") or {}
            sources.append(str(source.get("Id")))
    for id_ in sources:
        role = found.get(f"{id_}Role")
        if role is not None:
            role["Properties"].setdefault("HiddenPolicies", []).append("what a connector of SAM adds")
