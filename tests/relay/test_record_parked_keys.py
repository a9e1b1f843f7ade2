"""The marker of a parked key: as requests, and on the engine, with the record or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from relay_shell import CONTENT, Bus, Context, failures, relay, row, several, short

from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record import parked_keys
from dynamodb_outbox.core.record.moves import Parked, Parking
from dynamodb_outbox.core.record.parked_keys import KeysFound, Released
from dynamodb_outbox.core.record.place import is_record, reserved_prefix
from dynamodb_outbox.errors import ConfigurationError, KeyNotReleased
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sdk.clients import table_config

if TYPE_CHECKING:
    from conftest import Account
    from dynamodb_outbox.core.values import WireItem

WHY = Parking("Bad", "never", 1_769_860_800_000)
KEY = "ORDER#1"
LAYOUT = Layout()


def marker_keys(key: str, layout: Layout = LAYOUT) -> WireItem:
    """Return the key attributes of a key's marker."""
    found: WireItem = parked_keys.release("shop", key, layout)["Key"]
    return found


def image(number: int, **more: Any) -> dict[str, Any]:
    """Return a hand-written row."""
    found: dict[str, Any] = row(number, **more)["dynamodb"]["NewImage"]
    return found


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [Layout(), Layout(sk=None, placement="table"), Layout(own_partition=True)])
def test_a_marker_is_no_record_and_its_place_nobody_else_s(layout: Layout) -> None:
    """It lives among the guards, under a name that no command's guard has."""
    keys = marker_keys("ORDER#1", layout)
    assert not is_record(keys, layout)
    assert reserved_prefix(keys, layout) == layout.guard_prefix
    assert str(keys[layout.pk]["S"]).startswith("IDEMP#PARKED#")
    assert marker_keys("ORDER#1", layout) == keys != marker_keys("ORDER#2", layout)


def test_a_layout_that_tells_records_by_select_does_not_take_a_marker_for_one() -> None:
    """It says `ob_v`, as a guard does."""
    layout = Layout(select={})
    update = parked_keys.mark("shop", "a", layout, WHY)
    assert not is_record({**update["Key"], "ob_v": {"N": "1"}}, layout)


@pytest.mark.parametrize(
    ("layout", "can"),
    [
        (Layout(), True),
        (Layout(pk_type="N"), False),
        (Layout(placement="table", pk_type="B"), False),
        (Layout(select={"kind": "E"}, sk_type="N"), False),
        (Layout(sk=None, placement="table"), True),
    ],
)
def test_where_keys_are_no_text_no_key_can_be_parked(layout: Layout, can: bool) -> None:
    """The relay says so when it is made."""
    assert parked_keys.can_park_keys(layout) is can
    if can:
        Relay(Bus(), layout=layout, on_poison="park_key")
        return
    with pytest.raises(ConfigurationError, match="on_poison='park_key'"):
        Relay(Bus(), layout=layout, on_poison="park_key")


def test_a_long_code_is_cut() -> None:
    """It comes from a bus."""
    update = parked_keys.mark("shop", "a", LAYOUT, Parking("x" * 500, "", 5))
    content = update["ExpressionAttributeValues"][":marker"]["M"]
    assert content == {"key": {"S": "a"}, "since": {"N": "5"}, "code": {"S": "x" * 64}}


# --- on the engine ----------------------------------------------------------------------------------------------------


class Shop:
    """A table on the engine."""

    def __init__(self, engine: Account) -> None:
        self.client = engine.client("dynamodb")
        create_table(self.client, "shop")
        self.keys = parked_keys_of(self.client)

    def marker(self, key: str = KEY) -> Any:
        """Return what the marker of a key says."""
        item = self.client.get_item(TableName="shop", Key=marker_keys(key), ConsistentRead=True).get("Item")
        return item and item["ob_parked"]["M"]

    def state(self, number: int) -> str | None:
        """Return the state of a row."""
        key = {"pk": {"S": KEY}, "sk": {"S": f"OUTBOX#{number}"}}
        item = self.client.get_item(TableName="shop", Key=key, ConsistentRead=True).get("Item", {})
        return item["ob_state"]["S"] if "ob_state" in item else None


def parked_keys_of(client: Any) -> DynamoParkedKeys:
    """Return the adapter over a client."""
    return DynamoParkedKeys(LAYOUT, lambda marking: DynamoRecordStates(LAYOUT, client=marking), client=client)


