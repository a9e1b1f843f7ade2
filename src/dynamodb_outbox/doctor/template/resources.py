"""From a template to an inventory: which resources it makes, under which ARNs, with which properties.

A resource without a name of its own gets its id for one; CloudFormation makes one of that. What the template does not
make may well be in the account: of all kinds there may be more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from dynamodb_outbox.doctor.choosing import TABLES
from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, Inventory, Piece, Unseen
from dynamodb_outbox.doctor.template.sam import Resources, written_out
from dynamodb_outbox.doctor.template.values import NOTHING, Values
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.template_text import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["inventory_of"]

_PLACE = f"{ANY_REGION}:{ANY_ACCOUNT}"
_NAMES: Mapping[str, tuple[str, str]] = {
    "AWS::DynamoDB::Table": ("TableName", f"arn:aws:dynamodb:{_PLACE}:table/{{}}"),
    "AWS::DynamoDB::GlobalTable": ("TableName", f"arn:aws:dynamodb:{_PLACE}:table/{{}}"),
    "AWS::Lambda::Function": ("FunctionName", f"arn:aws:lambda:{_PLACE}:function:{{}}"),
    "AWS::Lambda::EventSourceMapping": ("", f"arn:aws:lambda:{_PLACE}:event-source-mapping:{{}}"),
    "AWS::IAM::Role": ("RoleName", f"arn:aws:iam::{ANY_ACCOUNT}:role/{{}}"),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", f"arn:aws:iam::{ANY_ACCOUNT}:policy/{{}}"),
    "AWS::Events::EventBus": ("Name", f"arn:aws:events:{_PLACE}:event-bus/{{}}"),
    "AWS::Events::Archive": ("ArchiveName", f"arn:aws:events:{_PLACE}:archive/{{}}"),
    "AWS::Events::Rule": ("Name", f"arn:aws:events:{_PLACE}:rule/{{}}"),
    "AWS::SNS::Topic": ("TopicName", f"arn:aws:sns:{_PLACE}:{{}}"),
    "AWS::SQS::Queue": ("QueueName", f"arn:aws:sqs:{_PLACE}:{{}}"),
    "AWS::S3::Bucket": ("BucketName", "arn:aws:s3:::{}"),
    "AWS::KMS::Key": ("", f"arn:aws:kms:{_PLACE}:key/{{}}"),
    "AWS::Logs::LogGroup": ("LogGroupName", f"arn:aws:logs:{_PLACE}:log-group:{{}}"),
    "AWS::CloudWatch::Alarm": ("AlarmName", f"arn:aws:cloudwatch:{_PLACE}:alarm:{{}}"),
}
"""By kind: the property that names a resource, and its ARN."""

_ANY_ARN = f"arn:aws:unknown:{_PLACE}:{{}}"
_FIFO = {"AWS::SNS::Topic": "FifoTopic", "AWS::SQS::Queue": "FifoQueue"}
_SIZED = {"AWS::SQS::Queue": "MaximumMessageSize"}
_ELSEWHERE = "not in the template"
_MAY_BE_ELSEWHERE = (
    *TABLES,
    "AWS::IAM::Role",
    "AWS::IAM::ManagedPolicy",
    "AWS::Events::EventBus",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
    "AWS::S3::Bucket",
)
_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def inventory_of(text: str, given: Mapping[str, str] | None = None) -> Inventory:
    """Return what a template makes; `given` are values of its parameters.

    Functions, mappings, schedules, archives and alarms that it does not make count as missing: they belong to each
    other. Whatever else it names and does not make is elsewhere, and not seen.

    Raises ConfigurationError for text that is no template, or for a parameter that it has not.
    """
    return _Reader(parsed(text), given or {}).read()


class _Reader:
    """Works out the resources of one template, each when it is first asked for."""

    def __init__(self, template: Mapping[str, Any], given: Mapping[str, str]) -> None:
        self._template = template
        self._given = given
        self._values = Values(template, given, self._refer)
        self._resources: Resources = {}
        self._unseen: dict[str, Unseen] = {kind: Unseen(_ELSEWHERE) for kind in _MAY_BE_ELSEWHERE}

    def read(self) -> Inventory:
        try:
            unknown = sorted(set(self._given) - set(self._template.get("Parameters") or {}))
            self._resources, unseen = written_out(self._template, self._values)
            self._unseen |= unseen
            pieces = [piece for id_ in self._resources if self._is_made(id_) for piece in self._pieces(id_)]
        except RecursionError:
            raise ConfigurationError("its values refer to each other without end.") from None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"a value in it has another form than CloudFormation's: {error}") from None
        if unknown:
            raise ConfigurationError(f"it has no parameter {', '.join(unknown)}.")
        return Inventory("template", tuple(pieces), self._unseen)

    def _is_made(self, id_: str) -> bool:
        condition = self._resources[id_].get("Condition")
        return condition is None or self._values.holds(str(condition)) is not False

    def _pieces(self, id_: str) -> Iterator[Piece]:
        """Yield a resource, none where its properties are not seen: there may be more of its kind then."""
        kind = self._kind(id_)
        found = self._values.of(self._resources[id_].get("Properties") or {})
        if isinstance(found, Unseen):
            self._unseen[kind] = found
            return
        properties: dict[str, Any] = {} if found is NOTHING else found
        arn = self._arn(id_)
        if kind in TABLES:
            properties["StreamArn"] = f"{arn}/stream/latest"
        name = properties.get(_NAMES[kind][0]) if kind in _NAMES else None
        if isinstance(name, Unseen):
            properties[_NAMES[kind][0]] = id_
        yield Piece(id_, kind, arn, properties)

    def _kind(self, id_: str) -> str:
        return str(self._resources[id_].get("Type"))

    def _name(self, id_: str) -> str:
        """Return the name of a resource: what it says, or its id where that is not seen."""
        kind = self._kind(id_)
        attribute = _NAMES.get(kind, ("", ""))[0]
        said = (self._resources[id_].get("Properties") or {}).get(attribute) if attribute else None
        found = NOTHING if said is None else self._values.of(said)
        if found is not NOTHING and not isinstance(found, Unseen):
            return str(found)
        fifo = (self._resources[id_].get("Properties") or {}).get(_FIFO.get(kind, ""))
        return f"{id_}.fifo" if str(fifo).lower() == "true" else id_

    def _arn(self, id_: str) -> str:
        form = _NAMES.get(self._kind(id_), ("", _ANY_ARN))[1]
        return form.format(self._name(id_))

    def _refer(self, id_: str, attribute: str | None) -> Any:
        if id_ not in self._resources:
            return Unseen(f"{id_} is no resource or parameter of the template")
        kind = self._kind(id_)
        if attribute is None:
            return self._REFS.get(kind, _Reader._name)(self, id_)
        if attribute in ("Arn", "TopicArn"):
            return self._arn(id_)
        if attribute == "StreamArn" and kind in TABLES:
            return f"{self._arn(id_)}/stream/latest"
        if attribute in ("Name", "TopicName", "QueueName", "TableId"):
            return self._name(id_)
        return Unseen(f"{id_}.{attribute} is known only when it is deployed")

    def _function_of(self, id_: str) -> Any:
        """Return what an alias or a version is taken for: its function."""
        return self._values.of(self._resources[id_]["Properties"]["FunctionName"])

    _REFS: ClassVar[Mapping[str, Callable[[_Reader, str], Any]]] = {
        "AWS::SNS::Topic": _arn,
        "AWS::IAM::ManagedPolicy": _arn,
        "AWS::Lambda::Alias": _function_of,
        "AWS::Lambda::Version": _function_of,
    }
    """What `Ref` of a resource is, by its kind, where it is not its name."""
