"""The demo's functions, called as Lambda would call them, and the errors of a world that falls apart."""

from __future__ import annotations

import importlib
import json
import logging
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from dynamodb_outbox.local.demo import FunctionUnusable, run
from dynamodb_outbox.local.demo.evidence import changes, stored
from dynamodb_outbox.local.demo.functions import check_again, check_functions
from dynamodb_outbox.local.demo.names import CONSUMER_TABLE, INVOICED, LAYOUT, LEDGER_TABLE, bus_of, table_of
from dynamodb_outbox.local.demo.outbox_lane import OutboxWriter
from dynamodb_outbox.local.demo.schedule import Order, plan
from dynamodb_outbox.local.demo.settings import CONSUMER, LEDGER, RELAY, Settings
from dynamodb_outbox.local.demo.tables import count_pending, scan
from dynamodb_outbox.local.demo.world import DemoFailed, World
from dynamodb_outbox.local.engine import Engine
from dynamodb_outbox.local.environment import function_environment
from dynamodb_outbox.local.provision import create_bus, create_table

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Account

ORDER = Order(0, "1", "F1", 7, 500, flagged=True, paid=True, calm=False, due_ms=0)


@pytest.fixture
def environment(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the environment of the functions, and AWS settings that reach nothing but the engine."""
    for name, value in function_environment(engine.url, engine.account).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ORDERS_BUS", bus_of("outbox"))
    monkeypatch.setenv("BILLING_TABLE", CONSUMER_TABLE)
    monkeypatch.setenv("LEDGER_TABLE", LEDGER_TABLE)


def load(handler: str) -> Any:
    """Import a function anew, as a new process would."""
    module, _, attribute = handler.partition(":")
    return getattr(importlib.reload(importlib.import_module(module)), attribute)


def message(event_id: str, kind: str, cents: int) -> dict[str, str]:
    """Return an SQS record with an event as EventBridge delivers it."""
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": "shop.orders",
        "type": kind,
        "time": "2026-01-02T03:04:05.000000Z",
        "partitionkey": "CUSTOMER#7",
        "datacontenttype": "application/json",
        "data": {"customer": 7, "cents": cents, "order_id": "1", "name": f"F1/{kind}", "n": 1},
    }
    body = {"id": "x", "source": "shop.orders", "detail-type": kind, "detail": event}
    return {"messageId": event_id, "body": json.dumps(body), "eventSource": "aws:sqs"}


@pytest.mark.usefixtures("environment")
def test_the_consumer_books_each_event_once(engine: Account) -> None:
    """A batch that comes twice leaves one effect an event; the invoice is the sum, and each has told of it, in turn."""
    client = engine.client("dynamodb")
    create_table(client, CONSUMER_TABLE, layout=LAYOUT)
    handler = load(CONSUMER)
    batch = {"Records": [message("a", "order.placed", 500), message("b", "order.paid", -200)]}
    for _ in range(2):
        assert handler(batch, None) == {"batchItemFailures": []}
    items = scan(client, CONSUMER_TABLE)
    assert sorted(item["event"] for item in items if "event" in item) == ["a", "b"]
    assert [item["cents"] for item in items if item["sk"] == "INVOICE#1"] == [300]
    listed = ["F1/order.placed/invoice.changed", "F1/order.paid/invoice.changed"]
    assert [change.name for change in changes(items)] == listed
    assert sorted(str(one.name) for one in stored(items)) == sorted(listed)


@pytest.mark.usefixtures("environment")
def test_the_ledger_enters_each_change_of_an_invoice_once(engine: Account) -> None:
    """It takes nothing else."""
    client = engine.client("dynamodb")
    create_table(client, LEDGER_TABLE, view_type=None)
    handler = load(LEDGER)
    batch = {"Records": [message("a", INVOICED, 500), message("b", INVOICED, -200), message("c", "order.paid", 1)]}
    for _ in range(2):
        assert handler(batch, None) == {"batchItemFailures": [{"itemIdentifier": "c"}]}
    items = scan(client, LEDGER_TABLE)
    assert sorted(item["event"] for item in items if "event" in item) == ["a", "b"]
    assert [item["cents"] for item in items if item["sk"] == "BALANCE"] == [300]


@pytest.mark.usefixtures("environment")
def test_the_relay_publishes_what_an_order_left_in_the_table(engine: Account) -> None:
    """A stream record of an order is published to the bus and settled."""
    batch = records_of_an_order(engine)
    assert load(RELAY)({"Records": batch}, None) == {"batchItemFailures": []}
    assert count_pending(engine.client("dynamodb"), table_of("outbox"), LAYOUT) == 0


@dataclass(frozen=True)
class Context:
    """The time that Lambda says is left."""

    remaining_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """Return the same at every call."""
        return self.remaining_ms


@pytest.mark.usefixtures("environment")
def test_the_relays_time_outs_fit_its_time(engine: Account, caplog: pytest.LogCaptureFixture) -> None:
    """One request to the bus and one to the table fit the function's time, even when it was late to begin."""
    context = Context(plan(20, 1).relay_timeout_ms - 250)
    assert load(RELAY)({"Records": records_of_an_order(engine)}, context) == {"batchItemFailures": []}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def records_of_an_order(engine: Account) -> list[dict[str, Any]]:
    """Place an order, in a table of its own with a bus; return its stream records."""
    client = engine.client("dynamodb")
    arn = create_table(client, table_of("outbox"), layout=LAYOUT)
    create_bus(engine.client("events"), bus_of("outbox"))
    OutboxWriter(dynamodb=client).place(ORDER, lambda: None)
    records = client.scan(TableName=table_of("outbox"))["Items"]
    return [
        {
            "eventID": "1",
            "eventName": "INSERT",
            "eventSourceARN": arn,
            "dynamodb": {
                "SequenceNumber": str(place + 1),
                "Keys": {"pk": item["pk"], "sk": item["sk"]},
                "NewImage": item,
                "StreamViewType": "NEW_IMAGE",
            },
        }
        for place, item in enumerate(records)
    ]


def test_an_error_with_all_processes_alive_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that fails for a reason of its own is a DemoFailed with that reason, not a traceback."""
    monkeypatch.setattr("dynamodb_outbox.local.demo.world._BLAME_WITHIN_S", 0.06)
    world = World(Settings(), plan(20, 1))
    error = ClientError({"Error": {"Code": "Odd", "Message": "not today"}}, "Scan")
    with (
        pytest.raises(DemoFailed, match=r"the demo cannot go on: ClientError: .*Odd.* not today") as caught,
        world.explained(),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_other_errors_are_left_alone() -> None:
    """What is no failed call passes through."""
    with pytest.raises(KeyError), World(Settings(), plan(20, 1)).explained():
        raise KeyError("x")


USERS = """
    import os, pathlib, sys

    print("imported", flush=True)
    print("imported", file=sys.stderr, flush=True)
    pathlib.Path(__file__).with_name("seen").write_text(" ".join(sorted(os.environ)))

    def handler(event, context):
        return None
"""


def test_functions_are_loaded_as_the_demo_will_load_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """They find what they will find, and nothing else of the user's; what they print goes nowhere yet."""
    (tmp_path / "users.py").write_text(textwrap.dedent(USERS))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("SHOP_MODE", "x")
    for settings, told in (
        (Settings(relay="users:handler"), {"ORDERS_BUS", "ORDERS_TABLE"}),
        (Settings(consumer="users:handler"), {"BILLING_TABLE"}),
    ):
        check_functions(settings)
        seen = set((tmp_path / "seen").read_text().split())
        assert told | {"AWS_ENDPOINT_URL", "AWS_REGION", "PYTHONPATH"} <= seen
        assert not {"AWS_PROFILE", "SHOP_MODE"} & seen
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("import no_such_thing", "Runtime.ImportModuleError", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("handler = (", "Runtime.ImportModuleError", "SyntaxError: "),
        ("handlers = 1", "Runtime.HandlerNotFound", "module 'users' has no attribute 'handler'"),
    ],
)
def test_a_function_that_cannot_be_loaded_ends_a_demo_before_it_starts(
    text: str, kind: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` raises what is wrong with which function, and no engine was started."""
    (tmp_path / "users.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(Engine, "start", None)
    with pytest.raises(FunctionUnusable) as caught:
        run(Settings(orders=20, consumer="users:handler"), lambda _: None)
    error = caught.value
    assert (error.setting, error.handler, error.kind) == ("consumer", "users:handler", kind)
    assert reason in error.reason
    assert str(error) == f"consumer users:handler: {error.reason}"


COLD_START = """
    import os, boto3

    boto3.client("dynamodb").describe_table(TableName=os.environ["BILLING_TABLE"])

    def handler(event, context):
        return None
"""


def test_a_function_that_calls_aws_when_it_is_imported_is_undecided_until_aws_is_there(
    engine: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing answers before the engine is up; then its table decides, and a failure is an answer."""
    (tmp_path / "users.py").write_text(textwrap.dedent(COLD_START))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("dynamodb_outbox.local.demo.functions.DEFAULT_ACCOUNT", engine.account)
    settings = Settings(consumer="users:handler")
    undecided = check_functions(settings)
    assert undecided == {"consumer"}
    with pytest.raises(FunctionUnusable, match="ResourceNotFoundException"):
        check_again(settings, undecided, {"consumer": engine.url, "relay": engine.url})
    create_table(engine.client("dynamodb"), CONSUMER_TABLE, view_type=None)
    check_again(settings, undecided, {"consumer": engine.url, "relay": engine.url})


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("raise LookupError('no setting')", "Runtime.ImportModuleError", "LookupError: no setting"),
        ("import os; os._exit(4)", "Runtime.ExitError", "the process of users:handler ended with status 4"),
    ],
)
@pytest.mark.usefixtures("engine_extra")
def test_a_function_that_fails_for_its_own_reasons_ends_a_demo_before_its_first_order(
    text: str, kind: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What might have been for want of AWS is tried with AWS, and then is what it is."""
    (tmp_path / "users.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(FunctionUnusable) as caught:
        run(Settings(orders=20, relay="users:handler"), lambda _: pytest.fail("it has begun"))
    assert (caught.value.setting, caught.value.kind) == ("relay", kind)
    assert reason in caught.value.reason
