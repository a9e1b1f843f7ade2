"""The simulated table: what DynamoDB does with what the library sends to it, and nothing that it does not know."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError
from stream_world import World, world

from dynamodb_outbox.adapters.dynamodb import DynamoStore
from dynamodb_outbox.core.commit.answers import Cancelled, Committed, Reason, Refused
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.testing.simulation import facts
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.expressions import condition_holds, updated
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.process import Process
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.table import TABLE, Table
from dynamodb_outbox.testing.simulation.writers import TableClient

KEY = {"pk": {"S": "A"}, "sk": {"S": "META"}}
ITEM = {**KEY, "n": {"N": "1"}}
ABSENT = {"ConditionExpression": "attribute_not_exists(#pk)", "ExpressionAttributeNames": {"#pk": "pk"}}
ALL_OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def put(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a Put."""
    return {"Put": {"TableName": TABLE, "Item": item, **more}}


def transact(here: World, *members: dict[str, Any], token: str | None = None) -> int:
    """Commit a transaction now; return how often it was committed by that."""
    committed: list[int] = []
    request: dict[str, Any] = {"TransactItems": list(members)}
    if token is not None:
        request["ClientRequestToken"] = token
    here.table.transact_write_items(request, by="test", when_committed=partial(committed.append, 1))
    return len(committed)


def error_of(call: Any) -> dict[str, Any]:
    """Return the answer with which a call is refused."""
    with pytest.raises(ClientError) as refused:
        call()
    response: dict[str, Any] = refused.value.response
    return response


def test_a_transaction_writes_all_or_nothing() -> None:
    """One condition that fails leaves every item alone; the reasons are in the order of the members."""
    with world() as here:
        here.write("A")
        other = {"pk": {"S": "B"}, "sk": {"S": "META"}}
        said = error_of(lambda: transact(here, put(other), put(ITEM, **ABSENT, **ALL_OLD)))
        assert said["Error"]["Code"] == "TransactionCanceledException"
        assert said["Error"]["Message"].endswith("[None, ConditionalCheckFailed]")
        assert [reason["Code"] for reason in said["CancellationReasons"]] == ["None", "ConditionalCheckFailed"]
        assert said["CancellationReasons"][1]["Item"] == ITEM
        assert list(here.table.items) == [("A", "META")]


def test_the_old_item_is_returned_only_to_who_asks_for_it() -> None:
    """Without ALL_OLD, and when there is no item, a failed condition says no more than that."""
    exists = {"ConditionExpression": "attribute_exists(pk)"}
    with world() as here:
        here.write("A")
        assert "Item" not in error_of(lambda: transact(here, put(ITEM, **ABSENT)))["CancellationReasons"][0]
        other = {"pk": {"S": "B"}, "sk": {"S": "META"}}
        said = error_of(lambda: transact(here, put(other, **exists, **ALL_OLD)))
        assert "Item" not in said["CancellationReasons"][0]


def test_each_kind_of_member_does_what_it_says() -> None:
    """Put, Update, Delete and ConditionCheck in one transaction; the check writes nothing."""
    with world() as here:
        here.write("A", "B", "C")
        key = {"sk": {"S": "META"}}
        change = {
            "Update": {
                "TableName": TABLE,
                "Key": {"pk": {"S": "A"}, **key},
                "UpdateExpression": "SET #n = :n",
                "ExpressionAttributeNames": {"#n": "n"},
                "ExpressionAttributeValues": {":n": {"N": "2"}},
            }
        }
        removal = {"Delete": {"TableName": TABLE, "Key": {"pk": {"S": "B"}, **key}}}
        check = {"ConditionCheck": {"TableName": TABLE, "Key": {"pk": {"S": "C"}, **key}, **ABSENT}}
        transact(here, change, removal, put({"pk": {"S": "D"}, **key}))
        assert here.table.items["A", "META"]["n"] == {"N": "2"}
        assert set(here.table.items) == {("A", "META"), ("C", "META"), ("D", "META")}
        error_of(lambda: transact(here, check))
        check["ConditionCheck"]["Key"] = {"pk": {"S": "E"}, **key}
        assert transact(here, check) == 1
        assert ("E", "META") not in here.table.items


def test_a_token_commits_once_for_ten_minutes() -> None:
    """The same request with its token is a success that changes nothing; after ten minutes it is a new request."""
    with world() as here:
        member = put(ITEM)
        assert transact(here, member, token="t") == 1
        here.kernel.run(10 * 60_000 - 1)
        assert transact(here, member, token="t") == 0
        here.kernel.run(10 * 60_000)
        assert transact(here, member, token="t") == 1


def test_a_token_belongs_to_one_request() -> None:
    """Another request under a token that was used is refused."""
    with world() as here:
        transact(here, put(ITEM), token="t")
        said = error_of(lambda: transact(here, put({**ITEM, "n": {"N": "2"}}), token="t"))
        assert said["Error"]["Code"] == "IdempotentParameterMismatchException"


