"""What errors say: which condition did not hold, and the value at fault, whatever that value is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from boto3.dynamodb.conditions import Attr
from botocore.exceptions import ClientError
from write_scripted import ITEM, KEY, World

from dynamodb_outbox import ClaimCheck, Inbox, Keys, Layout, Outbox
from dynamodb_outbox.arguments import shown
from dynamodb_outbox.errors import (
    ConditionFailed,
    ConfigurationError,
    InvalidAction,
    InvalidEvent,
    InvalidValue,
    MissingKey,
    OutboxError,
)
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Transaction

VERSIONED = Layout(version="version")


# --- which condition --------------------------------------------------------------------------------------------------


def refused(item: dict[str, Any] | None, *, message: str = "The conditional request failed") -> ClientError:
    """Return boto3's error for a condition of the first action that did not hold for this item."""
    reason: dict[str, Any] = {"Code": "ConditionalCheckFailed", "Message": message}
    if item is not None:
        reason["Item"] = item
    return ClientError(
        {
            "Error": {"Code": "TransactionCanceledException", "Message": "cancelled"},
            "CancellationReasons": [reason, {"Code": "None"}],
            "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 0},
        },
        "TransactWriteItems",
    )


SECOND = {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}, "version": {"N": "2"}}
UNCOUNTED = {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}}


@pytest.mark.parametrize(
    ("action", "item", "said"),
    [
        (lambda tx: tx.put(ITEM, if_absent=True), SECOND, "it exists already"),
        (lambda tx: tx.put(ITEM, if_version=1), SECOND, "version is 2, if_version=1"),
        (lambda tx: tx.put(ITEM, if_version=1), UNCOUNTED, "has no version, if_version=1"),
        (lambda tx: tx.put(ITEM, if_version=1), None, "it is not there"),
        (lambda tx: tx.update(KEY, set={"n": 1}, if_exists=True), None, "it is not there"),
        (lambda tx: tx.delete(KEY, if_version=1), SECOND, "version is 2, if_version=1"),
        (lambda tx: tx.delete(KEY, if_version=2, condition="attribute_exists(a)"), SECOND, "condition= does not hold"),
        (lambda tx: tx.check(KEY, condition="attribute_exists(a)"), None, ""),
        (lambda tx: tx.check(KEY, if_exists=True, condition="attribute_exists(a)"), SECOND, "condition= does not hold"),
    ],
)
def test_the_condition_that_did_not_hold_is_named(action: Callable[[Transaction], None], item: Any, said: str) -> None:
    """From the item that was there, which the error has too; its message says it in DynamoDB's words where not."""
    world = World(refused(item), layout=VERSIONED)
    tx = world.outbox.transaction()
    action(tx)
    with pytest.raises(ConditionFailed) as caught:
        tx.commit()
    (failure,) = caught.value.failures
    assert failure.unmet == said
    assert f"ConditionalCheckFailed: {said or 'The conditional request failed'}. " in str(caught.value)


def test_nothing_is_concluded_from_an_item_that_was_not_told() -> None:
    """An answer without its details, as older clients give it, has no items: that none came proves nothing."""
    tx = World(refused(None, message=""), layout=VERSIONED).outbox.transaction()
    tx.put(ITEM, if_version=1)
    with pytest.raises(ConditionFailed) as caught:
        tx.commit()
    assert caught.value.failures[0].unmet == ""


def test_an_item_without_a_version_gets_one(engine: Account) -> None:
    """The recipe of `put`: overwriting loses the version, `if_version` says so, the update gives it a first one."""
    client = engine.client("dynamodb")
    client.create_table(
        TableName="shop",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
    )
    outbox = Outbox("shop", source="s", layout=VERSIONED, client=client)
    with outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
    with outbox.transaction() as tx:
        tx.put(ITEM, overwrite=True)
    for wrong in (0, 1):
        tx = outbox.transaction()
        tx.update(KEY, set={"n": 1}, if_version=wrong)
        with pytest.raises(ConditionFailed, match=f"has no version, if_version={wrong}"):
            tx.commit()
    for refuses in (False, True):
        tx = outbox.transaction()
        tx.update(KEY, set={"version": 1}, if_exists=True, condition="attribute_not_exists(version)")
        if refuses:
            with pytest.raises(ConditionFailed, match="condition= does not hold"):
                tx.commit()
        else:
            tx.commit()
    with outbox.transaction() as tx:
        tx.update(KEY, set={"n": 1}, if_version=1)
    assert tx.receipt.versions == {("shop", "ORDER#1", "META"): 2}


