"""A Terraform configuration, read back into the resources that it describes.

The HCL is parsed by another implementation (python-hcl2), and read from Terraform's side: each argument is looked up by
its name there, and what is not looked up is an error.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import hcl2
from read_back import KINDS, Taken, denied_without_tls, open_to_alarms

from dynamodb_outbox.core.record.table import Index, RecordsTable
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ATTRIBUTES = {
    "aws_dynamodb_table.arn": "arn",
    "aws_dynamodb_table.name": "name",
    "aws_dynamodb_table.stream_arn": "stream_arn",
    "data.aws_dynamodb_table.stream_arn": "stream_arn",
    "aws_cloudwatch_event_bus.arn": "arn",
    "aws_s3_bucket.arn": "arn",
    "aws_s3_bucket.id": "name",
    "aws_iam_role.arn": "arn",
    "aws_iam_role.id": "name",
    "aws_lambda_function.arn": "arn",
    "aws_lambda_function.function_name": "name",
    "aws_lambda_event_source_mapping.uuid": "id",
    "aws_cloudwatch_event_rule.arn": "arn",
    "aws_cloudwatch_event_rule.name": "name",
    "aws_sns_topic.arn": "arn",
    "aws_cloudwatch_metric_alarm.arn": "arn",
}
PLACES = {
    "data.aws_partition.current.partition": "${Partition}",
    "data.aws_region.current.region": "${Region}",
    "data.aws_caller_identity.current.account_id": "${AccountId}",
}
BLOCK = "__is_block__"


def parsed(text: str) -> dict[str, Any]:
    """Return what python-hcl2 makes of a file."""
    found: dict[str, Any] = hcl2.loads(text)
    return found


class Configuration:
    """A configuration: plain values by type and label, references in the form of `read_back.canonical`."""

    def __init__(self, text: str) -> None:
        document = parsed(text)
        self.existing: str | None = None
        self.made: dict[tuple[str, str], Any] = {}
        for kind, where in (("data", "data."), ("resource", "")):
            for each in document.get(kind, ()):
                ((type_, inner),) = each.items()
                ((label, body),) = inner.items()
                if type_ == '"aws_dynamodb_table"' and where:
                    self.existing = json.loads(body["name"])
                self.made[where + type_.strip('"'), label.strip('"')] = body
        self.made = {address: self.plain(body) for address, body in self.made.items()}
        self.outputs: dict[str, Any] = {}
        for each in document.get("output", ()):
            ((label, body),) = each.items()
            self.outputs[id_of(label.strip('"'))] = self.plain(body)["value"]

    def plain(self, value: Any) -> Any:
        """Return a value without the quotes and markers of the parser."""
        if isinstance(value, dict):
            return {name.strip('"'): self.plain(inner) for name, inner in value.items() if name != BLOCK}
        if isinstance(value, list):
            return [self.plain(inner) for inner in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, value: str) -> Any:
        if value.startswith('"<<EOT\n'):
            return self._filled(value.removeprefix('"<<EOT\n').removesuffix('\nEOT"'))
        if value.startswith('"'):
            return self._filled(json.loads(value))
        call = re.fullmatch(r"\$\{jsonencode\((.*)\)\}", value, re.DOTALL)
        if call:
            return self.plain(parsed(f"x = {call[1]}\n")["x"])
        return self._said(value[2:-1]) if value.startswith("${") else self._said(value)

    def _filled(self, text: str) -> str:
        return re.sub(
            r"(\$?)\$\{([^}]*)\}", lambda found: f"${{{found[2]}}}" if found[1] else self._said(found[2]), text
        ).replace("%%{", "%{")

    def _said(self, expression: str) -> str:
        if expression in PLACES:
            return PLACES[expression]
        if expression == "data.aws_dynamodb_table.table.arn":
            return f"arn:${{Partition}}:dynamodb:${{Region}}:${{AccountId}}:table/{self.existing}"
        if expression == "data.aws_dynamodb_table.table.name":
            return str(self.existing)
        found = re.fullmatch(r"((?:data\.)?aws_\w+)\.(\w+)\.(\w+)", expression)
        if found is None:
            return expression
        return f"${{{id_of(found[2])}.{ATTRIBUTES[f'{found[1]}.{found[3]}']}}}"

    def read(self) -> dict[str, Resource]:
        """Return the resources by id."""
        found: dict[str, Resource] = {}
        for (type_, label), body in self.made.items():
            reader = READERS[type_]
            if reader is not None:
                taken = Taken(body)
                found[id_of(label)] = reader(self, id_of(label), taken)
                taken.done()
        return found

    def beside(self, type_: str, id_: str) -> Taken:
        """Return a resource of another type that has the same label."""
        ((_, found),) = [each for each in self.made.items() if each[0][0] == type_ and id_of(each[0][1]) == id_]
        return Taken(found)


def id_of(label: str) -> str:
    """Return the id that a label is made of."""
    return "".join(part.title() for part in label.split("_"))


def referred(value: str) -> str:
    """Return the id of the resource that a reference names."""
    found = re.fullmatch(r"\$\{(\w+)\.\w+\}", value)
    assert found
    return found[1]


def table(_: Configuration, id_: str, taken: Taken) -> Table:
    """Read a table."""
    taken.must(
        billing_mode="PAY_PER_REQUEST",
        stream_enabled=True,
        deletion_protection_enabled=True,
        point_in_time_recovery=[{"enabled": True}],
        lifecycle=[{"prevent_destroy": True}],
    )
    (index,) = map(Taken, taken.pop("global_secondary_index"))
    index.must(projection_type="INCLUDE")
    (ttl,) = taken.pop("ttl")
    assert ttl["enabled"] is True
    (key,) = taken.pop("server_side_encryption", [{"enabled": True, "kms_key_arn": None}])
    assert key["enabled"] is True
    return Table(
        id=id_,
        name=taken.pop("name"),
        needs=RecordsTable(
            types={each["name"]: each["type"] for each in taken.pop("attribute")},
            partition=taken.pop("hash_key"),
            sort=taken.pop("range_key", None),
            index=Index(
                name=index["name"],
                partition=index["hash_key"],
                sort=index["range_key"],
                projected=tuple(index["non_key_attributes"]),
            ),
            ttl=ttl["attribute_name"],
        ),
        stream_view=taken.pop("stream_view_type"),
        kms_key=key["kms_key_arn"],
    )


def existing(_: Configuration, id_: str, taken: Taken) -> ExistingTable:
    """Read a table that is looked up."""
    return ExistingTable(id=id_, name=taken.pop("name"))


def bus(_: Configuration, id_: str, taken: Taken) -> Bus:
    """Read a bus."""
    return Bus(id=id_, name=taken.pop("name"))


def archive(_: Configuration, id_: str, taken: Taken) -> Archive:
    """Read an archive."""
    return Archive(id=id_, name=taken.pop("name"), bus=taken.pop("event_source_arn"), days=taken.pop("retention_days"))


def bucket(configuration: Configuration, id_: str, taken: Taken) -> Bucket:
    """Read a bucket with all that is set of it elsewhere."""
    taken.must(lifecycle=[{"prevent_destroy": True}])
    name = f"${{{id_}.name}}"
    closed = configuration.beside("aws_s3_bucket_public_access_block", id_)
    closed.must(bucket=name, **dict.fromkeys(
        ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"), True
    ))  # fmt: skip
    closed.done()
    encryption = configuration.beside("aws_s3_bucket_server_side_encryption_configuration", id_)
    ((rule,), told) = encryption.pop("rule"), encryption.pop("bucket")
    (by_default,) = rule["apply_server_side_encryption_by_default"]
    key = by_default.get("kms_master_key_id")
    assert by_default["sse_algorithm"] == ("AES256" if key is None else "aws:kms")
    expiry = configuration.beside("aws_s3_bucket_lifecycle_configuration", id_)
    (expire,) = expiry["rule"]
    assert expire["status"] == "Enabled"
    policy = configuration.beside("aws_s3_bucket_policy", id_)
    assert told == expiry["bucket"] == name
    policy.must(bucket=name, policy=denied_without_tls(id_))
    policy.done()
    return Bucket(id=id_, days=expire["expiration"][0]["days"], kms_key=key)


def log_group(_: Configuration, id_: str, taken: Taken) -> LogGroup:
    """Read a log group."""
    return LogGroup(id=id_, name=taken.pop("name"), days=taken.pop("retention_in_days"))


def role(configuration: Configuration, id_: str, taken: Taken) -> Role:
    """Read a role, which only Lambda may take, and its policy."""
    (trusted,) = taken.pop("assume_role_policy")["Statement"]
    assert trusted == {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    policy = configuration.beside("aws_iam_role_policy", id_)
    assert referred(policy["role"]) == id_
    statements = []
    for each in map(Taken, policy["policy"]["Statement"]):
        each.must(Effect="Allow")
        statements.append(
            Statement(
                sid=each.pop("Sid"),
                actions=tuple(each.pop("Action")),
                resources=tuple(each.pop("Resource")),
                condition=each.pop("Condition", None),
            )
        )
        each.done()
    return Role(id=id_, policy=policy["name"], statements=tuple(statements))


def function(configuration: Configuration, id_: str, taken: Taken) -> Function:
    """Read a function, made after its log group and its policy, with what holds for asynchronous invocations."""
    taken.must(filename="local.code", source_code_hash="filebase64sha256(local.code)")
    logs, policy = taken.pop("depends_on")
    role_of = referred(taken.pop("role"))
    assert policy == f"aws_iam_role_policy.{_label(role_of)}"
    asked = Taken()
    if any(
        type_ == "aws_lambda_function_event_invoke_config" and id_of(label) == id_
        for type_, label in configuration.made
    ):
        asked = configuration.beside("aws_lambda_function_event_invoke_config", id_)
        asked.must(function_name=f"${{{id_}.name}}", qualifier="$LATEST")
    (architecture,) = taken.pop("architectures")
    (environment,) = taken.pop("environment")
    found = Function(
        id=id_,
        name=taken.pop("function_name"),
        describes=taken.pop("description"),
        handler=taken.pop("handler"),
        role=role_of,
        log=id_of(logs.removeprefix("aws_cloudwatch_log_group.")),
        runtime=taken.pop("runtime"),
        architecture=architecture,
        memory_mb=taken.pop("memory_size"),
        timeout_s=taken.pop("timeout"),
        reserved=taken.pop("reserved_concurrent_executions", None),
        environment=environment["variables"],
        retries=asked.pop("maximum_retry_attempts", None),
        event_age_s=asked.pop("maximum_event_age_in_seconds", None),
    )
    asked.done()
    return found


def mapping(_: Configuration, id_: str, taken: Taken) -> StreamMapping:
    """Read an event source mapping."""
    taken.must(
        starting_position="TRIM_HORIZON",
        bisect_batch_on_function_error=True,
        function_response_types=["ReportBatchItemFailures"],
        metrics_config=[{"metrics": ["EventCount"]}],
    )
    (destination,) = taken.pop("destination_config")
    on_failure = destination["on_failure"][0]["destination_arn"]
    (criteria,) = taken.pop("filter_criteria")
    return StreamMapping(
        id=id_,
        name="Stream",
        function=referred(taken.pop("function_name")),
        stream=taken.pop("event_source_arn"),
        filters=tuple(each["pattern"] for each in criteria["filter"]),
        batch_size=taken.pop("batch_size"),
        parallelization=taken.pop("parallelization_factor"),
        retries=taken.pop("maximum_retry_attempts"),
        record_age_s=taken.pop("maximum_record_age_in_seconds"),
        on_failure=on_failure,
        on_failure_kind="S3" if on_failure.startswith("${") else KINDS[on_failure.split(":")[2]],
    )


def schedule(configuration: Configuration, id_: str, taken: Taken) -> Schedule:
    """Read a schedule, and see that it may invoke its function."""
    taken.must(state="ENABLED")
    target = configuration.beside("aws_cloudwatch_event_target", id_)
    assert referred(target["rule"]) == id_
    allowed = configuration.beside("aws_lambda_permission", id_)
    allowed.must(action="lambda:InvokeFunction", principal="events.amazonaws.com", source_arn=f"${{{id_}.arn}}")
    assert allowed.pop("function_name") == target["arn"]
    allowed.done()
    found = re.fullmatch(r"rate\((\d+) minutes?\)", taken.pop("schedule_expression"))
    assert found
    return Schedule(id=id_, name="Schedule", function=referred(target["arn"]), minutes=int(found[1]))


def topic(configuration: Configuration, id_: str, taken: Taken) -> Topic:
    """Read a topic, its subscription, and that alarms of this account may publish to it."""
    arn = f"${{{id_}.arn}}"
    policy = configuration.beside("aws_sns_topic_policy", id_)
    policy.must(arn=arn, policy=open_to_alarms(id_))
    policy.done()
    subscribed = configuration.beside("aws_sns_topic_subscription", id_)
    subscribed.must(protocol="email", topic_arn=arn)
    found = Topic(id=id_, name=taken.pop("name"), email=subscribed.pop("endpoint"))
    subscribed.done()
    return found


def alarm(_: Configuration, id_: str, taken: Taken) -> Alarm:
    """Read an alarm, which notifies when it starts and when it is over."""
    (notify,) = taken.pop("alarm_actions")
    taken.must(ok_actions=[notify])
    expression = None
    if "metric_query" in taken:
        (first, *operands) = taken.pop("metric_query")
        assert (first["id"], first["return_data"]) == ("alarm", True)
        expression = first["expression"]
        assert not any(each["return_data"] for each in operands)
        metrics = tuple(metric(Taken(each["metric"][0]), "stat", each["id"]) for each in operands)
    else:
        metrics = (metric(taken, "statistic", "value"),)
    return Alarm(
        id=id_,
        name=taken.pop("alarm_name"),
        says=taken.pop("alarm_description"),
        metrics=metrics,
        expression=expression,
        comparison=taken.pop("comparison_operator"),
        threshold=taken.pop("threshold"),
        periods=taken.pop("evaluation_periods"),
        datapoints=taken.pop("datapoints_to_alarm"),
        missing=taken.pop("treat_missing_data"),
        notify=notify,
    )


def metric(taken: Taken, statistic: str, id_: str) -> Metric:
    """Read a metric."""
    return Metric(
        id=id_,
        namespace=taken.pop("namespace"),
        name=taken.pop("metric_name"),
        dimensions=taken.pop("dimensions"),
        statistic=taken.pop(statistic),
        period_s=taken.pop("period"),
    )


def dashboard(_: Configuration, id_: str, taken: Taken) -> Dashboard:
    """Read a dashboard."""
    return Dashboard(id=id_, name=taken.pop("dashboard_name"), body=taken.pop("dashboard_body"))


def _label(id_: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", id_).lower()


READERS: Mapping[str, Callable[[Configuration, str, Taken], Resource] | None] = {
    "data.aws_partition": None,
    "data.aws_region": None,
    "data.aws_caller_identity": None,
    "data.aws_dynamodb_table": existing,
    "aws_dynamodb_table": table,
    "aws_cloudwatch_event_bus": bus,
    "aws_cloudwatch_event_archive": archive,
    "aws_s3_bucket": bucket,
    "aws_s3_bucket_public_access_block": None,  # read with its bucket, and so are the others without a reader
    "aws_s3_bucket_server_side_encryption_configuration": None,
    "aws_s3_bucket_lifecycle_configuration": None,
    "aws_s3_bucket_policy": None,
    "aws_cloudwatch_log_group": log_group,
    "aws_iam_role": role,
    "aws_iam_role_policy": None,
    "aws_lambda_function": function,
    "aws_lambda_function_event_invoke_config": None,
    "aws_lambda_event_source_mapping": mapping,
    "aws_cloudwatch_event_rule": schedule,
    "aws_cloudwatch_event_target": None,
    "aws_lambda_permission": None,
    "aws_sns_topic": topic,
    "aws_sns_topic_policy": None,
    "aws_sns_topic_subscription": None,
    "aws_cloudwatch_metric_alarm": alarm,
    "aws_cloudwatch_dashboard": dashboard,
}
