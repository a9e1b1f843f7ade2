"""What may go wrong with parked records on the way: nothing is lost, and everything is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from parked_shell import became, full, park, parked_of, row

from dynamodb_outbox import Outbox
from dynamodb_outbox.core.record.place import keys_of
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.errors import ConfigurationError, TableUnavailable
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.recover import ParkedRecords
from source_steps import SteadyClock
from sweep_shell import CONTENT, Bus, Shop

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox.event import Event


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return a table of the default layout."""
    return Shop(engine)


def parked(shop: Shop, *keys: str) -> list[str]:
    """Commit events and have them parked; return their ids."""
    ids = [shop.emit(key) for key in keys]
    shop.sweeper(Bus(lambda _: CONTENT)).sweep()
    return ids


def test_who_dies_between_publishing_and_marking_publishes_twice(shop: Shop) -> None:
    """The report says so; the second time has the same id, and marks."""
    (event_id,) = parked(shop, "A")
    bus = Bus()
    shop.fail("BatchExecuteStatement", "ThrottlingException", times=3)
    report = parked_of(shop).redrive(bus, all=True)
    assert (became(report), report.unsettled, report.is_complete) == ([(event_id, "published")], 1, False)
    report = parked_of(shop).redrive(bus, all=True)
    assert (bus.ids, report.unsettled, shop.index("parked")) == ([event_id] * 2, 0, [])


def test_a_record_that_somebody_discards_meanwhile_is_not_made_published(shop: Shop) -> None:
    """It was published all the same, which is told; its state is the first one's that decided."""
    (event_id,) = parked(shop, "A")
    shop.before("BatchExecuteStatement", lambda: parked_of(shop).discard("no", ids=[event_id]))
    bus = Bus()
    report = parked_of(shop).redrive(bus, all=True)
    assert (bus.ids, report.unsettled, became(report)) == ([event_id], 0, [(event_id, "crossed")])
    assert "discarded it while" in report.records[0].why
    assert [state_of(item, shop.layout) for item in shop.items()] == ["discarded"]
    assert parked_of(shop).redrive(bus, ids=[event_id]).missing == (event_id,)


def test_what_somebody_decided_about_before_its_round_is_not_sent(shop: Shop) -> None:
    """Discarded, published or changed since it was read: each round looks once more."""
    ids = parked(shop, *"ABCDE")
    other, second = parked_of(shop), Bus()
    items = {item["id"]["S"]: item for item in shop.items()}

    def decide() -> None:
        other.discard("no", ids=[ids[0]])
        other.redrive(second, ids=[ids[1]])
        for event_id, change in ((ids[2], "SET payload = :v"), (ids[3], "SET ob_again = :v")):
            shop.client.update_item(
                TableName="shop",
                Key=keys_of(items[event_id], shop.layout.keys),
                UpdateExpression=change,
                ExpressionAttributeValues={":v": {"S": '{"n":7}'}},
            )

    store = parked_of(shop)
    looks: list[None] = []

    def look(**_: Any) -> None:
        looks.append(None)
        if len(looks) == 2:  # the first one reads what the index names
            decide()

    shop.client.meta.events.register_first("before-call.dynamodb.BatchGetItem", look)
    bus = Bus()
    report = store.redrive(bus, all=True)
    assert became(report) == [
        (ids[0], "gone"), (ids[1], "gone"), (ids[2], "left"), (ids[3], "left"), (ids[4], "published"),
    ]  # fmt: skip
    assert (bus.ids, second.ids, report.is_complete) == ([ids[4]], [ids[1]], False)
    assert parked_of(shop).redrive(bus, all=True).is_complete
    assert bus.payloads()[1:] == [{"n": 7}, {}]


