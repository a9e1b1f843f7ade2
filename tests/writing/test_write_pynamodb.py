"""The PynamoDB example, run as it stands: its models and the outbox's records in one transaction."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pynamodb.exceptions import TransactWriteError
from write_world import LAYOUT, create_table, get_item, records_of

from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.local.client import REGION

if TYPE_CHECKING:
    from conftest import Account

EXAMPLE = Path(__file__).parents[2] / "examples" / "pynamodb_orders.py"


@pytest.fixture
def example(engine: Account, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the example, loaded anew, with an environment that leads it to the engine."""
    for name, value in {
        "AWS_ENDPOINT_URL": engine.url,
        "AWS_ACCESS_KEY_ID": engine.account,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("pynamodb_orders", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def client(engine: Account) -> Any:
    """Return a client of the example's table."""
    made = engine.client("dynamodb")
    create_table(made)
    return made


def events_of(client: Any, key: str) -> list[tuple[str, Any]]:
    """Return type and data of the events in a partition, as the relay reads them."""
    events = [event for item in records_of(client, key) for event in decode(item, LAYOUT, source="?").events]
    return sorted((event.type, event.data) for event in events)


def test_orders_and_their_events_are_one_write(example: Any, client: Any) -> None:
    """An order is placed and paid: each change is there with its event."""
    order = example.place_order("1", 500)
    assert events_of(client, "ORDER#1") == [("order.placed", {"order_id": "1", "cents": 500})]
    example.pay_order(order)
    stored = deserialize_item(get_item(client, "ORDER#1", "META") or {})
    assert (stored["status"], stored["version"]) == ("PAID", 2)
    assert [kind for kind, _ in events_of(client, "ORDER#1")] == ["order.paid", "order.placed"]


def test_a_condition_that_fails_takes_the_event_with_it(example: Any, client: Any) -> None:
    """An order that exists is not placed again, and one that was changed is not paid: no event says otherwise."""
    order = example.place_order("1", 500)
    with pytest.raises(TransactWriteError):
        example.place_order("1", 900)
    stale = example.Order.get("ORDER#1", "META")
    example.pay_order(order)
    with pytest.raises(TransactWriteError):
        example.pay_order(stale)
    assert [kind for kind, _ in events_of(client, "ORDER#1")] == ["order.paid", "order.placed"]
