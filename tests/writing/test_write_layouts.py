"""Every layout against an engine: what is written, what stands for it when an answer is lost, what a relay reads."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from layout_worlds import CASES, GUARDED, TABLE, LayoutWorld, Losing
from write_world import create_items_table

from dynamodb_outbox import Event, Keys
from dynamodb_outbox.core.record.place import is_record
from dynamodb_outbox.core.record.schema import index_shard
from dynamodb_outbox.errors import ConditionFailed, ConfigurationError, IdempotencyMismatch

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox import Transaction

pytestmark = pytest.mark.usefixtures("uncovered")

DATA = {"cents": Decimal("5.10"), "lines": [{"sku": "é", "n": 1}, None, True], "none": {}}


@pytest.fixture(params=list(CASES))
def world(request: pytest.FixtureRequest, engine: Account) -> LayoutWorld:
    """Return an outbox of each layout, over tables of its own."""
    return LayoutWorld(engine, CASES[request.param])


@pytest.fixture(params=GUARDED)
def guarded(request: pytest.FixtureRequest, engine: Account) -> LayoutWorld:
    """Return the same of each layout that has room for guards."""
    return LayoutWorld(engine, CASES[request.param])


def place(tx: Transaction, world: LayoutWorld, number: int = 1, cents: int = 5) -> Event:
    """Place an order."""
    tx.put({**world.key(number), "cents": cents}, if_absent=True)
    return tx.emit("order.placed", {"cents": cents})


def settled(event: Event, key: str, **fields: Any) -> Event:
    """Return an emitted event as it is once its transaction is committed."""
    return replace(event, key=key, **fields)


def test_all_actions_and_their_events(world: LayoutWorld) -> None:
    """Put, update, delete and check, with events of their partitions and of another key: what was emitted is stored."""
    outbox = world.outbox
    for number in (2, 3, 4):
        with outbox.transaction() as tx:
            tx.put({**world.key(number), "left": number}, if_absent=True)
    assert world.images() == []
    elsewhere = world.partition(9)
    with outbox.transaction() as tx:
        tx.put({**world.key(1), "left": 1}, if_absent=True)
        tx.update(world.key(2), set={"left": 20}, add={"m": 1}, if_version=1)
        tx.delete(world.key(3), if_version=1)
        tx.check(world.key(4), if_exists=True)
        emitted = [
            tx.emit("order.placed", DATA, key=world.partition(1)),
            tx.emit("order.changed", {"n": 20}, key=world.partition(2), attributes={"tenant": "a"}),
            tx.emit("order.changed", {"lines": [1, 2]}, key=world.partition(2), subject="mine"),
            tx.emit("order.gone", {}, key=world.partition(3)),
            tx.emit("told", {"to": "another"}, key=elsewhere, subject="s"),
        ]
    assert [world.item(number) for number in (1, 2, 3, 4)] == [
        {"left": {"N": "1"}, "version": {"N": "1"}},
        {"left": {"N": "20"}, "m": {"N": "1"}, "version": {"N": "2"}},
        None,
        {"left": {"N": "4"}, "version": {"N": "1"}},
    ]
    found = world.events()
    read = {event.id: event for events in found.values() for event in events}
    assert set(read) == {event.id for event in emitted} == set(tx.receipt.event_ids)
    for event in emitted:
        got = read[event.id]
        assert (got.type, got.source, got.data, got.time) == (event.type, event.source, event.data, event.time)
        assert (got.key, dict(got.attributes)) == (event.key, dict(event.attributes))
    sequences = [read[event.id].sequence for event in emitted]
    assert sequences == [f"{n:019d}.{at:04d}" for n, at in ((1, 0), (2, 0), (2, 1), (2, 0))] + [None]
    assert read[emitted[2].id].subject == "mine"
    assert set(found) == {world.partition(number) for number in (1, 2, 3, 9)}
    assert tx.receipt.versions == {world.place(number): number for number in (1, 2)}


def test_where_a_record_lives(world: LayoutWorld) -> None:
    """In the table of records, under its id in the attribute that carries it, and under nothing that is an item's."""
    with world.outbox.transaction() as tx:
        event = place(tx, world)
    (image,) = world.images()
    layout = world.case.layout
    assert image[layout.carrier] == {"S": layout.prefix + event.id}
    assert world.events() == {world.partition(1): (read_back(world, event),)}
    if layout.own_partition and layout.sk is not None:
        assert image[layout.pk] == {"S": layout.prefix + world.partition(1)}