def test_a_parked_key_of_which_nothing_is_left_is_let_go_when_it_is_named(shop: Shop) -> None:
    """Its marker outlived its records, as it could not be deleted."""
    for act in ("redrive", "discard"):
        parked_of(shop).discard("begin", key="A")
        shop.emit("A")
        shop.sweeper(Bus(lambda _: CONTENT), on_poison="park_key").sweep()
        shop.fail("DeleteItem", "AccessDeniedException", times=1)
        assert list(parked_of(shop).redrive(Bus(), key="A").unreleased) == ["A"]
        assert parked_of(shop).redrive(Bus(), key="A", dry_run=True).released == ()
        assert parked_of(shop).discard("no", key="A", dry_run=True).released == ()
        store = parked_of(shop)
        report = store.redrive(Bus(), key="A") if act == "redrive" else store.discard("no", key="A")
        assert (report.records, report.released, report.is_complete) == ((), ("A",), True)


def test_reads_that_fail_are_made_again_and_then_told(shop: Shop) -> None:
    """Throttling passes; what does not is an error, and nothing was done."""
    parked(shop, "A")
    clock = SteadyClock()
    shop.fail("BatchGetItem", "ThrottlingException", times=2)
    assert len(parked_of(shop, clock=clock).list()) == 1
    shop.fail("Query", "ThrottlingException", times=3)
    with pytest.raises(TableUnavailable, match="ThrottlingException") as caught:
        parked_of(shop, clock=clock).list()
    assert caught.value.retryable
    shop.fail("BatchGetItem", "AccessDeniedException")
    bus = Bus()
    with pytest.raises(TableUnavailable, match="AccessDenied") as caught:
        parked_of(shop, clock=clock).redrive(bus, all=True)
    assert (caught.value.retryable, bus.requests) == (False, 0)


