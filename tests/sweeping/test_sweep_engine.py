"""Sweeps on the engine: with each layout, beside the relay, and when something fails on the way."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox import Relay
from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.limits import ITEM_BYTES
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.core.sweeping.commands import SweepReport
from dynamodb_outbox.errors import ItemTooLarge
from dynamodb_outbox.layout import Layout
from sweep_shell import CONTENT, Bus, Shop

if TYPE_CHECKING:
    from conftest import Account

LAYOUTS = {
    "default": Layout(),
    "own partition": Layout(own_partition=True),
    "no sort key": Layout(placement="table", sk=None, settle="mark"),
    "numbers": Layout(pk_type="N", index_shards=3),
    "columns": Layout(columns={"at": "made", "id": "rid", "key": "k", "state": "st", "type": "kind"}, settle="delete"),
}


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return a table of the default layout."""
    return Shop(engine)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_nobody_relays_is_swept_in_order_and_settled(engine: Account, name: str) -> None:
    """With tables of any shape: all events, each once, those of a key in their order, and the index is empty then."""
    shop, bus = Shop(engine, LAYOUTS[name]), Bus()
    keys = ("1", "2", "3")
    ids = {key: [shop.emit(key, {"n": n}) for n in range(3)] for key in keys}
    assert len(shop.index()) == 9
    dry = shop.sweeper(bus).sweep(dry_run=True)
    assert (dry.done, bus.requests) == (9, 0)
    report = shop.sweeper(bus).sweep()
    assert (report.done, report.accepted, report.left, report.others, report.stopped) == (9, 9, 0, 0, None)
    assert {key: [event.id for event in bus.accepted if event.key == key] for key in keys} == ids
    assert shop.index() == []
    states = {state_of(item, shop.layout) for item in shop.items()}
    assert states == (set() if shop.layout.settle == "delete" else {"published"})
    assert shop.sweeper(bus).sweep() == SweepReport(partitions=shop.layout.index_shards, idle=shop.layout.index_shards)


def test_an_idle_sweep_is_one_empty_query_a_partition_however_much_is_parked(shop: Shop) -> None:
    """Sixteen queries, and nothing else, with 1,000 parked records."""
    for begin in range(0, 1_000, 25):
        requests = [{"PutRequest": {"Item": _parked(number)}} for number in range(begin, begin + 25)]
        shop.client.batch_write_item(RequestItems={"shop": requests})
    shop.calls.clear()
    assert shop.sweeper(Bus()).sweep() == SweepReport(partitions=16, idle=16)
    assert shop.calls == {"Query": 16}


def _parked(number: int) -> dict[str, Any]:
    return {
        "pk": {"S": f"ORDER#{number}"},
        "sk": {"S": f"OUTBOX#{number}"},
        "ob_v": {"N": "1"},
        "at": {"N": str(number)},
        "state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
    }


class Clock(SystemClock):
    """A writer's clock that stands: how many bytes a number takes is told by its digits."""

    def now_ms(self) -> int:
        """Return a moment of this year."""
        return 1_769_860_800_001


def test_the_largest_payload_is_relayed_swept_twice_settled_and_out_of_the_index(engine: Account) -> None:
    """To the byte what `commit()` takes: it is there to be swept until it is settled, for which there is room."""
    shop, relayed, bus = Shop(engine, max_event_bytes=1_000_000, clock=Clock()), Bus(), Bus()
    size = ITEM_BYTES
    with pytest.raises(ItemTooLarge) as refused:
        shop.emit(data={"text": "x" * size})
    size -= refused.value.size - refused.value.limit
    with pytest.raises(ItemTooLarge):
        shop.emit(data={"text": "x" * (size + 1)})
    event = shop.emit(data={"text": "x" * size})
    shop.fail("BatchExecuteStatement", "AccessDeniedException", times=1)
    relay = Relay(relayed, client=shop.client)
    assert relay.lambda_handler({"Records": _stream_of(engine, shop)}, None) == {"batchItemFailures": []}
    assert [entry["id"]["S"] for entry in shop.index()] == [event]
    assert (shop.sweeper(bus).sweep().done, shop.sweeper(bus).sweep().due) == (1, 0)
    assert (relayed.ids, bus.ids, shop.index()) == ([event], [event], [])
    (stored,) = shop.items()
    assert (stored["state"]["S"], len(stored["payload"]["S"])) == ("published", size + len('{"text":""}'))


def _stream_of(engine: Account, shop: Shop) -> list[dict[str, Any]]:
    """Return the records of a shop's stream, from its beginning."""
    stream = DynamoDbStream(engine.client("dynamodbstreams"), shop.stream or "")
    return [each for shard in stream.shards() for each in stream.open(shard.shard_id).read().records]