def test_a_pending_record_is_in_the_index(world: LayoutWorld) -> None:
    """Under its shard, by when it was written, with the id and the key that a sweep asks for; its item is not."""
    with world.outbox.transaction() as tx:
        event = place(tx, world)
    layout = world.case.layout
    found = world.client.query(
        TableName=world.case.records,
        IndexName=layout.index,
        KeyConditionExpression="ob_pending = :shard AND #at = :at",
        ExpressionAttributeNames={"#at": layout.column("at")},
        ExpressionAttributeValues={
            ":shard": {"S": index_shard(world.partition(1), layout.index_shards)},
            ":at": {"N": str(world.clock.now_ms())},
        },
    )["Items"]
    (image,) = world.images()
    kept = {*layout.keys.types, "ob_pending", *map(layout.column, ("at", "id", "key"))}
    assert found == [{name: value for name, value in image.items() if name in kept}]
    assert (len(kept), image[layout.column("id")]) == (len(layout.keys.types) + 4, {"S": event.id})


def read_back(world: LayoutWorld, event: Event) -> Event:
    """Return the event of an order's first version as it is read."""
    (found,) = world.events()[world.partition(1)]
    return settled(event, world.partition(1), subject=found.subject, sequence="0000000000000000001.0000")


def test_a_condition_that_fails_takes_everything_with_it(world: LayoutWorld) -> None:
    """Neither item nor record is written, and the error shows what was there."""
    with world.outbox.transaction() as tx:
        tx.put({**world.key(1), "cents": 5}, if_absent=True)
    tx = world.outbox.transaction()
    tx.put({**world.key(1), "cents": 6}, if_absent=True)
    tx.update(world.key(2), set={"m": 1})
    tx.emit("order.placed", {}, key=world.partition(1))
    with pytest.raises(ConditionFailed) as caught:
        tx.commit()
    (failure,) = caught.value.failures
    assert failure.item is not None
    assert failure.item["cents"] == 5
    assert (world.item(2), world.images()) == (None, [])


def test_a_lost_answer_is_found_by_the_record(world: LayoutWorld) -> None:
    """The token is forgotten, the own record stands in the way: it says that the transaction was committed."""
    losing = Losing(world.client)
    with world.outbox_over(losing).transaction() as tx:
        event = place(tx, world)
    assert tx.receipt.resolved_by == "record"
    assert tx.receipt.event_ids == (event.id,)
    assert losing.sent == 2
    (image,) = world.images()
    (read,) = losing.reads
    assert read["Key"] == {name: image[name] for name in world.case.layout.keys.types}


def test_a_lost_answer_is_found_by_the_guard(guarded: LayoutWorld) -> None:
    """The same of a command, with its versions."""
    losing = Losing(guarded.client)
    with guarded.outbox_over(losing).transaction(idempotency_key="c-1") as tx:
        place(tx, guarded)
    assert (tx.receipt.resolved_by, tx.receipt.replayed) == ("guard", False)
    assert losing.sent == 2
    assert len(guarded.images()) == 1


def test_a_command_runs_once(guarded: LayoutWorld) -> None:
    """Run again it has its first receipt, with events and versions; with other content it is a mismatch."""
    receipts = []
    for _ in range(2):
        with guarded.outbox.transaction(idempotency_key="c-1") as tx:
            place(tx, guarded)
        receipts.append(tx.receipt)
    first, again = receipts
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.event_ids, again.versions) == (first.event_ids, first.versions)
    other = guarded.outbox.transaction(idempotency_key="c-1")
    place(other, guarded, cents=6)
    with pytest.raises(IdempotencyMismatch):
        other.commit()
    assert len(guarded.images()) == 1


