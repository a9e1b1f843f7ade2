"""The description as a CloudFormation template.

A template is a dict with CloudFormation's own words: `{"Fn::GetAtt": ["Relay", "Arn"]}`. `text.yaml_text` writes it as
YAML for people. Code comes from a bucket, by two parameters: a template holds none. The stream of a table that is there
is a parameter too, since a template cannot look it up, and an ARN that is stored goes out of date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.infra.cloudformation_kinds import ATTRIBUTES, PROPERTIES
from dynamodb_outbox.infra.plan import outputs_of, resources_of
from dynamodb_outbox.infra.references import Attribute, Joined, Local, Region
from dynamodb_outbox.infra.resources import ExistingTable, Function

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.infra.deployment import Deployment
    from dynamodb_outbox.infra.references import Value
    from dynamodb_outbox.infra.resources import Resource

__all__ = ["References", "cloudformation", "description", "outputs", "parameters"]

_CODE = {
    "CodeBucket": {"Type": "String", "Description": "The bucket that holds the package (outbox package)"},
    "CodeKey": {"Type": "String", "Description": "The key of the package there: a new one for each version"},
}
_STREAM = {
    "StreamArn": {
        "Type": "String",
        "Description": "LatestStreamArn of the table, as aws dynamodb describe-table tells it",
        "AllowedPattern": "arn:[^:]+:dynamodb:[^:]+:[0-9]{12}:table/[^/]+/stream/.+",
    }
}


def cloudformation(deployment: Deployment) -> dict[str, Any]:
    """Return the template."""
    resources = resources_of(deployment)
    say = References(resources).say
    made: dict[str, Any] = {}
    for resource in resources:
        made |= PROPERTIES[type(resource)](resource, say)
    for resource in resources:
        if isinstance(resource, Function):
            made[resource.id]["Properties"]["Code"] = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": description(deployment),
        "Parameters": {**_CODE, **parameters(resources)},
        "Resources": made,
        "Outputs": outputs(resources, say),
    }


def description(deployment: Deployment) -> str:
    """Return what a stack is said to be."""
    return f"Transactional outbox of table {deployment.table}: relay, sweeper, alarms"


def parameters(resources: Sequence[Resource]) -> dict[str, Any]:
    """Return what has to be said when it is deployed, but for the code."""
    return _STREAM if any(isinstance(each, ExistingTable) for each in resources) else {}


def outputs(resources: Sequence[Resource], say: Any) -> dict[str, Any]:
    """Return the outputs of a stack."""
    return {name: {"Value": say(each)} for name, each in outputs_of(resources).items()}


class References:
    """Says references in the words of CloudFormation."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._by_id: Mapping[str, Resource] = {each.id: each for each in resources}

    def say(self, value: Value) -> Any:
        """Return a value as a template holds it."""
        if isinstance(value, str):
            return value
        if isinstance(value, Attribute):
            return self._attribute(value)
        if isinstance(value, Region):
            return {"Ref": "AWS::Region"}
        parts = value.parts if isinstance(value, Joined) else (value,)
        return {"Fn::Sub": "".join(map(self._inside, parts))}

    def _attribute(self, value: Attribute) -> Any:
        resource = self._by_id[value.resource]
        if isinstance(resource, ExistingTable):
            return self._of_existing(resource, value.name)
        name = ATTRIBUTES[type(resource), value.name]
        return {"Ref": resource.id} if name is None else {"Fn::GetAtt": [resource.id, name]}

    def _of_existing(self, table: ExistingTable, name: str) -> Any:
        if name == "stream_arn":
            return {"Ref": "StreamArn"}
        return self.say(Local("dynamodb", f"table/{table.name}")) if name == "arn" else table.name

    def _inside(self, part: Value) -> str:
        """Return a part as it stands in the text of Fn::Sub."""
        if isinstance(part, str):
            return part.replace("${", "${!")
        if isinstance(part, Local):
            region = "${AWS::Region}" if part.region is None else part.region
            return f"arn:${{AWS::Partition}}:{part.service}:{region}:${{AWS::AccountId}}:{part.resource}"
        said = self.say(part)
        if isinstance(said, str):
            return said
        ((word, content),) = said.items()
        if word == "Fn::Sub":
            return str(content)
        return "${" + (content if word == "Ref" else ".".join(content)) + "}"
