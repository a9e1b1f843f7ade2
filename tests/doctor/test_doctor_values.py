"""A template's text, and what its functions come to."""

from __future__ import annotations

import builtins
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.doctor.inventory import ANY_ACCOUNT, ANY_REGION, Piece, Unseen, plain_arn, same_arn
from dynamodb_outbox.doctor.properties import Properties
from dynamodb_outbox.doctor.reading import schedule_of
from dynamodb_outbox.doctor.roles import matches
from dynamodb_outbox.doctor.template.resources import inventory_of
from dynamodb_outbox.doctor.template.values import NOTHING, Values
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.template_text import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPLATE: dict[str, Any] = {
    "Parameters": {
        "Stage": {"Type": "String", "Default": "dev"},
        "Names": {"Type": "CommaDelimitedList", "Default": "a, b"},
        "Needed": {"Type": "String"},
        "Looked": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/shop"},
    },
    "Mappings": {"Sizes": {"dev": {"Memory": 256}}},
    "Conditions": {
        "IsDev": {"Fn::Equals": [{"Ref": "Stage"}, "dev"]},
        "IsNeeded": {"Fn::Equals": [{"Ref": "Needed"}, "x"]},
        "IsHere": {"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-west-1"]},
        "Both": {"Fn::And": [{"Condition": "IsDev"}, {"Condition": "IsNeeded"}]},
        "NotDevAndNeeded": {"Fn::And": [{"Fn::Not": [{"Condition": "IsDev"}]}, {"Condition": "IsNeeded"}]},
        "Either": {"Fn::Or": [{"Condition": "IsDev"}, {"Condition": "IsNeeded"}]},
        "Circle": {"Condition": "Circle"},
    },
}


def worked(said: Any, parameters: Mapping[str, str] | None = None) -> Any:
    """Return what a value comes to; a resource is told by its name."""
    return Values(TEMPLATE, parameters or {}, lambda id_, attribute: f"<{id_}{attribute or ''}>").of(said)


@pytest.mark.parametrize(
    ("said", "comes_to"),
    [
        ("text", "text"),
        ({"Ref": "Stage"}, "dev"),
        ({"Ref": "Names"}, ["a", "b"]),
        ({"Ref": "Table"}, "<Table>"),
        ({"Fn::GetAtt": ["Table", "Arn"]}, "<TableArn>"),
        ({"Fn::GetAtt": "Table.Arn"}, "<TableArn>"),
        ({"Fn::Sub": "x-${Stage}-${Table.Arn}-${!Stage}-${AWS::Partition}"}, "x-dev-<TableArn>-${Stage}-aws"),
        ({"Fn::Sub": ["${own}-${Stage}", {"own": {"Ref": "Table"}}]}, "<Table>-dev"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Stage"}]]}, "a-dev"),
        ({"Fn::Select": ["1", {"Fn::Split": ["/", "a/b"]}]}, "b"),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Stage"}, "Memory"]}, 256),
        ({"Fn::If": ["IsDev", 1, 2]}, 1),
        ({"Fn::If": ["IsNeeded", 3, 3]}, 3),
        ({"Fn::If": ["Either", 1, 2]}, 1),
        ({"Fn::If": ["NotDevAndNeeded", 1, 2]}, 2),
        ({"Fn::Base64": "a"}, "YQ=="),
        ({"Fn::ToJsonString": {"a": {"Ref": "Stage"}}}, '{"a": "dev"}'),
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        ({"a": {"Ref": "AWS::NoValue"}, "b": 1}, {"b": 1}),
        ({"Ref": "AWS::NoValue"}, NOTHING),
    ],
)
def test_what_a_template_says_itself_is_worked_out(said: Any, comes_to: Any) -> None:
    """As CloudFormation does when it is deployed."""
    assert worked(said) == comes_to


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"Ref": "Needed"}, "--parameter Needed=..."),
        ({"Ref": "Looked"}, "parameter Looked"),
        ({"Ref": "AWS::NotificationARNs"}, "AWS::NotificationARNs"),
        ({"Fn::ImportValue": "Other"}, "Other, which another stack exports"),
        ({"Fn::ImportValue": {"Ref": "Needed"}}, "Needed"),
        ({"Fn::Cidr": ["10.0.0.0/16", 1]}, "Fn::Cidr"),
        ({"Fn::Sub": "x-${Needed}"}, "Needed"),
        ({"Fn::Join": ["", [{"Ref": "Needed"}]]}, "Needed"),
        ({"Fn::Split": ["/", {"Ref": "Needed"}]}, "Needed"),
        ({"Fn::Select": [0, {"Fn::Split": ["/", {"Ref": "Needed"}]}]}, "Needed"),
        ({"Fn::Select": [5, ["a"]]}, "shorter"),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Needed"}, "Memory"]}, "Needed"),
        ({"Fn::FindInMap": ["Sizes", "prod", "Memory"]}, "Sizes/prod/Memory"),
        ({"Fn::GetAtt": ["Table"]}, "Fn::GetAtt"),
        ({"Fn::Base64": {"Ref": "Needed"}}, "Needed"),
        ({"Fn::ToJsonString": {"a": [{"Ref": "Needed"}]}}, "Needed"),
        ({"Fn::If": ["IsNeeded", 1, 2]}, "Needed"),
        ({"Fn::If": ["IsHere", 1, 2]}, "the account and the Region"),
        ({"Fn::If": ["Both", 1, 2]}, "Needed"),
        ({"Fn::If": ["Circle", 1, 2]}, "Circle"),
        ({"Fn::If": ["NoSuch", 1, 2]}, "NoSuch"),
        ("{{resolve:ssm:/shop/bus}}", "known only when it is deployed"),
    ],
)
def test_what_is_known_only_when_it_is_deployed_is_not_seen(said: Any, why: str) -> None:
    """And whatever is made of it; the reason is told."""
    found = worked(said)
    assert isinstance(found, Unseen)
    assert why in found.why