def test_a_cancelled_transaction_leaves_its_token_free() -> None:
    """What was cancelled is evaluated anew when it is sent again."""
    with world() as here:
        here.write("A")
        error_of(lambda: transact(here, put(ITEM, **ABSENT), token="t"))
        here.table.write(("A", "META"), None, by="test")
        assert transact(here, put(ITEM, **ABSENT), token="t") == 1


@pytest.mark.parametrize(
    "members", [[], [put(ITEM), put(ITEM)], [put({**ITEM, "pk": {"S": str(i)}}) for i in range(101)]]
)
def test_a_transaction_has_1_to_100_members_on_different_items(members: list[dict[str, Any]]) -> None:
    """Anything else is refused as a whole."""
    with world() as here:
        assert error_of(lambda: transact(here, *members))["Error"]["Code"] == "ValidationException"


def test_another_table_does_not_exist() -> None:
    """A request that names another table is refused."""
    with world() as here:
        said = error_of(lambda: transact(here, {"Put": {"TableName": "other", "Item": ITEM}}))
        assert said["Error"]["Code"] == "ResourceNotFoundException"


def test_what_is_not_understood_is_loud() -> None:
    """A member of a request, a condition or an update that means something unknown is an error of the simulation."""
    with world() as here, pytest.raises(NotSimulated, match="ReturnConsumedCapacity"):
        transact(here, put(ITEM, ReturnConsumedCapacity="TOTAL"))


def test_single_writes_are_conditional_too() -> None:
    """PutItem, UpdateItem and DeleteItem answer a failed condition with the item, when it was asked for."""
    with world() as here:
        here.table.put_item({"TableName": TABLE, "Item": ITEM, **ABSENT}, by="test")
        said = error_of(lambda: here.table.put_item({"TableName": TABLE, "Item": ITEM, **ABSENT, **ALL_OLD}, by="x"))
        assert (said["Error"]["Code"], said["Item"]) == ("ConditionalCheckFailedException", ITEM)
        said = error_of(lambda: here.table.put_item({"TableName": TABLE, "Item": ITEM, **ABSENT}, by="x"))
        assert "Item" not in said
        add = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
        here.table.update_item({"TableName": TABLE, "Key": KEY, **add}, by="test")
        assert here.table.get_item(KEY) == {**KEY, "n": {"N": "2"}}
        here.table.delete_item({"TableName": TABLE, "Key": KEY}, by="test")
        assert here.table.get_item(KEY) is None


