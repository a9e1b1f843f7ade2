"""Templates in which a condition, a loop or a macro decides what is made at all."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from doctor_ground import on_template
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.doctor.choosing import MAPPING, SCHEDULES
from dynamodb_outbox.doctor.inventory import Inventory, Unseen
from dynamodb_outbox.doctor.template.resources import inventory_of
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.template_text import parsed

HERE = Path(__file__).parent / "templates"
NOTHING = {"Ref": "AWS::NoValue"}
UNKNOWN = {"Fn::If": ["IsAsked", {"a": 1}, NOTHING]}
SOURCE = "arn:aws:dynamodb:eu-west-1:1:table/shop/stream/1"
STREAM: dict[str, Any] = {"Type": "DynamoDB", "Properties": {"Stream": SOURCE}}
TIMED: dict[str, Any] = {"Type": "Schedule", "Properties": {"Schedule": "rate(1 minute)"}}
ALLOWS = {"Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}]}


def when(condition: str, yes: Any, no: Any = NOTHING) -> dict[str, Any]:
    """Return a value that hangs on a condition: IsOn holds, IsOff does not, IsAsked is not known."""
    return {"Fn::If": [condition, yes, no]}


def made(properties: Any, **resources: Any) -> Inventory:
    """Return what a template makes of a function of SAM, and of other resources."""
    function = {"Type": "AWS::Serverless::Function", "Properties": properties}
    template = {
        "Parameters": {"Asked": {"Type": "String"}},
        "Conditions": {
            "IsOn": {"Fn::Equals": ["a", "a"]},
            "IsOff": {"Fn::Equals": ["a", "b"]},
            "IsAsked": {"Fn::Equals": [{"Ref": "Asked"}, "a"]},
        },
        "Resources": {"F": function, **resources},
    }
    return inventory_of(json.dumps(template))


def hidden(inventory: Inventory) -> set[str]:
    """Return the kinds of which there may be more, without those that may always be elsewhere."""
    return {kind for kind, why in inventory.unseen.items() if why.why != "not in the template"}


def policies(inventory: Inventory) -> tuple[list[Any], list[Any], list[str]]:
    """Return a function's managed policies behind the basic one, its inline ones, and what is hidden of them."""
    (role,) = inventory.of("AWS::IAM::Role")
    found = role.properties
    return found["ManagedPolicyArns"][1:], found["Policies"], found["HiddenPolicies"]


@pytest.mark.parametrize(
    "events",
    [
        when("IsOn", {"Stream": STREAM, "Timed": TIMED}),
        when("IsOff", {}, {"Stream": STREAM, "Timed": TIMED}),
        {"Stream": when("IsOn", STREAM), "Timed": when("IsOff", NOTHING, TIMED), "Off": when("IsOff", TIMED)},
        {name: {**event, "Properties": when("IsOn", event["Properties"])}
         for name, event in (("Stream", STREAM), ("Timed", TIMED))},
        when("IsAsked", {"Stream": STREAM, "Timed": TIMED}, {"Stream": STREAM, "Timed": TIMED}),
    ],
)  # fmt: skip
def test_of_a_condition_the_branch_that_counts_is_made(events: Any) -> None:
    """Of events as a whole, of one of them, and of its properties."""
    found = made({"Events": events})
    assert {each.id for each in found.pieces} == {"F", "FRole", "FStream", "FTimed", "FTimedPermission"}
    assert hidden(found) == set()
    assert [each.properties["EventSourceArn"] for each in found.of(MAPPING)] == [SOURCE]
    assert policies(found)[2] == []


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        (UNKNOWN, {MAPPING, *SCHEDULES}),
        ({"Timed": TIMED, "Stream": when("IsAsked", STREAM)}, {MAPPING, *SCHEDULES}),
        ({"Timed": TIMED, "Stream": {"Type": "DynamoDB", "Properties": UNKNOWN}}, {MAPPING}),
        ({"Timed": {"Type": "ScheduleV2", "Properties": UNKNOWN}}, {SCHEDULES[1]}),
        ({"Fn::Transform": {"Name": "AWS::Include"}}, {MAPPING, *SCHEDULES}),
    ],
)
def test_events_that_are_not_known_leave_their_kinds_unseen(events: Any, kinds: set[str]) -> None:
    """And what they add to the role; the others are made."""
    found = made({"Events": events})
    assert hidden(found) == kinds
    assert "FTimed" in {each.id for each in found.pieces} or "Timed" not in events or SCHEDULES[1] in kinds
    assert len(policies(found)[2]) == 1


