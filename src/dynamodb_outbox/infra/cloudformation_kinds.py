"""Each kind of resource in CloudFormation's properties: one function a kind, from the value to what the template has.

`say` turns a reference into the words of the rendering: the CDK has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.documents import Say, bucket_policy, role_policy, topic_policy, trust_policy
from dynamodb_outbox.infra.references import Attribute
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
    StreamMapping,
    Table,
    Topic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ATTRIBUTES", "PROPERTIES", "mapping_properties", "schedule_expression"]

Made = dict[str, Any]

ATTRIBUTES: Mapping[tuple[type[Resource], str], str | None] = {
    (Table, "arn"): "Arn",
    (Table, "name"): None,
    (Table, "stream_arn"): "StreamArn",
    (Bus, "arn"): "Arn",
    (Bucket, "arn"): "Arn",
    (Bucket, "name"): None,
    (Role, "arn"): "Arn",
    (Function, "arn"): "Arn",
    (Function, "name"): None,
    (StreamMapping, "id"): None,
    (Schedule, "arn"): "Arn",
    (Topic, "arn"): None,
    (Alarm, "arn"): "Arn",
}
"""What CloudFormation calls an attribute of a kind; None where it is what Ref gives."""

_KEPT = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}


def schedule_expression(minutes: int) -> str:
    """Return how EventBridge spells a rate."""
    return f"rate({minutes} minute{'' if minutes == 1 else 's'})"


def mapping_properties(mapping: StreamMapping, say: Say) -> Made:
    """Return what a mapping is set to; its function and its stream are not part of it."""
    return {
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": mapping.batch_size,
        "ParallelizationFactor": mapping.parallelization,
        "MaximumRetryAttempts": mapping.retries,
        "MaximumRecordAgeInSeconds": mapping.record_age_s,
        "BisectBatchOnFunctionError": True,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "FilterCriteria": {"Filters": [{"Pattern": pattern} for pattern in mapping.filters]},
        "DestinationConfig": {"OnFailure": {"Destination": say(mapping.on_failure)}},
        "MetricsConfig": {"Metrics": ["EventCount"]},
    }


def _resource(kind: str, properties: Made, **more: Any) -> Made:
    return {"Type": f"AWS::{kind}", **more, "Properties": properties}


def _keys(partition: str, sort: str | None) -> list[Made]:
    keys = [{"AttributeName": partition, "KeyType": "HASH"}]
    return keys if sort is None else [*keys, {"AttributeName": sort, "KeyType": "RANGE"}]


def _table(table: Table, _say: Say) -> Made:
    needs = table.needs
    properties: Made = {
        "TableName": table.name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in needs.types.items()],
        "KeySchema": _keys(needs.partition, needs.sort),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": needs.index.name,
                "KeySchema": _keys(needs.index.partition, needs.index.sort),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(needs.index.projected)},
            }
        ],
        "StreamSpecification": {"StreamViewType": table.stream_view},
        "TimeToLiveSpecification": {"AttributeName": needs.ttl, "Enabled": True},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "DeletionProtectionEnabled": True,
    }
    if table.kms_key is not None:
        properties["SSESpecification"] = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": table.kms_key}
    return {table.id: _resource("DynamoDB::Table", properties, **_KEPT)}


def _bus(bus: Bus, _say: Say) -> Made:
    return {bus.id: _resource("Events::EventBus", {"Name": bus.name})}


def _archive(archive: Archive, say: Say) -> Made:
    properties = {"ArchiveName": archive.name, "SourceArn": say(archive.bus), "RetentionDays": archive.days}
    return {archive.id: _resource("Events::Archive", properties)}


def _bucket(bucket: Bucket, say: Say) -> Made:
    by_default: Made = {"SSEAlgorithm": "AES256"}
    if bucket.kms_key is not None:
        by_default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": bucket.kms_key}
    encryption: Made = {"ServerSideEncryptionByDefault": by_default, "BucketKeyEnabled": bucket.kms_key is not None}
    closed = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    properties = {
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [encryption]},
        "PublicAccessBlockConfiguration": dict.fromkeys(closed, True),
        "LifecycleConfiguration": {
            "Rules": [{"Id": "expire", "Status": "Enabled", "ExpirationInDays": bucket.days}],
        },
    }
    policy = bucket_policy(bucket, say)
    return {
        bucket.id: _resource("S3::Bucket", properties, **_KEPT),
        f"{bucket.id}Policy": _resource(
            "S3::BucketPolicy", {"Bucket": say(Attribute(bucket.id, "name")), "PolicyDocument": policy}
        ),
    }


def _log_group(group: LogGroup, _say: Say) -> Made:
    properties = {"LogGroupName": group.name, "RetentionInDays": group.days}
    kept = {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}
    return {group.id: _resource("Logs::LogGroup", properties, **kept)}


def _role(role: Role, say: Say) -> Made:
    properties = {
        "AssumeRolePolicyDocument": trust_policy(),
        "Policies": [{"PolicyName": role.policy, "PolicyDocument": role_policy(role.statements, say)}],
    }
    return {role.id: _resource("IAM::Role", properties)}


def _function(function: Function, say: Say) -> Made:
    properties: Made = {
        "FunctionName": function.name,
        "Description": function.describes,
        "Runtime": function.runtime,
        "Architectures": [function.architecture],
        "Handler": function.handler,
        "Role": say(Attribute(function.role, "arn")),
        "MemorySize": function.memory_mb,
        "Timeout": function.timeout_s,
        "Environment": {"Variables": {name: say(value) for name, value in function.environment.items()}},
    }
    if function.reserved is not None:
        properties["ReservedConcurrentExecutions"] = function.reserved
    made = {function.id: _resource("Lambda::Function", properties, DependsOn=function.log)}
    if function.retries is not None:
        asked = {
            "FunctionName": say(Attribute(function.id, "name")),
            "Qualifier": "$LATEST",
            "MaximumRetryAttempts": function.retries,
            "MaximumEventAgeInSeconds": function.event_age_s,
        }
        made[f"{function.id}Invocations"] = _resource("Lambda::EventInvokeConfig", asked)
    return made


def _mapping(mapping: StreamMapping, say: Say) -> Made:
    properties = {
        "FunctionName": say(Attribute(mapping.function, "arn")),
        "EventSourceArn": say(mapping.stream),
        **mapping_properties(mapping, say),
    }
    return {mapping.id: _resource("Lambda::EventSourceMapping", properties)}


def _schedule(schedule: Schedule, say: Say) -> Made:
    arn = say(Attribute(schedule.function, "arn"))
    rule = {
        "ScheduleExpression": schedule_expression(schedule.minutes),
        "State": "ENABLED",
        "Targets": [{"Id": "function", "Arn": arn}],
    }
    allowed = {
        "Action": "lambda:InvokeFunction",
        "FunctionName": arn,
        "Principal": "events.amazonaws.com",
        "SourceArn": say(Attribute(schedule.id, "arn")),
    }
    return {
        schedule.id: _resource("Events::Rule", rule),
        f"{schedule.id}Permission": _resource("Lambda::Permission", allowed),
    }


def _topic(topic: Topic, say: Say) -> Made:
    arn = say(Attribute(topic.id, "arn"))
    policy = {"Topics": [arn], "PolicyDocument": topic_policy(topic, {"Ref": "AWS::AccountId"}, say)}
    subscribed = [{"Protocol": "email", "Endpoint": topic.email}]
    return {
        topic.id: _resource("SNS::Topic", {"TopicName": topic.name, "Subscription": subscribed}),
        f"{topic.id}Policy": _resource("SNS::TopicPolicy", policy),
    }


def _alarm(alarm: Alarm, say: Say) -> Made:
    notify = [say(alarm.notify)]
    properties: Made = {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.says,
        "AlarmActions": notify,
        "OKActions": notify,
        "ComparisonOperator": alarm.comparison,
        "Threshold": alarm.threshold,
        "EvaluationPeriods": alarm.periods,
        "DatapointsToAlarm": alarm.datapoints,
        "TreatMissingData": alarm.missing,
    }
    if alarm.expression is None:
        (metric,) = alarm.metrics
        properties |= {**_metric(metric, say), "Statistic": metric.statistic, "Period": metric.period_s}
    else:
        properties["Metrics"] = [
            {"Id": "alarm", "Expression": alarm.expression, "ReturnData": True},
            *(_operand(metric, say) for metric in alarm.metrics),
        ]
    return {alarm.id: _resource("CloudWatch::Alarm", properties)}


def _metric(metric: Metric, say: Say) -> Made:
    dimensions = [{"Name": name, "Value": say(value)} for name, value in metric.dimensions.items()]
    return {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}


def _operand(metric: Metric, say: Say) -> Made:
    stat = {"Metric": _metric(metric, say), "Stat": metric.statistic, "Period": metric.period_s}
    return {"Id": metric.id, "MetricStat": stat, "ReturnData": False}


def _dashboard(dashboard: Dashboard, say: Say) -> Made:
    properties = {"DashboardName": dashboard.name, "DashboardBody": say(dashboard.body)}
    return {dashboard.id: _resource("CloudWatch::Dashboard", properties)}


PROPERTIES: Mapping[type[Resource], Callable[[Any, Say], Made]] = {
    Table: _table,
    ExistingTable: lambda _table, _say: {},
    Bus: _bus,
    Archive: _archive,
    Bucket: _bucket,
    LogGroup: _log_group,
    Role: _role,
    Function: _function,
    StreamMapping: _mapping,
    Schedule: _schedule,
    Topic: _topic,
    Alarm: _alarm,
    Dashboard: _dashboard,
}
"""What becomes of each kind: resources of the template by their ids."""
