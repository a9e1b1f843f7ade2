"""A deployment on the local engine, looked at through its APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor_ground import said

from dynamodb_outbox.cli import main
from dynamodb_outbox.doctor.account.collecting import inventory_of
from dynamodb_outbox.doctor.choosing import Asked, system_of
from dynamodb_outbox.doctor.report import report_on
from dynamodb_outbox.infra.cloudformation import cloudformation
from dynamodb_outbox.infra.deployment import Deployment
from dynamodb_outbox.infra.package import package
from dynamodb_outbox.local.stack import deploy

if TYPE_CHECKING:
    import pytest

    from conftest import Account

DEPLOYMENT = Deployment(table="shop", sink="bus:orders", notify="ops@example.com", new_bus=True)

LEFT_OUT = {
    "event-count",  # the metrics of a mapping
    "alarm-silence",  # and alarms on several metrics: dynamodb_outbox.local.stack
}


def test_a_deployment_on_the_engine_is_right(
    engine: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for what the engine leaves out; what is broken then is found, by the command too."""
    left_out = deploy(engine.client, cloudformation(DEPLOYMENT), package().content, name="shop")
    assert left_out == ("SilenceAlarm", "Dashboard")
    asked = Asked(table="shop")
    table = engine.client("dynamodb")
    table.put_item(TableName="shop", Item={"pk": {"S": "1"}, "sk": {"S": "1"}, "expires_at": {"N": "1700000000000"}})
    by_hand = {"pk": {"S": "1"}, "sk": {"S": "OUTBOX#1"}}
    table.put_item(TableName="shop", Item={**by_hand, "type": {"S": "order.placed"}, "payload": {"S": "{}"}})

    def found() -> list[str]:
        inventory = inventory_of(asked, read_items=10, clients=lambda service, _region: engine.client(service))
        report = report_on(system_of(inventory, asked))
        assert report.unjudged == ()
        return said(report)

    assert set(found()) == {*LEFT_OUT, "ttl-unit", "written-by-hand"}
    mappings = engine.client("lambda")
    (mapping,) = mappings.list_event_source_mappings()["EventSourceMappings"]
    mappings.update_event_source_mapping(UUID=mapping["UUID"], BatchSize=1, BisectBatchOnFunctionError=False)
    for key in ({"pk": {"S": "1"}, "sk": {"S": "1"}}, by_hand):
        table.delete_item(TableName="shop", Key=key)
    engine.client("events").delete_event_bus(Name="orders")
    assert set(found()) == {*LEFT_OUT, "batch-size", "bisect", "target-gone"}

    for name, value in {
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    assert main(["doctor", "--table", "shop", "--endpoint-url", engine.url]) == 1
    printed = capsys.readouterr().out
    assert "error   target-gone: bus orders: arn:aws:events:us-east-1:" in printed
    assert "not seen: table shop: no items were read" in printed
