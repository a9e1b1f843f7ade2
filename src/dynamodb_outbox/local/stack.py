"""A CloudFormation stack on the local engine: deployed, and set right where the engine is not like CloudFormation.

This is the one place that knows what ministack (1.5) does otherwise with what `outbox infra` prints:

| there | what is done about it |
|---|---|
| an archive (`AWS::Events::Archive`) is refused | taken out of the template, and made by API |
| an alarm on an expression of several metrics is refused | left out, and what names it: the dashboard |
| TTL, point-in-time recovery and reserved concurrency are skipped | set by API |
| the metrics of a mapping (`MetricsConfig`) are skipped | nothing: no API of the engine has them |
| a table of a name that is taken is replaced by an empty one | refused before anything is made |
| a mapping's own loop loses what `ReportBatchItemFailures` reports, and neither splits nor gives up | it is deployed |
|   | switched off; `local.mapping` does what it says |

Roles are made and count for nothing: the engine, as it is started here, asks no policy.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError

from dynamodb_outbox.errors import ConfigurationError, OutboxError
from dynamodb_outbox.sdk.errors import said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Adapted", "StackFailed", "StackThere", "TableThere", "adapted", "deploy", "physical_ids"]

_TABLE = "AWS::DynamoDB::Table"
_MAPPING = "AWS::Lambda::EventSourceMapping"
_ARCHIVE = "AWS::Events::Archive"
_OF_CODE = ("CodeBucket", "CodeKey")
_SOURCE_OF = "SourceOf"  # with an archive's id: the output that tells the ARN of its bus
_LOOK_EVERY_S = 0.1
_PATIENCE_S = 60.0


class StackFailed(OutboxError):
    """The engine did not make the stack `name`: what it said last (`status`), and of which resources, in `reasons`."""

    def __init__(self, name: str, status: str, reasons: tuple[str, ...]) -> None:
        self.name = name
        self.status = status
        self.reasons = reasons
        super().__init__(f"stack {name}: {'; '.join((status, *reasons))}")


class TableThere(OutboxError):
    """A table of the name `table`, which the template makes, is on the engine already; nothing was made."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"table {table} is there already, and the engine would replace it by an empty one: delete it, take another "
            "engine, or deploy a template for a table that is there (--existing-table)"
        )


