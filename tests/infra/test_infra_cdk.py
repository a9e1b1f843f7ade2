"""The CDK construct, on a stand-in for the CDK: its resources are those of the description.

`make cdk` has the real one.
"""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cdk_stand_in import Asset, Construct, install
from read_back import Template, canonical

from deployments import DEPLOYMENTS, arguments
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.infra.package import package
from dynamodb_outbox.infra.plan import resources_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dynamodb_outbox.infra.deployment import Deployment

STACK = Construct(None, "Shop")
TABLE = SimpleNamespace(table_arn="${Table.arn}", table_name="${Table.name}", table_stream_arn="${Table.stream_arn}")


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the construct's class."""
    install(monkeypatch)
    yield importlib.import_module("dynamodb_outbox.cdk").OutboxRelay
    sys.modules.pop("dynamodb_outbox.cdk", None)


def test_without_the_cdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And how to install it."""
    monkeypatch.setitem(sys.modules, "aws_cdk", None)
    with pytest.raises(ImportError, match=r"needs the extra: pip install 'dynamodb-outbox\[cdk\]'"):
        importlib.import_module("dynamodb_outbox.cdk")


def template_of(construct: Any) -> Template:
    """Return what the construct puts into the template of its stack, with ids as in the description."""
    assert {each.logical_id for each in construct.resources.values()} == {
        f"UniqueOutbox{id_}" for id_ in construct.resources
    }
    told = {id_: each.told() for id_, each in construct.resources.items()}
    return Template(_plain({"Resources": told}))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_plain, value))
    return value.removeprefix("UniqueOutbox") if isinstance(value, str) else value


@pytest.mark.parametrize("which", [each for each, made in DEPLOYMENTS.items() if not made.existing_table])
def test_the_construct_makes_what_is_described(which: str, relay: Any) -> None:
    """Read back from what it puts into the stack, property by property."""
    deployment: Deployment = DEPLOYMENTS[which]
    construct = relay(STACK, "Outbox", **arguments(deployment))
    resources = resources_of(deployment)
    found = {id_: canonical(each, resources[0]) for id_, each in template_of(construct).read().items()}
    assert found == {each.id: canonical(each, resources[0]) for each in resources}
    assert construct.resources["Table"].cfn_options.deletion_policy == "Retain"
    assert construct.resources["Relay"].properties["Code"] == {"S3Bucket": "assets", "S3Key": "outbox.zip"}
    assert Asset.contents[-1] == package().content


def test_constructs_stand_for_what_is_known_later(relay: Any, tmp_path: Path) -> None:
    """A table, buses, queues, topics, buckets and keys of the CDK: their tokens are where their ARNs belong."""
    (tmp_path / "code.zip").write_bytes(b"code")
    construct = relay(
        STACK,
        "Outbox",
        table=TABLE,
        sink={
            "a": SimpleNamespace(event_bus_arn="${Bus.arn}"),
            "b": SimpleNamespace(queue_arn="${Queue.arn}", fifo=True),
            "*": SimpleNamespace(topic_arn="arn:aws:sns:eu-west-1:123456789012:rest"),
        },
        notify=SimpleNamespace(topic_arn="${Ops.arn}"),
        on_failure=SimpleNamespace(bucket_arn="${Failed.arn}"),
        kms_key=SimpleNamespace(key_arn="${Key.arn}"),
        on_failure_kms_key=SimpleNamespace(key_arn="${FailedKey.arn}"),
        code=str(tmp_path / "code.zip"),
    )
    assert Asset.contents[-1] == b"code"
    template = template_of(construct)
    relay_of = template.resources["Relay"]["Properties"]
    assert relay_of["FunctionName"] == "Shop-Outbox-relay"
    assert {name: template.value(value) for name, value in relay_of["Environment"]["Variables"].items()} == {
        "OUTBOX_SINK": '{"a": "${Bus.arn}", "b": "${Queue.arn}", "*": "arn:aws:sns:eu-west-1:123456789012:rest"}',
        "OUTBOX_TABLE": "${Table.name}",
        "OUTBOX_METRICS": "emf",
    }
    mapping = template.resources["RelayStream"]["Properties"]
    assert mapping["EventSourceArn"] == "${Table.stream_arn}"
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == "${Failed.arn}"
    (policy,) = template.resources["RelayRole"]["Properties"]["Policies"]
    granted = {
        each["Sid"]: list(map(template.value, each["Resource"])) for each in policy["PolicyDocument"]["Statement"]
    }
    assert granted["Records"] == ["${Table.arn}"]
    assert granted["Stream"] == ["${Table.arn}/stream/*"]
    assert granted["GivenUp"] == ["${Failed.arn}/aws/lambda/*"]
    assert granted["PublishQueue"] == ["${Queue.arn}"]
    assert granted["WhoseAccount"] == ["arn:${Partition}:events:${Region}:${AccountId}:event-bus/default"]
    assert granted["Key"] == ["${Key.arn}"]
    assert granted["GivenUpKey"] == ["${FailedKey.arn}"]
    assert template.resources["DroppedAlarm"]["Properties"]["AlarmActions"] == ["${Ops.arn}"]
    assert "Table" not in template.resources
    assert "known-later" not in str(template.resources)


@pytest.mark.parametrize(
    ("region", "told"),
    [
        ("eu-west-1", "eu-west-1"),
        ("us-east-1", "us-east-1"),
        ("us-east-2", "${Region}"),
        ("${Its.region}", "${Region}"),
    ],
)
def test_a_bus_that_is_known_later_may_be_in_another_region(relay: Any, region: str, told: str) -> None:
    """Its own stack tells the Region: there is the default bus by which a missing one is told from a foreign one's."""
    bus = SimpleNamespace(event_bus_arn="${Bus.arn}", env=SimpleNamespace(region=region))
    construct = relay(STACK, "Outbox", table="shop", sink=bus, notify="a@b.example")
    template = template_of(construct)
    (policy,) = template.resources["RelayRole"]["Properties"]["Policies"]
    (granted,) = (each for each in policy["PolicyDocument"]["Statement"] if each["Sid"] == "WhoseAccount")
    assert list(map(template.value, granted["Resource"])) == [
        f"arn:${{Partition}}:events:{told}:${{AccountId}}:event-bus/default"
    ]
    assert "known-later" not in str(template.resources)


def test_what_cannot_work_is_refused_by_its_name(relay: Any) -> None:
    """As by any other rendering."""
    with pytest.raises(ConfigurationError, match="new_bus needs one event bus"):
        relay(
            STACK,
            "Outbox",
            table=TABLE,
            sink=SimpleNamespace(queue_arn="${Queue.arn}"),
            notify="a@b.example",
            new_bus=True,
        )
    with pytest.raises(ConfigurationError, match="notify is 'nobody'"):
        relay(STACK, "Outbox", table="shop", sink="bus:orders", notify="nobody")
