"""A CloudFormation template, read back into the resources that it describes.

Written from CloudFormation's side: each property is looked up by its name there, and what is not looked up is an error.
So a property that a rendering leaves out, or adds, or fills with another value, makes a difference.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynamodb_outbox.core.record.table import Index, RecordsTable
from dynamodb_outbox.infra.plan import outputs_of
from dynamodb_outbox.infra.references import TABLE_ARN, TABLE_NAME, Attribute, Joined, Local, Region
from dynamodb_outbox.infra.resources import (
    Alarm,
    Archive,
    Bucket,
    Bus,
    Dashboard,
    ExistingTable,
    Function,
    LogGroup,
    Metric,
    Resource,
    Role,
    Schedule,
    Statement,
    StreamMapping,
    Table,
    Topic,
)

NAMES = {
    "AWS::DynamoDB::Table": "name",
    "AWS::Lambda::Function": "name",
    "AWS::S3::Bucket": "name",
    "AWS::Lambda::EventSourceMapping": "id",
    "AWS::SNS::Topic": "arn",
}
"""What Ref gives of a resource of a type."""

KINDS = {"s3": "S3", "sqs": "SQS", "sns": "SNS"}
CLOSED = {"BlockPublicAcls": True, "BlockPublicPolicy": True, "IgnorePublicAcls": True, "RestrictPublicBuckets": True}


VERSION = "2012-10-17"


def denied_without_tls(id_: str) -> dict[str, Any]:
    """Return the policy that a bucket has to have."""
    statement = {
        "Sid": "EncryptedInTransit",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [f"${{{id_}.arn}}", f"${{{id_}.arn}}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {"Version": VERSION, "Statement": [statement]}


def open_to_alarms(id_: str) -> dict[str, Any]:
    """Return the policy that a topic has to have."""
    statement = {
        "Sid": "Alarms",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": f"${{{id_}.arn}}",
        "Condition": {"StringEquals": {"aws:SourceAccount": "${AccountId}"}},
    }
    return {"Version": VERSION, "Statement": [statement]}


class Taken(dict[str, Any]):
    """Properties that are taken one by one; `done` fails when some were not."""

    def must(self, **wanted: Any) -> None:
        """Take properties that have to hold these very values."""
        for name, value in wanted.items():
            assert self.pop(name) == value, name

    def done(self) -> None:
        """Fail when a property was not taken."""
        assert not self, sorted(self)


class Template:
    """A template, and what it comes to."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self.resources: Mapping[str, Any] = template["Resources"]
        self.parameters: Mapping[str, Any] = template.get("Parameters", {})
        self.outputs: Mapping[str, Any] = template.get("Outputs", {})

    def read(self, existing: str | None = None) -> dict[str, Resource]:
        """Return the resources by id; `existing` is the name of a table that is not part of the template."""
        found: dict[str, Resource] = {}
        if existing is not None:
            assert "StreamArn" in self.parameters
            found["Table"] = ExistingTable(id="Table", name=existing)
        for id_, resource in self.resources.items():
            reader = READERS[resource["Type"]]
            if reader is not None:
                properties = Taken(json.loads(json.dumps(resource["Properties"])))
                found[id_] = reader(self, id_, properties)
                properties.done()
        return found

    def told(self) -> dict[str, str]:
        """Return the outputs, in the form of `outputs`."""
        return {name: self.value(each["Value"]) for name, each in self.outputs.items()}

    def value(self, said: Any) -> str:
        """Return a value in the form of `canonical`."""
        if isinstance(said, str):
            return said
        ((word, content),) = said.items()
        if word == "Fn::Join":
            assert content[0] == ""
            return "".join(map(self.value, content[1]))
        if word == "Fn::Sub":
            return re.sub(r"\$\{(!?)([^}]*)\}", self._inside, content)
        return self._reference(content if word == "Ref" else ".".join(content))

    def plain(self, said: Any) -> Any:
        """Return values within values in the form of `canonical`."""
        if isinstance(said, list):
            return [self.plain(each) for each in said]
        if not isinstance(said, dict):
            return said
        if len(said) == 1 and next(iter(said)).startswith(("Ref", "Fn::")):
            return self.value(said)
        return {name: self.plain(each) for name, each in said.items()}

    def id_of(self, said: Any) -> str:
        """Return the id of the resource whose name or ARN a value is."""
        found = re.fullmatch(r"\$\{(\w+)\.(arn|name)\}", self.value(said))
        assert found
        return found[1]

    def only(self, kind: str, **wanted: Any) -> Taken:
        """Return the properties of the one resource of a type that has these."""
        (found,) = (
            each["Properties"]
            for each in self.resources.values()
            if each["Type"] == kind and wanted.items() <= each["Properties"].items()
        )
        return Taken(json.loads(json.dumps(found)))

    def _inside(self, found: re.Match[str]) -> str:
        return "${" + found[2] + "}" if found[1] else self._reference(found[2])

    def _reference(self, said: str) -> str:
        if said.startswith("AWS::"):
            return "${" + said.removeprefix("AWS::") + "}"
        if said == "StreamArn":
            return "${Table.stream_arn}"
        id_, _, name = said.partition(".")
        told = {"Arn": "arn", "StreamArn": "stream_arn"}[name] if name else NAMES[self.resources[id_]["Type"]]
        return f"${{{id_}.{told}}}"


