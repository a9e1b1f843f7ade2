"""A row that was deleted and written again under its keys is another record: nothing of the old one is done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record import moves
from dynamodb_outbox.core.record.apart import copy_key
from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
from dynamodb_outbox.core.record.same import SETTLE_TEXT, conditions, digest, is_same
from dynamodb_outbox.core.record.states import state_of
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import create_table

if TYPE_CHECKING:
    from conftest import Account

NOW_MS = 1_769_860_800_000
WHY = Parking("Bad", "never", NOW_MS)
NAMED = Layout(columns={"id": "event_id"})
KEY: dict[str, Any] = {"pk": {"S": "ORDER#1"}, "sk": {"S": "OUTBOX#slot"}}
ROW = KEY | {"type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"}, "event_id": {"S": "A"}}
OURS = KEY | {"type": {"S": "t"}, "payload": {"S": "{}"}, "ts": {"N": "1"}, "ob_v": {"N": "1"}, "id": {"S": "slot"}}
OURS |= {"key": {"S": "K"}, "at": {"N": "1000"}, "state": {"S": "pending"}, "ob_pending": {"S": "00"}}
AGAIN: dict[str, Any] = {"ob_again": {"S": "1"}}
OTHERS = [
    (ROW, {"event_id": {"S": "B"}}),
    (ROW, {"type": {"S": "u"}}),
    (ROW, {"ts": {"N": "2"}}),
    (ROW, {"payload": {"S": '{"n":1}'}}),
    (ROW, AGAIN),
    (OURS, {"at": {"N": "1001"}}),
    (OURS, {"payload": {"S": '{"n":1}'}}),
    (OURS, AGAIN),
]


@pytest.mark.parametrize(("image", "changes"), OTHERS)
def test_what_differs_in_what_its_writer_gave_is_another_record(image: dict[str, Any], changes: dict[str, Any]) -> None:
    """Each of them alone; and each has a place of its own, where it is parked apart."""
    assert is_same(image, image, NAMED)
    assert not is_same(image | changes, image, NAMED)
    assert not is_same(image, image | changes, NAMED)
    assert digest(image, NAMED) != digest(image | changes, NAMED)


@pytest.mark.parametrize("image", [ROW, OURS])
def test_a_record_that_was_moved_is_the_same(image: dict[str, Any]) -> None:
    """Parking adds attributes, and other columns are nobody's business."""
    parked = moves.park("t", image, NAMED, WHY)["Item"] | {"note": {"S": "x"}}
    assert is_same(parked, image, NAMED)
    assert is_same(image | {"ts": {"N": "1.0"}}, image, NAMED)
    mended = moves.park("t", image | {"at": {"S": "x"}}, NAMED, WHY)["Item"]
    assert is_same(mended, image | {"at": {"S": "x"}}, NAMED)


@pytest.mark.parametrize("name", ["payload", "events"])
def test_a_long_text_is_compared_by_parks_alone(name: str) -> None:
    """A settle would send each event twice."""
    for length, by_settle in ((SETTLE_TEXT, True), (SETTLE_TEXT + 1, False)):
        image = OURS | {name: {"S": "x" * length}}
        assert (name in conditions(image, NAMED, longest=SETTLE_TEXT)) is by_settle
        assert (image[name] in moves.settle("t", image, NAMED, now_ms=0)["Parameters"]) is by_settle
        assert image[name] in moves.park("t", image, NAMED, WHY)["ExpressionAttributeValues"].values()


def test_keys_are_not_compared_twice_nor_what_is_of_another_type() -> None:
    """What a column is called decides, and what is in it."""
    assert "payload" not in conditions(OURS | {"payload": {"M": {}}}, NAMED)
    layout = Layout(sk="id", columns={"id": "x", "type": "kind"})
    assert "id" not in conditions(OURS | {"id": {"S": "x"}}, layout)
    by_time = Layout(columns={"time": "created", "at": "sent"})
    assert {"created", "sent"} <= conditions(ROW | {"created": {"S": "x"}, "sent": {"N": "1"}}, by_time).keys()


def test_numbers_are_compared_as_numbers() -> None:
    """Whatever zeros they have; a number and a text are different."""
    assert is_same(ROW | {"ts": {"N": "10"}}, ROW | {"ts": {"N": "1E1"}}, NAMED)
    assert not is_same(ROW | {"ts": {"S": "1"}}, ROW, NAMED)


