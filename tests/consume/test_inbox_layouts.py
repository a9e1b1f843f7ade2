"""The inbox in tables of other shapes: one effect each, its record where the layout keeps it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox import Event, Inbox, Keys, Layout
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.place import is_record
from dynamodb_outbox.errors import ConfigurationError, NoGuard
from dynamodb_outbox.local.provision import create_table
from other_names import OTHER_NAMES

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Transaction


def placed(number: int) -> Event:
    """Return an event of order `number`."""
    return Event(
        id=f"event-{number}",
        type="order.placed",
        source="shop.orders",
        payload=json.dumps({"order_id": number}),
        time=datetime(2026, 11, 29, tzinfo=timezone.utc),
        key=f"ORDER#{number}",
    )


@pytest.mark.parametrize(
    ("layout", "outbox_table"),
    [
        (Layout(own_partition=True, sk=None), None),
        (Layout(pk="type", sk="payload", prefix="R/", inbox_prefix="IN/", columns=OTHER_NAMES), None),
        (Layout(select={}, placement="table"), "inbox"),
        (Layout(placement="table", pk="p", sk=None), "inbox"),
    ],
)
def test_each_event_is_applied_once(engine: Account, layout: Layout, outbox_table: str | None) -> None:
    """A duplicate finds the inbox record under the keys of its table; the effect's own event is a record there too."""
    client = engine.client("dynamodb")
    effects = Keys("n", None, "N") if outbox_table else layout.keys
    create_table(client, outbox_table or "billing", layout=layout)
    tables = {}
    if outbox_table:
        tables = {"billing": effects}
        create_table(client, "billing", layout=Layout(pk="n", sk=None, pk_type="N", placement="table", select={}))
    inbox = Inbox(
        "billing", consumer="invoices", layout=layout, outbox_table=outbox_table, tables=tables, client=client
    )

    def key(number: int) -> dict[str, Any]:
        values = {"S": f"INVOICE#{number}", "N": number}
        return {name: values[kind] for name, kind in effects.types.items()}

    @inbox.consumer
    def count(event: Event, tx: Transaction) -> None:
        tx.update(key(event.data["order_id"]), add={"applied": 1})
        tx.emit("invoice.made", event.data)

    assert [inbox.apply(placed(number)) for number in (1, 2, 1, 1)] == [True, True, False, False]
    items = client.scan(TableName=outbox_table or "billing", ConsistentRead=True)["Items"]
    records = [item for item in items if is_record(item, layout)]
    kept = [item for item in items if item[layout.pk]["S"].startswith(layout.inbox_prefix)]
    assert (len(records), len(kept)) == (2, 2)
    counts = [item["applied"] for item in client.scan(TableName="billing")["Items"] if "applied" in item]
    assert counts == [{"N": "1"}] * 2
    told = [event for item in records for event in decode(item, layout, source="?").events]
    assert sorted((event.type, event.source, event.data["order_id"]) for event in told) == [
        ("invoice.made", "invoices", 1),
        ("invoice.made", "invoices", 2),
    ]


@pytest.mark.parametrize("pk_type", ["N", "B"])
def test_an_inbox_record_needs_a_key_that_is_text(pk_type: Any) -> None:
    """A table of numbers has no place for one: refused when the inbox is made, with the way out."""
    with pytest.raises(ConfigurationError, match=r"Inbox.*placement='table'"):
        Inbox("billing", consumer="invoices", layout=Layout(pk_type=pk_type))


def test_an_inbox_refuses_what_an_outbox_refuses() -> None:
    """Its records are written by the same rules."""
    with pytest.raises(ConfigurationError, match="outbox_table"):
        Inbox("billing", consumer="invoices", outbox_table="inbox")
    with pytest.raises(ConfigurationError, match="tables"):
        Inbox("billing", consumer="invoices", tables={"billing": Keys("id", None)})


def test_columns_may_change_and_a_duplicate_stays_one(engine: Account) -> None:
    """What an inbox record says has the same form in every layout."""
    client = engine.client("dynamodb")
    create_table(client, "billing")
    runs = []
    for layout in (Layout(), Layout(columns={"id": "event_id", "tx": "origin"}), Layout()):
        inbox = Inbox("billing", consumer="invoices", layout=layout, client=client)
        inbox.consumer(lambda event, tx: tx.emit("invoice.made", event.data, key=event.key))
        runs.append(inbox.apply(placed(1)))
    assert runs == [True, False, False]


def test_an_item_in_an_inbox_records_place_is_no_duplicate(engine: Account) -> None:
    """Nor is the event applied over it: the message goes back, and the error says what is in the way."""
    client = engine.client("dynamodb")
    create_table(client, "billing")
    key = {"pk": {"S": "INBOX#invoices#shop.orders#event-1"}, "sk": {"S": "GUARD"}}
    client.put_item(TableName="billing", Item={**key, "fingerprint": {"S": "event-1"}})
    inbox = Inbox("billing", consumer="invoices", client=client)
    inbox.consumer(lambda event, tx: tx.emit("invoice.made", event.data, key=event.key))
    with pytest.raises(NoGuard) as caught:
        inbox.apply(placed(1))
    assert (caught.value.command, caught.value.table) == (key["pk"]["S"], "billing")
    assert client.scan(TableName="billing")["Count"] == 1