def test_a_parameter_may_be_given() -> None:
    """By --parameter; it goes before the default. One that the template has not is refused."""
    assert worked({"Fn::Sub": "${Stage}-${Needed}"}, {"Stage": "prod", "Needed": "x"}) == "prod-x"
    assert worked({"Fn::If": ["Both", 1, 2]}, {"Needed": "x"}) == 1
    with pytest.raises(ConfigurationError, match="no parameter Stag"):
        inventory_of(json.dumps({**TEMPLATE, "Resources": {}}), {"Stag": "x"})


def test_anchors_that_repeat_one_another_are_refused() -> None:
    """Of a few hundred bytes come more values than could be looked at."""
    lines = ["A0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"A{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigurationError, match="comes to more than 500,000 values"):
        parsed("\n".join([*lines, "Resources: {}"]))


def test_short_forms_are_the_long_ones() -> None:
    """Of scalars, lists and mappings; dates stay text, and a merge is no name that stands twice."""
    text = """
Resources:
  A:
    Type: X
    Condition: IsDev
    Properties: &shared
      Version: 2012-10-17
      One: !Ref A
      Two: !GetAtt A.Outputs.Arn
      Three: !Sub ["${x}", {x: !Ref B}]
      Four: !If [IsDev, !Ref A, !Ref AWS::NoValue]
      Five: !Transform {Name: Include, Parameters: {x: y}}
      Six: !Not [!Condition IsDev]
  B:
    Properties:
      <<: *shared
      One: mine
"""
    resources = parsed(text)["Resources"]
    assert resources["A"]["Properties"] == {
        "Version": "2012-10-17",
        "One": {"Ref": "A"},
        "Two": {"Fn::GetAtt": ["A", "Outputs.Arn"]},
        "Three": {"Fn::Sub": ["${x}", {"x": {"Ref": "B"}}]},
        "Four": {"Fn::If": ["IsDev", {"Ref": "A"}, {"Ref": "AWS::NoValue"}]},
        "Five": {"Fn::Transform": {"Name": "Include", "Parameters": {"x": "y"}}},
        "Six": {"Fn::Not": [{"Condition": "IsDev"}]},
    }
    assert resources["B"]["Properties"] == {**resources["A"]["Properties"], "One": "mine"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no Resources"),
        ("[]", "no Resources"),
        ("service: shop\nfunctions: {}\n", "serverless package"),
        ("{", "neither JSON nor YAML"),
        ("Resources: {A: 1, A: 2}", "'A' stands twice"),
        ("Resources: [unclosed", "neither JSON nor YAML"),
        ("Resources: &a {A: *a}", "neither JSON nor YAML"),
        ("[" * 100_000, "nested too deeply"),
        ('{"Resources": {"A": {"Type": "X", "Properties": {"x": {"Fn::Join": "x"}}}}}', "another form"),
        (json.dumps({"Resources": {"A": {"Type": "AWS::Lambda::Function",
                                         "Properties": {"FunctionName": {"Ref": "A"}}}}}), "without end"),
    ],
)  # fmt: skip
def test_what_is_no_template_is_a_sentence(text: str, why: str) -> None:
    """No trace, whatever it is."""
    with pytest.raises(ConfigurationError, match=why):
        inventory_of(text)


@given(st.text(max_size=60))
def test_no_text_does_anything_else(text: str) -> None:
    """It is a template, or it is refused."""
    with contextlib.suppress(ConfigurationError):
        assert inventory_of(text).source == "template"


