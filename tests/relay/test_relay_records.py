"""Settling and parking: on the engine where it can be shown there, against prepared answers where it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from relay_items import AGAIN, LAYOUT, NOW_MS, WHY, pending, row

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
from dynamodb_outbox.core.relay.select import select
from dynamodb_outbox.local.provision import create_bus, create_table
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from conftest import Account


AT_TEXT = row(1, at={"S": "2026-01-31"})


class Shop:
    """A table on the engine."""

    def __init__(self, engine: Account) -> None:
        self.client = engine.client("dynamodb")
        self.stream = create_table(self.client, "shop")
        self.states = DynamoRecordStates(LAYOUT, client=self.client)

    def put(self, *items: dict[str, Any]) -> None:
        """Write items as they are."""
        for item in items:
            self.client.put_item(TableName="shop", Item=item)

    def get(self, number: int) -> dict[str, Any] | None:
        """Read a record."""
        key = {"pk": {"S": "ORDER#1"}, "sk": {"S": f"OUTBOX#{number}"}}
        item: dict[str, Any] | None = self.client.get_item(TableName="shop", Key=key, ConsistentRead=True).get("Item")
        return item

    def index(self, partition: str) -> list[str]:
        """List the sort keys of a partition of the sparse index."""
        found = self.client.query(
            TableName="shop",
            IndexName=LAYOUT.index,
            KeyConditionExpression="ob_pending = :p",
            ExpressionAttributeValues={":p": {"S": partition}},
        )
        return [item["sk"]["S"] for item in found["Items"]]


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return an empty table."""
    return Shop(engine)