def canonical(resource: Resource, table: Resource) -> dict[str, Any]:
    """Return a resource of a description as plain values, its references as text, to compare it with another."""
    existing = table.name if isinstance(table, ExistingTable) else None
    return {**_plain(resource, existing), "kind": type(resource).__name__}


def outputs(resources: Sequence[Resource]) -> dict[str, str]:
    """Return the outputs of a description, as text, to compare them with others."""
    table = resources[0]
    existing = table.name if isinstance(table, ExistingTable) else None
    return {name: _text(each, existing) for name, each in outputs_of(resources).items()}


def _text(value: Any, existing: str | None) -> str:
    if isinstance(value, Joined):
        return "".join(_text(part, existing) for part in value.parts)
    if existing is not None:
        value = {TABLE_NAME: existing, TABLE_ARN: Local("dynamodb", f"table/{existing}")}.get(value, value)
    if isinstance(value, Attribute):
        return f"${{{value.resource}.{value.name}}}"
    if isinstance(value, Local):
        return f"arn:${{Partition}}:{value.service}:{value.region or '${Region}'}:${{AccountId}}:{value.resource}"
    return "${Region}" if isinstance(value, Region) else str(value)


def _plain(value: Any, existing: str | None) -> Any:
    if isinstance(value, (Joined, Attribute, Local, Region)):
        return _text(value, existing)
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name), existing) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(inner, existing) for name, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(inner, existing) for inner in value)
    return value


def table(_template: Template, id_: str, taken: Taken) -> Table:
    """Read a table."""
    taken.must(
        BillingMode="PAY_PER_REQUEST",
        PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        DeletionProtectionEnabled=True,
    )
    keys = [(each["AttributeName"], each["KeyType"]) for each in taken.pop("KeySchema")]
    (index,) = taken.pop("GlobalSecondaryIndexes")
    (partition, _), (sort, _) = [(each["AttributeName"], each["KeyType"]) for each in index["KeySchema"]]
    assert index["Projection"]["ProjectionType"] == "INCLUDE"
    assert [kind for _, kind in keys] == ["HASH", "RANGE"][: len(keys)]
    ttl = taken.pop("TimeToLiveSpecification")
    assert ttl["Enabled"] is True
    key = taken.pop("SSESpecification", None)
    assert key is None or (key.pop("SSEEnabled") is True and key.pop("SSEType") == "KMS")
    return Table(
        id=id_,
        name=taken.pop("TableName"),
        needs=RecordsTable(
            types={each["AttributeName"]: each["AttributeType"] for each in taken.pop("AttributeDefinitions")},
            partition=keys[0][0],
            sort=keys[1][0] if len(keys) > 1 else None,
            index=Index(
                name=index["IndexName"],
                partition=partition,
                sort=sort,
                projected=tuple(index["Projection"]["NonKeyAttributes"]),
            ),
            ttl=ttl["AttributeName"],
        ),
        stream_view=taken.pop("StreamSpecification")["StreamViewType"],
        kms_key=None if key is None else key["KMSMasterKeyId"],
    )


def bus(_template: Template, id_: str, taken: Taken) -> Bus:
    """Read a bus."""
    return Bus(id=id_, name=taken.pop("Name"))


def archive(template: Template, id_: str, taken: Taken) -> Archive:
    """Read an archive."""
    return Archive(
        id=id_,
        name=taken.pop("ArchiveName"),
        bus=template.value(taken.pop("SourceArn")),
        days=taken.pop("RetentionDays"),
    )


