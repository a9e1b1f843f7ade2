"""Each kind of resource in Terraform's words: one function a kind, from the value to blocks of the provider for AWS.

`say` turns a reference into an expression. What CloudFormation has as one resource is often several here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.cloudformation_kinds import schedule_expression
from dynamodb_outbox.infra.documents import Say, bucket_policy, role_policy, topic_policy, trust_policy
from dynamodb_outbox.infra.hcl import Block, Call, Expression
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

__all__ = ["ADDRESSES", "BLOCKS", "label"]

Blocks = list[Block]

ADDRESSES: Mapping[tuple[type[Resource], str], str] = {
    (Table, "arn"): "aws_dynamodb_table.{}.arn",
    (Table, "name"): "aws_dynamodb_table.{}.name",
    (Table, "stream_arn"): "aws_dynamodb_table.{}.stream_arn",
    (ExistingTable, "arn"): "data.aws_dynamodb_table.{}.arn",
    (ExistingTable, "name"): "data.aws_dynamodb_table.{}.name",
    (ExistingTable, "stream_arn"): "data.aws_dynamodb_table.{}.stream_arn",
    (Bus, "arn"): "aws_cloudwatch_event_bus.{}.arn",
    (Bucket, "arn"): "aws_s3_bucket.{}.arn",
    (Bucket, "name"): "aws_s3_bucket.{}.id",
    (Role, "arn"): "aws_iam_role.{}.arn",
    (Function, "arn"): "aws_lambda_function.{}.arn",
    (Function, "name"): "aws_lambda_function.{}.function_name",
    (StreamMapping, "id"): "aws_lambda_event_source_mapping.{}.uuid",
    (Schedule, "arn"): "aws_cloudwatch_event_rule.{}.arn",
    (Topic, "arn"): "aws_sns_topic.{}.arn",
    (Alarm, "arn"): "aws_cloudwatch_metric_alarm.{}.arn",
}
"""Where Terraform has an attribute of a kind; the braces stand for the resource's label."""


