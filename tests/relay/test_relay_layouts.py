"""The relay over tables of every kind: settled, parked, parked apart.

Parking on both engines; moto answers 500 to the statement that settles, and has another limit of an item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from layout_shops import CASES, NO_PLACE_APART, Shop, refuse
from relay_layouts import as_lambda
from relay_shell import Bus, Context, failures

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.streams import lambda_form
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import mark_name, state_of

if TYPE_CHECKING:
    from conftest import Account

both = pytest.mark.parametrize("engine", ["ministack", pytest.param("moto", marks=pytest.mark.slow)], indirect=True)


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