def test_settled_records_are_published_with_a_ttl_and_leave_the_index(shop: Shop) -> None:
    """Ours and hand-written ones, in one call, each on its own condition."""
    shop.put(pending(1), row(2))
    assert shop.index("03") == ["OUTBOX#1"]
    assert shop.states.settle("shop", [pending(1), row(2)], NOW_MS) == Settled(done=2)
    expires = {"N": str(NOW_MS // 1000 + 7 * 86400)}
    without = {name: value for name, value in pending(1).items() if name != "ob_pending"}
    assert shop.get(1) == without | {"state": {"S": "published"}, "expires_at": expires}
    assert shop.get(2) == row(2, ob_state={"S": "published"}, expires_at=expires)
    assert shop.index("03") == []


def test_settling_twice_changes_nothing_the_second_time(shop: Shop) -> None:
    """A lost answer may be tried again; the TTL does not move."""
    shop.put(pending(1), row(2))
    shop.states.settle("shop", [pending(1), row(2)], NOW_MS)
    before = [shop.get(1), shop.get(2)]
    assert shop.states.settle("shop", [pending(1), row(2)], NOW_MS + 99_000) == Settled(changed=2)
    assert [shop.get(1), shop.get(2)] == before


def test_settling_leaves_no_ghost_and_touches_no_parked_record(shop: Shop) -> None:
    """A record that was deleted stays deleted; one that was parked stays parked; the others are settled."""
    shop.put(pending(1), pending(3), pending(4))
    shop.states.park("shop", pending(3), WHY)
    images = [pending(1), pending(2), pending(3), row(5), pending(4)]
    assert shop.states.settle("shop", images, NOW_MS) == Settled(done=2, changed=3)
    assert shop.get(2) is None
    assert shop.get(5) is None
    assert (shop.get(3) or {})["state"] == {"S": "parked"}


def test_a_pending_record_is_parked_where_an_operator_sees_it(shop: Shop) -> None:
    """In the index partition of parked records, without a TTL, with the reason."""
    shop.put(pending(1))
    assert shop.states.park("shop", pending(1), WHY) == Parked(new=True)
    assert shop.get(1) == pending(1) | {
        "state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
        "parked_at": {"N": str(NOW_MS)},
        "parked_code": {"S": "MalformedDetail"},
        "parked_reason": {"S": "not JSON"},
    }
    assert shop.index("parked") == ["OUTBOX#1"]
    assert shop.index("03") == []


@pytest.mark.parametrize("there", [True, False])
def test_a_hand_written_row_is_parked_whether_it_is_still_there_or_not(shop: Shop, there: bool) -> None:
    """The event exists nowhere else, so a deleted row is written again, binary attributes and all."""
    image = row(1, blob={"B": "AAE="})  # as a stream record in JSON carries it
    if there:
        shop.put(row(1, blob={"B": b"\x00\x01"}))
    assert shop.states.park("shop", image, WHY) == Parked(new=True)
    assert shop.states.park("shop", image, AGAIN) == Parked()
    found = shop.get(1) or {}
    assert found["blob"] == {"B": b"\x00\x01"}
    assert found["id"] == {"S": "ORDER%231#1"}
    assert found["ob_state"] == {"S": "parked"}
    assert shop.index("parked") == ["OUTBOX#1"]


@pytest.mark.parametrize(("there", "image"), [(True, AT_TEXT), (False, AT_TEXT), (True, row(1))])
def test_a_row_whose_at_is_something_else_keeps_it_and_is_parked_apart(
    engine: Account, there: bool, image: dict[str, Any]
) -> None:
    """A table without the index may have such rows; with it DynamoDB takes none."""
    client = engine.client("dynamodb")
    client.create_table(
        TableName="plain",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    if there:
        client.put_item(TableName="plain", Item=AT_TEXT | {"expires_at": {"N": "9"}})
    states = DynamoRecordStates(LAYOUT, client=client)
    assert states.park("plain", image, WHY) == Parked(new=True)
    assert states.park("plain", image, AGAIN) == Parked()
    found = {one["sk"]["S"]: one for one in client.scan(TableName="plain", ConsistentRead=True)["Items"]}
    assert found.pop("OUTBOX#1") == AT_TEXT
    assert found.keys() == {"OUTBOX#1#parked"}
    assert found["OUTBOX#1#parked"]["parked_code"] == {"S": "MalformedDetail"}


def test_a_deleted_record_is_parked(shop: Shop) -> None:
    """Written again as a whole."""
    assert shop.states.park("shop", pending(1), WHY) == Parked(new=True)
    assert (shop.get(1) or {})["payload"] == {"S": '{"n":1}'}


@pytest.mark.parametrize("state", ["published", "discarded"])
def test_a_park_that_finds_the_record_done_is_a_success(shop: Shop, state: str) -> None:
    """And changes nothing."""
    done = pending(1) | {"state": {"S": state}}
    shop.put(done)
    assert shop.states.park("shop", pending(1), AGAIN) == Parked()
    assert shop.get(1) == done


def test_parking_again_keeps_the_first_park(shop: Shop) -> None:
    """A batch that comes twice parks once."""
    shop.put(pending(1))
    shop.states.park("shop", pending(1), WHY)
    before = shop.get(1)
    assert shop.states.park("shop", pending(1), Parking("Other", "later", NOW_MS + 1)) == Parked()
    assert shop.get(1) == before


@pytest.mark.parametrize("positions", [None, (0, 2)])
def test_a_park_whose_answer_was_lost_is_its_own_when_it_is_tried_again(
    shop: Shop, positions: tuple[int, ...] | None
) -> None:
    """The SDK's second attempt finds what the first one wrote: that is a park of this call, and counts as one."""
    parking = Parking("MalformedDetail", "not JSON", NOW_MS, positions)
    shop.put(pending(1), pending(2))
    assert shop.states.park("shop", pending(1), parking) == Parked(new=True)
    assert shop.states.park("shop", pending(1), parking) == Parked(new=True)
    shop.states.park("shop", pending(2), Parking("MalformedDetail", "not JSON", NOW_MS, (0, 1, 2)))
    assert shop.states.park("shop", pending(2), Parking("MalformedDetail", "not JSON", NOW_MS, (1,))) == Parked()


def test_parking_another_event_of_a_record_adds_to_it(shop: Shop) -> None:
    """The positions are a set; all of them is no list."""
    shop.put(pending(1))
    for positions, new in (((1,), True), ((3,), False), ((1,), False)):
        assert shop.states.park("shop", pending(1), Parking("Bad", "never", NOW_MS, positions)) == Parked(new=new)
    assert set((shop.get(1) or {})["parked_events"]["NS"]) == {"1", "3"}
    assert shop.states.park("shop", pending(1), AGAIN) == Parked()
    assert "parked_events" not in (shop.get(1) or {})


def test_a_table_that_is_not_there_fails_the_park_and_the_settle(shop: Shop) -> None:
    """With the reason; trying again would not help."""
    assert "ResourceNotFoundException" in str(shop.states.park("missing", pending(1), WHY))
    settled = shop.states.settle("missing", [pending(1)], NOW_MS)
    assert settled.again == ()
    assert sum(settled.failed.values()) == 1


def test_the_whole_way_on_the_engine(shop: Shop, engine: Account) -> None:
    """Rows written by hand and records of ours, from the stream to the bus and back into the table."""
    events = engine.client("events")
    create_bus(events, "orders")
    poison = row(3, payload={"S": "no JSON"})
    shop.put(row(1), pending(2), poison, {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}})
    streams = engine.client("dynamodbstreams")
    shard = streams.describe_stream(StreamArn=shop.stream)["StreamDescription"]["Shards"][0]["ShardId"]
    iterator = streams.get_shard_iterator(StreamArn=shop.stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    records = streams.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    batch = {"Records": [record | {"eventSourceARN": shop.stream} for record in records]}
    relay = Relay(EventBridge("orders", client=events), client=shop.client)
    assert relay.lambda_handler(batch, None) == {"batchItemFailures": []}
    states = [(shop.get(number) or {})[name]["S"] for number, name in ((1, "ob_state"), (2, "state"), (3, "ob_state"))]
    assert states == ["published", "published", "parked"]
    # The same batch once more: published again, which is allowed, and nothing is settled or parked anew.
    before = [shop.get(number) for number in (1, 2, 3)]
    assert relay.lambda_handler(batch, None) == {"batchItemFailures": []}
    assert [shop.get(number) for number in (1, 2, 3)] == before


@pytest.mark.parametrize("there", [True, False])
def test_a_row_of_a_writer_with_a_state_of_its_own_keeps_it(shop: Shop, there: bool) -> None:
    """Settling and parking keep theirs under another name, and a park takes back nothing that changed meanwhile."""
    inserted = [row(1, state={"S": "published"}), row(2, state={"S": "OPEN"})]
    if there:
        shop.put(inserted[0], row(2, state={"S": "CLOSED"}))
    assert shop.states.settle("shop", inserted[:1], NOW_MS) == (Settled(done=1) if there else Settled(changed=1))
    assert shop.states.park("shop", inserted[1], WHY) == Parked(new=True)
    if there:
        assert (shop.get(1) or {})["state"] == {"S": "published"}
        assert (shop.get(1) or {})["ob_state"] == {"S": "published"}
    assert (shop.get(2) or {})["state"] == {"S": "CLOSED" if there else "OPEN"}
    assert (shop.get(2) or {})["ob_state"] == {"S": "parked"}
    assert shop.index("parked") == ["OUTBOX#2"]


def test_a_park_takes_back_no_column_that_a_row_got_since(shop: Shop) -> None:
    """The image is older than the row."""
    shop.put(row(1, state={"S": "OPEN"}, note={"S": "new"}))
    assert shop.states.park("shop", row(1, state={"S": "OPEN"}, note={"S": "old"}), WHY) == Parked(new=True)
    assert (shop.get(1) or {})["note"] == {"S": "new"}


@pytest.mark.parametrize("state", [{"S": "pending"}, {"S": "PENDING"}, {"NULL": True}, {"L": [{"N": "1"}]}, None])
@pytest.mark.parametrize("make", [row, pending])
@pytest.mark.parametrize("seen", [True, False])
def test_a_record_with_any_state_that_counts_as_pending_is_parked(
    shop: Shop, make: Any, state: dict[str, Any] | None, seen: bool
) -> None:
    """Whatever somebody wrote there, before the record was delivered or since: it must not stop the shard."""
    name = "ob_state" if make is row else "state"
    stored = {column: value for column, value in make(1).items() if column != name} | ({name: state} if state else {})
    shop.put(stored | {"note": {"S": "new"}})
    assert shop.states.park("shop", stored if seen else make(1), WHY) == Parked(new=True)
    found = shop.get(1) or {}
    assert found[name] == {"S": "parked"}
    assert found["ob_pending"] == {"S": "parked"}
    if make is row:  # the other is written as a whole
        assert found["note"] == {"S": "new"}
    assert shop.states.park("shop", stored if seen else make(1), AGAIN) == Parked()
    assert shop.index("parked") == ["OUTBOX#1"]


def test_a_row_that_became_a_record_of_ours_is_parked_as_one(shop: Shop) -> None:
    """What is there says where its state is, the image does not; more events of it are added there too."""
    shop.put(pending(1) | {"state": {"S": "x"}})
    assert shop.states.park("shop", row(1), Parking("Bad", "never", NOW_MS, (1,))) == Parked(new=True)
    assert shop.states.park("shop", row(1), Parking("Bad", "never", NOW_MS, (2,))) == Parked()
    found = shop.get(1) or {}
    assert found["state"] == {"S": "parked"}
    assert "ob_state" not in found
    assert set(found["parked_events"]["NS"]) == {"1", "2"}


def full(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with a payload that leaves it no room for the marks of a parked record."""
    used = sum(len(name) + len(next(iter(value.values()))) for name, value in (item | {"payload": {"S": ""}}).items())
    return item | {"payload": {"S": "x" * (409_600 - used - 100)}}


@pytest.mark.parametrize("state", ["published", "discarded", "parked"])
@pytest.mark.parametrize("make", [row, pending])
def test_a_record_without_room_that_is_done_is_left_as_it_is(shop: Shop, make: Any, state: str) -> None:
    """Delivered again and refused now: it keeps its TTL, and nothing is made to stand for it."""
    image = full(make(1))
    done = image | {"ob_state" if make is row else "state": {"S": state}, "expires_at": {"N": "1900000000"}}
    shop.put(done)
    assert shop.states.park("shop", image, AGAIN) == Parked()
    assert shop.get(1) == done
    assert shop.index("parked") == []


@pytest.mark.parametrize("state", [{}, {"ob_state": {"S": "parked"}, "ob_pending": {"S": "parked"}}])
def test_a_row_of_somebody_under_the_key_of_what_stands_for_a_record_is_not_taken_for_it(
    shop: Shop, state: dict[str, Any]
) -> None:
    """Another key is used then, the same each time, also when the first is free again."""
    image = full(row(1))
    theirs = row(1, sk={"S": "OUTBOX#1#parked"}, at={"N": "1"}, **state)
    shop.put(image, theirs)
    assert shop.states.park("shop", image, Parking("Bad", "never", NOW_MS, (1,))) == Parked(new=True)
    assert shop.states.park("shop", image, Parking("Bad", "never", NOW_MS, (2,))) == Parked()
    key = {"pk": theirs["pk"], "sk": theirs["sk"]}
    assert shop.client.get_item(TableName="shop", Key=key)["Item"] == theirs
    shop.client.delete_item(TableName="shop", Key=key)
    assert shop.states.park("shop", image, Parking("Bad", "never", NOW_MS + 1, (1, 2))) == Parked()
    (sort_key,) = shop.index("parked")
    key["sk"] = {"S": sort_key}
    apart = shop.client.get_item(TableName="shop", Key=key)["Item"]
    assert apart["parked_sk"] == {"S": "OUTBOX#1"}
    assert set(apart["parked_events"]["NS"]) == {"1", "2"}


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("make", [row, pending])
def test_a_record_without_room_is_parked_apart(shop: Shop, make: Any, there: bool) -> None:
    """A small item stands for it; the record stays, or comes back, without a TTL; the same batch again adds nothing."""
    image = make(1, payload={"S": "x"}, expires_at={"N": "9"}) if make is row else pending(1)
    image["payload"] = {"S": ""}
    used = sum(len(name) + len(next(iter(value.values()))) for name, value in image.items())
    image["payload"] = {"S": "x" * (409_600 - used - 20)}
    if there:
        shop.put(image)
    assert shop.states.park("shop", image, WHY) == Parked(new=True)
    assert shop.states.park("shop", image, AGAIN) == Parked()
    assert shop.get(1) == {name: value for name, value in image.items() if name != "expires_at"}
    key = {"pk": {"S": "ORDER#1"}, "sk": {"S": "OUTBOX#1#parked"}}
    apart = shop.client.get_item(TableName="shop", Key=key)["Item"]
    assert apart == {
        **key,
        "ob_v": {"N": "1"},
        "parked_sk": {"S": "OUTBOX#1"},
        "id": {"S": "ORDER%231#1" if make is row else "1"},
        "key": {"S": "ORDER#1"},
        "at": {"N": str(NOW_MS)},
        "state": {"S": "parked"},
        "ob_pending": {"S": "parked"},
        "parked_at": {"N": str(NOW_MS)},
        "parked_code": {"S": "MalformedDetail"},
        "parked_reason": {"S": "not JSON"},
    }
    assert shop.index("parked") == ["OUTBOX#1#parked"]
    streamed = {"eventName": "INSERT", "dynamodb": {"Keys": key, "NewImage": apart, "SequenceNumber": "1"}}
    assert select([streamed], LAYOUT).records == ()