def test_a_condition_that_fails_leaves_no_guard(guarded: LayoutWorld) -> None:
    """The command has failed, and may be run again when its condition holds."""
    with guarded.outbox.transaction() as tx:
        tx.put(guarded.key(1), if_absent=True)
    command = guarded.outbox.transaction(idempotency_key="c-1")
    place(command, guarded)
    with pytest.raises(ConditionFailed):
        command.commit()
    with guarded.outbox.transaction() as tx:
        tx.delete(guarded.key(1))
    with guarded.outbox.transaction(idempotency_key="c-1") as tx:
        place(tx, guarded)
    assert not tx.receipt.replayed


def test_several_tables_with_other_keys(world: LayoutWorld) -> None:
    """One transaction over tables of every kind: each item is found under its own keys, events under their texts."""
    keys = {
        "stock": Keys("sku", None),
        "ledger": Keys("account", "n", "N", "N"),
        "blobs": Keys("b", "c", "B", "S"),
    }
    for name, schema in keys.items():
        create_items_table(world.client, name, schema)
    outbox = world.outbox_over(world.client, tables=keys)
    with outbox.transaction() as tx:
        tx.put({**world.key(1), "cents": 5}, if_absent=True)
        tx.put({"sku": "s-1", "left": 4}, if_absent=True, table="stock")
        tx.update({"account": Decimal("7.5"), "n": 1}, set={"cents": 5}, table="ledger")
        tx.put({"b": b"\x00\xff", "c": "x"}, if_absent=True, table="blobs")
        event = tx.emit("order.placed", {"n": 1}, key=world.partition(1))
    got = world.client.get_item(TableName="ledger", Key={"account": {"N": "7.5"}, "n": {"N": "1"}})["Item"]
    assert got["cents"] == {"N": "5"}
    assert "Item" in world.client.get_item(TableName="stock", Key={"sku": {"S": "s-1"}})
    assert "Item" in world.client.get_item(TableName="blobs", Key={"b": {"B": b"\x00\xff"}, "c": {"S": "x"}})
    assert [each.id for each in world.events()[world.partition(1)]] == [event.id]
    assert set(tx.receipt.versions) >= {("stock", "s-1", ""), ("blobs", "AP8=", "x")}


def test_a_transaction_assembled_by_hand(world: LayoutWorld) -> None:
    """`records()` in both styles gives what a commit would write, for the table that holds the records."""
    own = world.partition(1)
    events = [world.outbox.event("t", {"n": n}, key=own, attributes={"a": "b"}) for n in range(2)]
    alone = world.outbox.event("t", {"n": Decimal("2.50")}, key=world.partition(2))
    world.client.transact_write_items(TransactItems=world.outbox.records(events))
    resource = boto3.session.Session().resource(
        "dynamodb",
        endpoint_url=world.engine.url,
        region_name="us-east-1",
        aws_access_key_id=world.engine.account,
        aws_secret_access_key="x",
    )
    resource.meta.client.transact_write_items(TransactItems=world.outbox.records([alone], style="resource"))
    assert world.events()[own] == tuple(events)
    (read,) = world.events()[world.partition(2)]
    assert (read.id, read.data) == (alone.id, alone.data)


def test_a_request_can_be_sent_by_hand(world: LayoutWorld) -> None:
    """`request()` is what commit() would send, in every layout."""
    tx = world.outbox.transaction()
    event = place(tx, world)
    world.client.transact_write_items(**tx.request())
    assert [each.id for each in world.events()[world.partition(1)]] == [event.id]


def test_guards_and_items_are_no_records(guarded: LayoutWorld) -> None:
    """What a relay is shown of a command: its record, and neither its guard nor its item."""
    with guarded.outbox.transaction(idempotency_key="c-1") as tx:
        place(tx, guarded)
    layout = guarded.case.layout
    items = guarded.client.scan(TableName=guarded.case.records)["Items"]
    assert len(items) == (3 if guarded.case.records == TABLE else 2)
    assert sum(is_record(item, layout) for item in items) == 1


@pytest.mark.parametrize("name", [name for name in CASES if name not in GUARDED])
def test_where_there_is_no_room_for_guards(engine: Account, name: str) -> None:
    """A command is refused where partition keys are no text, with the way out."""
    world = LayoutWorld(engine, CASES[name])
    with pytest.raises(ConfigurationError, match="placement='table'"):
        world.outbox.transaction(idempotency_key="c-1")
