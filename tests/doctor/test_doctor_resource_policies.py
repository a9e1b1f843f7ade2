"""Policies of resources: who is let in, who is kept out, and what is not seen of that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from doctor_ground import PAYLOADS, World, said

from dynamodb_outbox.doctor.choosing import POLICIES, system_of
from dynamodb_outbox.doctor.inventory import Inventory, Piece, Unseen
from dynamodb_outbox.doctor.report import Report, report_on
from dynamodb_outbox.doctor.resource_policies import Call, denies, lets, policy_of

WHY = Unseen("why")
RULE = "arn:aws:events:eu-west-1:123456789012:rule/sweep"
CALL = Call(
    ("events.amazonaws.com",), "lambda:InvokeFunction", "arn:aws:lambda:eu-west-1:123456789012:function:s", RULE
)


def statement(effect: str = "Allow", **more: Any) -> dict[str, Any]:
    """Return a statement about everybody and everything."""
    return {"Effect": effect, "Principal": "*", "Action": "*", "Resource": "*", **more}


def of(*statements: Any) -> Any:
    """Return a policy."""
    return policy_of("p", json.dumps({"Statement": statements}))


SERVICE = {"Service": ["events.amazonaws.com", "sns.amazonaws.com"]}


@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([], False),
        ([statement()], True),
        ([statement(Principal={"AWS": "*"})], True),
        ([statement(Principal=SERVICE)], True),
        ([statement(Principal={"Service": "s3.amazonaws.com"})], False),
        ([statement(Action="lambda:Get*")], False),
        ([statement(Resource=f"{CALL.resource}2")], False),
        ([statement(), statement("Deny")], False),
        ([statement(), statement("Deny", Principal={"Service": "s3.amazonaws.com"})], True),
        ([statement(), statement("Deny", Condition={"Bool": {"aws:SecureTransport": "false"}})], True),
        ([statement(Condition={"StringEquals": {"AWS:SourceAccount": "1"}})], True),
        ([statement(Condition={"ArnLike": {"AWS:SourceArn": RULE}})], True),
        ([statement(Condition={"ArnLike": {"aws:sourcearn": [f"{RULE}2", "arn:aws:events:*:*:rule/s*"]}})], True),
        ([statement(Condition={"ArnEquals": {"aws:SourceArn": f"{RULE}2"}})], False),
        ([statement(Condition={"ArnNotLike": {"aws:SourceArn": RULE}})], True),
    ],
)
def test_who_is_let_in(statements: list[Any], allowed: bool) -> None:
    """By principal, action, resource and what the call comes from; other conditions count as met where one allows."""
    assert lets(of(*statements), CALL) is allowed


@pytest.mark.parametrize("hidden", ["Principal", "Action", "Resource", "Condition"])
def test_a_part_of_a_statement_that_is_not_seen_leaves_it_open(hidden: str) -> None:
    """Whether it allows; and whether it denies, but for one whose other parts do not fit."""
    part: dict[str, Any] = {hidden: WHY}
    allowing = policy_of("p", {"Statement": [statement(**part)]})
    assert lets(allowing, CALL) == WHY
    denying = policy_of("p", {"Statement": [statement(), statement("Deny", **part)]})
    assert (lets(denying, CALL), denies(denying, CALL)) == (WHY, WHY)
    other: dict[str, Any] = (
        {"Action": "s3:*"} if hidden == "Principal" else {"Principal": {"Service": "s3.amazonaws.com"}}
    )
    if hidden != "Condition":
        assert lets(policy_of("p", {"Statement": [statement(**part, **other)]}), CALL) is False


def test_what_a_policy_may_be() -> None:
    """None, not seen, no JSON; and about all but somebody, which is not worked out."""
    assert policy_of("p", None) is None
    assert (lets(None, CALL), denies(None, CALL)) == (False, False)
    assert (lets(WHY, CALL), denies(WHY, CALL)) == (WHY, WHY)
    assert isinstance(policy_of("p", "{"), Unseen)
    unlike = {name: each for name, each in statement("Deny", NotPrincipal="*").items() if name != "Principal"}
    assert isinstance(denies(of(unlike), CALL), Unseen)
    several = policy_of("p", {"Statement": [statement(Principal={"AWS": WHY, "Service": "s3.amazonaws.com"})]})
    assert lets(several, CALL) == WHY


def judged(inventory: Inventory) -> Report:
    """Return what is said of an inventory."""
    return report_on(system_of(inventory, PAYLOADS))


def test_policies_of_which_there_may_be_more_are_not_seen() -> None:
    """Such as those in a stack of their own. A topic has one from its beginning, which lets CloudWatch publish."""
    world = World()
    for each in ("SweeperSchedulePermission", "GivenUpPolicy", "AlarmTopicPolicy"):
        world.pieces.pop(each)
    report = judged(replace(world.inventory(), unseen=dict.fromkeys(POLICIES, WHY)))
    assert said(report) == []
    assert {each.id for each in report.unjudged} == {"sweeper-refused", "on-failure-denied", "alarm-topic-policy"}
    assert said(world.report()) == ["sweeper-refused"]


@pytest.mark.parametrize(
    ("id_", "settings", "check"),
    [
        ("SweeperSchedulePermission", {"FunctionName": WHY}, "sweeper-refused"),
        ("SweeperSchedulePermission", {"Principal": WHY}, "sweeper-refused"),
        ("GivenUpPolicy", {"Bucket": WHY}, "on-failure-denied"),
        ("GivenUpPolicy", {"PolicyDocument": WHY}, "on-failure-denied"),
        ("AlarmTopicPolicy", {"Topics": WHY}, "alarm-topic-policy"),
        ("AlarmTopicPolicy", {"Topics": [WHY]}, "alarm-topic-policy"),
        ("AlarmTopicPolicy", {"PolicyDocument": WHY}, "alarm-topic-policy"),
        ("RelayRole", {"AssumeRolePolicyDocument": WHY}, "access-trust"),
        ("GivenUp", {"BucketEncryption": WHY}, "on-failure-key"),
    ],
)
def test_a_policy_that_is_not_seen_is_not_judged(id_: str, settings: dict[str, Any], check: str) -> None:
    """Nor is one that is not seen to be of that resource."""
    world = World()
    world[id_].update(settings)
    report = world.report()
    assert (said(report), [each.id for each in report.unjudged]) == ([], [check])


def test_a_permission_that_is_not_seen_counts_where_no_other_allows() -> None:
    """They add up: one in a stack of its own, or for a function that is not seen, may be what another rule's lacks."""
    world = World()
    one = world.pieces["SweeperSchedulePermission"]
    world.pieces["Later"] = Piece("Later", one.kind, one.arn, {**one.properties, "FunctionName": WHY})
    in_others = replace(world.inventory(), unseen={one.kind: WHY})
    assert (said(world.report()), world.report().unjudged, judged(in_others).unjudged) == ([], (), ())
    world["SweeperSchedulePermission"]["SourceArn"] = "arn:aws:events:::rule/other"
    assert [each.id for each in world.report().unjudged] == ["sweeper-refused"]
    world.pieces.pop("Later")
    assert said(world.report()) == ["sweeper-refused"]
    report = judged(replace(world.inventory(), unseen={one.kind: WHY}))
    assert (said(report), [each.id for each in report.unjudged]) == ([], ["sweeper-refused"])


def test_statements_of_several_policies_count_together() -> None:
    """Permissions of a function, and policies that name a topic."""
    world = World()
    for id_, name, changed in (
        ("SweeperSchedulePermission", "Before", {"Principal": "s3.amazonaws.com"}),
        ("AlarmTopicPolicy", "Other", {"Topics": ["arn:aws:sns:::other"]}),
    ):
        one = world.pieces[id_]
        world.pieces = {name: Piece(name, one.kind, one.arn, {**one.properties, **changed}), **world.pieces}
    assert said(world.report()) == []
