"""Which tables an outbox writes, and by which layouts it can: what is refused, and with what advice."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from write_scripted import World
from write_world import create_items_table, new_id, some_event

from dynamodb_outbox import Keys, Layout
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.place import is_record
from dynamodb_outbox.errors import ConfigurationError, InvalidAction, InvalidEvent, InvalidValue, ReservedName
from dynamodb_outbox.local.provision import create_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Transaction

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
APART = Layout(placement="table")
BY_ENTITY = Layout(select={"entity": "OUTBOX"})
KEY = {"pk": "A", "sk": "B"}


def tables_of(world: World) -> list[str]:
    """Return the tables of the members of the only request."""
    return [body["TableName"] for member in world.sent() for body in member.values()]


# --- a table of records alone -----------------------------------------------------------------------------------------


def test_records_and_guards_go_to_a_table_of_their_own() -> None:
    """Actions go to `table`, or where they say; what the library writes goes to `outbox_table`, under its keys."""
    layout = Layout(placement="table", pk="p", sk=None, version="version")
    world = World(layout=layout, outbox_table="outbox", tables={"shop": Keys("id", None, "N")})
    with world.outbox.transaction(idempotency_key="c") as tx:
        tx.put({"id": 7}, if_absent=True)
        tx.put({"p": "x"}, if_absent=True, table="other")
        event = tx.emit("t", {}, key="7")
    assert tables_of(world) == ["shop", "other", "outbox", "outbox"]
    record, guard = (member["Put"]["Item"] for member in world.sent()[2:])
    assert record["p"] == {"S": f"OUTBOX#{event.id}"}
    assert guard["p"]["S"].startswith("IDEMP#")
    assert record["subject"] == {"S": "7"}
    assert tx.receipt.versions == {("shop", "7", ""): 1, ("other", "x", ""): 1}
    assert world.outbox.table == "shop"


def test_records_alone_in_the_only_table() -> None:
    """Without `outbox_table` the table is that of the records: each action has to say where its item is."""
    world = World(layout=APART)
    verbs: list[Callable[[Transaction], None]] = [
        lambda tx: tx.put(KEY, if_absent=True),
        lambda tx: tx.update(KEY, set={"n": 1}),
        lambda tx: tx.delete(KEY),
        lambda tx: tx.check(KEY, if_exists=True),
    ]
    for verb in verbs:
        with pytest.raises(InvalidAction, match=r"table= is needed.*'shop' holds the records"):
            verb(world.outbox.transaction())
    with world.outbox.transaction() as tx:
        tx.put(KEY, if_absent=True, table="orders")
        tx.emit("t", {})
    assert tables_of(world) == ["orders", "shop"]


def test_an_item_is_named_with_its_table_where_no_table_is_the_outboxs() -> None:
    """Its subject has to name it for whoever reads the event."""
    world = World(layout=Layout(placement="table", version="version"))
    with world.outbox.transaction() as tx:
        tx.put(KEY, if_absent=True, table="orders")
        tx.emit("t", {})
    assert world.sent()[1]["Put"]["Item"]["subject"] == {"S": "orders/A/B"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"outbox_table": "outbox"}, "placement='table'"),
        ({"outbox_table": "shop"}, "placement='table'"),
        ({"outbox_table": "", "layout": APART}, "outbox_table is ''"),
        ({"outbox_table": 5, "layout": APART}, "outbox_table is 5"),
        ({"tables": ["stock"]}, "tables is"),
        ({"tables": {"": Keys()}}, "name of a table"),
        ({"tables": {"stock": "sku"}}, r"tables\['stock'\] is 'sku'; Keys"),
        ({"tables": {"shop": Keys("id", None)}}, "Give Layout"),
        ({"tables": {"outbox": Keys("id")}, "layout": APART, "outbox_table": "outbox"}, "Give Layout"),
        ({"tables": {"stock": Keys("v")}, "layout": Layout(version="v")}, "counts versions"),
    ],
)
def test_tables_that_cannot_be(options: dict[str, Any], said: str) -> None:
    """Roles that contradict the layout, keys that are none, and another schema for the table of the records."""
    with pytest.raises(ConfigurationError, match=said):
        World(**options)


def test_what_says_the_same_twice_is_taken() -> None:
    """The layout's own keys may be named for the records' table, and the two tables may be one."""
    World(tables={"shop": Keys()})
    world = World(layout=APART, outbox_table="shop")
    with pytest.raises(InvalidAction, match="table= is needed"):
        world.outbox.transaction().delete(KEY)


# --- layouts that an outbox cannot write by ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        Layout(sk_type="N", select={"entity": "E"}),
        Layout(sk_type="B", select={}),
        Layout(sk=None, pk_type="N", placement="table", select={}),
    ],
)
def test_a_key_that_cannot_carry_the_prefix(layout: Layout) -> None:
    """A relay may read such a table; an outbox has no place for a record's id there."""
    with pytest.raises(ConfigurationError, match=r"cannot carry.*placement='table'"):
        World(layout=layout)