def bucket(template: Template, id_: str, taken: Taken) -> Bucket:
    """Read a bucket with its policy."""
    taken.must(PublicAccessBlockConfiguration=CLOSED)
    (rule,) = taken.pop("LifecycleConfiguration")["Rules"]
    assert rule["Status"] == "Enabled"
    (encryption,) = taken.pop("BucketEncryption")["ServerSideEncryptionConfiguration"]
    by_default = encryption["ServerSideEncryptionByDefault"]
    key = by_default.get("KMSMasterKeyID")
    assert by_default["SSEAlgorithm"] == ("AES256" if key is None else "aws:kms")
    policy = template.only("AWS::S3::BucketPolicy", Bucket={"Ref": id_})
    policy.must(Bucket={"Ref": id_})
    assert template.plain(policy.pop("PolicyDocument")) == denied_without_tls(id_)
    policy.done()
    return Bucket(id=id_, days=rule["ExpirationInDays"], kms_key=key)


def log_group(_template: Template, id_: str, taken: Taken) -> LogGroup:
    """Read a log group."""
    return LogGroup(id=id_, name=taken.pop("LogGroupName"), days=taken.pop("RetentionInDays"))


def role(template: Template, id_: str, taken: Taken) -> Role:
    """Read a role, which only Lambda may take."""
    (trusted,) = taken.pop("AssumeRolePolicyDocument")["Statement"]
    assert trusted == {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    (policy,) = taken.pop("Policies")
    return Role(
        id=id_,
        policy=policy["PolicyName"],
        statements=tuple(statement(template, each) for each in policy["PolicyDocument"]["Statement"]),
    )


def statement(template: Template, said: Mapping[str, Any]) -> Statement:
    """Read a statement of a policy."""
    taken = Taken(said)
    taken.must(Effect="Allow")
    found = Statement(
        sid=taken.pop("Sid"),
        actions=tuple(taken.pop("Action")),
        resources=tuple(template.value(each) for each in taken.pop("Resource")),
        condition=taken.pop("Condition", None),
    )
    taken.done()
    return found


def function(template: Template, id_: str, taken: Taken) -> Function:
    """Read a function, with what holds for its asynchronous invocations."""
    taken.pop("Code")
    taken.pop("Tags", None)  # SAM's own mark
    (architecture,) = taken.pop("Architectures")
    has_async = any(
        each["Type"] == "AWS::Lambda::EventInvokeConfig" and each["Properties"]["FunctionName"] == {"Ref": id_}
        for each in template.resources.values()
    )
    asked = Taken()
    if has_async:
        asked = template.only("AWS::Lambda::EventInvokeConfig", FunctionName={"Ref": id_}, Qualifier="$LATEST")
        asked.must(FunctionName={"Ref": id_}, Qualifier="$LATEST")
        assert not asked.pop("DestinationConfig", {})  # SAM writes it empty
    found = Function(
        id=id_,
        name=taken.pop("FunctionName"),
        describes=taken.pop("Description"),
        handler=taken.pop("Handler"),
        role=template.id_of(taken.pop("Role")),
        log=template.resources[id_]["DependsOn"],
        runtime=taken.pop("Runtime"),
        architecture=architecture,
        memory_mb=taken.pop("MemorySize"),
        timeout_s=taken.pop("Timeout"),
        reserved=taken.pop("ReservedConcurrentExecutions", None),
        environment={name: template.value(each) for name, each in taken.pop("Environment")["Variables"].items()},
        retries=asked.pop("MaximumRetryAttempts", None),
        event_age_s=asked.pop("MaximumEventAgeInSeconds", None),
    )
    asked.done()
    return found


def mapping(template: Template, id_: str, taken: Taken) -> StreamMapping:
    """Read an event source mapping."""
    taken.must(
        StartingPosition="TRIM_HORIZON",
        BisectBatchOnFunctionError=True,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        MetricsConfig={"Metrics": ["EventCount"]},
    )
    on_failure = template.value(taken.pop("DestinationConfig")["OnFailure"]["Destination"])
    kind = "S3" if on_failure == "${GivenUp.arn}" else KINDS[on_failure.split(":")[2]]
    return StreamMapping(
        id=id_,
        name="Stream",
        function=template.id_of(taken.pop("FunctionName")),
        stream=template.value(taken.pop("EventSourceArn")),
        filters=tuple(each["Pattern"] for each in taken.pop("FilterCriteria")["Filters"]),
        batch_size=taken.pop("BatchSize"),
        parallelization=taken.pop("ParallelizationFactor"),
        retries=taken.pop("MaximumRetryAttempts"),
        record_age_s=taken.pop("MaximumRecordAgeInSeconds"),
        on_failure=on_failure,
        on_failure_kind=kind,
    )


def schedule(template: Template, id_: str, taken: Taken) -> Schedule:
    """Read a schedule, and see that it may invoke its function."""
    assert taken.pop("State", "ENABLED") == "ENABLED"
    (target,) = taken.pop("Targets")
    allowed = template.only("AWS::Lambda::Permission", Action="lambda:InvokeFunction", Principal="events.amazonaws.com")
    allowed.must(Action="lambda:InvokeFunction", Principal="events.amazonaws.com")
    assert template.id_of(allowed.pop("FunctionName")) == template.id_of(target["Arn"])
    assert template.id_of(allowed.pop("SourceArn")) == id_
    allowed.done()
    found = re.fullmatch(r"rate\((\d+) (minutes?)\)", taken.pop("ScheduleExpression"))
    assert found
    assert (found[2] == "minute") is (found[1] == "1")
    return Schedule(id=id_, name="Schedule", function=template.id_of(target["Arn"]), minutes=int(found[1]))


def topic(template: Template, id_: str, taken: Taken) -> Topic:
    """Read a topic, and see that alarms of this account may publish to it."""
    (subscribed,) = taken.pop("Subscription")
    assert subscribed.pop("Protocol") == "email"
    policy = template.only("AWS::SNS::TopicPolicy", Topics=[{"Ref": id_}])
    policy.must(Topics=[{"Ref": id_}])
    assert template.plain(policy.pop("PolicyDocument")) == open_to_alarms(id_)
    policy.done()
    return Topic(id=id_, name=taken.pop("TopicName"), email=subscribed["Endpoint"])


def alarm(template: Template, id_: str, taken: Taken) -> Alarm:
    """Read an alarm, which notifies when it starts and when it is over."""
    (notify,) = taken.pop("AlarmActions")
    taken.must(OKActions=[notify])
    expression = None
    if "Metrics" in taken:
        (first, *operands) = taken.pop("Metrics")
        assert first.pop("ReturnData") is True
        expression = first["Expression"]
        metrics = tuple(operand(template, Taken(each)) for each in operands)
    else:
        metrics = (metric(template, taken, taken.pop("Statistic"), taken.pop("Period")),)
    return Alarm(
        id=id_,
        name=taken.pop("AlarmName"),
        says=taken.pop("AlarmDescription"),
        metrics=metrics,
        expression=expression,
        comparison=taken.pop("ComparisonOperator"),
        threshold=taken.pop("Threshold"),
        periods=taken.pop("EvaluationPeriods"),
        datapoints=taken.pop("DatapointsToAlarm"),
        missing=taken.pop("TreatMissingData"),
        notify=template.value(notify),
    )


def operand(template: Template, taken: Taken) -> Metric:
    """Read a metric that an expression uses."""
    taken.must(ReturnData=False)
    stat = taken.pop("MetricStat")
    found = metric(template, Taken(stat["Metric"]), stat["Stat"], stat["Period"], taken.pop("Id"))
    taken.done()
    return found


def metric(template: Template, taken: Taken, statistic: str, period_s: int, id_: str = "value") -> Metric:
    """Read a metric."""
    return Metric(
        id=id_,
        namespace=taken.pop("Namespace"),
        name=taken.pop("MetricName"),
        dimensions={each["Name"]: template.value(each["Value"]) for each in taken.pop("Dimensions")},
        statistic=statistic,
        period_s=period_s,
    )


def dashboard(template: Template, id_: str, taken: Taken) -> Dashboard:
    """Read a dashboard."""
    return Dashboard(id=id_, name=taken.pop("DashboardName"), body=template.value(taken.pop("DashboardBody")))


READERS: Mapping[str, Callable[[Template, str, Taken], Resource] | None] = {
    "AWS::DynamoDB::Table": table,
    "AWS::Events::EventBus": bus,
    "AWS::Events::Archive": archive,
    "AWS::S3::Bucket": bucket,
    "AWS::S3::BucketPolicy": None,  # read with its bucket, and so are the others without a reader
    "AWS::Logs::LogGroup": log_group,
    "AWS::IAM::Role": role,
    "AWS::Lambda::Function": function,
    "AWS::Lambda::EventInvokeConfig": None,
    "AWS::Lambda::EventSourceMapping": mapping,
    "AWS::Events::Rule": schedule,
    "AWS::Lambda::Permission": None,
    "AWS::SNS::Topic": topic,
    "AWS::SNS::TopicPolicy": None,
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::Dashboard": dashboard,
}
