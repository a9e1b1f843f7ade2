"""What is seen of a role, and what that allows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from doctor_ground import World, said

from dynamodb_outbox.doctor.inventory import Inventory, Piece, Unseen
from dynamodb_outbox.doctor.roles import allows, role_of

ARN = "arn:aws:iam::123456789012:role/relay"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:orders"


def role(*others: Piece, **properties: Any) -> Any:
    """Return a role with these properties, beside other resources."""
    piece = Piece("Role", "AWS::IAM::Role", ARN, properties)
    return role_of(piece, Inventory("template", (piece, *others)))


def document(*actions: str, resource: Any = "*", **more: Any) -> dict[str, Any]:
    """Return a policy's document with one statement."""
    statement = {"Effect": "Allow", "Resource": resource, **({"Action": list(actions)} if actions else {}), **more}
    return {"Version": "2012-10-17", "Statement": statement}


def inline(*actions: str, **more: Any) -> dict[str, Any]:
    """Return a policy inside of a role."""
    return {"PolicyName": "inline", "PolicyDocument": document(*actions, **more)}


@pytest.mark.parametrize(
    ("policy", "action", "whether"),
    [
        (inline("sqs:SendMessage"), "sqs:SendMessage", True),
        (inline("SQS:send*"), "sqs:SendMessage", True),
        (inline("sqs:SendMessage"), "sqs:GetQueueUrl", False),
        (inline("*"), "sqs:GetQueueUrl", True),
        (inline("sqs:*", resource=[QUEUE + "-other"]), "sqs:SendMessage", False),
        (inline("sqs:*", resource=QUEUE), "sqs:SendMessage", True),
        (inline(NotAction="iam:*"), "sqs:SendMessage", True),
        (inline(NotAction="sqs:*"), "sqs:SendMessage", False),
        ({"PolicyName": "x", "PolicyDocument": {"Statement": [
            {"Effect": "Allow", "Action": "sqs:*", "NotResource": QUEUE}]}}, "sqs:SendMessage", False),
        ({"PolicyName": "x", "PolicyDocument": json.dumps(document("sqs:*"))}, "sqs:SendMessage", True),
        (inline("sqs:*", Condition={"Bool": {"aws:SecureTransport": "true"}}), "sqs:SendMessage", True),
    ],
)  # fmt: skip
def test_statements_allow_as_iam_reads_them(policy: dict[str, Any], action: str, whether: bool) -> None:
    """Actions whatever their case, stars, what a statement is not about; a condition counts as met."""
    assert allows(role(Policies=[policy]), action, QUEUE) is whether


def test_a_denial_goes_before_all() -> None:
    """One with a condition does not: whether it is met is not known."""
    denied = inline("sqs:*", Effect="Deny")
    assert allows(role(Policies=[inline("*"), denied]), "sqs:SendMessage", QUEUE) is False
    on_condition = inline("sqs:*", Effect="Deny", Condition={"Bool": {"aws:SecureTransport": "false"}})
    assert allows(role(Policies=[inline("*"), on_condition]), "sqs:SendMessage", QUEUE) is True


@pytest.mark.parametrize(
    ("denial", "why"),
    [
        ({"Effect": "Deny", "Action": Unseen("act"), "Resource": "*"}, "act"),
        ({"Effect": "Deny", "Action": "sqs:*", "Resource": Unseen("res")}, "res"),
        ({"Effect": Unseen("effect"), "Action": "sqs:*", "Resource": "*"}, "effect"),
        ({"Effect": "Deny", "Action": "sqs:*", "Resource": "*", "Condition": Unseen("when")}, "when"),
    ],
)
def test_a_denial_that_is_not_seen_leaves_no_permission(denial: dict[str, Any], why: str) -> None:
    """What another statement allows may be denied by it; what nothing allows is refused as before."""
    policies = [inline("sqs:*"), {"PolicyName": "denies", "PolicyDocument": {"Statement": [denial]}}]
    answer = allows(role(Policies=policies), "sqs:SendMessage", QUEUE)
    assert isinstance(answer, Unseen)
    assert why in answer.why
    assert allows(role(Policies=policies[:1]), "sqs:SendMessage", QUEUE) is True