@pytest.mark.parametrize(
    "select",
    [
        {"entity": {"prefix": "OUT"}},
        {"type": {"prefix": "order."}},
        {"type": "order.placed"},
        {"pk": {"prefix": "EVENT#"}},
        {"pk": "OUTBOX"},
        {"sk": {"prefix": "EVENT#"}},
        {"sk": {"prefix": "OUTBOX#"}, "ts": "5"},
        {"payload": "{}"},
        {"sk": {"prefix": "OUTBOX#0"}},
        {"pk": {"prefix": "("}},
        {"id": {"prefix": "01234"}},
        {"ob_pending": {"prefix": "0"}},
        {"source": "shop.orders"},
        {"state": {"prefix": "published"}},
        {"state": "published"},
        {"entity": "OUTBOX", "kind": {"prefix": "x"}},
    ],
)
def test_records_that_would_not_be_selected(select: Any) -> None:
    """An outbox is refused where a relay would not take all of its records for records: their events would be lost.

    Some of them it may take: by the id, the key or the form that they happen to have.
    """
    with pytest.raises(ConfigurationError, match="never be published"):
        World(layout=Layout(select=select))


def test_what_is_in_the_way_is_named() -> None:
    """That of several which no record meets, and nothing else."""
    with pytest.raises(ConfigurationError, match=": 'key' is in the way"):
        World(layout=Layout(select={"entity": "OUTBOX", "key": {"prefix": "ORDER#"}, "state": "pending"}))


@pytest.mark.parametrize("select", [{"pk": {"prefix": "OUTBOX#O"}}, {"pk": "OUTBOX#"}, {"sk": "OUTBOX#"}])
def test_a_prefix_that_goes_on_is_not_met(select: Any) -> None:
    """Of a partition of records' own their prefix is known, and not the key behind it."""
    with pytest.raises(ConfigurationError, match="never be published"):
        World(layout=Layout(select=select, own_partition=True))


@pytest.mark.parametrize(
    "layout",
    [
        BY_ENTITY,
        Layout(select={}, placement="table"),
        Layout(select={"sk": {"prefix": "OUTBOX#"}}),
        Layout(select={"pk": {"prefix": "OUTBOX#"}}, own_partition=True),
        Layout(select={"entity": "OUTBOX"}, pk_type="N"),
        Layout(select={"state": "pending"}),
        Layout(select={"state": {"prefix": "pend"}}),
        Layout(select={"s": "pending", "state": "OUTBOX"}, columns={"state": "s"}),
        Layout(select={"sk": {"prefix": "OUT"}, "entity": "OUTBOX"}),
        Layout(select={"pk": {"prefix": "OUT"}, "sk": {"prefix": "O"}}, own_partition=True),
        Layout(select={"pk": {"prefix": "OUTBOX#"}}, own_partition=True, sk=None),
    ],
)
@pytest.mark.parametrize("events", [1, 2])
def test_records_that_are_selected(layout: Layout, events: int) -> None:
    """By their keys, by what they have anyway, or by an attribute that is added to them for it."""
    world = World(layout=layout)
    made = [world.outbox.event("t", {}, key="5") for _ in range(events)]
    (member,) = world.outbox.records(made)
    assert is_record(member["Put"]["Item"], layout)