class StackThere(OutboxError):
    """A stack of the name `name` is on the engine already; nothing was made."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"stack {name} is there already: without --template it is gone on with; for another one give --stack"
        )


@dataclass(frozen=True)
class Adapted:
    """A template as the engine takes it; the `archives` to be made afterwards, and the ids of what was `left_out`."""

    template: Mapping[str, Any]
    archives: Mapping[str, Mapping[str, Any]]
    left_out: tuple[str, ...]


def adapted(template: Mapping[str, Any]) -> Adapted:
    """Return what the engine can make of a template."""
    resources = {id_: {"Properties": {}, **copy.deepcopy(each)} for id_, each in template["Resources"].items()}
    archives = {id_: resources.pop(id_)["Properties"] for id_ in _of_type(resources, _ARCHIVE)}
    left_out = [
        id_ for id_ in _of_type(resources, "AWS::CloudWatch::Alarm") if "Metrics" in resources[id_]["Properties"]
    ]
    for id_ in left_out:  # which grows
        resources.pop(id_)
        left_out += [each for each, resource in resources.items() if _names(resource, id_) and each not in left_out]
    for id_ in _of_type(resources, _MAPPING):
        resources[id_]["Properties"]["Enabled"] = False
    sources = {f"{_SOURCE_OF}{id_}": {"Value": each["SourceArn"]} for id_, each in archives.items()}
    outputs = {
        name: output
        for name, output in template.get("Outputs", {}).items()
        if not any(_names(output, id_) for id_ in (*left_out, *archives))
    }
    changed = {**template, "Resources": resources, "Outputs": {**outputs, **sources}}
    return Adapted(changed, archives, tuple(left_out))


def deploy(
    client: Callable[[str], Any],
    template: Mapping[str, Any],
    package: bytes,
    *,
    name: str,
    parameters: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Deploy a template of `outbox infra cloudformation`, with `package` as the functions' code.

    `client` returns the engine's boto3 client of a service, `parameters` are the template's beside CodeBucket and
    CodeKey. Returns the ids of the resources that were left out. Raises ConfigurationError for a parameter that is not
    given, or names a stream that is not there, StackThere, TableThere, StackFailed, and what boto3 raises.
    """
    fitting = adapted(template)
    _refuse_to_repeat(client("cloudformation"), name)
    _refuse_parameters(client, template, parameters or {})
    _refuse_to_replace(client("dynamodb"), fitting.template["Resources"])
    given = {**_stored(client, package), **(parameters or {})}
    stacks = client("cloudformation")
    stacks.create_stack(
        StackName=name,
        TemplateBody=json.dumps(fitting.template),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    outputs = _made(stacks, name)
    _set_right(client, fitting.template["Resources"], physical_ids(stacks, name))
    for id_, archive in fitting.archives.items():
        client("events").create_archive(
            ArchiveName=archive["ArchiveName"],
            EventSourceArn=outputs[f"{_SOURCE_OF}{id_}"],
            RetentionDays=archive["RetentionDays"],
        )
    return fitting.left_out


def _refuse_to_repeat(stacks: Any, name: str) -> None:
    try:
        stacks.describe_stacks(StackName=name)
    except ClientError:  # there is none
        return
    raise StackThere(name)


def _refuse_to_replace(tables: Any, resources: Mapping[str, Any]) -> None:
    for id_ in _of_type(resources, _TABLE):
        name = resources[id_]["Properties"].get("TableName")
        if name is None:
            continue
        try:
            tables.describe_table(TableName=name)
        except tables.exceptions.ResourceNotFoundException:
            continue
        raise TableThere(name)


def _refuse_parameters(client: Callable[[str], Any], template: Mapping[str, Any], given: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a parameter without a value, and for a stream of a mapping that is not there."""
    for name, told in (template.get("Parameters") or {}).items():
        if name not in (*given, *_OF_CODE) and "Default" not in told:
            says = told.get("Description")
            raise ConfigurationError(
                f"the template's parameter {name} has no value{f' ({says})' if says else ''}: --parameter {name}=..."
            )
    for id_ in _of_type(template["Resources"], _MAPPING):
        source = template["Resources"][id_].get("Properties", {}).get("EventSourceArn")
        name = str(source.get("Ref")) if isinstance(source, dict) else ""
        if name not in given:
            continue
        try:
            client("dynamodbstreams").describe_stream(StreamArn=given[name], Limit=1)
        except (ClientError, ParamValidationError) as error:
            raise ConfigurationError(f"--parameter {name}={given[name]} is no stream here: {said(error)}") from None


def _stored(client: Callable[[str], Any], package: bytes) -> dict[str, str]:
    """Store the package in a bucket of the account's, and return the parameters that say where."""
    bucket = f"outbox-packages-{client('sts').get_caller_identity()['Account']}"
    key = f"{hashlib.sha256(package).hexdigest()}.zip"
    client("s3").create_bucket(Bucket=bucket)
    client("s3").put_object(Bucket=bucket, Key=key, Body=package)
    return dict(zip(_OF_CODE, (bucket, key), strict=True))


def physical_ids(stacks: Any, name: str, kind: str | None = None) -> dict[str, str]:
    """Return what the resources of a stack are called, by their ids in the template; `stacks` is a client.

    `kind` is a type of resources: of those alone. Raises botocore's ClientError when there is no such stack.
    """
    described = stacks.describe_stack_resources(StackName=name)["StackResources"]
    return {
        each["LogicalResourceId"]: each["PhysicalResourceId"]
        for each in described
        if kind in (None, each["ResourceType"])
    }


def _made(stacks: Any, name: str) -> dict[str, str]:
    """Wait for a stack and return its outputs."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        (stack,) = stacks.describe_stacks(StackName=name)["Stacks"]
        if stack["StackStatus"] == "CREATE_COMPLETE":
            return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}
        if not stack["StackStatus"].endswith("IN_PROGRESS") or time.monotonic() > until:
            raise StackFailed(name, stack["StackStatus"], _reasons(stacks, name))
        time.sleep(_LOOK_EVERY_S)


def _reasons(stacks: Any, name: str) -> tuple[str, ...]:
    events = stacks.describe_stack_events(StackName=name)["StackEvents"]
    return tuple(
        f"{each['LogicalResourceId']}: {each.get('ResourceStatusReason', 'no reason was given')}"
        for each in events
        if each["ResourceStatus"].endswith("FAILED")
    )


def _set_right(client: Callable[[str], Any], resources: Mapping[str, Any], physical: Mapping[str, str]) -> None:
    """Set by API what the engine's CloudFormation skips."""
    for id_, resource in resources.items():
        properties = resource["Properties"]
        if (ttl := properties.get("TimeToLiveSpecification")) is not None:
            client("dynamodb").update_time_to_live(TableName=physical[id_], TimeToLiveSpecification=ttl)
        if (recovery := properties.get("PointInTimeRecoverySpecification")) is not None:
            client("dynamodb").update_continuous_backups(
                TableName=physical[id_], PointInTimeRecoverySpecification=recovery
            )
        if (reserved := properties.get("ReservedConcurrentExecutions")) is not None:
            client("lambda").put_function_concurrency(FunctionName=physical[id_], ReservedConcurrentExecutions=reserved)


def _of_type(resources: Mapping[str, Any], kind: str) -> list[str]:
    return [id_ for id_, resource in resources.items() if resource["Type"] == kind]


def _names(part: Any, id_: str) -> bool:
    """Tell whether a part of a template refers to the resource `id_`: by Ref, Fn::GetAtt, Fn::Sub or DependsOn."""
    return re.search(rf'["{{]{id_}["}}.]', json.dumps(part)) is not None