@pytest.fixture
def shop(engine: Account) -> Shop:
    """Return an empty table."""
    return Shop(engine)


@pytest.mark.parametrize("gone", [True, False])
def test_a_record_and_its_key_are_parked_together(shop: Shop, gone: bool) -> None:
    """Whether the record is still there or not; the marker says since when and why."""
    if not gone:
        shop.client.put_item(TableName="shop", Item=image(1))
    assert shop.keys.park("shop", image(1), WHY, KEY) == (Parked(new=True), True)
    assert shop.state(1) == "parked"
    assert shop.marker() == {"key": {"S": KEY}, "since": {"N": str(WHY.at_ms)}, "code": {"S": "Bad"}}
    assert shop.keys.read("shop", [KEY, "ORDER#2"]) == KeysFound(frozenset([KEY]), frozenset())


def test_a_second_record_of_the_key_leaves_the_marker_as_it_is(shop: Shop) -> None:
    """It tells of the first one."""
    shop.keys.park("shop", image(1), WHY, KEY)
    assert shop.keys.park("shop", image(2), Parking("Other", "", 5), KEY) == (Parked(new=True), True)
    assert shop.marker()["code"] == {"S": "Bad"}


def test_a_record_that_is_too_large_is_parked_apart_with_its_key(shop: Shop) -> None:
    """By the same steps as ever."""
    large = image(1)
    used = sum(len(name) + len(next(iter(value.values()))) for name, value in large.items())
    large["filler"] = {"S": "x" * (409_600 - used - 6)}
    shop.client.put_item(TableName="shop", Item=large)
    assert shop.keys.park("shop", large, WHY, KEY) == (Parked(new=True), True)
    key = {"pk": {"S": KEY}, "sk": {"S": "OUTBOX#1#parked"}}
    assert shop.client.get_item(TableName="shop", Key=key)["Item"]["state"] == {"S": "parked"}
    assert shop.marker() is not None


def test_what_was_published_meanwhile_does_not_park_its_key(shop: Shop) -> None:
    """Somebody redrove it."""
    shop.client.put_item(TableName="shop", Item=image(1, ob_state={"S": "published"}))
    assert shop.keys.park("shop", image(1), WHY, KEY) == (Parked(), False)
    assert shop.marker() is None


def test_what_is_parked_already_parks_its_key_if_that_still_is(shop: Shop) -> None:
    """Parked by another instance just now: the key is. Let go since by somebody: it stays so."""
    shop.keys.park("shop", image(1), WHY, KEY)
    assert shop.keys.park("shop", image(1), Parking("Bad", "never", WHY.at_ms + 1), KEY) == (Parked(), True)
    assert shop.keys.release("shop", KEY) == Released(was_parked=True)
    assert shop.keys.release("shop", KEY) == Released()
    assert shop.keys.park("shop", image(1), Parking("Bad", "never", WHY.at_ms + 2), KEY) == (Parked(), False)
    assert shop.marker() is None


def test_the_relay_parks_a_key_in_this_invocation_in_the_next_and_in_another_instance(shop: Shop) -> None:
    """Until somebody lets it go; other keys are not concerned."""
    bus = Bus(lambda event: CONTENT if short(event) == "1" else None)

    def instance() -> Relay:
        return Relay(bus, client=shop.client, on_poison="park_key")

    first = instance()
    assert failures(first.lambda_handler({"Records": [row(1), row(2), row(3, pk="b")]}, Context())) == []
    assert failures(first.lambda_handler({"Records": [row(4)]}, Context())) == []
    assert failures(instance().lambda_handler({"Records": [row(5), row(6, pk="b")]}, Context())) == []
    assert sorted(short(event) for event in bus.accepted) == ["3", "6"]
    assert [shop.state(number) for number in (1, 2, 4, 5)] == ["parked"] * 4
    key = {"pk": {"S": KEY}, "sk": {"S": "OUTBOX#5"}}
    assert shop.client.get_item(TableName="shop", Key=key)["Item"]["ob_parked_code"] == {"S": "KeyParked"}
    by_arn = "arn:aws:dynamodb:us-east-1:123456789012:table/shop"
    assert Relay(Bus(), client=shop.client, table=by_arn).release_key(KEY)
    assert not first.release_key(KEY, table="shop")
    assert failures(first.lambda_handler({"Records": [row(7)]}, Context())) == []
    assert failures(instance().lambda_handler({"Records": [row(8)]}, Context())) == []
    assert [short(event) for event in bus.accepted[-2:]] == ["7", "8"]


