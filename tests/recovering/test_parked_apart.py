"""Records that are parked apart, or beside another one: published under their own ids, and decided about as others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from parked_shell import became, full, park, parked_of, row

from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.layout import Layout
from sweep_shell import CONTENT, Bus, Shop

if TYPE_CHECKING:
    from conftest import Account

FULL = full(row(), room=100)
"""A row that has no room for the marks of a parked one, but for those of a published one."""
ID = "ORDER%231#1"


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return a table of the default layout."""
    return Shop(engine)


@pytest.mark.parametrize("settle", ["expire", "none", "delete"])
def test_a_record_that_is_parked_apart_is_published_and_what_stands_for_it_is_settled(
    engine: Account, settle: str
) -> None:
    """Under the id that its own keys tell; the stand-in says that it was published."""
    shop = Shop(engine, Layout(settle=settle))  # type: ignore[arg-type] # one of them
    shop.client.put_item(TableName="shop", Item=FULL)
    park(shop, FULL)
    (record,) = parked_of(shop).list()
    assert (record.id, record.kind, record.key, record.code) == (ID, "apart", "ORDER#1", "Bad")
    bus = Bus()
    assert became(parked_of(shop).redrive(bus, all=True)) == [(ID, "published")]
    assert (bus.ids, shop.index("parked")) == ([ID], [])
    states = {item["sk"]["S"]: state_of(item, shop.layout) for item in shop.items()}
    assert states["OUTBOX#1#parked"] == "published"
    assert states.get("OUTBOX#1") == {"expire": "published", "none": "pending"}.get(settle)


def test_what_stands_for_a_record_that_was_deleted_is_told_and_can_be_discarded(shop: Shop) -> None:
    """There is nothing to publish any more."""
    shop.client.put_item(TableName="shop", Item=FULL)
    park(shop, FULL)
    shop.client.delete_item(TableName="shop", Key={"pk": FULL["pk"], "sk": FULL["sk"]})
    parked, bus = parked_of(shop), Bus()
    report = parked.redrive(bus, all=True)
    assert became(report) == [(ID, "gone")]
    assert bus.requests == 0
    assert parked.list()[0].gone
    assert became(parked.discard("it is gone", ids=[ID])) == [(ID, "discarded")]
    assert parked.list() == ()


def test_a_record_without_any_room_stays_as_it_is_when_it_is_published(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands for it says so, and is what counts."""
    image = full(row(), room=20)
    shop.client.put_item(TableName="shop", Item=image)
    park(shop, image)
    report = parked_of(shop).redrive(Bus(), all=True)
    assert (became(report), report.unsettled, shop.index("parked")) == ([(ID, "published")], 0, [])
    assert {item["sk"]["S"]: state_of(item, shop.layout) for item in shop.items()} == {
        "OUTBOX#1": "pending",
        "OUTBOX#1#parked": "published",
    }
    assert "stay as they are" in caplog.text


def test_a_record_that_is_parked_apart_and_discarded_is_swept_no_more(shop: Shop) -> None:
    """Its writer had put it into the index; but for that it stays as it was."""
    named: dict[str, Any] = {"at": {"N": "1"}, "id": {"S": "x"}, "key": {"S": "ORDER#1"}}
    image = full(row(**named, ob_pending={"S": "00"}), room=20)
    shop.client.put_item(TableName="shop", Item=image)
    park(shop, image)
    assert [record.kind for record in parked_of(shop).list()] == ["apart"]
    assert became(parked_of(shop).discard("the wrong one", all=True)) == [(ID, "discarded")]
    assert (shop.index(), shop.index("parked")) == ([], [])
    there = next(item for item in shop.items() if item["sk"] == image["sk"])
    assert there == {name: value for name, value in image.items() if name != "ob_pending"}


def test_a_record_beside_another_one_is_published_under_its_own_id(shop: Shop) -> None:
    """And the one that is under its keys by now is left alone."""
    first, second = row(payload={"S": '{"n":1}'}), row(payload={"S": '{"n":2}'})
    shop.client.put_item(TableName="shop", Item=second)
    park(shop, first)
    (record,) = parked_of(shop).list()
    assert (record.id, record.kind) == (ID, "beside")
    bus = Bus()
    assert became(parked_of(shop).redrive(bus, ids=[ID])) == [(ID, "published")]
    assert bus.payloads() == [{"n": 1}]
    there = [item for item in shop.items() if item["sk"] == second["sk"]]
    assert there == [second]
    assert shop.index("parked") == []


def test_a_copy_that_is_refused_again_keeps_its_place(shop: Shop) -> None:
    """It counts how often it was."""
    shop.client.put_item(TableName="shop", Item=row(payload={"S": "{}"}))
    park(shop, row())
    report = parked_of(shop).redrive(Bus(lambda _: CONTENT), all=True)
    assert became(report) == [(ID, "refused")]
    (record,) = parked_of(shop).list()
    assert (record.kind, record.attempts) == ("beside", 2)
