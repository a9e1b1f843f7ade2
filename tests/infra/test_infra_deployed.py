"""What `outbox infra` and `outbox package` make, deployed on the local engine: its functions relay, park and sweep."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from bare import run_bare
from shown import README, shown_in

from dynamodb_outbox import Outbox
from dynamodb_outbox.cli import main
from dynamodb_outbox.local.deployed import event_source
from dynamodb_outbox.local.environment import function_environment
from dynamodb_outbox.local.provision import create_bus, create_queue, create_table, route
from dynamodb_outbox.local.stack import deploy
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.process.stop import StopFlag

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Account
    from dynamodb_outbox.local.source import EventSource

WITHIN_S = 60
(ARGUMENTS,) = {each.arguments[2:] for each in shown_in(README) if each.options.command == "infra"}
"""Those of the README, which has the same for SAM and for the engine."""


BARE = """
import importlib, json
module, _, name = sys.argv[1].rpartition(".")
loaded = importlib.import_module(module)
assert "outbox.zip" in loaded.__file__, loaded.__file__
print(json.dumps(getattr(loaded, name)(json.loads(sys.argv[2]), None)))
"""


def made(tmp_path: Path, capsys: pytest.CaptureFixture[str], *further: str) -> tuple[dict[str, Any], bytes]:
    """Return the template and the package, as the commands make them."""
    assert main(["infra", "cloudformation", "--json", *ARGUMENTS, *further]) == 0
    template: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert main(["package", "--output", str(tmp_path / "outbox.zip")]) == 0
    capsys.readouterr()
    return template, (tmp_path / "outbox.zip").read_bytes()


@dataclass
class Shop:
    """A deployment, and what is around it."""

    account: Account
    package: bytes
    left_out: tuple[str, ...]
    checkpoint: Path

    @cached_property
    def source(self) -> EventSource:
        """The mapping, as it is deployed."""
        return event_source(self.account.client, "shop", self.checkpoint, StopFlag(), Journal(None))

    @cached_property
    def sqs(self) -> Any:
        """A client of the queue."""
        return self.account.client("sqs")

    def place(self, order: str, *events: str) -> None:
        """Commit an order with events."""
        with Outbox("shop", source="shop.orders", client=self.account.client("dynamodb")).transaction() as tx:
            tx.put({"pk": f"ORDER#{order}", "sk": "META"}, if_absent=True)
            for event in events:
                tx.emit(event, {"order": order})

    def open_bus(self) -> None:
        """Have the bus be there, with a queue that gets what it gets."""
        create_bus(self.account.client("events"), "orders")
        queue = create_queue(self.sqs, "billing")
        route(self.account.client("events"), self.sqs, bus="orders", queue=queue, rule="all")

    def close_bus(self) -> None:
        """Have the bus of the deployment be gone."""
        self.account.client("events").delete_event_bus(Name="orders")

    def relay(self, *states: str) -> None:
        """Run the mapping until the records have these states."""

        def there() -> bool:
            self.source.step()
            return self.states() == [*states]

        until(there)

    def invoke(self, function: str) -> Any:
        """Run a deployed function once and return its answer."""
        said = self.account.client("lambda").invoke(FunctionName=function, Payload=b"{}")
        payload = json.loads(said["Payload"].read())
        assert "FunctionError" not in said, payload
        return payload

    def arrived(self) -> list[tuple[str, str]]:
        """Return the orders and types of the events in the queue, which is empty then."""
        url = self.sqs.get_queue_url(QueueName="billing")["QueueUrl"]
        found = []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for each in messages:
                event = json.loads(each["Body"])["detail"]
                found.append((event["data"]["order"], event["type"]))
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        return found

    def states(self) -> list[str]:
        """Return the states of the records."""
        items = self.account.client("dynamodb").scan(TableName="shop", ConsistentRead=True)["Items"]
        records = [each for each in items if each["sk"]["S"].startswith("OUTBOX#")]
        found = [each.get("ob_state", each.get("state", {"S": "(none)"})) for each in records]
        return sorted(each["S"] for each in found)


def until(so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + WITHIN_S
    while not so():
        assert time.monotonic() < end
        time.sleep(0.05)


def deployed(account: Account, folder: Path, capsys: pytest.CaptureFixture[str], *further: str) -> Shop:
    """Deploy what the commands make of these further arguments."""
    template, package = made(folder, capsys, *further)
    return Shop(account, package, deploy(account.client, template, package, name="shop"), folder / "relay.json")


def test_orders_reach_the_queue_by_what_was_deployed(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, though the bus is gone at first: the batch is reported as failed, and delivered again.

    What runs is the package: the engine's functions have its hash. An event that can never be accepted is parked, and
    what comes after it goes on.
    """
    shop = deployed(engine, tmp_path, capsys)
    shop.close_bus()
    shop.place("1", "order.placed", "order.paid")
    assert shop.source.step()
    assert shop.states() == ["pending"]
    shop.open_bus()
    shop.relay("published")
    assert shop.arrived() == [("1", "order.placed"), ("1", "order.paid")]

    poison = {"pk": "ORDER#1", "sk": f"OUTBOX#{uuid.uuid4()}", "type": "order.paid", "payload": "{"}
    engine.client("dynamodb").put_item(TableName="shop", Item={name: {"S": value} for name, value in poison.items()})
    shop.place("2", "order.placed")
    shop.relay("parked", "published", "published")
    assert shop.arrived() == [("2", "order.placed")]

    functions = engine.client("lambda")
    for name in ("shop-outbox-relay", "shop-outbox-sweeper"):
        configuration = functions.get_function_configuration(FunctionName=name)
        assert configuration["CodeSha256"] == base64.b64encode(hashlib.sha256(shop.package).digest()).decode()
    assert shop.left_out == ("SilenceAlarm", "Dashboard")


