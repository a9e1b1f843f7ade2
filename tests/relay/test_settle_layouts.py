"""Each way of settling, over tables of every kind: settled, settled again, deleted before, parked before.

What writes to settled records runs on one engine: moto answers 500 to every statement of PartiQL that there is here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from layout_shops import CASES, Case, Shop, refuse
from relay_layouts import as_lambda
from relay_shell import Bus

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
from dynamodb_outbox.core.record.states import state_of

if TYPE_CHECKING:
    from conftest import Account

WHY = Parking("Bad", "never", 5_000)
NOW_MS = 1_900_000_000_000
"""Of a time that is far away, so that the engine's TTL removes nothing here."""

both = pytest.mark.parametrize("engine", ["ministack", pytest.param("moto", marks=pytest.mark.slow)], indirect=True)
each_case = pytest.mark.parametrize("name", CASES)
each_way = pytest.mark.parametrize("settle", ["expire", "mark", "delete", "none"])
each_that_writes = pytest.mark.parametrize("settle", ["expire", "mark", "delete"])


def case_of(name: str, settle: Any) -> Case:
    """Return a case whose records are settled that way, and kept for long."""
    case = CASES[name]
    return replace(case, layout=replace(case.layout, settle=settle, published_for=timedelta(days=9999)))


def without_marks(item: dict[str, Any], case: Case) -> dict[str, Any]:
    """Return what settling leaves alone in an item."""
    marks = {case.layout.ttl, "ob_pending", "ob_state", case.layout.column("state")}
    return {name: value for name, value in item.items() if name not in marks}


def check_settled(before: dict[str, Any], after: dict[str, Any], case: Case, settle: str) -> None:
    """Hold a record that was accepted to its way of being settled."""
    if settle == "delete":
        assert after == {}
    elif settle == "none":
        assert after == before
        assert "ob_pending" not in after
        assert (case.layout.ttl in after) is (case.fields is None)
    else:
        assert state_of(after, case.layout) == "published"
        assert (case.layout.ttl in after) is (settle == "expire")
        assert "ob_pending" not in after
        assert without_marks(after, case) == without_marks(before, case)


@each_way
@each_case
def test_records_are_published_and_settled_in_their_way(engine: Account, name: str, settle: str) -> None:
    """Each once; a second delivery changes nothing, and writes nothing that is gone."""
    case, bus = case_of(name, settle), Bus()
    shop = Shop(engine, case, bus)
    items = [case.item(1), case.item(2)]
    for item in items:
        shop.put(item)
        assert ("ob_pending" in item) is (case.fields is None and settle != "none")
    for _ in range(2):
        assert shop.relayed(*items) == []
        for item in items:
            check_settled(item, shop.get(item), case, settle)
    assert len({event.id for event in bus.accepted}) == 2


@pytest.mark.parametrize("engine", ["moto"], indirect=True)
@each_case
def test_where_nothing_settles_records_nothing_is_written(engine: Account, name: str) -> None:
    """On the second engine too: publishing takes no statement there."""
    case = case_of(name, "none")
    shop, item = Shop(engine, case, Bus()), case.item(1)
    shop.put(item)
    assert shop.relayed(item) == []
    check_settled(item, shop.get(item), case, "none")


@each_way
@each_case
def test_a_record_deleted_before_it_is_settled_stays_deleted(engine: Account, name: str, settle: str) -> None:
    """No way of settling makes a ghost of it."""
    case, bus = case_of(name, settle), Bus()
    shop, item = Shop(engine, case, bus), case.item(1)
    assert shop.relayed(item) == []
    assert len(bus.accepted) == 1
    assert shop.get(item) == {}


@each_that_writes
@each_case
def test_a_parked_record_is_not_settled_by_who_saw_it_pending(engine: Account, name: str, settle: str) -> None:
    """An operator still finds it: neither published nor deleted."""
    case = case_of(name, settle)
    shop, item = Shop(engine, case, Bus()), case.item(1)
    states = DynamoRecordStates(case.layout, client=shop.client)
    shop.put(item)
    assert states.park("shop", as_lambda(item), WHY) == Parked(new=True)
    before = shop.get(item)
    assert states.settle("shop", [as_lambda(item)], NOW_MS) == Settled(changed=1)
    assert shop.get(item) == before
    assert len(shop.parked()) == 1


@both
@pytest.mark.parametrize("settle", ["delete", "none"])
@each_case
@pytest.mark.parametrize("there", [True, False])
def test_a_refused_record_is_parked_whatever_its_way(engine: Account, name: str, settle: str, there: bool) -> None:
    """In the index, without a TTL, whether it is still there or not."""
    case = case_of(name, settle)
    shop, item = Shop(engine, case, Bus(refuse)), case.item(1)
    if there:
        shop.put(item)
    assert shop.relayed(item) == []
    found = shop.get(item)
    assert state_of(found, case.layout) == "parked"
    assert found["ob_pending"] == {"S": "parked"}
    assert case.layout.ttl not in found
    assert len(shop.parked()) == 1


@each_way
@each_case
def test_a_parked_record_leaves_the_index_when_it_is_published(engine: Account, name: str, settle: str) -> None:
    """Also one that nothing settles: it expires then."""
    case = case_of(name, settle)
    shop, item = Shop(engine, case, Bus()), case.item(1)
    states = DynamoRecordStates(case.layout, client=shop.client)
    assert states.park("shop", as_lambda(item), WHY) == Parked(new=True)
    assert states.settle("shop", [as_lambda(shop.get(item))], NOW_MS) == Settled(done=1)
    assert shop.parked() == []
    after = shop.get(item)
    if settle == "delete":
        assert after == {}
    else:
        assert state_of(after, case.layout) == "published"
        assert (case.layout.ttl in after) is (settle != "mark")


@pytest.mark.parametrize("settle", ["expire", "mark"])
@each_case
def test_a_park_that_finds_a_record_published_is_a_success(engine: Account, name: str, settle: str) -> None:
    """Its events were accepted in another invocation; it stays as it is."""
    case = case_of(name, settle)
    shop, item = Shop(engine, case, Bus()), case.item(1)
    states = DynamoRecordStates(case.layout, client=shop.client)
    shop.put(item)
    assert states.settle("shop", [as_lambda(item)], NOW_MS) == Settled(done=1)
    before = shop.get(item)
    assert states.park("shop", as_lambda(item), Parking("Bad", "never", 5_001)) == Parked()
    assert shop.get(item) == before
