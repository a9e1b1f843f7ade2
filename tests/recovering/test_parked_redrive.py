"""Parked records published again: in order, once for all that can go wrong between publishing and marking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from parked_shell import became, parked_of

from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover import ParkedReport
from sweep_shell import CONTENT, TARGET, Bus, Shop

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
def test_what_is_parked_is_published_in_order_and_leaves_the_index(engine: Account, name: str) -> None:
    """With tables of any shape; the reason stays in records that are kept; a second redrive finds nothing."""
    shop, bus = Shop(engine, LAYOUTS[name]), Bus(lambda _: CONTENT)
    ids = {key: [shop.emit(key, {"n": n}) for n in range(3)] for key in ("1", "2")}
    shop.sweeper(bus).sweep()
    assert len(shop.index("parked")) == 6
    parked = parked_of(shop)
    assert [(one.code, one.reason, one.attempts, one.kind) for one in parked.list()] == [
        ("Bad", "never", 1, "in place")
    ] * 6
    bus.script = lambda _: None
    report = parked.redrive(bus, all=True)
    assert {what for _, what in became(report)} == {"published"}
    assert {key: [event.id for event in bus.accepted if event.key == key] for key in ids} == ids
    assert (shop.index("parked"), parked.list()) == ([], ())
    states = {state_of(item, shop.layout) for item in shop.items()}
    assert states == (set() if shop.layout.settle == "delete" else {"published"})
    assert parked.redrive(bus, all=True) == ParkedReport()


@pytest.mark.parametrize("settle", ["expire", "mark", "delete"])
def test_a_record_that_somebody_deletes_meanwhile_is_published_and_not_made_again(engine: Account, settle: Any) -> None:
    """Between reading it and marking it: as with the relay and the sweeper."""
    shop, bus = Shop(engine, Layout(settle=settle)), Bus(lambda _: CONTENT)
    event = shop.emit()
    shop.sweeper(bus).sweep()
    bus.script = lambda _: None
    (item,) = shop.items()
    key = keys_of(item, shop.layout.keys)
    shop.before("BatchExecuteStatement", lambda: shop.client.delete_item(TableName="shop", Key=key))
    report = parked_of(shop).redrive(bus, all=True)
    assert (became(report), bus.ids) == ([(event, "published")], [event])
    assert (shop.items(), shop.index("parked")) == ([], [])


def test_a_record_that_is_refused_again_stays_parked_with_the_new_reason(shop: Shop) -> None:
    """And tells how often it was; what follows of its key goes on, as by on_poison="park"."""
    first, second = shop.emit(), shop.emit()
    bus = Bus(lambda _: CONTENT)
    shop.sweeper(bus).sweep()
    bus.script = lambda event: CONTENT if event.id == first else None
    report = parked_of(shop).redrive(bus, key="ORDER#1")
    assert became(report) == [(first, "refused"), (second, "published")]
    (left,) = parked_of(shop).list()
    assert (left.id, left.attempts) == (first, 2)
    assert not report.is_complete


def test_a_destination_that_is_closed_leaves_all_parked(shop: Shop) -> None:
    """Nothing is marked."""
    shop.emit()
    bus = Bus(lambda _: CONTENT)
    shop.sweeper(bus).sweep()
    bus.script = lambda _: TARGET
    before = shop.items()
    report = parked_of(shop).redrive(bus, all=True)
    assert [one.became for one in report.records] == ["left"]
    assert report.stopped is not None
    assert shop.items() == before


def test_a_parked_key_is_let_go_after_its_last_record(shop: Shop) -> None:
    """What was parked behind the first one is published in order, and what comes then is published at once."""
    ids = [shop.emit(data={"n": n}) for n in range(3)]
    bus = Bus(lambda event: CONTENT if event.id == ids[0] else None)
    shop.sweeper(bus, on_poison="park_key").sweep()
    assert (bus.ids, len(shop.index("parked"))) == ([], 3)
    report = parked_of(shop).redrive(bus, all=True)
    assert [one.became for one in report.records] == ["refused", "left", "left"]
    assert report.released == ()
    bus.script = lambda _: None
    report = parked_of(shop).redrive(bus, all=True)
    assert (bus.ids, report.released) == (ids, ("ORDER#1",))
    more = shop.emit()
    shop.sweeper(bus, on_poison="park_key").sweep()
    assert bus.ids[-1] == more


def test_a_record_is_discarded_for_a_reason(shop: Shop) -> None:
    """It leaves the index, and keeps both reasons and no TTL; nobody publishes it."""
    gone = shop.emit()
    bus = Bus(lambda _: CONTENT)
    shop.sweeper(bus).sweep()
    report = parked_of(shop).discard("test data", ids=[gone])
    assert became(report) == [(gone, "discarded")]
    (item,) = shop.items()
    assert (item["state"], item["discarded_reason"], item["parked_code"]) == (
        {"S": "discarded"}, {"S": "test data"}, {"S": "Bad"},
    )  # fmt: skip
    assert not {"expires_at", "ob_pending"} & item.keys()
    assert parked_of(shop).discard("again", ids=[gone]).missing == (gone,)