def test_policies_may_hang_on_conditions() -> None:
    """All of them, or one; what is not known is hidden, and of a destination's kind what it adds."""
    assert policies(made({"Policies": when("IsOn", ["A", ALLOWS])})) == policies(made({"Policies": ["A", ALLOWS]}))
    assert policies(made({"Policies": [when("IsOn", "A"), when("IsOff", ALLOWS)]})) == policies(made({"Policies": "A"}))
    assert policies(made({"Policies": when("IsOff", "A")})) == ([], [], [])
    assert len(policies(made({"Policies": UNKNOWN}))[2]) == 1
    assert len(policies(made({"Policies": ["A", when("IsAsked", ALLOWS)]}))[2]) == 1

    def failing(config: Any) -> tuple[list[Any], list[Any], list[str]]:
        said = {**STREAM["Properties"], "DestinationConfig": config}
        return policies(made({"Events": {"Stream": {"Type": "DynamoDB", "Properties": said}}}))

    queue = {"OnFailure": {"Type": "SQS", "Destination": "arn:aws:sqs:eu-west-1:1:failed"}}
    assert failing(when("IsOn", queue)) == failing(queue)
    assert len(failing(queue)[1]) == 1
    for each in (when("IsAsked", queue), {"OnFailure": UNKNOWN}, {"OnFailure": {"Type": UNKNOWN}}):
        assert (failing(each)[1], len(failing(each)[2])) == ([], 1)


@pytest.mark.parametrize("said", [7, [7], [["A"]], [True]])
def test_a_policy_that_is_none_is_a_sentence(said: Any) -> None:
    """No trace: exit status 1 means findings."""
    with pytest.raises(ConfigurationError, match="another form"):
        made({"Policies": said})


@pytest.mark.parametrize(
    ("enabled", "state"),
    [
        (False, "DISABLED"),
        (when("IsOn", "false"), "DISABLED"),
        (when("IsOff", False, True), "ENABLED"),
        (NOTHING, "ENABLED"),
    ],
)
def test_a_schedule_is_enabled_by_what_it_comes_to(enabled: Any, state: str) -> None:
    """Whether it is may hang on a condition, too; what is not known is not seen."""

    def found(enabled: Any) -> Any:
        said = {"Schedule": "rate(1 minute)", "Enabled": enabled}
        return made({"Events": {"T": {"Type": "Schedule", "Properties": said}}}).of(*SCHEDULES)[0].properties["State"]

    assert found(enabled) == state
    assert isinstance(found({"Ref": "Asked"}), Unseen)


LOOP = ["Name", ["A", "B"], {"${Name}Topic": {"Type": "AWS::SNS::Topic", "Properties": {}}}]


@pytest.mark.parametrize(
    ("id_", "said", "kinds"),
    [
        ("Fn::ForEach::Topics", LOOP, {"AWS::SNS::Topic"}),
        ("Fn::ForEach::Outer", ["X", ["1"], {"Fn::ForEach::Inner": LOOP}], {"AWS::SNS::Topic"}),
        ("Fn::ForEach::Tables", ["X", ["1"], {"T${X}": {"Type": "AWS::Serverless::SimpleTable"}}],
         {"AWS::DynamoDB::Table"}),
        ("Fn::ForEach::Functions", ["X", ["1"], {"F${X}": {"Type": "AWS::Serverless::Function", "Properties": {}}}],
         {"AWS::Lambda::Function", "AWS::IAM::Role", MAPPING, *SCHEDULES}),
    ],
)  # fmt: skip
def test_what_a_loop_makes_is_not_seen(id_: str, said: Any, kinds: set[str]) -> None:
    """By its kinds; SAM's by those that SAM makes of them. What is from another file may be of any."""
    assert hidden(made({}, **{id_: said})) == kinds
    anything = hidden(made({}, **{"Fn::Transform": {"Name": "AWS::Include", "Parameters": {"Location": "s3://x"}}}))
    assert kinds <= anything
    assert {"AWS::CloudWatch::Alarm", "AWS::IAM::Policy"} <= anything