def test_what_the_stream_missed_is_published_by_the_deployed_sweeper(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its schedule is the engine's to keep; here it is invoked, before the relay. On a table that was there before."""
    stream = create_table(engine.client("dynamodb"), "shop")
    template, package = made(tmp_path, capsys, "--existing-table", "--env", "OUTBOX_MIN_AGE=0")
    deploy(engine.client, template, package, name="shop", parameters={"StreamArn": str(stream)})
    shop = Shop(engine, package, (), tmp_path / "relay.json")
    shop.open_bus()
    shop.place("1", "order.placed")
    report = shop.invoke("shop-outbox-sweeper")
    assert (report["accepted"], report["left"]) == (1, 0)
    assert shop.arrived() == [("1", "order.placed")]
    assert shop.states() == ["published"]
    (rule,) = engine.client("events").list_rules()["Rules"]
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    shop.place("2", "order.placed")
    shop.relay("published", "published")
    assert ("2", "order.placed") in shop.arrived()


@pytest.mark.slow
def test_what_is_given_up_is_in_the_bucket_of_the_deployment(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the records: what `outbox redrive --from-s3` reads. The settings of the mapping are those deployed."""
    shop = deployed(engine, tmp_path, capsys)
    functions = engine.client("lambda")
    (mapping,) = functions.list_event_source_mappings()["EventSourceMappings"]
    assert (shop.source.config.batch_size, shop.source.config.maximum_record_age_s) == (1000, 43_200)
    functions.update_event_source_mapping(UUID=mapping["UUID"], MaximumRetryAttempts=0)
    shop.close_bus()
    shop.place("1", "order.placed")
    del shop.source  # it is made anew, of what is there now
    assert shop.source.step()
    (bucket,) = (each for each in engine.client("s3").list_buckets()["Buckets"] if "givenup" in each["Name"])
    (kept,) = engine.client("s3").list_objects_v2(Bucket=bucket["Name"])["Contents"]
    document = json.loads(engine.client("s3").get_object(Bucket=bucket["Name"], Key=kept["Key"])["Body"].read())
    assert kept["Key"].startswith(f"aws/lambda/{mapping['UUID']}/")
    assert document["requestContext"]["functionArn"] == mapping["FunctionArn"]
    assert '"order.placed"' in document["payload"]


@pytest.mark.slow
@pytest.mark.usefixtures("uncovered")
def test_the_program_deploys_and_relays_until_it_is_stopped(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the files that the commands write; started again, it goes on with the stack that is there."""
    template, package = made(tmp_path, capsys)
    (tmp_path / "template.json").write_text(json.dumps(template))
    shop = Shop(engine, package, (), tmp_path / "relay.json")
    program = [
        *(sys.executable, "-m", "dynamodb_outbox.local.deployed", "--endpoint", engine.url),
        *("--account", engine.account, "--stack", "shop", "--checkpoint", str(shop.checkpoint)),
    ]
    files = ["--template", str(tmp_path / "template.json"), "--package", str(tmp_path / "outbox.zip")]
    for order, further in (("1", files), ("2", [])):
        with subprocess.Popen([*program, *further], stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            try:
                said = [running.stderr.readline() for _ in range(2 if further else 1)]
                assert said[-1].startswith("the mapping of stack shop is running"), said
                shop.open_bus()
                shop.place(order, "order.placed")
                until(lambda: shop.states() == ["published"] * int(order))  # noqa: B023 - called here
            finally:
                running.terminate()
        assert running.returncode == 0
    assert sorted(shop.arrived()) == [("1", "order.placed"), ("2", "order.placed")]


@pytest.mark.usefixtures("uncovered")
def test_the_package_relays_with_boto3_alone(
    engine: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Lambda has it: the standard library, boto3 with what it needs, the package, and the variables deployed."""
    shop = deployed(engine, tmp_path, capsys)
    shop.open_bus()
    shop.place("1", "order.placed")
    function = engine.client("lambda").get_function(FunctionName="shop-outbox-relay")["Configuration"]
    stream = shop.source.stream
    records = [record for shard in stream.shards() for record in stream.open(shard.shard_id).read().records]
    printed = run_bare(
        *(tmp_path, shop.package, BARE, function["Handler"], json.dumps({"Records": records})),
        environment={**function["Environment"]["Variables"], **function_environment(engine.url, engine.account)},
    )
    assert json.loads(printed.splitlines()[-1]) == {"batchItemFailures": []}
    assert shop.states() == ["published"]
    assert shop.arrived() == [("1", "order.placed")]