def test_maps_are_not_compressed() -> None:
    """Two settings that cannot both hold."""
    with pytest.raises(ConfigurationError, match="payload_format='map'"):
        World(layout=Layout(payload_format="map"), compression="gzip")


@pytest.mark.parametrize("pk_type", ["N", "B"])
def test_a_command_needs_a_key_that_is_text(pk_type: Any) -> None:
    """A guard has nowhere to be where partition keys are numbers or bytes; transactions without one go on working."""
    outbox = World(layout=Layout(pk_type=pk_type)).outbox
    with pytest.raises(ConfigurationError, match=r"idempotency_key=.*placement='table'"):
        outbox.transaction(idempotency_key="c")
    outbox.transaction()


# --- items that would be taken for records ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda tx: tx.put({**KEY, "entity": "OUTBOX"}, if_absent=True),
        lambda tx: tx.put({**KEY, "entity": "OUTBOX"}, overwrite=True),
        lambda tx: tx.update(KEY, set={"entity": "OUTBOX"}),
        lambda tx: tx.update(KEY, set={"entity": "OUTBOX"}, if_absent=True),
        lambda tx: tx.update(KEY, expression="SET #e = :e", names={"#e": "entity"}, values={":e": "OUTBOX"}),
        lambda tx: tx.update(KEY, expression="SET entity = :e", values={":e": "OUTBOX"}),
        lambda tx: tx.update(
            KEY,
            expression="SET entity = :e",
            values={":e": "OUTBOX", ":n": 1},
            condition="attribute_not_exists(pk) OR n = :n",
        ),
    ],
)
def test_an_item_that_select_would_take_for_a_record(build: Callable[[Transaction], None]) -> None:
    """A put of it, and an update that might create it, are refused in the records' table: it would be published."""
    with pytest.raises(InvalidAction, match="taken for an outbox record"):
        build(World(layout=BY_ENTITY).outbox.transaction())


@pytest.mark.parametrize(
    "build",
    [
        lambda tx: tx.put({**KEY, "entity": "ORDER"}, if_absent=True),
        lambda tx: tx.put({**KEY, "kind": "OUTBOX"}, if_absent=True),
        lambda tx: tx.put({**KEY, "entity": "OUTBOX"}, if_absent=True, table="other"),
        lambda tx: tx.update(KEY, set={"entity": "ORDER"}),
        lambda tx: tx.update(KEY, set={"kind": "OUTBOX"}),
        lambda tx: tx.update(KEY, remove=["entity"]),
        lambda tx: tx.update(KEY, set={"entity": "OUTBOX"}, if_exists=True),
        lambda tx: tx.update(KEY, set={"entity": "OUTBOX"}, table="other"),
        lambda tx: tx.delete(KEY),
    ],
)
def test_other_items_are_not_in_the_way(build: Callable[[Transaction], None]) -> None:
    """Other values, other attributes, other tables, and changes of an item that is there: no record comes of these."""
    build(World(layout=BY_ENTITY).outbox.transaction())


def test_every_item_of_a_table_may_be_a_record() -> None:
    """By select={} whatever is put into that table is published: nothing else has a place in it."""
    world = World(layout=Layout(select={}, placement="table"), outbox_table="outbox")
    builds: list[Callable[[Transaction], None]] = [
        lambda tx: tx.put(KEY, if_absent=True, table="outbox"),
        lambda tx: tx.update(KEY, set={"n": 1}, table="outbox"),
    ]
    for build in builds:
        with pytest.raises(InvalidAction, match="taken for an outbox record"):
            build(world.outbox.transaction())
    world.outbox.transaction().put(KEY, if_absent=True)