class Shop:
    """A table on the engine, with the newer record in it."""

    def __init__(self, engine: Account, there: dict[str, Any], **options: Any) -> None:
        self.layout = Layout(columns={"id": "event_id"}, **options)
        self.client = engine.client("dynamodb")
        create_table(self.client, "shop", layout=self.layout)
        self.client.put_item(TableName="shop", Item=there)
        self.states = DynamoRecordStates(self.layout, client=self.client)

    def items(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the item under the keys, and all others."""
        found = self.client.scan(TableName="shop", ConsistentRead=True)["Items"]
        (there,) = (item for item in found if item["sk"] == KEY["sk"])
        return there, [item for item in found if item["sk"] != KEY["sk"]]


@pytest.mark.parametrize("settle", ["expire", "delete"])
@pytest.mark.parametrize(("image", "changes"), OTHERS)
def test_settling_the_old_one_leaves_the_new_one(
    engine: Account, image: dict[str, Any], changes: dict[str, Any], settle: str
) -> None:
    """Pending, for its event is still to come; then it is settled as any other."""
    image = image | {"ob_settle": {"S": settle}}
    newer = image | changes
    shop = Shop(engine, newer, settle=settle)
    assert shop.states.settle("shop", [image], NOW_MS) == Settled(changed=1)
    assert shop.items() == (newer, [])
    assert shop.states.settle("shop", [newer], NOW_MS) == Settled(done=1)
    found = shop.client.scan(TableName="shop")["Items"]
    assert [state_of(item, shop.layout) for item in found] == ([] if settle == "delete" else ["published"])


@pytest.mark.parametrize("state", ["pending", "published", "parked"])
@pytest.mark.parametrize(("image", "changes"), OTHERS)
def test_parking_the_old_one_leaves_the_new_one_and_keeps_the_event(
    engine: Account, image: dict[str, Any], changes: dict[str, Any], state: str
) -> None:
    """Whatever became of the new one: the refused event is kept whole, once, where an operator sees it."""
    newer = image | changes
    newer |= {} if state == "pending" else {"state" if "ob_v" in image else "ob_state": {"S": state}}
    shop = Shop(engine, newer)
    assert shop.states.park("shop", image, Parking("Bad", "never", NOW_MS, (1,))) == Parked(new=True)
    assert shop.states.park("shop", image, Parking("Bad", "never", NOW_MS + 1, (1,))) == Parked()
    assert shop.states.park("shop", image, Parking("Bad", "never", NOW_MS, (2,))) == Parked()
    there, (apart,) = shop.items()
    assert there == newer
    assert state_of(apart, shop.layout) == "parked"
    assert apart["ob_pending"] == {"S": "parked"}
    assert apart["ob_parked_sk"] == KEY["sk"]
    assert apart["payload"] == image["payload"]
    assert set(apart["parked_events" if "ob_v" in image else "ob_parked_events"]["NS"]) == {"1", "2"}
    assert is_same(apart, image, shop.layout)


def test_an_old_one_without_room_for_marks_does_not_touch_the_new_one(engine: Account) -> None:
    """It cannot be kept whole, and so the stream waits there."""
    full = ROW | {"payload": {"S": "x" * (409_600 - 120)}}
    shop = Shop(engine, ROW)
    assert "ValidationException" in str(shop.states.park("shop", full, WHY).failure)
    assert shop.items() == (ROW, [])


def test_where_keys_are_no_text_there_is_no_place_for_the_old_one() -> None:
    """Where one is, the partition key of the copy is a hash, and says what it was."""
    numbers = Layout(pk_type="N", sk_type="N", select={})
    assert copy_key({"pk": {"N": "1"}, "sk": {"N": "1"}}, numbers) is None
    layout = Layout(sk_type="N", select={})
    image: dict[str, Any] = ROW | {"sk": {"N": "7"}, "at": {"S": "x"}, "expires_at": {"N": "9"}}
    key = copy_key(image, layout)
    assert key is not None
    assert key["sk"] == {"N": "7"}
    item = moves.park_copy("t", key, image, layout, WHY)["Item"]
    assert (item["ob_parked_pk"], item["ob_parked_sk"]) == (image["pk"], image["sk"])
    assert item["at"] == {"S": "x"}
    assert "expires_at" not in item


def test_the_park_fails_where_there_is_no_place_for_the_old_one(engine: Account) -> None:
    """And says so."""
    layout = Layout(pk_type="N", sk_type="N", select={})
    client = engine.client("dynamodb")
    create_table(client, "numbers", layout=layout)
    there = ROW | {"pk": {"N": "1"}, "sk": {"N": "1"}}
    client.put_item(TableName="numbers", Item=there)
    states = DynamoRecordStates(layout, client=client)
    assert "another record" in str(states.park("numbers", there | {"ts": {"N": "0"}}, WHY).failure)
    assert client.scan(TableName="numbers")["Items"] == [there]


def test_what_stood_for_the_old_one_does_not_stand_for_one_that_was_put_again(engine: Account) -> None:
    """It says the `ob_again` of the record that it stands for."""
    full = ROW | {"payload": {"S": "x" * (409_600 - 150)}}
    shop = Shop(engine, full)
    assert shop.states.park("shop", full, WHY) == Parked(new=True)
    again = full | AGAIN
    shop.client.put_item(TableName="shop", Item=again)
    assert shop.states.park("shop", again, WHY) == Parked(new=True)
    assert shop.states.park("shop", again, Parking("Bad", "never", NOW_MS + 1)) == Parked()
    there, apart = shop.items()
    assert there == again
    assert sorted(str(item.get("ob_again")) for item in apart) == sorted(["None", str(AGAIN["ob_again"])])


@pytest.mark.parametrize("number", ["abc", "1" * 400, [], ""])
def test_what_is_no_number_is_no_records_of_the_table(number: Any) -> None:
    """A document that somebody made may say so: it is another record, and ends nothing."""
    for image in (ROW, OURS):
        name = "ts" if image is ROW else "at"
        assert not is_same(image, image | {name: {"N": number}}, Layout())