def test_without_pyyaml_json_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """And YAML is refused, with the extra that reads it."""
    real = builtins.__import__

    def without_yaml(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    assert parsed('{"Resources": {}}') == {"Resources": {}}
    with pytest.raises(ConfigurationError, match=r"\[cli\]"):
        parsed("Resources: {}")


def test_a_condition_that_does_not_hold_leaves_a_resource_out() -> None:
    """One that cannot be told leaves it in. A version and an alias stand for their function."""
    function = {"Type": "AWS::Lambda::Function", "Properties": {"Handler": "app.f"}}
    resources: dict[str, Any] = {
        "A": function,
        "B": {**function, "Condition": "NotDevAndNeeded"},
        "C": {**function, "Condition": "IsNeeded"},
        "Live": {"Type": "AWS::Lambda::Alias", "Properties": {"FunctionName": {"Ref": "A"}}},
        "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True, "Tags": {"Fn::GetAtt": ["Queue", "X"]}}},
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {"FunctionName": {"Ref": "Live"}, "Queue": {"Ref": "Queue"}, "None": {"Ref": "Nobody"}},
        },
    }
    found = {each.id: each for each in inventory_of(json.dumps({**TEMPLATE, "Resources": resources})).pieces}
    assert sorted(found) == ["A", "C", "Live", "Mapping", "Queue"]
    assert found["Mapping"].properties["FunctionName"] == "A"
    assert found["Mapping"].properties["Queue"] == "Queue.fifo"
    assert found["Mapping"].properties["None"] == Unseen("Nobody is no resource or parameter of the template")
    assert found["Queue"].properties["Tags"] == Unseen("Queue.X is known only when it is deployed")


def test_properties_are_read_as_cloudformation_reads_them() -> None:
    """Text may be a number or a flag; anything else, and what was not seen, stays unseen."""
    unseen = Unseen("why")
    found = Properties({"n": "5", "f": "True", "x": "many", "l": "one", "u": unseen, "in": {"u": [1, unseen]}, "o": {}})
    assert (found.number("n"), found.flag("f"), found.items("l")) == (5, True, ("one",))
    assert (found.number("no"), found.flag("no"), found.items("no"), found.mapping("no")) == (None, False, (), {})
    assert isinstance(found.number("x"), Unseen)
    assert isinstance(found.flag("x"), Unseen)
    assert isinstance(found.mapping("x"), Unseen)
    for each in (found.text("u"), found.number("u"), found.flag("u"), found.items("u"), found.parts("u")):
        assert each is unseen
    assert found.texts("in", "u") is unseen
    assert found.texts("u") is unseen
    assert found.raw("u", "deeper") is unseen
    assert found.raw("n", "deeper") is None


def test_arns_are_compared_but_for_what_a_template_does_not_know() -> None:
    """Its account and its Region; and they are shown by CloudFormation's words."""
    here = f"arn:aws:sqs:{ANY_REGION}:{ANY_ACCOUNT}:orders"
    assert same_arn(here, "arn:aws:sqs:eu-west-1:123456789012:orders")
    assert not same_arn(here, "arn:aws:sqs:eu-west-1:123456789012:other")
    assert not same_arn("arn:aws:sqs:eu-west-1:1:a", "arn:aws:sqs:us-east-1:1:a")
    assert not same_arn("orders", here)
    assert plain_arn(here) == "arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:orders"


@pytest.mark.parametrize(
    ("pattern", "resource", "whether"),
    [
        ("*", "arn:aws:s3:::a/b", True),
        ("arn:aws:s3:::a/*", "arn:aws:s3:::a/aws/lambda/*", True),
        ("arn:aws:s3:::a", "arn:aws:s3:::a/b", False),
        ("arn:aws:sqs:*:*:orders", "arn:aws:sqs:eu-west-1:1:orders", True),
        ("arn:aws:sqs:us-east-1:1:orders", "arn:aws:sqs:eu-west-1:1:orders", False),
        (f"arn:aws:sqs:{ANY_REGION}:{ANY_ACCOUNT}:orders", "arn:aws:sqs:eu-west-1:1:orders", True),
        ("arn:aws:sqs:eu-west-1:1:order?", "arn:aws:sqs:eu-west-1:1:orders", True),
        ("arn:aws:sqs:eu-west-1:1:order[s]", "arn:aws:sqs:eu-west-1:1:orders", False),
    ],
)
def test_resources_match_as_iam_matches_them(pattern: str, resource: str, whether: bool) -> None:
    """Stars and question marks, part by part."""
    assert matches(pattern, resource) is whether


def test_rates_are_read() -> None:
    """A cron expression is not worked out, and so not judged."""

    def minutes(expression: Any) -> Any:
        return schedule_of(Piece("S", "AWS::Events::Rule", "", {"ScheduleExpression": expression}), True).minutes

    assert [minutes(each) for each in ("rate(1 minute)", "rate(2 hours)", "rate(1 day)")] == [1.0, 120.0, 1440.0]
    assert isinstance(minutes("cron(0 * * * ? *)"), Unseen)
    assert minutes(Unseen("why")) == Unseen("why")
