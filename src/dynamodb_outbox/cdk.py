"""The description as a construct of the AWS CDK (extra `[cdk]`; needs node, as every CDK app in Python does).

    OutboxRelay(stack, "Outbox", table=table, sink=bus, notify="ops@example.com")

Its resources are those of the CloudFormation rendering, property by property. What an argument's construct knows only
when it is deployed stands in the description as a name that nobody else has, and is put back when it is told: so the
description is checked as any other.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.words import extra

try:
    from aws_cdk import Aws, CfnDeletionPolicy, CfnResource, Names, Stack, Token, aws_s3_assets
    from constructs import Construct
except ImportError as error:
    raise ImportError(f"dynamodb_outbox.cdk needs the extra: {extra('cdk')}.") from error

from dynamodb_outbox.infra.cloudformation_kinds import ATTRIBUTES, PROPERTIES
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.destinations import destination
from dynamodb_outbox.infra.package import package
from dynamodb_outbox.infra.plan import resources_of
from dynamodb_outbox.infra.references import Attribute, Joined, Local, Region
from dynamodb_outbox.infra.resources import ExistingTable, Function

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.infra.references import Value
    from dynamodb_outbox.infra.resources import Resource

__all__ = ["OutboxRelay"]

_REGION = "us-east-1"
_ARNS = {
    "event_bus_arn": f"arn:aws:events:{_REGION}:000000000000:event-bus/{{}}",
    "topic_arn": f"arn:aws:sns:{_REGION}:000000000000:{{}}",
    "queue_arn": f"arn:aws:sqs:{_REGION}:000000000000:{{}}",
    "bucket_arn": "arn:aws:s3:::{}",
    "key_arn": f"arn:aws:kms:{_REGION}:000000000000:key/{{}}",
}
"""The attribute by which a construct tells its ARN, and what stands for one that is known later."""


class OutboxRelay(Construct):
    """A relay and a sweeper on a table, and what watches over them: `infra.deployment.Deployment` has the arguments.

    table     a table of the CDK, which has a stream; or the name of one that is made here, as the layout has it
    sink      an event bus, topic or queue of the CDK; or what Deployment takes; or a dict of these by event type
    notify    a topic of the CDK; or what Deployment takes
    on_failure, kms_key, sink_kms_key, on_failure_kms_key    a bucket, queue or topic, and keys, of the CDK; or what
              Deployment takes
    code      the path of a package, as `outbox package` writes it; that of this version when not given
    settings  the further arguments of Deployment

    `deployment` is what came of them, `resources` are the CfnResource of each id of its description.
    Raises ConfigurationError for arguments that cannot work.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        table: Any,
        sink: Any,
        notify: Any,
        code: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(scope, construct_id)
        self._known_later: dict[str, str] = {}
        self._table = None if isinstance(table, str) else table
        if self._table is not None:
            settings = {"name": _name(self), **settings, "existing_table": True}
        for what in ("on_failure", "kms_key", "sink_kms_key", "on_failure_kms_key"):
            if settings.get(what) is not None:
                settings[what] = self._stand_in(settings[what])
        self.deployment = Deployment(
            table=table if self._table is None else "of-the-cdk",
            sink=self._sink(sink),
            notify=self._stand_in(notify),
            **settings,
        )
        self.resources: Mapping[str, Any] = self._make(resources_of(self.deployment), code)

    def _make(self, resources: tuple[Resource, ...], code: str | None) -> dict[str, Any]:
        self._by_id = {each.id: each for each in resources}
        self._prefix = Names.node_unique_id(self.node)
        asset = self._asset(code)
        made: dict[str, Any] = {}
        for resource in resources:
            for id_, told in PROPERTIES[type(resource)](resource, self._say).items():
                properties = self._put_back(told["Properties"])
                if isinstance(resource, Function) and id_ == resource.id:
                    properties["Code"] = {"S3Bucket": asset.s3_bucket_name, "S3Key": asset.s3_object_key}
                made[id_] = CfnResource(self, id_, type=told["Type"], properties=properties)
                made[id_].override_logical_id(self._prefix + id_)
                if told.get("DeletionPolicy") == "Retain":
                    made[id_].cfn_options.deletion_policy = CfnDeletionPolicy.RETAIN
                    made[id_].cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
                if "DependsOn" in told:
                    made[id_].add_override("DependsOn", self._prefix + told["DependsOn"])
        return made

    def _sink(self, sink: Any) -> Any:
        if isinstance(sink, dict):
            return {each: self._destination(to) for each, to in sink.items()}
        return self._destination(sink)

    def _destination(self, given: Any) -> Any:
        """Return what stands for a destination; one that is known later is here where no other Region is known."""
        stands = self._stand_in(given)
        if str(stands) not in self._known_later:
            return stands
        region = getattr(getattr(given, "env", None), "region", None)
        if not isinstance(region, str) or Token.is_unresolved(region) or region == Stack.of(self).region:
            return replace(destination(stands), is_here=True)
        elsewhere = stands.replace(f":{_REGION}:", f":{region}:")
        self._known_later[elsewhere] = self._known_later.pop(stands)
        return elsewhere

    def _asset(self, code: str | None) -> Any:
        if code is not None:
            return aws_s3_assets.Asset(self, "Code", path=code)
        with tempfile.TemporaryDirectory() as directory:  # the asset copies the file when it is made
            path = Path(directory) / "outbox.zip"
            path.write_bytes(package().content)
            return aws_s3_assets.Asset(self, "Code", path=str(path))

    def _stand_in(self, given: Any) -> Any:
        """Return what stands for a construct of the CDK, or for text that is not known yet; the rest as it is."""
        attribute = next((each for each in _ARNS if hasattr(given, each)), None)
        if attribute is None:
            return given
        arn = getattr(given, attribute)
        if not Token.is_unresolved(arn):
            return arn
        name = f"known-later-{len(self._known_later)}-x" + (".fifo" if getattr(given, "fifo", False) else "")
        stands = _ARNS[attribute].format(name)
        self._known_later[stands] = arn
        return stands

    def _put_back(self, value: Any) -> Any:
        """Return a value with what is known later in its place."""
        if isinstance(value, dict):
            return {name: self._put_back(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._put_back(inner) for inner in value]
        if isinstance(value, str):
            for stands, token in self._known_later.items():
                value = value.replace(stands, token)
        return value

    def _say(self, value: Value) -> Any:
        """Return a value as a template holds it. Joined text is Fn::Join: Fn::Sub takes no tokens."""
        if isinstance(value, str):
            return value
        if isinstance(value, Region):
            return Aws.REGION
        if isinstance(value, Local):
            region = Aws.REGION if value.region is None else value.region
            return f"arn:{Aws.PARTITION}:{value.service}:{region}:{Aws.ACCOUNT_ID}:{value.resource}"
        if isinstance(value, Joined):
            return {"Fn::Join": ["", [self._say(part) for part in value.parts]]}
        return self._attribute(value)

    def _attribute(self, value: Attribute) -> Any:
        resource = self._by_id[value.resource]
        if isinstance(resource, ExistingTable):
            of_table = {"arn": "table_arn", "name": "table_name", "stream_arn": "table_stream_arn"}
            return getattr(self._table, of_table[value.name])
        name = ATTRIBUTES[type(resource), value.name]
        id_ = self._prefix + resource.id
        return {"Ref": id_} if name is None else {"Fn::GetAtt": [id_, name]}


def _name(construct: Construct) -> str:
    """Return a name for what a construct makes: that of its place in the app."""
    name: str = Names.unique_resource_name(construct, max_length=50, separator="-")
    return name
