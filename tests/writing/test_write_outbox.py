"""Outbox and Transaction as a service uses them: actions, events, commands. Over a scripted client."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from botocore.exceptions import ClientError
from write_scripted import ITEM, KEY, World, cancelled
from write_world import START_MS

from dynamodb_outbox import Layout, Outbox, Receipt, Transaction
from dynamodb_outbox.errors import (
    AmbiguousKey,
    CommitFailed,
    ConfigurationError,
    DuplicateAction,
    InvalidAction,
    InvalidEvent,
    InvalidValue,
    LimitExceeded,
    OutboxError,
    ReservedName,
    UnconditionalPut,
)

# --- actions ----------------------------------------------------------------------------------------------------------


def test_all_forms_of_condition_in_one_action() -> None:
    """if_exists, if_version, a boto3 condition, and placeholders that do not collide with an update's."""
    world = World(layout=Layout(version="version"))
    with world.outbox.transaction() as tx:
        tx.update(
            KEY,
            expression="SET #n = #n + :v0",
            names={"#n": "count"},
            values={":v0": 1},
            if_exists=True,
            if_version=3,
            condition=Attr("status").eq("OPEN"),
        )
    (member,) = world.sent()
    assert member["Update"] == {
        "TableName": "shop",
        "Key": {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}},
        "UpdateExpression": "SET #ob_version = :ob_next, #n = #n + :v0",
        "ConditionExpression": "attribute_exists(#ob_pk) AND #ob_version = :ob_version AND (#ob_c0 = :ob_c0)",
        "ExpressionAttributeNames": {"#n": "count", "#ob_version": "version", "#ob_pk": "pk", "#ob_c0": "status"},
        "ExpressionAttributeValues": {
            ":v0": {"N": "1"},
            ":ob_next": {"N": "4"},
            ":ob_version": {"N": "3"},
            ":ob_c0": {"S": "OPEN"},
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    assert tx.receipt.versions == {("shop", "ORDER#1", "META"): 4}


def test_a_condition_as_text_shares_placeholders_with_an_expression() -> None:
    """names= and values= serve both texts."""
    world = World()
    with world.outbox.transaction() as tx:
        tx.update(KEY, expression="SET #a = :x", condition="#a < :x", names={"#a": "a"}, values={":x": 1})
    body = world.sent()[0]["Update"]
    assert body["ConditionExpression"] == "#a < :x"
    assert body["ExpressionAttributeNames"] == {"#a": "a"}


def test_delete_check_and_another_table() -> None:
    """Each action goes to its own table, the record to the outbox's."""
    world = World()
    with world.outbox.transaction() as tx:
        tx.delete(KEY, condition="attribute_exists(#a)", names={"#a": "a"}, table="archive")
        tx.check({"pk": "CUSTOMER#1", "sk": "META"}, condition=Attr("blocked").ne(True), table="customers")
        tx.emit("order.deleted", {})
    delete, check, record = world.sent()
    assert delete["Delete"]["TableName"] == "archive"
    assert check["ConditionCheck"]["TableName"] == "customers"
    assert record["Put"]["TableName"] == "shop"
    assert record["Put"]["Item"]["key"] == {"S": "ORDER#1"}


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda tx: tx.put(ITEM), UnconditionalPut),
        (lambda tx: tx.put({"pk": "A"}, if_absent=True), InvalidAction),
        (lambda tx: tx.put({"pk": "A", "sk": "OUTBOX#1"}, if_absent=True), ReservedName),
        (lambda tx: tx.put({**ITEM, "x": 1.5}, if_absent=True), InvalidValue),
        (lambda tx: tx.put(ITEM, if_version=1), InvalidAction),
        (lambda tx: tx.put(ITEM, condition={"a": 1}), InvalidAction),
        (lambda tx: tx.put(ITEM, condition=" "), InvalidAction),
        (lambda tx: tx.put(ITEM, if_absent=True, names={"#a": "a"}), InvalidAction),
        (lambda tx: tx.put(ITEM, condition="#a = b"), InvalidAction),
        (lambda tx: tx.update(KEY), InvalidAction),
        (lambda tx: tx.update(ITEM, set={"a": 1}), InvalidAction),
        (lambda tx: tx.update(KEY, set={"a": 1}, expression="SET b = c"), InvalidAction),
        (lambda tx: tx.update(KEY, remove="a"), InvalidAction),
        (lambda tx: tx.update(KEY, remove=("a", "b")), InvalidAction),
        (lambda tx: tx.check(KEY), InvalidAction),
        (lambda tx: tx.delete(KEY, if_absent=True), InvalidAction),
        (lambda tx: tx.emit("", {}), InvalidEvent),
        (lambda tx: tx.emit("t", {"x": 1.5}), InvalidValue),
    ],
)
def test_a_mistake_is_raised_where_it_is_made(action: Any, error: type[OutboxError]) -> None:
    """The line with the mistake raises; nothing of it is in the transaction, which can go on."""
    world = World()
    with world.outbox.transaction() as tx:
        with pytest.raises(error):
            action(tx)
        tx.put(ITEM, if_absent=True)
    assert len(world.sent()) == 1


def test_two_actions_on_one_item() -> None:
    """The second is refused, whatever its kind."""
    world = World()
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    with pytest.raises(DuplicateAction):
        tx.update(KEY, set={"a": 1})