def test_an_update_of_nothing_makes_an_item() -> None:
    """As in DynamoDB, an update without a condition creates the item that is not there."""
    with world() as here:
        put_n = {"UpdateExpression": "SET n = :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}
        here.table.update_item({"TableName": TABLE, "Key": KEY, **put_n}, by="test")
        assert here.table.get_item(KEY) == ITEM


def test_each_change_makes_a_stream_record_and_no_change_makes_none() -> None:
    """INSERT, MODIFY and REMOVE, in order; the same item again, and the removal of nothing, are no changes."""
    with world() as here:
        here.write("A")
        here.write("A")
        here.write("A", n=2)
        here.table.write(("A", "META"), None, by="somebody")
        here.table.write(("A", "META"), None, by="somebody")
        written = here.noted(facts.Written)
        assert [(fact.kind, fact.item, fact.by) for fact in written] == [
            ("INSERT", ("A", "META"), "test"),
            ("MODIFY", ("A", "META"), "test"),
            ("REMOVE", ("A", "META"), "somebody"),
        ]


def test_ttl_deletes_only_what_has_expired() -> None:
    """The fault ttl_delete takes a record whose TTL has passed, and its stream record says that it was TTL."""
    faults = [PlannedFault("ttl_delete", at_ms) for at_ms in (1_000, 61_000, 62_000)]
    with world(1, faults) as here:
        expires = (1_769_860_800_000 + 60_000) // 1000
        record = {"pk": {"S": "A"}, "sk": {"S": "OUTBOX#1"}, "expires_at": {"N": str(expires)}}
        here.table.write(("A", "OUTBOX#1"), record, by="test")
        here.write("A")
        here.kernel.run(60_000)
        assert len(here.table.items) == 2
        here.kernel.run(70_000)
        assert list(here.table.items) == [("A", "META")]
        assert [(fact.at_ms, fact.kind) for fact in here.noted(facts.Faulted)] == [(61_000, "ttl_delete")]
        page = here.stream.read(here.stream.iterator("shardId-00000000"))
        identity = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
        assert page.records[-1].body["userIdentity"] == identity
        assert "userIdentity" not in page.records[0].body


def test_an_operator_deletes_what_is_pending_first() -> None:
    """That is where it hurts: it may be gone before it is settled."""
    faults = [PlannedFault("operator_delete", at_ms) for at_ms in (1_000, 2_000)]
    with world(1, faults) as here:
        for number in range(9):
            state = {} if number == 5 else {"state": {"S": "published"}}
            item: dict[str, Any] = {"pk": {"S": "A"}, "sk": {"S": f"OUTBOX#{number}"}, "ob_v": {"N": "1"}, **state}
            here.table.write(("A", f"OUTBOX#{number}"), item, by="test")
        here.kernel.run(3_000)
        first, second = [fact.item[1] for fact in here.noted(facts.Written) if fact.kind == "REMOVE"]
        assert first == "OUTBOX#5" != second


def test_an_operator_deletes_any_record_and_nothing_else() -> None:
    """The fault operator_delete takes a record in whatever state; its stream record looks ordinary."""
    with world(1, [PlannedFault("operator_delete", 1_000, times=1)]) as here:
        here.write("A", "A/OUTBOX#1")
        here.kernel.run(2_000)
        assert list(here.table.items) == [("A", "META")]
        assert here.noted(facts.Written)[-1].by == "operator"


@pytest.mark.parametrize(
    ("condition", "item", "holds"),
    [
        ("attribute_exists(pk)", ITEM, True),
        ("attribute_exists(pk)", None, False),
        ("attribute_not_exists(#n)", ITEM, False),
        ("attribute_not_exists(#n)", KEY, True),
        ("#n = :one", ITEM, True),
        ("#n = :one", {**KEY, "n": {"N": "1.0"}}, True),
        ("#n = :one", {**KEY, "n": {"S": "1"}}, False),
        ("#n = :one", KEY, False),
        ("attribute_exists(pk) AND #n = :one", KEY, False),
        ("attribute_not_exists(pk) OR #n = :one", ITEM, True),
        ("attribute_not_exists(pk) OR #n = :one", KEY, False),
    ],
)
def test_conditions(condition: str, item: dict[str, Any] | None, *, holds: bool) -> None:
    """Existence and equality, numbers as numbers, joined by AND and OR."""
    request = {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {"#n": "n"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    assert condition_holds(request, item) is holds


def test_a_table_without_a_sort_key_is_not_simulated() -> None:
    """A layout that the table could not keep is refused before anything is written."""
    with world() as here, pytest.raises(NotSimulated, match="sort key"):
        Table(here.kernel, here.stream, Layout(sk=None, own_partition=True), Chance(1))


@pytest.mark.parametrize("condition", ["n > :one", "(n = :one)", "begins_with(n, :one)", "NOT n = :one"])
def test_other_conditions_are_loud(condition: str) -> None:
    """A condition that is not built is never taken for one that holds, or does not."""
    with pytest.raises(NotSimulated):
        condition_holds({"ConditionExpression": condition, "ExpressionAttributeValues": {":one": {"N": "1"}}}, ITEM)


def test_updates() -> None:
    """SET, REMOVE and ADD, in one expression; the item before is left as it was."""
    request = {
        "UpdateExpression": "SET #a = :a, b = :b REMOVE c, d ADD n :one, s :more",
        "ExpressionAttributeNames": {"#a": "a"},
        "ExpressionAttributeValues": {
            ":a": {"S": "x"}, ":b": {"S": "y"}, ":one": {"N": "1"}, ":more": {"SS": ["p", "q"]},
        },
    }  # fmt: skip
    before: dict[str, Any] = {"c": {"S": "1"}, "n": {"N": "41"}, "s": {"SS": ["q", "r"]}}
    assert updated(request, before) == {
        "a": {"S": "x"}, "b": {"S": "y"}, "n": {"N": "42"}, "s": {"SS": ["p", "q", "r"]},
    }  # fmt: skip
    assert before["n"] == {"N": "41"}
    assert updated({**request, "UpdateExpression": "ADD n :one"}, {}) == {"n": {"N": "1"}}


@pytest.mark.parametrize(
    "expression",
    ["SOT a", "SET a = a + :one", "SET a = if_not_exists(b, :one)", "DELETE s :one", "REMOVE a.b", "ADD s :one"],
)
def test_other_updates_are_loud(expression: str) -> None:
    """An update that is not built changes nothing in silence, and is named as it was written."""
    with pytest.raises(
        NotSimulated, match=r"ADD of|DELETE s" if expression[0] in "AD" else re.escape(repr(expression))
    ):
        updated({"UpdateExpression": expression, "ExpressionAttributeValues": {":one": {"N": "1"}}}, {"s": {"S": "x"}})


def test_the_library_reads_these_answers_as_dynamodbs() -> None:
    """The adapter that the library uses understands each answer: committed, cancelled with reasons, refused."""
    answers = []
    with world() as here:
        store = DynamoStore(TableClient(here.network, Process(here.kernel, "w", 1), here.table))

        def work() -> None:
            conditional = [put(ITEM, **ABSENT, **ALL_OLD)]
            for members, token in ((conditional, "1"), (conditional, "2"), ([put(KEY)], "1")):
                answer = store.transact({"TransactItems": members, "ClientRequestToken": token})
                answers.append(answer)

        here.kernel.spawn("work", work)
        here.kernel.run(60_000)
    assert answers[0] == Committed()
    assert answers[1] == Cancelled((Reason("ConditionalCheckFailed", "The conditional request failed", ITEM),))
    assert isinstance(answers[2], Refused)