@pytest.mark.parametrize("settle", ["expire", "delete"])
def test_a_record_that_was_deleted_is_relayed_from_the_stream_and_not_made_again(engine: Account, settle: Any) -> None:
    """Between the commit and the relay: its event was committed, and the record is nobody's to bring back."""
    shop, bus = Shop(engine, Layout(settle=settle)), Bus()
    event = shop.emit()
    _delete_all(shop)
    relay = Relay(bus, layout=shop.layout, client=shop.client)
    assert relay.lambda_handler({"Records": _stream_of(engine, shop)[:1]}, None) == {"batchItemFailures": []}
    assert (bus.ids, shop.items(), shop.index()) == ([event], [], [])


def test_a_record_that_was_deleted_is_neither_published_nor_created(shop: Shop) -> None:
    """Between the commit and the sweep, and between reading and settling."""
    bus = Bus()
    shop.emit("A")
    (item,) = shop.items()
    shop.client.delete_item(TableName="shop", Key=keys_of(item, shop.layout.keys))
    assert shop.sweeper(bus).sweep() == SweepReport(partitions=16, idle=16)
    shop.emit("B")
    shop.before("BatchExecuteStatement", lambda: _delete_all(shop))
    assert shop.sweeper(bus).sweep().done == 1
    assert (len(bus.ids), shop.items()) == (1, [])


def _delete_all(shop: Shop) -> None:
    for item in shop.items():
        shop.client.delete_item(TableName="shop", Key=keys_of(item, shop.layout.keys))


@pytest.mark.parametrize("on_poison", ["park", "park_key"])
def test_a_refused_record_that_was_deleted_meanwhile_is_not_parked(shop: Shop, on_poison: Any) -> None:
    """Whoever deleted it, or settled it by deleting, has answered for it; the stream's relay parks it all the same."""
    shop.emit()
    bus = Bus(lambda _: CONTENT)
    shop.before("UpdateItem" if on_poison == "park" else "TransactWriteItems", lambda: _delete_all(shop))
    report = shop.sweeper(bus, on_poison=on_poison).sweep()
    assert (shop.items(), shop.index("parked"), report.left) == ([], [], 0)


def test_a_refused_event_is_parked_and_its_key_goes_on(shop: Shop) -> None:
    """As by the relay, by the same table of states; the sweep after it leaves the parked one alone."""
    first, second = shop.emit(data={"n": 1}), shop.emit(data={"n": 2})
    bus = Bus(lambda event: CONTENT if event.id == first else None)
    report = shop.sweeper(bus).sweep()
    assert (report.accepted, report.parked, report.done, bus.ids) == (1, 1, 2, [second])
    (parked,) = shop.index("parked")
    assert parked["id"]["S"] == first
    before = shop.items()
    bus.script = lambda _: None
    shop.sweeper(bus).sweep()
    assert (shop.items(), bus.ids, shop.index()) == (before, [second], [])


def test_a_key_that_the_relay_has_parked_stays_parked(shop: Shop) -> None:
    """What follows of it is parked as well, where the sweeper has the relay's on_poison."""
    first, second = shop.emit(), shop.emit()
    bus = Bus(lambda event: CONTENT if event.id == first else None)
    report = shop.sweeper(bus, on_poison="park_key").sweep()
    third = shop.emit()
    bus.script = lambda _: None
    again = shop.sweeper(bus, on_poison="park_key").sweep()
    assert (report.parked, again.parked, bus.ids) == (2, 1, [])
    assert {item["id"]["S"] for item in shop.index("parked")} == {first, second, third}


def test_a_record_that_cannot_be_read_is_parked(shop: Shop) -> None:
    """Its events can never be published as they are."""
    shop.emit()
    (item,) = shop.items()
    shop.client.put_item(TableName="shop", Item={**item, "payload": {"S": "no JSON"}})
    assert shop.sweeper(Bus()).sweep().parked == 1
    assert len(shop.index("parked")) == 1