# --- which value ------------------------------------------------------------------------------------------------------


class Unwilling:
    """A value whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


HUGE = 10**5000
"""More digits than Python turns into text."""


def test_what_is_shown_of_a_value() -> None:
    """Its repr, the beginning of a long one, its type where there is none."""
    assert shown({"a": 1}) == "{'a': 1}"
    assert shown("x" * 500) == f"'{'x' * 199}..."
    assert shown(HUGE) == "a value of type int"
    assert shown([Unwilling()]) == "a value of type list"


ACTIONS: dict[str, Callable[[Transaction, Any], object]] = {
    "item": lambda tx, bad: tx.put(bad, if_absent=True),
    "a key": lambda tx, bad: tx.put({**ITEM, "pk": bad}, if_absent=True),
    "a key of another table": lambda tx, bad: tx.put({"n": bad}, if_absent=True, table="numbers"),
    "an attribute": lambda tx, bad: tx.put({**ITEM, "a": bad}, if_absent=True),
    "a name": lambda tx, bad: tx.put({**ITEM, bad: 1}, if_absent=True),
    "a name inside": lambda tx, bad: tx.put({**ITEM, "a": {bad: 1}}, if_absent=True),
    "a set": lambda tx, bad: tx.put({**ITEM, "a": {bad}}, if_absent=True),
    "the version": lambda tx, bad: tx.put({**ITEM, "version": [bad]}, if_absent=True),
    "overwrite": lambda tx, bad: tx.put(ITEM, overwrite=bad),
    "table": lambda tx, bad: tx.put(ITEM, if_absent=True, table=bad),
    "more than a key": lambda tx, bad: tx.delete({**KEY, bad: 1}),
    "if_version": lambda tx, bad: tx.delete(KEY, if_version=bad),
    "set": lambda tx, bad: tx.update(KEY, set=bad),
    "set's name": lambda tx, bad: tx.update(KEY, set={bad: 1}),
    "set's value": lambda tx, bad: tx.update(KEY, set={"a": {bad}}),
    "add": lambda tx, bad: tx.update(KEY, add={"a": [bad]}),
    "remove": lambda tx, bad: tx.update(KEY, remove=bad),
    "remove's name": lambda tx, bad: tx.update(KEY, remove=[bad]),
    "remove's position": lambda tx, bad: tx.update(KEY, remove=[("a", bad)]),
    "expression": lambda tx, bad: tx.update(KEY, expression=bad),
    "names": lambda tx, bad: tx.update(KEY, expression="SET #a = :b", names={bad: "x"}),
    "values": lambda tx, bad: tx.update(KEY, expression="SET a = :b", values={":b": {bad}}),
    "condition": lambda tx, bad: tx.check(KEY, condition=bad),
    "type": lambda tx, bad: tx.emit(bad, {}),
    "data": lambda tx, bad: tx.emit("t", {"a": bad}),
    "data's name": lambda tx, bad: tx.emit("t", {bad: 1}),
    "key": lambda tx, bad: tx.emit("t", {}, key=bad),
    "subject": lambda tx, bad: tx.emit("t", {}, subject=bad),
    "time": lambda tx, bad: tx.emit("t", {}, time=bad),
    "attributes": lambda tx, bad: tx.emit("t", {}, attributes=bad),
    "attributes' name": lambda tx, bad: tx.emit("t", {}, attributes={bad: "x"}),
    "attributes' value": lambda tx, bad: tx.emit("t", {}, attributes={"a": bad}),
}


@pytest.mark.parametrize("bad", [HUGE, Unwilling()], ids=["huge", "unwilling"])
@pytest.mark.parametrize("act", ACTIONS.values(), ids=list(ACTIONS))
def test_a_mistake_in_an_action_is_an_error_of_this_library(
    act: Callable[[Transaction, Any], object], bad: Any
) -> None:
    """Whatever the value at fault is: the error about it does not die of showing it."""
    tx = World(layout=VERSIONED, tables={"numbers": Keys("n", None, "N")}).outbox.transaction()
    with pytest.raises(OutboxError):
        act(tx, bad)


SETTINGS: dict[str, Callable[[Any], object]] = {
    "table": lambda bad: Outbox(bad, source="s"),
    "layout": lambda bad: Outbox("shop", source="s", layout=bad),
    "source": lambda bad: Outbox("shop", source=bad),
    "outbox_table": lambda bad: Outbox("shop", source="s", outbox_table=bad),
    "outbox_table of a layout": lambda bad: Outbox(
        "shop", source="s", outbox_table=bad, layout=Layout(placement="table")
    ),
    "tables": lambda bad: Outbox("shop", source="s", tables=bad),
    "tables' keys": lambda bad: Outbox("shop", source="s", tables={"a": bad}),
    "client": lambda bad: Outbox("shop", source="s", client=bad),
    "claim_check": lambda bad: Outbox("shop", source="s", claim_check=bad),
    "compression": lambda bad: Outbox("shop", source="s", compression=bad),
    "max_event_bytes": lambda bad: Outbox("shop", source="s", max_event_bytes=bad),
    "commit_within": lambda bad: Outbox("shop", source="s", commit_within=bad),
    "clock": lambda bad: Outbox("shop", source="s", clock=bad),
    "entropy": lambda bad: Outbox("shop", source="s", entropy=bad),
    "style": lambda bad: World().outbox.records([], style=bad),
    "events": World().outbox.records,
    "an event": lambda bad: World().outbox.records([bad]),
    "idempotency_key": lambda bad: World().outbox.transaction(idempotency_key=bad),
    "consumer": lambda bad: Inbox("shop", consumer=bad),
    "Inbox's claim_check": lambda bad: Inbox("shop", consumer="c", claim_check=bad),
    "on": lambda bad: Inbox("shop", consumer="c").on(bad),
    "a function": lambda bad: Inbox("shop", consumer="c").consumer(bad),
    "bucket": ClaimCheck,
    "Keys": Keys,
    "Keys' type": lambda bad: Keys("a", None, bad),
    "placement": lambda bad: Layout(placement=bad),
    "columns": lambda bad: Layout(columns={bad: "x"}),
    "columns' value": lambda bad: Layout(columns={"type": bad}),
    "select": lambda bad: Layout(select={"a": {bad: "x"}}),
    "version_start": lambda bad: Layout(version="v", version_start=bad),
    "Event's time": lambda bad: made(time=bad),
    "Event's attributes": lambda bad: made(attributes=bad),
    "Event's attributes in a list": lambda bad: made(attributes=[bad]),
    "a type of records()": lambda bad: World().outbox.records([made(type=bad)]),
    "an id of records()": lambda bad: World().outbox.records([made(id=bad)]),
    "a source of records()": lambda bad: World().outbox.records([made(source=bad)]),
    "a payload of records()": lambda bad: World().outbox.records([made(payload=bad)]),
    "a sequence of records()": lambda bad: World().outbox.records([made(sequence=bad)]),
    "an attribute of records()": lambda bad: World().outbox.records([made(attributes={"a": bad})]),
}


def made(**fields: Any) -> Event:
    """Return an event as its own class makes it."""
    event = World().outbox.event("t", {}, key="K")
    given: dict[str, Any] = {"payload": "{}", "key": "K"} | fields
    return Event(**{"id": event.id, "type": "t", "source": "s", "time": event.time, **given})


@pytest.mark.parametrize("attributes", [5, ["ab"], "ab", ("a", "b"), True])
def test_an_events_attributes_are_a_mapping(attributes: Any) -> None:
    """A list of texts of two characters is none, though Python would make a dict of it."""
    with pytest.raises(InvalidEvent, match="a dict is needed") as caught:
        made(attributes=attributes)
    assert caught.value.field == "attributes"
    nothing: Any = None
    assert made(attributes=nothing).attributes == {}


class UnwillingText(str):
    """Text of a class that cannot show itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "act",
    [
        lambda tx, text: tx.put({**ITEM, text("\ud800"): 1}, if_absent=True),
        lambda tx, text: tx.emit("t", {}, attributes={text("A"): "x"}),
        lambda tx, text: tx.emit("t", {}, attributes={text("id"): "x"}),
        lambda tx, text: tx.emit("t", {}, attributes={text("a"): 5}),
        lambda tx, text: tx.emit("t", {}, attributes={text("a"): ""}),
        lambda tx, text: tx.update(KEY, expression="SET #a = :b", names={text("#ob_a"): "x"}),
        lambda tx, text: tx.update(KEY, expression="SET #a = :b", names={text("#a"): ""}),
        lambda tx, text: tx.update(KEY, expression="SET a = :b", values={text(":b"): 1.5}),
        lambda _, text: Layout(columns={text("type"): ""}),
        lambda _, text: Layout(columns={text("typo"): "x"}),
    ],
)
def test_a_name_that_cannot_show_itself_is_no_error_of_its_own(act: Callable[[Any, Any], object]) -> None:
    """Text too may be of a class of the caller's."""
    with pytest.raises(OutboxError):
        act(World().outbox.transaction(), UnwillingText)