def test_a_boundary_leaves_no_permission_and_lifts_no_refusal() -> None:
    """It may only take away: what is allowed is not seen then, what nothing allows stays refused."""
    bounded = role(Policies=[inline("sqs:*")], PermissionsBoundary="arn:aws:iam::1:policy/B")
    answer = allows(bounded, "sqs:SendMessage", QUEUE)
    assert isinstance(answer, Unseen)
    assert "boundary" in answer.why
    assert allows(bounded, "s3:PutObject", None) is False
    world = World()
    world["RelayRole"]["PermissionsBoundary"] = "arn:aws:iam::1:policy/B"
    report = world.report()
    assert said(report) == []
    assert [(each.id, each.why) for each in report.unjudged] == [
        ("access-lacking", "what its permissions boundary leaves of it")
    ]


def test_what_is_wide_is_found_behind_what_is_not_seen() -> None:
    """A statement that is not seen ends the rule after the others, not before them."""
    world = World()
    world.statements("RelayRole").append({"Effect": "Allow", "Action": Unseen("act"), "Resource": "*"})
    world.statements("RelayRole").append({"Effect": "Allow", "Action": "*", "Resource": "*"})
    report = world.report()
    assert said(report) == ["access-wide"]
    assert [(each.id, each.why) for each in report.unjudged] == [("access-wide", "act")]


def test_policies_beside_the_role_are_found() -> None:
    """Of their own, that name the role, or that it names; and those of AWS that functions are given."""
    managed_arn = "arn:aws:iam::123456789012:policy/M"
    pieces = (
        Piece("P", "AWS::IAM::Policy", "", {"Roles": ["Role"], "PolicyDocument": document("a:B")}),
        Piece("R", "AWS::IAM::RolePolicy", "", {"RoleName": "Role", "PolicyDocument": document("c:D")}),
        Piece("M", "AWS::IAM::ManagedPolicy", managed_arn, {"PolicyDocument": document("e:F")}),
        Piece("O", "AWS::IAM::Policy", "", {"Roles": ["Other"], "PolicyDocument": document("g:H")}),
    )
    basic = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
    found = role(*pieces, ManagedPolicyArns=[managed_arn, basic])
    answers = [allows(found, each, None) for each in ("a:B", "c:D", "e:F", "g:H", "logs:PutLogEvents")]
    assert answers == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"Policies": Unseen("policies")}, "policies"),
        ({"ManagedPolicyArns": Unseen("arns")}, "arns"),
        ({"ManagedPolicyArns": [Unseen("an import")]}, "an import"),
        ({"ManagedPolicyArns": ["arn:aws:iam::123456789012:policy/Mine"]}, "Mine"),
        ({"ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonKinesisFullAccess"]}, "AmazonKinesisFullAccess"),
        ({"Policies": [inline("sqs:SendMessage", Effect=Unseen("effect"))]}, "effect"),
        ({"Policies": [{"PolicyName": "p", "PolicyDocument": Unseen("hidden")}]}, "hidden"),
        ({"Policies": [{"PolicyName": "p", "PolicyDocument": {"Statement": Unseen("st")}}]}, "st"),
        ({"Policies": [{"PolicyName": "p", "PolicyDocument": "{"}]}, "no JSON"),
        ({"Policies": [inline("sqs:SendMessage", resource=Unseen("a queue"))]}, "a queue"),
        ({"Policies": [{"PolicyName": "p", "PolicyDocument": {"Statement": {"Effect": "Allow", "Action": Unseen("act"),
                                                                            "Resource": "*"}}}]}, "act"),
    ],
)  # fmt: skip
def test_what_is_not_seen_of_a_role_is_no_refusal(properties: dict[str, Any], why: str) -> None:
    """And no permission: the answer is that it is not seen."""
    answer = allows(role(**properties), "sqs:SendMessage", QUEUE)
    assert isinstance(answer, Unseen)
    assert why in answer.why


def test_a_role_that_is_not_seen_hides_access_alone() -> None:
    """Not in the template, or none named at all."""
    world = World()
    world.pieces.pop("RelayRole")
    report = world.report()
    assert said(report) == []
    assert {each.id for each in report.unjudged} == {"access-lacking", "access-trust", "access-wide"}
    world["Relay"].pop("Role")
    assert {each.why for each in world.report().unjudged} == {"the function names no role"}