def test_a_record_whose_library_is_missing_is_left_and_others_go_on(
    engine: Account, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is this sweeper's installation that has to be changed, not the record; what was read with it has its turn."""
    shop = Shop(engine, Layout(index_shards=1))
    shop.emit("A")
    (item,) = shop.items()
    shop.client.put_item(TableName="shop", Item={**item, "enc": {"S": "zstd"}, "payload": {"B": b"?"}})
    ids = [shop.emit("B"), shop.emit("C")]
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    bus = Bus()
    report = shop.sweeper(bus).sweep()
    assert (set(bus.ids), report.left, report.parked) == (set(ids), 1, 0)
    assert "cannot be read here" in caplog.text


def test_records_of_another_region_are_left_to_it(shop: Shop) -> None:
    """Though this Region's index has them, as a replica of a global table."""
    shop.emit("A")
    (item,) = shop.items()
    shop.client.put_item(TableName="shop", Item={**item, "region": {"S": "ap-south-1"}})
    mine = shop.emit("A")
    bus = Bus()
    report = shop.sweeper(bus).sweep()
    assert (bus.ids, report.elsewhere, len(shop.index())) == ([mine], 1, 1)


def test_hand_written_rows_are_not_in_the_index_and_so_not_swept(shop: Shop) -> None:
    """The stream alone brings them; a parked one is in the index, and left alone like any other."""
    row = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"}}
    shop.client.put_item(TableName="shop", Item=row)
    bus = Bus()
    assert shop.sweeper(bus).sweep().idle == 16
    assert bus.requests == 0


def test_two_outboxes_in_one_table_are_swept_by_their_own(engine: Account) -> None:
    """They share the index; neither sweeper touches what the other's is to publish."""
    shop, other = Shop(engine), Shop(engine, Layout(prefix="MAIL#"))
    mine, theirs = shop.emit("A"), other.emit("A")
    bus, mail = Bus(), Bus()
    report = shop.sweeper(bus).sweep()
    assert (bus.ids, report.done, len(shop.index())) == ([mine], 1, 1)
    assert other.sweeper(mail).sweep().done == 1
    assert (mail.ids, shop.index()) == ([theirs], [])


# --- beside others ---


def test_a_young_record_is_the_relay_s(shop: Shop) -> None:
    """Five minutes, when nothing else is said."""
    shop.emit()
    assert shop.sweeper(Bus(), min_age=timedelta(minutes=5)).sweep().idle == 16


def test_what_the_relay_has_settled_since_is_not_published_again(shop: Shop) -> None:
    """Between the listing of the index and the reading of the key."""
    shop.emit()
    (item,) = shop.items()
    relayed = Bus()
    record = {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "eventSourceARN": shop.stream,
        "dynamodb": {"Keys": keys_of(item, shop.layout.keys), "NewImage": item, "SequenceNumber": "1"},
    }
    relay = Relay(relayed, client=shop.client)
    bus = Bus()
    sweeper = shop.sweeper(bus)
    read = sweeper._means.index.read

    def late(table: str, entries: Any) -> Any:
        relay.lambda_handler({"Records": [record]}, None)
        return read(table, entries)

    object.__setattr__(sweeper._means.index, "read", late)
    report = sweeper.sweep()
    assert (len(relayed.ids), bus.ids, report.done) == (1, [], 0)
    assert report.lag_ms >= 0


def test_sweepers_at_once_publish_each_record_once(shop: Shop) -> None:
    """A lease for each partition keeps them apart."""
    ids = {shop.emit(f"K{n % 12}") for n in range(36)}
    bus = Bus()
    sweepers = [shop.sweeper(bus) for _ in range(3)]
    threads = [threading.Thread(target=sweeper.sweep) for sweeper in sweepers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shop.sweeper(bus).sweep()  # what was left because another had the lease just then
    assert len(bus.ids) == len(ids)
    assert (set(bus.ids), shop.index()) == (ids, [])


def test_where_keys_are_no_text_it_is_swept_without_a_lease(engine: Account) -> None:
    """There is no place for one; the requests are as few."""
    shop, bus = Shop(engine, Layout(pk_type="N", index_shards=1)), Bus()
    shop.emit("7")
    shop.calls.clear()
    assert shop.sweeper(bus).sweep().done == 1
    assert shop.calls == {"Query": 2, "BatchExecuteStatement": 1}


def test_a_row_that_its_writer_puts_into_the_index_is_swept_like_a_record(shop: Shop) -> None:
    """And leaves the index when it is settled; its own `state` stays what it was."""
    row = {
        "pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"},
        "state": {"S": "NY"}, "ob_pending": {"S": "00"}, "at": {"N": "1000"}, "id": {"S": "1"}, "key": {"S": "A"},
    }  # fmt: skip
    shop.client.put_item(TableName="shop", Item=row)
    bus = Bus()
    assert shop.sweeper(bus).sweep().done == 1
    (item,) = shop.items()
    assert (item["state"], item["ob_state"], shop.index()) == ({"S": "NY"}, {"S": "published"}, [])
    assert [event.source for event in bus.accepted] == ["shop"]