@pytest.mark.parametrize("bad", [HUGE, Unwilling()], ids=["huge", "unwilling"])
@pytest.mark.parametrize("make", SETTINGS.values(), ids=list(SETTINGS))
def test_a_mistake_in_a_setting_is_an_error_of_this_library(make: Callable[[Any], object], bad: Any) -> None:
    """The same of constructors, and of what an outbox and an inbox are asked for."""
    with pytest.raises(OutboxError):
        make(bad)


@pytest.mark.parametrize("argument", ["clock", "entropy"])
def test_a_clock_and_entropy_have_their_methods(argument: str) -> None:
    """Refused when the outbox is made and not when it first asks them; a class is no object of it."""
    for wrong in (5, 0, object(), World().clock.__class__):
        given: dict[str, Any] = {argument: wrong}
        with pytest.raises(ConfigurationError, match=argument):
            Outbox("shop", source="s", **given)


def test_an_event_without_a_key_is_made_with_one() -> None:
    """Outside of a transaction nothing is written that could give it one, and there is no `emit` to give it to."""
    outbox = World().outbox
    made = outbox.event("t", {}, key="K")
    bare = Event(id=made.id, type=made.type, source=made.source, payload="{}", time=made.time)
    with pytest.raises(MissingKey, match=r"outbox\.event\(\.\.\., key=\.\.\.\)"):
        outbox.records([bare])


