"""Tables of every kind: the layout of each, its records, and a shop with a relay on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from relay_layouts import a_key, stream_record
from relay_shell import CONTENT, Context, failures

from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.relay.publisher import Relay
from other_names import OTHER_NAMES

if TYPE_CHECKING:
    from relay_shell import Bus

    from conftest import Account

NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=timezone.utc)
BY_HAND: dict[str, Any] = {"type": {"S": "order.placed"}, "payload": {"S": '{"n":1}'}, "ts": {"N": "1769860800"}}


@dataclass(frozen=True)
class Case:
    """A layout, and the items of one record of ours or of one row, by number."""

    layout: Layout
    fields: dict[str, Any] | None = None
    """None: records as our writer makes them."""

    def item(self, number: int) -> dict[str, Any]:
        """Return the item as the API takes it."""
        layout = self.layout
        if self.fields is None:
            key = a_key(layout)
            event = Event(f"id-{number}", "t", "shop", '{"n":1}', NOON, key)
            draft = RecordDraft(f"id-{number}", key, (event,), 0, 1)
            return dict(encode_record(draft, Origin("tx", 1769860800123, None), layout))
        values = {"S": {"S": f"ROW#{number}"}, "N": {"N": str(number)}, "B": {"B": b"\x00" + bytes([number])}}
        return {**{name: values[kind] for name, kind in layout.keys.types.items()}, **self.fields}


DEDICATED = Layout(
    placement="table",
    pk="id",
    sk=None,
    columns={"id": "outbox_id", "type": "event_type", "key": "aggregate_id", "time": "created_at"},
    select={},
)
CASES = {
    "default": Case(Layout()),
    "own partition": Case(Layout(own_partition=True)),
    "own partition, no sort key": Case(Layout(own_partition=True, sk=None)),
    "partition key a number": Case(Layout(pk_type="N")),
    "partition key of bytes": Case(Layout(pk_type="B")),
    "a table of its own": Case(Layout(placement="table", sk=None)),
    "other names": Case(Layout(pk="id", sk="type", ttl="at", columns=OTHER_NAMES)),
    "a map": Case(Layout(payload_format="map")),
    "told by an attribute": Case(Layout(select={"entity": "RECORD"})),
    "a row in a table of its own": Case(
        DEDICATED,
        {
            "event_type": {"S": "OrderPlaced"},
            "aggregate_id": {"S": "ORDER-1"},
            "payload": {"M": {"total": {"N": "12.5"}, "raw": {"L": [{"BOOL": True}]}}},
            "created_at": {"S": "2026-01-31T12:00:00.250Z"},
        },
    ),
    "a row with a number as its sort key": Case(
        Layout(select={"kind": "EVENT"}, sk_type="N"), BY_HAND | {"kind": {"S": "EVENT"}}
    ),
    "a row with bytes as its sort key": Case(Layout(select={}, sk_type="B"), BY_HAND),
    "a row with numbers alone": Case(Layout(select={}, pk_type="N", sk_type="N"), BY_HAND),
    "a row with bytes alone": Case(Layout(select={}, pk_type="B", sk=None, placement="table"), BY_HAND),
}
NO_PLACE_APART = ("a row with numbers alone", "a row with bytes alone")


class Shop:
    """A table of a layout on an engine, and a relay on it."""

    def __init__(self, engine: Account, case: Case, bus: Bus) -> None:
        self.client = engine.client("dynamodb")
        self.layout = case.layout
        self.stream = create_table(self.client, "shop", layout=case.layout)
        self.relay = Relay(bus, layout=case.layout, client=self.client)

    def put(self, item: dict[str, Any]) -> None:
        """Write an item as it is."""
        self.client.put_item(TableName="shop", Item=item)

    def get(self, item: dict[str, Any]) -> dict[str, Any]:
        """Read the item under the same keys; empty when there is none."""
        key = keys_of(item, self.layout.keys)
        found: dict[str, Any] = self.client.get_item(TableName="shop", Key=key, ConsistentRead=True).get("Item") or {}
        return found

    def relayed(self, *items: dict[str, Any]) -> list[str]:
        """Hand the items' insertions to the relay; return what it did not do."""
        records = [stream_record(item, self.layout, number=number) for number, item in enumerate(items, 1)]
        return failures(self.relay.lambda_handler({"Records": records}, Context()))

    def parked(self) -> list[dict[str, Any]]:
        """Return what the index has in its partition of parked records."""
        found: list[dict[str, Any]] = self.client.query(
            TableName="shop",
            IndexName=self.layout.index,
            KeyConditionExpression="ob_pending = :p",
            ExpressionAttributeValues={":p": {"S": "parked"}},
        )["Items"]
        return found


def refuse(_: Event) -> Any:
    """Refuse every event for good."""
    return CONTENT