def label(id_: str) -> str:
    """Return what a resource is called: `RelayStream` is `relay_stream`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", id_).lower()


def _made(kind: str, id_: str, arguments: Mapping[str, Any], *blocks: Block) -> Block:
    return Block("resource", (f"aws_{kind}", label(id_)), arguments, blocks)


def _in(kind: str, *blocks: Block, **arguments: Any) -> Block:
    return Block(kind, (), arguments, blocks)


_KEPT = _in("lifecycle", prevent_destroy=True)


def _table(table: Table, _say: Say) -> Blocks:
    needs = table.needs
    arguments = {
        "name": table.name,
        "billing_mode": "PAY_PER_REQUEST",
        "hash_key": needs.partition,
        **({} if needs.sort is None else {"range_key": needs.sort}),
        "stream_enabled": True,
        "stream_view_type": table.stream_view,
        "deletion_protection_enabled": True,
    }
    index = _in(
        "global_secondary_index",
        name=needs.index.name,
        hash_key=needs.index.partition,
        range_key=needs.index.sort,
        projection_type="INCLUDE",
        non_key_attributes=list(needs.index.projected),
    )
    blocks = [_in("attribute", name=name, type=kind) for name, kind in needs.types.items()]
    blocks += [
        index,
        _in("ttl", attribute_name=needs.ttl, enabled=True),
        _in("point_in_time_recovery", enabled=True),
    ]
    if table.kms_key is not None:
        blocks.append(_in("server_side_encryption", enabled=True, kms_key_arn=table.kms_key))
    return [_made("dynamodb_table", table.id, arguments, *blocks, _KEPT)]


def _existing(table: ExistingTable, _say: Say) -> Blocks:
    return [Block("data", ("aws_dynamodb_table", label(table.id)), {"name": table.name})]


def _bus(bus: Bus, _say: Say) -> Blocks:
    return [_made("cloudwatch_event_bus", bus.id, {"name": bus.name})]


def _archive(archive: Archive, say: Say) -> Blocks:
    arguments = {"name": archive.name, "event_source_arn": say(archive.bus), "retention_days": archive.days}
    return [_made("cloudwatch_event_archive", archive.id, arguments)]


def _bucket(bucket: Bucket, say: Say) -> Blocks:
    name = {"bucket": say(Attribute(bucket.id, "name"))}
    closed = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
    algorithm: dict[str, Any] = {"sse_algorithm": "AES256"}
    if bucket.kms_key is not None:
        algorithm = {"sse_algorithm": "aws:kms", "kms_master_key_id": bucket.kms_key}
    by_default = _in("apply_server_side_encryption_by_default", **algorithm)
    expire = _in("rule", _in("filter"), _in("expiration", days=bucket.days), id="expire", status="Enabled")
    policy = Call("jsonencode", bucket_policy(bucket, say))
    return [
        _made("s3_bucket", bucket.id, {}, _KEPT),
        _made("s3_bucket_public_access_block", bucket.id, {**name, **dict.fromkeys(closed, True)}),
        _made(
            "s3_bucket_server_side_encryption_configuration",
            bucket.id,
            name,
            _in("rule", by_default, bucket_key_enabled=bucket.kms_key is not None),
        ),
        _made("s3_bucket_lifecycle_configuration", bucket.id, name, expire),
        _made("s3_bucket_policy", bucket.id, {**name, "policy": policy}),
    ]


def _log_group(group: LogGroup, _say: Say) -> Blocks:
    return [_made("cloudwatch_log_group", group.id, {"name": group.name, "retention_in_days": group.days})]


def _role(role: Role, say: Say) -> Blocks:
    trust = Call("jsonencode", trust_policy())
    policy = {
        "name": role.policy,
        "role": Expression(f"aws_iam_role.{label(role.id)}.id"),
        "policy": Call("jsonencode", role_policy(role.statements, say)),
    }
    return [
        _made("iam_role", role.id, {"assume_role_policy": trust}),
        _made("iam_role_policy", role.id, policy),
    ]


def _function(function: Function, say: Say) -> Blocks:
    arguments: dict[str, Any] = {
        "function_name": function.name,
        "description": function.describes,
        "runtime": function.runtime,
        "architectures": [function.architecture],
        "handler": function.handler,
        "role": say(Attribute(function.role, "arn")),
        "memory_size": function.memory_mb,
        "timeout": function.timeout_s,
        "filename": Expression("local.code"),
        "source_code_hash": Expression("filebase64sha256(local.code)"),
    }
    if function.reserved is not None:
        arguments["reserved_concurrent_executions"] = function.reserved
    arguments["depends_on"] = [
        Expression(f"aws_cloudwatch_log_group.{label(function.log)}"),
        Expression(f"aws_iam_role_policy.{label(function.role)}"),
    ]
    variables = {name: say(value) for name, value in function.environment.items()}
    found = [_made("lambda_function", function.id, arguments, _in("environment", variables=variables))]
    if function.retries is not None:
        asked = {
            "function_name": say(Attribute(function.id, "name")),
            "qualifier": "$LATEST",
            "maximum_retry_attempts": function.retries,
            "maximum_event_age_in_seconds": function.event_age_s,
        }
        found.append(_made("lambda_function_event_invoke_config", function.id, asked))
    return found


def _mapping(mapping: StreamMapping, say: Say) -> Blocks:
    arguments = {
        "function_name": say(Attribute(mapping.function, "arn")),
        "event_source_arn": say(mapping.stream),
        "starting_position": "TRIM_HORIZON",
        "batch_size": mapping.batch_size,
        "parallelization_factor": mapping.parallelization,
        "maximum_retry_attempts": mapping.retries,
        "maximum_record_age_in_seconds": mapping.record_age_s,
        "bisect_batch_on_function_error": True,
        "function_response_types": ["ReportBatchItemFailures"],
    }
    filters = (_in("filter", pattern=pattern) for pattern in mapping.filters)
    return [
        _made(
            "lambda_event_source_mapping",
            mapping.id,
            arguments,
            _in("filter_criteria", *filters),
            _in("destination_config", _in("on_failure", destination_arn=say(mapping.on_failure))),
            _in("metrics_config", metrics=["EventCount"]),
        )
    ]


def _schedule(schedule: Schedule, say: Say) -> Blocks:
    arn = say(Attribute(schedule.function, "arn"))
    rule = Expression(f"aws_cloudwatch_event_rule.{label(schedule.id)}.name")
    allowed = {
        "action": "lambda:InvokeFunction",
        "function_name": arn,
        "principal": "events.amazonaws.com",
        "source_arn": say(Attribute(schedule.id, "arn")),
    }
    expression = {"schedule_expression": schedule_expression(schedule.minutes), "state": "ENABLED"}
    return [
        _made("cloudwatch_event_rule", schedule.id, expression),
        _made("cloudwatch_event_target", schedule.id, {"rule": rule, "target_id": "function", "arn": arn}),
        _made("lambda_permission", schedule.id, allowed),
    ]


def _topic(topic: Topic, say: Say) -> Blocks:
    arn = say(Attribute(topic.id, "arn"))
    account = Expression("data.aws_caller_identity.current.account_id")
    policy = Call("jsonencode", topic_policy(topic, account, say))
    return [
        _made("sns_topic", topic.id, {"name": topic.name}),
        _made("sns_topic_policy", topic.id, {"arn": arn, "policy": policy}),
        _made("sns_topic_subscription", topic.id, {"topic_arn": arn, "protocol": "email", "endpoint": topic.email}),
    ]


def _alarm(alarm: Alarm, say: Say) -> Blocks:
    notify = [say(alarm.notify)]
    arguments: dict[str, Any] = {
        "alarm_name": alarm.name,
        "alarm_description": alarm.says,
        "alarm_actions": notify,
        "ok_actions": notify,
        "comparison_operator": alarm.comparison,
        "threshold": alarm.threshold,
        "evaluation_periods": alarm.periods,
        "datapoints_to_alarm": alarm.datapoints,
        "treat_missing_data": alarm.missing,
    }
    queries: list[Block] = []
    if alarm.expression is None:
        (metric,) = alarm.metrics
        arguments |= {**_metric(metric, say), "statistic": metric.statistic}
    else:
        queries.append(_in("metric_query", id="alarm", expression=alarm.expression, return_data=True))
        for metric in alarm.metrics:
            stat = _in("metric", **_metric(metric, say), stat=metric.statistic)
            queries.append(_in("metric_query", stat, id=metric.id, return_data=False))
    return [_made("cloudwatch_metric_alarm", alarm.id, arguments, *queries)]


def _metric(metric: Metric, say: Say) -> dict[str, Any]:
    return {
        "namespace": metric.namespace,
        "metric_name": metric.name,
        "dimensions": {name: say(value) for name, value in metric.dimensions.items()},
        "period": metric.period_s,
    }


def _dashboard(dashboard: Dashboard, say: Say) -> Blocks:
    arguments = {"dashboard_name": dashboard.name, "dashboard_body": say(dashboard.body)}
    return [_made("cloudwatch_dashboard", dashboard.id, arguments)]


BLOCKS: Mapping[type[Resource], Callable[[Any, Say], Blocks]] = {
    Table: _table,
    ExistingTable: _existing,
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
"""What becomes of each kind."""