# --- names of attributes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a" * 65_536, "é" * 32_768])
def test_a_name_that_no_attribute_can_have(name: str) -> None:
    """Empty, or longer than 65,535 bytes: refused at the line that gives it, with the path."""
    with pytest.raises(InvalidValue) as caught:
        World().outbox.transaction().put({**ITEM, name: 1}, if_absent=True)
    assert caught.value.path.startswith("item")


@pytest.mark.parametrize("name", ["a", "a" * 65_535, "é" * 32_767])
def test_names_up_to_the_limit(name: str) -> None:
    """As long as DynamoDB takes them."""
    tx = World().outbox.transaction()
    tx.put({**ITEM, name: 1}, if_absent=True)
    tx.update({"pk": "B", "sk": "B"}, set={("m", name): 1}, if_exists=True)
    tx.update({"pk": "C", "sk": "C"}, expression="SET #a = :a", names={"#a": name}, values={":a": 1}, if_exists=True)
    tx.check({"pk": "D", "sk": "D"}, condition=Attr(name).exists())


@pytest.mark.parametrize("name", ["a" * 65_536, "é" * 32_768])
@pytest.mark.parametrize(
    "act",
    [
        lambda tx, name: tx.update(KEY, set={name: 1}),
        lambda tx, name: tx.update(KEY, remove=[("m", name)]),
        lambda tx, name: tx.update(KEY, expression="SET #a = :a", names={"#a": name}, values={":a": 1}),
        lambda tx, name: tx.check(KEY, condition="attribute_exists(#a)", names={"#a": name}),
        lambda tx, name: tx.check(KEY, condition=Attr(f"m.{name}[0]").exists()),
    ],
    ids=["set", "remove", "names of an expression", "names of a condition", "a condition of boto3"],
)
def test_a_name_that_is_too_long_for_an_expression(act: Callable[[Any, str], object], name: str) -> None:
    """As in a put; DynamoDB would refuse the whole request and not say which name."""
    with pytest.raises(InvalidAction, match=r"65,535 are the most"):
        act(World().outbox.transaction(), name)