@pytest.mark.parametrize("kind", ["AWS::CloudFormation::Stack", "AWS::Serverless::Application"])
def test_what_a_stack_inside_of_it_makes_is_not_seen(kind: str) -> None:
    """Of any kind; but for one that is not made."""
    assert {"AWS::CloudWatch::Alarm", "AWS::Lambda::Permission", *SCHEDULES} <= hidden(made({}, Inner={"Type": kind}))
    assert hidden(made({}, Inner={"Type": kind, "Condition": "IsAsked"}))
    assert not hidden(made({}, Inner={"Type": kind, "Condition": "IsOff"}))


def test_properties_that_are_not_known_leave_the_kind_unseen() -> None:
    """Of a function of SAM what that makes; of another resource itself. A macro among them hides all of them."""
    kinds = {"AWS::Lambda::Function", "AWS::IAM::Role", MAPPING, *SCHEDULES}
    assert hidden(made(UNKNOWN)) == kinds
    assert hidden(made({"Fn::Transform": {}, "Handler": "app.f"})) == kinds
    found = made({}, Q={"Type": "AWS::SQS::Queue", "Properties": {"Fn::Transform": {}, "QueueName": "q"}})
    assert hidden(found) == {"AWS::SQS::Queue"}
    assert found.of("AWS::SQS::Queue") == ()


def test_a_loop_that_makes_the_mapping_is_no_ground_for_a_finding() -> None:
    """Nor for one on alarms: what is missing may be in it."""
    template = parsed((HERE / "cdk-right.json").read_text(encoding="utf-8"))
    resources = template["Resources"]
    moved = {
        id_: resources.pop(id_)
        for id_, each in list(resources.items())
        if each["Type"] in (MAPPING, "AWS::CloudWatch::Alarm")
    }
    resources["Fn::ForEach::Stages"] = ["Stage", ["a"], moved]
    report = on_template(json.dumps(template))
    assert report.findings == ()
    assert {"mapping-missing", "alarm-parked"} <= {each.id for each in report.unjudged}


def test_a_simple_tables_key_and_a_connectors_source_may_not_be_known() -> None:
    """The keys are not seen then; and any role may have more."""
    found = made(
        {},
        T={"Type": "AWS::Serverless::SimpleTable", "Properties": {"PrimaryKey": UNKNOWN}},
        U={"Type": "AWS::Serverless::SimpleTable",
           "Properties": {"PrimaryKey": {"Name": "k", "Type": {"Ref": "Asked"}}}},
        C={"Type": "AWS::Serverless::Connector", "Properties": {"Source": UNKNOWN}},
    )  # fmt: skip
    one, other = (each.properties for each in found.of("AWS::DynamoDB::Table"))
    assert isinstance(one["KeySchema"], Unseen)
    assert isinstance(other["AttributeDefinitions"][0]["AttributeType"], Unseen)
    assert policies(found)[2] == ["what a connector of SAM adds"]


PARSED = {
    each.name: parsed(each.read_text(encoding="utf-8")) for each in HERE.iterdir() if each.suffix in (".yaml", ".json")
}
ODD: tuple[Any, ...] = (
    None, 7, "x", "", True, [], {}, [7], [None], {"a": {}}, UNKNOWN, when("IsAsked", []), NOTHING, [NOTHING],
    {"Fn::If": []}, {"Fn::If": "x"}, {"Fn::Select": ["x", ["a"]]}, {"Fn::Sub": 7}, {"Fn::GetAtt": "A.B.C"},
    {"Fn::ForEach::X": ["x", [], {}]}, {"Fn::Transform": {}, "a": 1}, {"Ref": "Nobody"}, {"Ref": {"Ref": "x"}},
    {"Fn::Join": ["", {}]}, {"Fn::Split": [7, "a"]}, {"Fn::ToJsonString": {"Ref": "AWS::NoValue"}}, {"Ref": []},
)  # fmt: skip


@settings(max_examples=40)
@given(name=st.sampled_from(sorted(PARSED)), place=st.integers(0, 9999), odd=st.sampled_from(ODD))
def test_whatever_stands_anywhere_ends_in_a_report_or_a_sentence(name: str, place: int, odd: Any) -> None:
    """One value of a template that somebody wrote is another one: it is never a trace."""
    template = copy.deepcopy(PARSED[name])
    places = list(_places(template))
    parent, key = places[place % len(places)]
    parent[key] = odd
    with contextlib.suppress(ConfigurationError):
        assert on_template(json.dumps(template)).to_json()


def _places(said: Any) -> Any:
    """Yield each place in a template at which a value stands."""
    for key, value in said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ():
        yield said, key
        yield from _places(value)