def test_a_refusal_that_cannot_be_noted_leaves_the_record_as_it_was(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The report has the reason all the same."""
    (event_id,) = parked(shop, "A")
    before = shop.items()
    shop.fail("UpdateItem", "AccessDeniedException")
    report = parked_of(shop).redrive(Bus(lambda _: CONTENT), all=True)
    assert (became(report), report.records[0].why) == ([(event_id, "refused")], "Bad: never")
    assert shop.items() == before
    assert "could not be noted" in caplog.text


def test_a_discard_whose_answer_was_lost_is_found_done(shop: Shop) -> None:
    """The SDK's own second attempt meets what the first one has stored."""
    (event_id,) = parked(shop, "A")
    other = parked_of(shop)
    shop.before("UpdateItem", lambda: other.discard("first", ids=[event_id]))
    assert became(parked_of(shop).discard("second", ids=[event_id])) == [(event_id, "discarded")]
    assert shop.items()[0]["discarded_reason"] == {"S": "first"}


def test_a_record_that_is_published_before_it_is_discarded_is_gone(shop: Shop) -> None:
    """By a redrive that ran at the same time."""
    (event_id,) = parked(shop, "A")
    shop.before("UpdateItem", lambda: parked_of(shop).redrive(Bus(), all=True))
    report = parked_of(shop).discard("no", ids=[event_id])
    assert (became(report), report.records[0].why) == ([(event_id, "gone")], "it is parked no more")


def test_many_records_are_read_page_by_page_the_oldest_first(shop: Shop) -> None:
    """All of them, in a listing and in a redrive that takes them away meanwhile."""
    for begin in range(0, 225, 25):
        requests = [{"PutRequest": {"Item": _parked_row(number)}} for number in range(begin, begin + 25)]
        shop.client.batch_write_item(RequestItems={"shop": requests})
    written = [record.written_ms for record in parked_of(shop).list()]
    assert (len(written), written) == (225, sorted(map(int, filter(None, written))))
    bus = Bus()
    report = parked_of(shop).redrive(bus, type="order.placed")
    assert (report.count("published"), len(bus.ids), shop.index("parked")) == (225, 225, [])


def _parked_row(number: int) -> dict[str, Any]:
    marks = {"ob_state": {"S": "parked"}, "ob_pending": {"S": "parked"}, "at": {"N": str(1000 - number)}}
    return {**row(number), **marks, "pk": {"S": f"ORDER#{number}"}, "id": {"S": "x"}, "key": {"S": f"ORDER#{number}"}}


def test_all_events_of_a_record_are_published_and_found_by_their_ids(shop: Shop) -> None:
    """Also those that were not refused: who parked the record may have died before they were sent."""
    with shop.outbox.transaction() as tx:
        events = [tx.emit(f"order.{n}", {"n": n}, key="A") for n in range(3)]
    bad = events[1].id
    shop.sweeper(Bus(lambda event: CONTENT if event.id == bad else None)).sweep()
    (record,) = parked_of(shop).list(type="order.1")
    assert [(event.id == bad, event.refused) for event in record.events] == [
        (False, False),
        (True, True),
        (False, False),
    ]
    assert parked_of(shop).list(type="order.7") == parked_of(shop).list(key="B") == ()
    ((shown, data),) = parked_of(shop).show(bad)
    assert (shown, [event.data for event in data]) == (record, [{"n": 0}, {"n": 1}, {"n": 2}])
    bus = Bus(lambda event: CONTENT if event.id == bad else None)
    assert became(parked_of(shop).redrive(bus, ids=[bad])) == [(record.id, "refused")]
    assert bus.payloads() == [{"n": 0}, {"n": 2}]
    bus.script = lambda _: None
    parked_of(shop).redrive(bus, ids=[bad])
    assert bus.payloads() == [{"n": 0}, {"n": 2}, {"n": 0}, {"n": 1}, {"n": 2}]


def test_a_record_with_events_that_were_not_refused_is_not_discarded_by_the_way(shop: Shop) -> None:
    """Who parked it may have died before they were sent: they are published first, or discarded by name."""
    with shop.outbox.transaction() as tx:
        bad, good = (tx.emit("order.placed", {"n": n}, key="A") for n in range(2))
    shop.sweeper(Bus(lambda event: CONTENT if event.id == bad.id else None)).sweep()
    parked = parked_of(shop)
    for dry_run in (True, False):
        report = parked.discard("test data", all=True, dry_run=dry_run)
        assert [(one.became, one.why.partition(" of it")[0]) for one in report.records] == [("left", "1 event")]
        assert not report.is_complete
    assert [one.unrefused for one in parked.list()] == [1]
    assert [became for _, became in became(parked.discard("test data", ids=[good.id], others=True))] == ["discarded"]
    assert parked.list() == ()


def test_what_is_discarded_by_type_takes_no_event_of_another_type_along(shop: Shop) -> None:
    """A record of several is one record: it is left, unless others are meant too."""
    with shop.outbox.transaction() as tx:
        for name in ("order.placed", "order.tested"):
            tx.emit(name, {}, key="A")
    with shop.outbox.transaction() as tx:
        tx.emit("order.tested", {}, key="B")
    shop.sweeper(Bus(lambda _: CONTENT)).sweep()
    parked = parked_of(shop)
    report = parked.discard("test data", type="order.tested")
    assert sorted((one.became, one.why.partition(":")[0]) for one in report.records) == [
        ("discarded", ""),
        ("left", "1 event of it has another type"),
    ]
    assert [one.key for one in parked.list()] == ["A"]
    report = parked.discard("test data", type="order.tested", others=True)
    assert ([one.became for one in report.records], parked.list()) == (["discarded"], ())


def test_a_record_that_has_no_room_to_be_discarded_is_left_and_others_are_not(shop: Shop) -> None:
    """It had just enough for the marks of a parked one."""
    tight = full(row(), room=180)
    for image in (tight, row(2, pk={"S": "ORDER#2"}, ts={"N": "1700000009"})):
        shop.client.put_item(TableName="shop", Item=image)
        park(shop, image)
    assert [record.kind for record in parked_of(shop).list()] == ["in place"] * 2
    report = parked_of(shop).discard("not wanted any more, as the shop's own list of those says", all=True)
    assert [one.became for one in report.records] == ["left", "discarded"]
    assert "shorter reason" in report.records[0].why
    assert len(parked_of(shop).list()) == 1


def test_one_that_was_overtaken_says_so(shop: Shop) -> None:
    """A later event of its key had been published; that of another key says nothing."""
    first, _, other = shop.emit("A"), shop.emit("A"), shop.emit("B")
    shop.sweeper(Bus(lambda event: CONTENT if event.id in {first, other} else None)).sweep()
    report = parked_of(shop).redrive(Bus(), all=True)
    assert {one.record.id: one.overtaken for one in report.records} == {first: True, other: False}


def test_what_cannot_be_read_is_told_and_refused_again(shop: Shop) -> None:
    """Its payload is no JSON; once it is corrected it is published."""
    bad = row(payload={"S": "{"})
    shop.client.put_item(TableName="shop", Item=bad)
    park(shop, bad)
    (record,) = parked_of(shop).list()
    assert (record.events, record.id) == ((), "ORDER%231#1")
    assert "not JSON" in str(record.unreadable)
    report = parked_of(shop).redrive(Bus(), all=True)
    assert report.records[0].became == "refused"
    assert report.records[0].why.startswith("InvalidRecord: ")
    shop.client.update_item(
        TableName="shop",
        Key={name: bad[name] for name in ("pk", "sk")},
        UpdateExpression="SET payload = :p",
        ExpressionAttributeValues={":p": {"S": "{}"}},
    )
    assert parked_of(shop).redrive(Bus(), all=True).is_complete


def test_records_of_other_layouts_and_regions_are_left_alone(shop: Shop, engine: Account) -> None:
    """The ones are not seen; the others say where they are to be redriven."""
    other = Outbox("shop", source="s", client=engine.client("dynamodb"), layout=Layout(prefix="OTHER#"))
    with other.transaction() as tx:
        tx.emit("order.placed", {}, key="A")
    shop.emit("B")
    items = {item["key"]["S"]: item for item in shop.items()}
    park(shop, items["A"])
    park(shop, {**items["B"], "region": {"S": "eu-north-1"}})
    bus = Bus()
    report = parked_of(shop).redrive(bus, all=True)
    (left,) = report.records
    assert (left.record.key, left.became, bus.requests) == ("B", "left", 0)
    assert "eu-north-1" in left.why


def test_what_is_parked_of_a_parked_key_meanwhile_is_published_too(shop: Shop) -> None:
    """As long as the key is parked, relays park what follows; then it goes on."""
    first = shop.emit("A")
    refuse = Bus(lambda event: CONTENT if event.id == first else None)
    shop.sweeper(refuse, on_poison="park_key").sweep()
    more: list[str] = []

    def busy(event: Event) -> None:
        if event.id == first:
            more.append(shop.emit("A"))
            shop.sweeper(refuse, on_poison="park_key").sweep()

    bus = Bus(busy)
    report = parked_of(shop).redrive(bus, key="A")
    assert (bus.ids, report.released, shop.index("parked")) == ([first, *more], ("A",), [])


def test_a_part_of_a_parked_key_does_not_let_it_go(shop: Shop) -> None:
    """Its last record does, published or discarded; a key that cannot be let go is told."""
    first, second, third = shop.emit("A"), shop.emit("A"), shop.emit("A")
    refuse = Bus(lambda event: CONTENT if event.id == first else None)
    shop.sweeper(refuse, on_poison="park_key").sweep()
    assert parked_of(shop).redrive(Bus(), ids=[first]).released == ()
    assert parked_of(shop).discard("no", ids=[second]).released == ()
    assert parked_of(shop).discard("no", ids=[second], dry_run=True).missing == (second,)
    shop.fail("DeleteItem", "AccessDeniedException", times=1)
    report = parked_of(shop).discard("no", ids=[third])
    assert list(report.unreleased) == ["A"]
    assert not report.is_complete


def test_arguments_that_cannot_be_meant_are_refused(shop: Shop) -> None:
    """Before anything is read."""
    parked = parked_of(shop)
    wrong: list[dict[str, Any]] = [
        {},
        {"all": True, "key": "A"},
        {"ids": "one"},
        {"ids": [""]},
        {"key": ""},
        {"all": 1},
        {"all": True, "dry_run": "no"},
    ]
    shop.calls.clear()
    for arguments in wrong:
        with pytest.raises(ConfigurationError):
            parked.redrive(Bus(), **arguments)
        with pytest.raises(ConfigurationError):
            parked.discard("no", **arguments)
    with pytest.raises(ConfigurationError):
        parked.discard("", all=True)
    with pytest.raises(ConfigurationError):
        ParkedRecords("")
    assert not shop.calls