def test_the_version_may_not_be_changed_by_hand_when_it_is_counted() -> None:
    """Under if_version the attribute is the library's; without it the caller's."""
    tx = World(layout=Layout(version="version")).outbox.transaction()
    with pytest.raises(InvalidAction, match="counted"):
        tx.update(KEY, set={"version": 9}, if_version=1)
    tx.update(KEY, add={"version": 1}, remove=["x"])


def test_several_partitions_without_a_key() -> None:
    """Found at the commit, before anything is sent."""
    world = World()
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    tx.put({"pk": "ORDER#2", "sk": "META"}, if_absent=True)
    tx.emit("order.placed", {})
    with pytest.raises(AmbiguousKey):
        tx.commit()
    assert world.client.requests == []


def test_an_events_time_and_id() -> None:
    """The time is that of the emit, by the outbox's clock, unless given; ids are UUIDs of version 7."""
    world = World()
    tx = world.outbox.transaction()
    now = tx.emit("t", {}, key="K")
    then = tx.emit("t", {}, key="K", time=datetime(2020, 1, 1, tzinfo=timezone.utc), subject="s", attributes={"a": "b"})
    assert now.time == datetime.fromtimestamp(START_MS / 1000, timezone.utc)
    assert then.time.year == 2020
    assert (then.subject, then.attributes, then.key) == ("s", {"a": "b"}, "K")
    assert now.id[14] == "7"
    assert now.id != then.id


def test_the_largest_event() -> None:
    """max_event_bytes is checked at the commit."""
    world = World(max_event_bytes=300)
    with pytest.raises(LimitExceeded), world.outbox.transaction() as tx:
        tx.emit("t", "x" * 300, key="K")
    assert world.client.requests == []


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_command_has_a_guard() -> None:
    """The guard is in the same request, kept for the layout's guard_for, in epoch seconds."""
    world = World(layout=Layout(guard_for=timedelta(days=2)))
    with world.outbox.transaction(idempotency_key="request-1") as tx:
        tx.put(ITEM, if_absent=True)
    guard = world.sent()[-1]["Put"]["Item"]
    assert guard["pk"]["S"].startswith("IDEMP#")
    assert "request-1" not in str(guard)
    assert guard["expires_at"] == {"N": str(START_MS // 1000 + 2 * 86_400)}


def test_a_guard_of_ones_own() -> None:
    """An inbox takes the guard's key as it is, and may write the guard alone."""
    world = World()
    with world.outbox._transaction_under("INBOX#c#s#1", fingerprint="1", keep=timedelta(days=1)):
        pass
    (guard,) = world.sent()
    assert guard["Put"]["Item"]["pk"] == {"S": "INBOX#c#s#1"}
    with pytest.raises(LimitExceeded):
        world.outbox._transaction_under("x" * 2049, fingerprint="1", keep=timedelta(days=1))


@pytest.mark.parametrize(
    "arguments",
    [
        {"idempotency_key": ""},
        {"idempotency_key": 5},
        {"fingerprint": "x"},
        {"idempotency_key": "k", "fingerprint": ""},
    ],
)
def test_malformed_commands(arguments: dict[str, Any]) -> None:
    """An empty or missing key is refused: it would guard nothing."""
    with pytest.raises(InvalidAction):
        World().outbox.transaction(**arguments)


def test_a_command_that_ran_is_replayed() -> None:
    """Its guard is in the table: the first receipt comes back, and the ids of this run are forgotten."""
    first = World()
    with first.outbox.transaction(idempotency_key="k") as tx:
        tx.put(ITEM, if_absent=True)
        tx.emit("order.placed", {})
    guard = first.sent()[-1]["Put"]["Item"]
    second = World(cancelled("ConditionalCheckFailed", "None", "ConditionalCheckFailed"))
    second.clock.pass_ms(1_000)
    second.client.items = [guard]
    with second.outbox.transaction(idempotency_key="k") as repeated:
        repeated.put(ITEM, if_absent=True)
        repeated.emit("order.placed", {})
    assert second.client.reads[0]["ConsistentRead"] is True
    assert repeated.receipt == Receipt(tx.receipt.event_ids, {}, True, "guard")


# --- construction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"table": ""},
        {"source": ""},
        {"source": "x" * 257},
        {"source": "aws.orders"},
        {"max_event_bytes": 0},
        {"max_event_bytes": 1024 * 1024},
        {"commit_within": timedelta(0)},
    ],
)
def test_an_outbox_that_cannot_work(arguments: dict[str, Any]) -> None:
    """Arguments that cannot work are refused at once."""
    with pytest.raises(ConfigurationError):
        Outbox(**({"table": "shop", "source": "shop.orders"} | arguments))


def test_an_outbox_is_made_without_a_client() -> None:
    """Nothing is connected, looked up or read from the environment before the first use."""
    outbox = Outbox("shop", source="shop.orders")
    assert isinstance(outbox.transaction(), Transaction)


def test_a_permanent_error() -> None:
    """What DynamoDB refuses is raised with its text, at once."""
    error = ClientError(
        {
            "Error": {"Code": "ResourceNotFoundException", "Message": "no such table"},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        },
        "TransactWriteItems",
    )
    world = World(error)
    with pytest.raises(CommitFailed, match="no such table"), world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
    assert len(world.client.requests) == 1