def test_of_a_record_what_follows_the_refused_event_is_named_with_it(shop: Shop) -> None:
    """Positions from the refused one on; what came before was published."""
    bus = Bus(lambda event: CONTENT if event.id == "b" else None)
    made = Relay(bus, client=shop.client, on_poison="park_key")
    assert failures(made.lambda_handler({"Records": [several(1, "abcd")]}, Context())) == []
    assert [short(event) for event in bus.accepted] == ["a"]
    key = {"pk": {"S": KEY}, "sk": {"S": "OUTBOX#1"}}
    assert set(shop.client.get_item(TableName="shop", Key=key)["Item"]["parked_events"]["NS"]) == {"1", "2", "3"}


# --- faults -----------------------------------------------------------------------------------------------------------


def cancelled(*reasons: dict[str, Any]) -> ClientError:
    """Return a transaction that was cancelled for these reasons."""
    response: Any = {
        "Error": {"Code": "TransactionCanceledException", "Message": "..."},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        "CancellationReasons": list(reasons),
    }
    return ClientError(response, "TransactWriteItems")


def scripted(shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let each transaction of the shop's client fail."""

    def fail(**_: Any) -> Any:
        raise error

    monkeypatch.setattr(shop.client, "transact_write_items", fail)


@pytest.mark.parametrize(
    ("reasons", "lost"),
    [
        (({"Code": "TransactionConflict", "Message": "m"}, {"Code": "None"}), False),
        (({"Code": "None"}, {"Code": "TransactionConflict", "Message": "m"}), False),
        (({"Code": "ThrottlingError", "Message": "m"}, {"Code": "None"}), False),
        (({"Code": "ProvisionedThroughputExceeded", "Message": "m"}, {"Code": "None"}), False),
        (({"Code": "None"},), False),
    ],
)
def test_a_transaction_that_was_cancelled_in_passing_parks_nothing(
    shop: Shop, reasons: tuple[dict[str, Any], ...], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says so by the code that the write alone would have met."""
    scripted(shop, monkeypatch, cancelled(*reasons))
    parked, key_parked = shop.keys.park("shop", image(1), WHY, KEY)
    assert (parked.failure is not None, parked.lost, key_parked) == (True, lost, False)
    assert shop.state(1) is None


def test_a_lost_answer_is_lost(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both may be parked, or neither."""
    scripted(shop, monkeypatch, ConnectionClosedError(endpoint_url="https://x"))
    parked, key_parked = shop.keys.park("shop", image(1), WHY, KEY)
    assert (parked.lost, key_parked) == (True, False)


def test_keys_that_cannot_be_read_are_unread(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them when the call fails, those that were left out when it says so; never "not parked"."""
    shop.keys.park("shop", image(1), WHY, KEY)
    answer = shop.client.batch_get_item

    def partly(**request: Any) -> Any:
        asked = request["RequestItems"]["shop"]["Keys"]
        return {
            "Responses": {"shop": answer(**request)["Responses"]["shop"]},
            "UnprocessedKeys": {"shop": {"Keys": asked[1:]}},
        }

    monkeypatch.setattr(shop.client, "batch_get_item", partly)
    found = shop.keys.read("shop", [KEY, "b"])
    assert (found.parked, found.unread) == (frozenset([KEY]), frozenset("b"))
    assert "UnprocessedKeys" in str(found.failure)

    def fail(**_: Any) -> Any:
        raise ConnectionClosedError(endpoint_url="https://x")

    monkeypatch.setattr(shop.client, "batch_get_item", fail)
    found = shop.keys.read("shop", [KEY, "b"])
    assert (found.parked, found.unread) == (frozenset(), frozenset([KEY, "b"]))
    assert str(found.failure).startswith("ConnectionClosedError: ")
    shop.client.put_item(TableName="shop", Item=image(1, ob_state={"S": "published"}))
    parked, key_parked = shop.keys.park("shop", image(1), WHY, KEY)
    assert not key_parked
    assert str(parked.failure).startswith("it could not be read whether its key is parked: ConnectionClosedError: ")


def refusal(code: str, message: str) -> ClientError:
    """Return an error answer to BatchGetItem."""
    status: Any = {"HTTPStatusCode": 400}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": status}, "BatchGetItem")


UNREAD = [
    (
        refusal("AccessDeniedException", "not authorized to perform: dynamodb:BatchGetItem"),
        "AccessDeniedException: not",
    ),
    (refusal("ThrottlingException", "slow down"), "ThrottlingException: slow down"),
    (ConnectionClosedError(endpoint_url="https://x"), "ConnectionClosedError: "),
    (KeyError("Responses"), "the answer has another form"),
]


@pytest.mark.parametrize(("error", "reason"), UNREAD)
def test_a_relay_that_cannot_read_the_markers_publishes_nothing(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It holds its batch, and the log has the reason, once, though it tried again."""
    client = boto3.client("dynamodb", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    tries = []

    def fail(**_: Any) -> Any:
        tries.append(1)
        raise error

    monkeypatch.setattr(client, "batch_get_item", fail)
    bus = Bus()
    made = Relay(bus, client=client, on_poison="park_key")
    assert failures(made.lambda_handler({"Records": [row(1), row(2, pk="b")]}, Context())) == ["1"]
    assert (bus.calls, len(tries)) == (0, 3)
    (told,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert told.getMessage().startswith(f"2 keys are held: BatchGetItem does not say whether they are parked: {reason}")


def test_markers_that_were_read_in_the_end_are_no_news(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second try answered."""
    names = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    client = boto3.client("dynamodb", config=table_config(1.0), **names)
    answers = [refusal("ThrottlingException", "slow down")]

    def read(**_: Any) -> Any:
        if answers:
            raise answers.pop()
        return {"Responses": {"shop": []}}

    monkeypatch.setattr(client, "batch_get_item", read)
    made = relay(Bus(), on_poison="park_key", client=client)
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    assert not caplog.records


@pytest.mark.parametrize(
    ("error", "retryable", "advice"),
    [
        (refusal("AccessDeniedException", "not authorized"), False, "dynamodb:DeleteItem"),
        (refusal("ThrottlingException", "slow down"), True, "Try again"),
        (ConnectionClosedError(endpoint_url="https://x"), True, "Try again"),
    ],
)
def test_a_key_that_could_not_be_let_go_is_an_error_of_ours(
    error: Exception, retryable: bool, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the key, the table and what was said; an answer that was lost may be asked for again."""
    client = boto3.client("dynamodb", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")

    def fail(**_: Any) -> Any:
        raise error

    monkeypatch.setattr(client, "delete_item", fail)
    with pytest.raises(KeyNotReleased, match=advice) as caught:
        Relay(Bus(), client=client).release_key(KEY, table="shop")
    assert (caught.value.key, caught.value.table, caught.value.retryable) == (KEY, "shop", retryable)
    assert str(error).rpartition(": ")[2] in caught.value.reason


@pytest.mark.parametrize(
    ("layout", "key", "table", "said"),
    [
        (Layout(), KEY, None, "which table"),
        (Layout(), "", "shop", "key is ''"),
        (Layout(), 5, "shop", "key is 5"),
        (Layout(), KEY, "", "table is ''"),
        (Layout(pk_type="N"), "5", "shop", "no parked keys"),
    ],
)
def test_what_is_no_key_of_a_table_cannot_be_let_go(layout: Layout, key: Any, table: str | None, said: str) -> None:
    """Nothing is sent."""
    with pytest.raises(ConfigurationError, match=said):
        Relay(Bus(), layout=layout).release_key(key, table=table)


def test_without_a_region_nothing_is_parked_and_nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is told in place of an exception."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    keys = parked_keys_of(None)
    parked, key_parked = keys.park("shop", image(1), WHY, KEY)
    assert "no AWS Region" in str(parked.failure)
    assert not key_parked
    found = keys.read("shop", ["a"])
    assert (found.parked, found.unread) == (frozenset(), frozenset("a"))
    assert "no AWS Region" in str(found.failure)
    assert keys.request_ms == 2000


def test_park_key_needs_an_order() -> None:
    """Where nothing follows, nothing can be held back."""
    with pytest.raises(ConfigurationError, match="needs ordering='key'"):
        relay(Bus(), on_poison="park_key", ordering="none")
