"""Actions as a whole: what is sent, how large it counts, what of it a fingerprint sees; and their own errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dynamodb_outbox.core.commit.actions import Action, check, delete, put, update
from dynamodb_outbox.core.commit.conditions import Requirement
from dynamodb_outbox.core.commit.expressions import Expression
from dynamodb_outbox.core.commit.numbering import Ties, check_dense
from dynamodb_outbox.core.commit.plan import Draft, check_limits
from dynamodb_outbox.core.commit.targets import Tables, target_of
from dynamodb_outbox.core.limits import ITEM_BYTES, ITEM_HEADROOM_BYTES
from dynamodb_outbox.errors import DuplicateAction, InvalidAction, ItemTooLarge, TransactionTooLarge
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = Layout()
VERSIONED = Layout(version="version")
DENSE = Layout(version="version", dense_versions=True)
SELECT = Layout(select={"kind": "event"})
KEY: dict[str, Any] = {"pk": "ORDER#1", "sk": "META"}
WIRE: dict[str, Any] = {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}}
KEY_BYTES = 4 + 7 + 4
TARGET = target_of("put", "shop", KEY, Tables("shop", "shop", PLAIN))
LABEL = "put shop {'pk': 'ORDER#1', 'sk': 'META'}"
CHANGES = Expression("SET a = :a", {"#x": "x"}, {":a": {"S": "four"}})
CONDITION = Expression("b = :b", {"#y": "y"}, {":b": {"S": "seven.."}})
OWN = (
    " is an attribute of the library's own: an item that has it would be taken for an outbox record. Use another name."
)
VERSION_4: dict[str, Any] = {"#ob_version": "version"}


def test_a_put_as_a_whole() -> None:
    """With its version, which its fingerprint does not see, and the old item asked for."""
    required = Requirement(if_version=3)
    made = put(TARGET, KEY | {"n": 1}, required, VERSIONED)
    condition = {
        "ConditionExpression": "#ob_version = :ob_version",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": VERSION_4,
    }
    values = {"ExpressionAttributeValues": {":ob_version": {"N": "3"}}}
    table = {"TableName": "shop"}
    item = WIRE | {"n": {"N": "1"}}
    assert made == Action(
        "Put",
        TARGET,
        table | {"Item": item | {"version": {"N": "4"}}} | condition | values,
        KEY_BYTES + 1 + 2 + 7 + 2,
        4,
        4,
        table | {"Item": item} | condition | {"ExpressionAttributeValues": {}},
        required,
    )
    assert made.writes
    plain = put(TARGET, KEY, Requirement(), PLAIN, overwrite=True)
    assert plain == Action("Put", TARGET, table | {"Item": WIRE}, KEY_BYTES)
    first = put(TARGET, KEY, Requirement(if_absent=True), VERSIONED)
    assert (first.version, first.number, first.body["Item"]["version"]) == (1, 1, {"N": "1"})


def test_an_update_as_a_whole() -> None:
    """Names and values of both expressions; sized by its key and by what is sent."""
    required = Requirement(condition=CONDITION, if_version=3)
    made = update(TARGET, CHANGES, required, VERSIONED)
    body = {
        "TableName": "shop",
        "Key": WIRE,
        "UpdateExpression": "SET #ob_version = :ob_next, a = :a",
        "ConditionExpression": "#ob_version = :ob_version AND (b = :b)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {"#x": "x", "#ob_version": "version", "#y": "y"},
        "ExpressionAttributeValues": {
            ":a": {"S": "four"},
            ":ob_next": {"N": "4"},
            ":ob_version": {"N": "3"},
            ":b": {"S": "seven.."},
        },
    }
    content = body | {"ExpressionAttributeValues": {":a": {"S": "four"}, ":b": {"S": "seven.."}}}
    assert made == Action("Update", TARGET, body, KEY_BYTES + 4 + 2 + 2 + 7, 4, 4, content, required)
    first = update(TARGET, CHANGES, Requirement(if_absent=True), VERSIONED)
    assert (first.version, first.number) == (1, 1)
    assert first.body["ExpressionAttributeNames"] == {"#x": "x", "#ob_version": "version", "#ob_pk": "pk"}
    assert update(TARGET, CHANGES, Requirement(if_exists=True), VERSIONED).content is None
    assert update(TARGET, None, Requirement(if_version=3), VERSIONED).body["UpdateExpression"] == (
        "SET #ob_version = :ob_next"
    )


def test_a_delete_as_a_whole() -> None:
    """It writes no version, and its events have the number after the one that it deletes."""
    required = Requirement(if_version=3, condition=CONDITION)
    made = delete(TARGET, required, VERSIONED)
    body = {
        "TableName": "shop",
        "Key": WIRE,
        "ConditionExpression": "#ob_version = :ob_version AND (b = :b)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {"#ob_version": "version", "#y": "y"},
        "ExpressionAttributeValues": {":ob_version": {"N": "3"}, ":b": {"S": "seven.."}},
    }
    content = body | {"ExpressionAttributeValues": {":b": {"S": "seven.."}}}
    assert made == Action("Delete", TARGET, body, KEY_BYTES + 2 + 7, None, 4, content, required)
    plain = delete(TARGET, Requirement(), PLAIN)
    assert plain == Action("Delete", TARGET, {"TableName": "shop", "Key": WIRE}, KEY_BYTES)


def test_a_check_as_a_whole() -> None:
    """It writes nothing."""
    required = Requirement(condition=CONDITION)
    made = check(TARGET, required, PLAIN)
    body = {
        "TableName": "shop",
        "Key": WIRE,
        "ConditionExpression": "b = :b",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ExpressionAttributeNames": {"#y": "y"},
        "ExpressionAttributeValues": {":b": {"S": "seven.."}},
    }
    assert made == Action("ConditionCheck", TARGET, body, KEY_BYTES + 7, requirement=required)
    assert not made.writes
    versioned = check(TARGET, Requirement(if_version=3), VERSIONED)
    assert versioned.content is not None
    assert versioned.content["ExpressionAttributeValues"] == {}
    assert (versioned.version, versioned.number) == (None, None)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            lambda: put(TARGET, KEY, Requirement(if_exists=True), PLAIN, overwrite=True),
            "overwrite=True says that nothing is required, and a condition was given.",
        ),
        (
            lambda: put(TARGET, KEY | {"ob_v": 1, "ob_pending": 1}, Requirement(if_exists=True), PLAIN),
            "'ob_pending' and 'ob_v'" + OWN,
        ),
        (
            lambda: update(TARGET, Expression("SET ob_v = :a"), Requirement(), PLAIN),
            "'ob_v'" + OWN,
        ),
        (
            lambda: put(TARGET, KEY | {"version": 9}, Requirement(if_version=3), VERSIONED),
            "the item says version=9, and 4 would be written over it. Leave 'version' out.",
        ),
        (
            lambda: put(TARGET, KEY | {"version": 9}, Requirement(if_exists=True), DENSE),
            (
                "it sets 'version' by hand, and Layout(dense_versions=True) promises that no version is without an "
                "event. Use if_version= or if_absent=, which count."
            ),
        ),
        (
            lambda: put(TARGET, KEY | {"kind": "event"}, Requirement(if_exists=True), SELECT),
            (
                "by Layout(select={'kind': 'event'}) this item would be taken for an outbox record, and published. "
                "Give it other values there, keep it in another table, or tell records by something that only they "
                "have."
            ),
        ),
        (
            lambda: update(TARGET, None, Requirement(if_exists=True), PLAIN),
            "it changes nothing; give set=, remove=, add=, delete= or expression=.",
        ),
        (
            lambda: delete(TARGET, Requirement(if_absent=True), PLAIN),
            "if_absent=True: there would be nothing to delete; use check().",
        ),
        (
            lambda: check(TARGET, Requirement(), PLAIN),
            "a check without a condition checks nothing; say what must hold.",
        ),
        *(
            (partial_call, "if_version= needs Layout(version=...), the name of the attribute that counts.")
            for partial_call in (
                lambda: put(TARGET, KEY, Requirement(if_version=3), PLAIN),
                lambda: update(TARGET, CHANGES, Requirement(if_version=3), PLAIN),
                lambda: delete(TARGET, Requirement(if_version=3), PLAIN),
                lambda: check(TARGET, Requirement(if_version=3), PLAIN),
            )
        ),
        (
            lambda: check(TARGET, Requirement(if_absent=True, if_exists=True), PLAIN),
            "if_absent=True and if_exists=True cannot both hold.",
        ),
        (
            lambda: check(TARGET, Requirement(if_absent=True, if_version=1), VERSIONED),
            "if_absent=True and if_version= cannot both hold.",
        ),
    ],
)
def test_what_an_action_cannot_do_is_told_by_its_name(call: Callable[[], object], reason: str) -> None:
    """With a way out."""
    with pytest.raises(InvalidAction) as caught:
        call()
    assert (caught.value.action, caught.value.reason) == (LABEL, reason)


def test_an_item_is_held_to_its_limit_exactly() -> None:
    """400 KB less the head-room."""
    free = ITEM_BYTES - ITEM_HEADROOM_BYTES - KEY_BYTES - 1
    put(TARGET, KEY | {"x": "x" * free}, Requirement(if_absent=True), PLAIN)
    with pytest.raises(ItemTooLarge) as caught:
        put(TARGET, KEY | {"x": "x" * (free + 1)}, Requirement(if_absent=True), PLAIN)
    assert str(caught.value) == (
        f"{LABEL}: 407,553 bytes, 1 over the limit of 407,552. DynamoDB stores 400 KB an item, of which 2 KB are kept "
        "free. Store less, or split the item."
    )


def test_a_transaction_is_held_to_its_limits_exactly() -> None:
    """100 actions, 4 MB; the largest action is named."""
    one = Action("Put", TARGET, {}, 10)
    check_limits([one] * 100)
    with pytest.raises(TransactionTooLarge) as caught:
        check_limits([one] * 101)
    assert str(caught.value) == (
        "transaction: 101 actions, 1 over the limit of 100. Each ordering key with events and an idempotency key take "
        "one of them. Split the transaction."
    )
    most = 4 * 1024 * 1024
    check_limits([one, Action("Put", TARGET, {}, most - 10)])
    with pytest.raises(TransactionTooLarge) as caught:
        check_limits([one, Action("Put", TARGET, {}, most - 9)])
    assert str(caught.value) == (
        f"transaction: {most + 1:,} bytes, 1 over the limit of {most:,}. The largest action is {LABEL} with "
        f"{most - 9:,} bytes."
    )


def test_two_actions_on_one_item_are_told_by_both_names() -> None:
    """Whatever they are."""
    draft = Draft()
    draft.add(put(TARGET, KEY, Requirement(if_absent=True), PLAIN))
    other = target_of("check", "shop", KEY, Tables("shop", "shop", PLAIN))
    with pytest.raises(DuplicateAction) as caught:
        draft.add(check(other, Requirement(if_exists=True), PLAIN))
    assert LABEL in str(caught.value)
    assert other.label in str(caught.value)
    draft.add(
        check(target_of("check", "other", KEY, Tables("shop", "shop", PLAIN)), Requirement(if_exists=True), PLAIN)
    )
    assert len(draft.actions) == 2


def test_an_update_cannot_make_a_record_by_its_key() -> None:
    """Where `select` tells records by a key attribute, the key is enough; an update of what is there makes nothing."""
    by_key = Layout(select={"sk": {"prefix": "META"}})
    with pytest.raises(InvalidAction, match="would be taken for an outbox record") as caught:
        update(TARGET, CHANGES, Requirement(), by_key)
    assert caught.value.action == LABEL
    update(TARGET, CHANGES, Requirement(if_exists=True), by_key)
    update(TARGET, CHANGES, Requirement(), Layout(select={"sk": {"prefix": "OTHER"}}))


def test_a_version_without_an_event_is_told_by_its_action() -> None:
    """Under dense_versions, with what to do."""
    action = put(TARGET, KEY, Requirement(if_absent=True), DENSE)
    with pytest.raises(InvalidAction) as caught:
        check_dense([action], Ties([action], "shop"))
    reason = (
        "it writes version 1 and no event tells of it, which Layout(dense_versions=True) promises. Emit an event of "
        "its partition in the same transaction, and write one versioned item of a partition at a time."
    )
    assert (caught.value.action, caught.value.reason) == (LABEL, reason)
