"""The CDK construct, synthesized by the CDK itself: `make cdk`. It needs node, so it is no part of `make test`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb, aws_events, aws_sns, aws_sqs
from read_back import Template, canonical
from test_infra_renderings import faults

from deployments import DEPLOYMENTS, arguments
from dynamodb_outbox.cdk import OutboxRelay
from dynamodb_outbox.cli import main
from dynamodb_outbox.infra.plan import resources_of

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = {"I1022", "I3011"}  # hints: that text is joined, and that the CDK's own queue and log groups may go


def test_the_construct_says_what_is_described(tmp_path: Path) -> None:
    """For each deployment that makes its table, in one app: read back, it is the description; the doctor is content."""
    app = cdk.App()
    stacks: dict[str, Any] = {}
    for number, (name, deployment) in enumerate(DEPLOYMENTS.items()):
        if not deployment.existing_table:
            stacks[name] = cdk.Stack(app, f"Stack{number}")
            OutboxRelay(stacks[name], "Outbox", **arguments(deployment))
    assembly = app.synth()
    for name, stack in stacks.items():
        resources = resources_of(DEPLOYMENTS[name])
        template = assembly.get_stack_by_name(stack.stack_name).template
        prefix = next(id_ for id_ in template["Resources"] if id_.endswith("Relay")).removesuffix("Relay")
        (tmp_path / "template.json").write_text(json.dumps(template), encoding="utf-8")
        assert main(["doctor", "--template", str(tmp_path / "template.json")]) == 0
        told = json.loads(json.dumps(template["Resources"]).replace(prefix, ""))
        for each in told.values():
            if isinstance(each.get("DependsOn"), list):
                (each["DependsOn"],) = each["DependsOn"]
        found = Template({"Resources": told}).read()
        assert {id_: canonical(each, resources[0]) for id_, each in found.items()} == {
            each.id: canonical(each, resources[0]) for each in resources
        }


def test_constructs_of_the_cdk_are_taken() -> None:
    """A table, a bus, a queue and a topic that are made in the same stack: their references are where they belong."""
    app = cdk.App()
    stack = cdk.Stack(app, "Shop")
    keys = {
        kind: aws_dynamodb.Attribute(name=name, type=aws_dynamodb.AttributeType.STRING)
        for kind, name in (("partition_key", "pk"), ("sort_key", "sk"))
    }
    OutboxRelay(
        stack,
        "Outbox",
        table=aws_dynamodb.Table(stack, "Table", stream=aws_dynamodb.StreamViewType.NEW_IMAGE, **keys),
        sink={"order.*": aws_events.EventBus(stack, "Bus"), "*": aws_sqs.Queue(stack, "Queue", fifo=True)},
        notify=aws_sns.Topic(stack, "Ops"),
    )
    template = app.synth().get_stack_by_name("Shop").template
    assert "known-later" not in json.dumps(template)
    assert [each for each in faults(template) if each[:5] not in TOKENS | {"I3013"}] == []


def test_a_bus_of_another_region_has_its_default_bus_there() -> None:
    """Also where its ARN is not known until it is deployed: the bus's own stack tells the Region."""
    app = cdk.App()
    other = cdk.Stack(app, "Buses", env=cdk.Environment(account="123456789012", region="eu-west-1"))
    stack = cdk.Stack(app, "Shop", env=cdk.Environment(account="123456789012", region="us-east-2"))
    bus = aws_events.EventBus(other, "Bus", event_bus_name="orders")
    OutboxRelay(stack, "Outbox", table="shop", sink=bus, notify="a@b.example")
    told = json.dumps(app.synth().get_stack_by_name("Shop").template)
    assert ":events:eu-west-1:" in told.replace('", "', "")
    assert "known-later" not in told
    assert told.count("event-bus/default") == 2
