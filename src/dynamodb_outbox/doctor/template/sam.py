"""SAM's kinds, written out as CloudFormation's: functions, their roles, mappings and schedules, and simple tables.

That is done before values are worked out, so that a function of the template language may stand anywhere. Where one
decides what is made at all, the branch of a condition that counts is taken; what is still not known then, such as a
loop (`Fn::ForEach`), leaves the kinds unseen that it may make.

SAM's own transform is a library of 10 MB. What it makes of these kinds is documented, and a test holds this to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.doctor.choosing import FUNCTIONS, MAPPING, POLICIES, SCHEDULES, TABLES
from dynamodb_outbox.doctor.inventory import Unseen
from dynamodb_outbox.doctor.template.sam_roles import STREAM_EVENT, role_properties
from dynamodb_outbox.doctor.template.values import is_reference

if TYPE_CHECKING:
    from dynamodb_outbox.doctor.template.values import Values

__all__ = ["Resources", "written_out"]

_FUNCTION, _TABLE = "AWS::Serverless::Function", "AWS::Serverless::SimpleTable"
_STACKS = ("AWS::CloudFormation::Stack", "AWS::Serverless::Application")
_GLOBALS = {_FUNCTION: "Function", _TABLE: "SimpleTable"}
_LOCAL = {"Role", "Policies", "FunctionName", "Events"}
_TYPES = {"String": "S", "Number": "N", "Binary": "B"}
_RULE, _SCHEDULE = SCHEDULES
_OF_EVENTS = {STREAM_EVENT: (MAPPING,), "Schedule": (_RULE,), "ScheduleV2": (_SCHEDULE,)}
_MAKES = {_FUNCTION: (*FUNCTIONS, "AWS::IAM::Role", MAPPING, *SCHEDULES), _TABLE: TABLES[:1]}
"""What SAM makes of its kinds."""

_FROM_ELSEWHERE = (
    *TABLES,
    *FUNCTIONS,
    MAPPING,
    *SCHEDULES,
    "AWS::IAM::Role",
    "AWS::IAM::Policy",
    "AWS::Events::EventBus",
    "AWS::Events::Archive",
    "AWS::SNS::Topic",
    "AWS::SNS::Subscription",
    "AWS::SQS::Queue",
    "AWS::S3::Bucket",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::CompositeAlarm",
    *POLICIES,
)
"""What resources may be of that another file has, or a macro makes: the kinds that are looked for."""

Resources = dict[str, Any]


def written_out(template: Mapping[str, Any], values: Values) -> tuple[Resources, dict[str, Unseen]]:
    """Return the resources of a template, those of SAM as CloudFormation's under the ids that SAM gives them.

    And the kinds of which the template may make more, with the reason why that is not known.
    """
    writer = _Writer(template.get("Globals") or {}, values)
    for id_, resource in template["Resources"].items():
        if str(id_).startswith("Fn::"):
            writer.hide(frozenset(_kinds(resource)) or _FROM_ELSEWHERE, Unseen(f"{id_} is not worked out"))
        elif isinstance(resource, Mapping):
            writer.add(id_, resource)
    writer.connect(template["Resources"])
    return writer.resources, writer.unseen


def _kinds(said: Any) -> Iterator[str]:
    """Yield the kinds of the resources that a loop makes, or a loop inside of it."""
    if isinstance(said, Mapping):
        if "Type" in said:
            kind = str(said["Type"])
            yield from _MAKES.get(kind, (kind,))
        else:
            said = list(said.values())
    for each in said if isinstance(said, list) else ():
        yield from _kinds(each)


class _Writer:
    """Writes resources out, one by one; `unseen` are kinds of which there may be more than `resources` has."""

    def __init__(self, shared: Mapping[str, Any], values: Values) -> None:
        self._shared = shared
        self._values = values
        self.resources: Resources = {}
        self.unseen: dict[str, Unseen] = {}

    def hide(self, kinds: Iterable[str], why: Unseen) -> None:
        """Note that there may be more of some kinds."""
        self.unseen |= dict.fromkeys(kinds, why)

    def add(self, id_: str, resource: Mapping[str, Any]) -> None:
        """Add what a resource comes to."""
        kind = str(resource.get("Type"))
        if kind in _STACKS and self._values.holds(str(resource.get("Condition"))) is not False:
            self.hide(_FROM_ELSEWHERE, Unseen(f"{id_} is a stack of its own, which is not read"))
        if kind not in _GLOBALS:
            self.resources[id_] = resource
            return
        own = self._values.part(resource.get("Properties"))
        if isinstance(own, Unseen):
            self.hide(_MAKES[kind], own)
            return
        common = self._shared.get(_GLOBALS[kind]) or {}
        properties = _merged({name: each for name, each in common.items() if name not in _LOCAL}, own)
        made = self._function(id_, properties) if kind == _FUNCTION else {id_: self._table(properties)}
        for one in made.values():
            if "Condition" in resource:
                one["Condition"] = resource["Condition"]
        self.resources |= made

    def _function(self, id_: str, properties: Mapping[str, Any]) -> Resources:
        plain = {name: value for name, value in properties.items() if name not in ("Events", "Policies")}
        events: dict[str, tuple[str, Mapping[str, Any]]] = {}
        hidden = [f"what an event adds ({each.why})" for each in self._events(properties, events)]
        made: Resources = {}
        if "Role" not in plain:
            plain["Role"] = {"Fn::GetAtt": [f"{id_}Role", "Arn"]}
            role = role_properties(id_, properties, events, hidden, self._values)
            made[f"{id_}Role"] = {"Type": "AWS::IAM::Role", "Properties": role}
        made[id_] = {"Type": FUNCTIONS[0], "Properties": plain}
        for name, (kind, said) in events.items():
            if kind == STREAM_EVENT:
                made[id_ + name] = {"Type": MAPPING, "Properties": _mapping(id_, said)}
            elif kind in _OF_EVENTS:
                made[id_ + name] = self._schedule(id_, kind, said)
                if kind == "Schedule":
                    made[f"{id_}{name}Permission"] = _permission(id_, id_ + name)
        return made

    def _events(
        self, properties: Mapping[str, Any], events: dict[str, tuple[str, Mapping[str, Any]]]
    ) -> Iterator[Unseen]:
        """Add a function's events, and yield why there may be others."""
        told = self._values.part(properties.get("Events"))
        for name, said in {"": told}.items() if isinstance(told, Unseen) else told.items():
            event = self._values.part(said)
            kind = event if isinstance(event, Unseen) else self._values.of(event.get("Type"))
            inner = event if isinstance(event, Unseen) else self._values.part(event.get("Properties"))
            if isinstance(kind, Unseen) or isinstance(inner, Unseen):
                why = next(each for each in (kind, inner) if isinstance(each, Unseen))
                every = tuple(each for kinds in _OF_EVENTS.values() for each in kinds)
                self.hide(_OF_EVENTS.get(kind, ()) if isinstance(kind, str) else every, why)
                yield why
            elif kind is not None:
                events[name] = (str(kind), inner)

    def _schedule(self, id_: str, kind: str, said: Mapping[str, Any]) -> dict[str, Any]:
        target = {"Arn": {"Fn::GetAtt": [id_, "Arn"]}}
        if kind == "ScheduleV2":
            properties = {
                "ScheduleExpression": said.get("ScheduleExpression"),
                "State": said.get("State"),
                "Target": target,
            }
            return {"Type": _SCHEDULE, "Properties": properties}
        enabled = self._values.of(said.get("Enabled", True))
        told = "DISABLED" if str(enabled).lower() == "false" else "ENABLED"
        state = said.get("State") or (enabled if isinstance(enabled, Unseen) else told)
        properties = {"ScheduleExpression": said.get("Schedule"), "State": state, "Targets": [target]}
        return {"Type": _RULE, "Properties": properties}

    def _table(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        left = {each: value for each, value in properties.items() if each != "PrimaryKey"}
        key = self._values.of(properties.get("PrimaryKey") or {})
        made: dict[str, Any] = {"KeySchema": key, "AttributeDefinitions": key}
        if not isinstance(key, Unseen):
            name, kind = key.get("Name", "id"), key.get("Type", "String")
            made = {
                "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                "AttributeDefinitions": [
                    {
                        "AttributeName": name,
                        "AttributeType": kind if isinstance(kind, Unseen) else _TYPES.get(kind, "S"),
                    }
                ],
            }
        return {"Type": TABLES[0], "Properties": {**left, **made}}

    def connect(self, given: Mapping[str, Any]) -> None:
        """Note at the roles of functions that connectors add something, which is not written out."""
        sources: list[Any] = [
            id_ for id_, each in given.items() if isinstance(each, Mapping) and each.get("Connectors")
        ]
        for each in given.values():
            if isinstance(each, Mapping) and each.get("Type") == "AWS::Serverless::Connector":
                told = self._values.part(each.get("Properties"))
                source = told if isinstance(told, Unseen) else self._values.part(told.get("Source"))
                sources += list(given) if isinstance(source, Unseen) else [source.get("Id")]
        for id_ in sources:
            role = self.resources.get(f"{id_}Role")
            if role is not None and role["Type"] == "AWS::IAM::Role":
                role["Properties"].setdefault("HiddenPolicies", []).append("what a connector of SAM adds")


def _merged(shared: Any, own: Any) -> Any:
    """Return a value with what all share: mappings are merged, lists appended, the rest is the value's own."""
    if isinstance(shared, Mapping) and isinstance(own, Mapping) and not is_reference(shared) and not is_reference(own):
        names = dict.fromkeys((*shared, *own))
        return {
            name: _merged(shared[name], own[name]) if name in shared and name in own else {**shared, **own}[name]
            for name in names
        }
    return [*shared, *own] if isinstance(shared, list) and isinstance(own, list) else own


def _permission(function: str, rule: str) -> dict[str, Any]:
    properties = {
        "Action": "lambda:InvokeFunction",
        "FunctionName": {"Ref": function},
        "Principal": "events.amazonaws.com",
        "SourceArn": {"Fn::GetAtt": [rule, "Arn"]},
    }
    return {"Type": "AWS::Lambda::Permission", "Properties": properties}


def _mapping(id_: str, said: Mapping[str, Any]) -> dict[str, Any]:
    left = {name: value for name, value in said.items() if name != "Stream"}
    return {**left, "FunctionName": {"Ref": id_}, "EventSourceArn": said.get("Stream")}