def test_an_update_that_only_counts_can_create_a_record_too() -> None:
    """By its keys alone."""
    layout = Layout(select={"pk": {"prefix": "EV#"}}, prefix="EV#", own_partition=True, version="version")
    tx = World(layout=layout).outbox.transaction()
    with pytest.raises(ReservedName):
        tx.update({"pk": "EV#1", "sk": "A"}, if_absent=True)
    everything = Layout(select={}, placement="table", version="version")
    with pytest.raises(InvalidAction, match="taken for an outbox record"):
        World(layout=everything).outbox.transaction().update(KEY, if_absent=True, table="shop")


# --- payloads as maps -------------------------------------------------------------------------------------------------


def test_data_that_no_map_can_hold() -> None:
    """Data that is no object, or has a number that DynamoDB cannot keep, is refused by whatever takes an event.

    One rule for all: the next event may be of the same key, and both in one record, or another's, and each in its own.
    """
    outbox = World(layout=Layout(payload_format="map")).outbox
    tx = outbox.transaction()
    cases: list[tuple[Any, str, type[Exception]]] = [
        ([1], "[1]", InvalidEvent),
        ("x", '"x"', InvalidEvent),
        ({"n": Decimal("1E-131")}, '{"n":1E-131}', InvalidValue),
    ]
    for data, payload, error in cases:
        with pytest.raises(error):
            tx.emit("t", data, key="K")
        with pytest.raises(error):
            outbox.event("t", data, key="K")
        for others in ([], [some_event(new_id(1), key="K")]):
            with pytest.raises(error):
                outbox.records([some_event(new_id(2), key="K", payload=payload), *others])
    plain = World().outbox
    assert len(plain.records([plain.event("t", data, key="K") for data, _, _ in cases])) == 1


def test_the_map_is_what_was_emitted() -> None:
    """As attributes of the table's own form, numbers with all of their digits."""
    world = World(layout=Layout(payload_format="map", columns={"payload": "body", "type": "event_type"}))
    (member,) = world.outbox.records([some_event(key="K", payload='{"a":[1.50,null]}')])
    item = member["Put"]["Item"]
    assert item["body"] == {"M": {"a": {"L": [{"N": "1.50"}, {"NULL": True}]}}}
    assert item["event_type"] == {"S": "order.placed"}
    assert "payload" not in item


def test_the_readmes_example_of_a_schema(engine: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands: two tables of numbers and a table of records in one transaction, in the form that it says."""
    client = engine.client("dynamodb")
    monkeypatch.setattr("boto3.session.Session.client", lambda *_, **__: client)
    shown: dict[str, Any] = {}
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "Keys(" in block)
    exec(example, shown)  # noqa: S102 -- running it is the test
    create_table(client, "outbox", layout=shown["layout"])
    for name, keys in {"accounts": Keys("number", None, "N"), "entries": Keys("account", "at", "N", "N")}.items():
        create_items_table(client, name, keys)
    client.put_item(TableName="accounts", Item={"number": {"N": "7"}})
    receipt = shown["book"](7, 1_700_000_000_000, 500)
    (record,) = client.scan(TableName="outbox")["Items"]
    assert (record["pk"], record["event_type"], record["entity"]) == (
        {"S": "7"},
        {"S": "account.booked"},
        {"S": "OUTBOX"},
    )
    assert record["body"] == {"M": {"account": {"N": "7"}, "cents": {"N": "500"}}}
    assert client.scan(TableName="accounts")["Items"] == [{"number": {"N": "7"}, "cents": {"N": "500"}}]
    assert client.scan(TableName="entries")["Count"] == 1
    assert [event.id for event in decode(record, shown["layout"], source="?").events] == list(receipt.event_ids)
