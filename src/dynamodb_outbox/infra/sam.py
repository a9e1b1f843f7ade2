"""The description as a SAM template: the CloudFormation template, its functions in SAM's short form.

SAM makes the mapping, the schedule and the permission of a function's `Events`, under the very ids that the other
template has. Roles are given, so that SAM adds no policy of its own to them. `CodeUri` is the package's path, which
`sam deploy` or `sam package` uploads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.cloudformation import References, description, outputs, parameters
from dynamodb_outbox.infra.cloudformation_kinds import PROPERTIES, mapping_properties, schedule_expression
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.resources import Function, Schedule, StreamMapping

if TYPE_CHECKING:
    from dynamodb_outbox.infra.cloudformation_kinds import Made
    from dynamodb_outbox.infra.deployment import Deployment
    from dynamodb_outbox.infra.documents import Say

__all__ = ["sam"]


def sam(deployment: Deployment, code: str) -> dict[str, Any]:
    """Return the template; `code` is the path of the package, as `outbox package` writes it."""
    resources = resources_of(deployment)
    say = References(resources).say
    made: Made = {}
    for resource in resources:
        if isinstance(resource, StreamMapping):
            made[resource.function]["Properties"].setdefault("Events", {})[resource.name] = _stream(resource, say)
        elif isinstance(resource, Schedule):
            made[resource.function]["Properties"].setdefault("Events", {})[resource.name] = _schedule(resource)
        elif isinstance(resource, Function):
            made[resource.id] = _function(resource, say, code)
        else:
            made |= PROPERTIES[type(resource)](resource, say)
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Transform": "AWS::Serverless-2016-10-31",
        "Description": description(deployment),
        "Parameters": parameters(resources),
        "Resources": made,
        "Outputs": outputs(resources, say),
    }
    return {name: content for name, content in template.items() if content}


def _function(function: Function, say: Say, code: str) -> Made:
    plain = PROPERTIES[Function](function, say)[function.id]
    properties = {**plain["Properties"], "CodeUri": code}
    if function.retries is not None:
        properties["EventInvokeConfig"] = {
            "MaximumRetryAttempts": function.retries,
            "MaximumEventAgeInSeconds": function.event_age_s,
        }
    return {"Type": "AWS::Serverless::Function", "DependsOn": plain["DependsOn"], "Properties": properties}


def _stream(mapping: StreamMapping, say: Say) -> Made:
    properties = mapping_properties(mapping, say)
    properties["DestinationConfig"]["OnFailure"]["Type"] = mapping.on_failure_kind
    return {"Type": "DynamoDB", "Properties": {"Stream": say(mapping.stream), **properties}}


def _schedule(schedule: Schedule) -> Made:
    return {"Type": "Schedule", "Properties": {"Schedule": schedule_expression(schedule.minutes)}}
