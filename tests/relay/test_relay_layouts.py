"""The relay over tables of every kind: settled, parked, parked apart.

Parking on both engines; moto answers 500 to the statement that settles, and has another limit of an item.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from relay_layouts import a_key, as_lambda, stream_record
from relay_shell import CONTENT, Bus, Context, failures

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.streams import lambda_form
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import mark_name, state_of
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.publisher import Relay
from other_names import OTHER_NAMES

if TYPE_CHECKING:
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
both = pytest.mark.parametrize("engine", ["ministack", "moto"], indirect=True)


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


@pytest.mark.parametrize("name", CASES)
def test_records_are_published_and_settled(engine: Account, name: str) -> None:
    """Each once by its state, with a TTL, out of the index; a second delivery settles nothing anew."""
    case, bus = CASES[name], Bus()
    shop = Shop(engine, case, bus)
    items = [case.item(1), case.item(2)]
    for item in items:
        shop.put(item)
    assert shop.relayed(*items) == []
    assert len({event.id for event in bus.accepted}) == 2
    settled = [shop.get(item) for item in items]
    for before, after in zip(items, settled, strict=True):
        assert state_of(after, case.layout) == "published"
        assert "N" in after[case.layout.ttl]
        assert "ob_pending" not in after
        changed = {case.layout.ttl, "ob_pending", "ob_state", case.layout.column("state")}
        assert {n: v for n, v in after.items() if n not in changed} == {
            n: v for n, v in before.items() if n not in changed
        }
    assert shop.relayed(*items) == []
    assert [shop.get(item) for item in items] == settled


@both
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_refused_record_is_parked(engine: Account, name: str, there: bool) -> None:
    """Where the index shows it, with its id and key, whether it is still there or not; again changes nothing."""
    case = CASES[name]
    shop, item = Shop(engine, case, Bus(refuse)), case.item(1)
    if there:
        shop.put(item)
    assert shop.relayed(item) == []
    found = shop.get(item)
    assert state_of(found, case.layout) == "parked"
    assert found[case.layout.column(mark_name(item, "parked_code"))] == {"S": "Bad"}
    assert {n: found[n] for n in item if n not in ("ob_pending", case.layout.column("state"))} == {
        n: v for n, v in item.items() if n not in ("ob_pending", case.layout.column("state"))
    }
    (indexed,) = shop.parked()
    assert {case.layout.column("id"), case.layout.column("key"), *case.layout.keys.types} <= set(indexed)
    assert shop.relayed(item) == []
    assert shop.get(item) == found


@both
@pytest.mark.parametrize("name", CASES)
def test_more_events_are_added_to_a_parked_record(engine: Account, name: str) -> None:
    """Under the layout's names, by the keys that there are."""
    case = CASES[name]
    shop, item = Shop(engine, case, Bus()), case.item(1)
    states = DynamoRecordStates(case.layout, client=shop.client)
    shop.put(item)
    image = as_lambda(item)
    assert states.park("shop", image, Parking("Bad", "never", 1, (1,))).new
    assert not states.park("shop", image, Parking("Bad", "never", 1, (3,))).new
    assert set(shop.get(item)[case.layout.column(mark_name(item, "parked_events"))]["NS"]) == {"1", "3"}


def full(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item that has no room for the marks of a parked record."""
    return item | {"filler": {"S": "x" * (409_600 - item_bytes(item) - len("filler") - 20)}}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_record_without_room_is_parked_apart(
    engine: Account, name: str, there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A small item stands for it, seen in the index; where keys have no place for one the batch is held there."""
    case = CASES[name]
    shop, item = Shop(engine, case, Bus(refuse)), full(case.item(1))
    if there:
        shop.put(item)
    if name in NO_PLACE_APART:
        assert shop.relayed(item) == ["1"]
        assert "none for an item beside it" in caplog.text
        assert shop.get(item) == (item if there else {})
        return
    assert shop.relayed(item) == []
    assert shop.get(item) == item
    (indexed,) = shop.parked()
    apart = shop.get(indexed)
    record = keys_of(item, case.layout.keys)
    assert record != keys_of(apart, case.layout.keys)
    said = {**keys_of(apart, case.layout.keys)}
    for key, parked in ((case.layout.pk, "parked_pk"), (case.layout.sk, "parked_sk")):
        if key is not None and (column := case.layout.column(parked)) in apart:
            said[key] = apart[column]
    assert said == record
    assert shop.relayed(item, apart) == []
    assert [shop.get(one) for one in shop.parked()] == [apart]


def test_a_record_with_bytes_as_its_key_goes_the_whole_way(engine: Account) -> None:
    """From the table's own stream, in the form in which Lambda hands it on."""
    case, bus = CASES["partition key of bytes"], Bus()
    shop, item = Shop(engine, case, bus), case.item(1)
    shop.put(item)
    shop.put({"pk": item["pk"], "sk": {"S": "META"}})
    streams = engine.client("dynamodbstreams")
    shard = streams.describe_stream(StreamArn=shop.stream)["StreamDescription"]["Shards"][0]["ShardId"]
    iterator = streams.get_shard_iterator(StreamArn=shop.stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    records = streams.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    event = {"Records": [lambda_form(record, str(shop.stream)) for record in records]}
    assert failures(shop.relay.lambda_handler(event, Context())) == []
    assert [(event.id, event.key) for event in bus.accepted] == [("id-1", "AAH/")]
    assert state_of(shop.get(item), case.layout) == "published"
