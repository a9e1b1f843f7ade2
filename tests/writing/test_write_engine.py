"""The writing side against an engine, which judges: are expressions valid, writes atomic, what was committed."""

from __future__ import annotations

import itertools
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from boto3.dynamodb.conditions import Attr
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError
from write_world import TABLE, TABLES, FakeClock, create_table, get_item, records_of

from dynamodb_outbox import Layout, Outbox
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.codec.values import deserialize_item
from dynamodb_outbox.core.commit.actions import put
from dynamodb_outbox.core.commit.conditions import Requirement
from dynamodb_outbox.core.commit.targets import target_of
from dynamodb_outbox.core.limits import ITEM_BYTES
from dynamodb_outbox.errors import CommitFailed, CommitUnknown, ConditionFailed, IdempotencyMismatch, OutboxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conftest import Account

VERSIONED = Layout(version="version")
ONCE = Config(retries={"total_max_attempts": 1})
KEY = {"pk": "ORDER#1", "sk": "META"}
COUNTER = {"pk": "COUNTER", "sk": "META"}


@pytest.fixture
def client(engine: Account) -> Any:
    """Return a client of an account with one table."""
    made = engine.client("dynamodb", config=ONCE)
    create_table(made)
    return made


@pytest.fixture
def outbox(client: Any) -> Outbox:
    """Return an outbox over that table, with versions."""
    return Outbox(TABLE, source="shop.orders", client=client, layout=VERSIONED)


def item_of(client: Any, pk: str = "ORDER#1", sk: str = "META") -> dict[str, Any] | None:
    """Return an item in Python values."""
    found = get_item(client, pk, sk)
    return None if found is None else deserialize_item(found)


# --- actions ----------------------------------------------------------------------------------------------------------


def test_a_change_and_its_events_are_one_write(client: Any, outbox: Outbox) -> None:
    """The item and one record for each key are there together, with what was emitted."""
    with outbox.transaction() as tx:
        first = tx.emit("order.placed", {"cents": Decimal("5.10")})
        tx.put({**KEY, "cents": 5}, if_absent=True)
        tx.emit("order.counted", {"n": 1})
        tx.emit("customer.ordered", {"é": True}, key="CUSTOMER#1")
    assert item_of(client) == {**KEY, "cents": 5, "version": 1}
    (order,) = records_of(client, "ORDER#1")
    (customer,) = records_of(client, "CUSTOMER#1")
    events = json.loads(order["events"]["S"], parse_float=Decimal)
    assert [event["type"] for event in events] == ["order.placed", "order.counted"]
    assert events[0]["id"] == first.id
    assert events[0]["data"] == {"cents": Decimal("5.10")}
    assert customer["payload"] == {"S": '{"é":true}'}
    assert tx.receipt.versions == {(TABLE, "ORDER#1", "META"): 1}


def test_a_condition_that_fails_takes_everything_with_it(client: Any, outbox: Outbox) -> None:
    """Neither the other action nor the record is written, and the error shows the item that was in the way."""
    with outbox.transaction() as tx:
        tx.put({**KEY, "cents": 5}, if_absent=True)
    tx = outbox.transaction()
    tx.put({**KEY, "cents": 6}, if_absent=True)
    tx.put({"pk": "ORDER#1", "sk": "LINE#1"}, if_absent=True)
    tx.emit("order.placed", {})
    with pytest.raises(ConditionFailed) as caught:
        tx.commit()
    (failure,) = caught.value.failures
    assert failure.action == "put shop {'pk': 'ORDER#1', 'sk': 'META'}"
    assert failure.item == {**KEY, "cents": 5, "version": 1}
    assert item_of(client, sk="LINE#1") is None
    assert records_of(client, "ORDER#1") == []


def test_optimistic_locking(client: Any, outbox: Outbox) -> None:
    """if_version passes once for each version, for put, update and delete."""
    with outbox.transaction() as tx:
        tx.put({**KEY, "n": 1}, if_absent=True)
    with outbox.transaction() as tx:
        tx.update(KEY, set={"n": 2}, if_version=1)
    read = item_of(client)
    assert read == {**KEY, "n": 2, "version": 2}
    with outbox.transaction() as tx:
        tx.put({**read, "n": 3}, if_version=read["version"])
    stale = outbox.transaction()
    stale.update(KEY, set={"n": 9}, if_version=2)
    with pytest.raises(ConditionFailed):
        stale.commit()
    with outbox.transaction() as tx:
        tx.delete(KEY, if_version=3)
    assert item_of(client) is None


def test_every_section_of_an_update(client: Any, outbox: Outbox) -> None:
    """set, remove, add and delete, literal names with dots, paths, and a boto3 condition beside them."""
    with outbox.transaction() as tx:
        tx.put(
            {
                **KEY,
                "a.b": 1,
                "m": {"x": 1, "y": 2},
                "lines": [{"price": 1}],
                "tags": {"a", "b"},
                "more": {1},
                "old": 0,
            },
            if_absent=True,
        )
    with outbox.transaction() as tx:
        tx.update(
            KEY,
            set={"a.b": 2, ("m", "x"): Decimal("1.50"), ("lines", 0, "price"): 5, "status": "PAID"},
            remove=["old", ("m", "y")],
            add={"n": 1, "more": {2}},
            delete={"tags": {"a"}},
            if_version=1,
            condition=Attr("tags").contains("a") & (Attr("old").eq(0) | Attr("status").exists()),
        )
    assert item_of(client) == {
        **KEY,
        "a.b": 2,
        "m": {"x": Decimal("1.5")},
        "lines": [{"price": 5}],
        "status": "PAID",
        "tags": {"b"},
        "more": {1, 2},
        "n": 1,
        "version": 2,
    }


def test_an_update_in_the_callers_own_words(client: Any, outbox: Outbox) -> None:
    """Functions and arithmetic in an expression, a condition as text, and the version's clause among them."""
    with outbox.transaction() as tx:
        tx.put({**KEY, "parts": [1], "size": 2, "draft": 1}, if_absent=True)
    with outbox.transaction() as tx:
        tx.update(
            KEY,
            expression="REMOVE draft SET parts = list_append(parts, :more), #size = #size + :one",
            condition="(#size = :two OR #size = :one) AND attribute_exists(draft)",
            names={"#size": "size"},
            values={":more": [2], ":one": 1, ":two": 2},
            if_version=1,
            if_exists=True,
        )
    assert item_of(client) == {**KEY, "parts": [1, 2], "size": 3, "version": 2}


def test_a_check_guards_the_others(client: Any, outbox: Outbox) -> None:
    """A check that fails stops the transaction; one that holds changes nothing."""
    customer = {"pk": "CUSTOMER#1", "sk": "META"}
    tx = outbox.transaction()
    tx.check(customer, if_exists=True)
    tx.put(KEY, if_absent=True)
    with pytest.raises(ConditionFailed, match="check shop"):
        tx.commit()
    with outbox.transaction() as tx:
        tx.put(customer, if_absent=True)
    with outbox.transaction() as tx:
        tx.check(customer, if_exists=True, if_version=1, condition="attribute_not_exists(blocked)")
        tx.put(KEY, if_absent=True)
        tx.emit("order.placed", {})
    assert len(records_of(client, "ORDER#1")) == 1


def test_another_table(client: Any, outbox: Outbox) -> None:
    """A transaction reaches other tables; records stay in the outbox's."""
    create_table(client, "archive")
    with outbox.transaction() as tx:
        tx.put(KEY, if_absent=True, table="archive")
        tx.emit("order.archived", {})
    assert get_item(client, "ORDER#1", "META", "archive") is not None
    assert len(records_of(client, "ORDER#1")) == 1
    assert records_of(client, "ORDER#1", "archive") == []


def test_the_request_can_be_sent_by_hand(client: Any, outbox: Outbox) -> None:
    """request() is what the client takes; the commit that follows finds its own record."""
    tx = outbox.transaction()
    tx.put(KEY, if_absent=True)
    tx.emit("order.placed", {})
    client.transact_write_items(**tx.request())
    assert tx.commit().event_ids
    assert len(records_of(client, "ORDER#1")) == 1


def test_what_dynamodb_refuses(client: Any) -> None:
    """A table that is not there is an error with DynamoDB's words."""
    tx = Outbox("nowhere", source="s", client=client).transaction()
    tx.put(KEY, if_absent=True)
    with pytest.raises(CommitFailed, match="ResourceNotFound"):
        tx.commit()


def test_the_largest_item_is_measured_as_dynamodb_measures(client: Any) -> None:
    """An item that our rule puts just below 400 KB is stored by the engine, and one just above is refused."""
    base = {**KEY, "n": Decimal("12345.678"), "m": {"é": [True, None, {"a"}]}}
    free = ITEM_BYTES - item_bytes(
        put(_target(), {**base, "blob": ""}, Requirement(if_absent=True), Layout()).body["Item"]
    )
    wire = put(_target(), {**base, "blob": "x"}, Requirement(if_absent=True), Layout()).body["Item"]
    client.put_item(TableName=TABLE, Item={**wire, "blob": {"S": "x" * (free - 16)}})
    with pytest.raises(ClientError, match="size"):
        client.put_item(TableName=TABLE, Item={**wire, "blob": {"S": "x" * (free + 16)}})


def _target() -> Any:
    return target_of("put", TABLE, KEY, TABLES)


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_command_commits_once(client: Any, outbox: Outbox) -> None:
    """The second run gets the first receipt, ids and versions included, and writes nothing."""

    def place(cents: int) -> Any:
        with outbox.transaction(idempotency_key="request-1") as tx:
            tx.put({**KEY, "cents": cents}, if_absent=True)
            tx.emit("order.placed", {"cents": cents})
        return tx.receipt

    first, second = place(5), place(5)
    assert not first.replayed
    assert (second.replayed, second.resolved_by) == (True, "guard")
    assert (second.event_ids, second.versions) == (first.event_ids, first.versions)
    assert len(records_of(client, "ORDER#1")) == 1
    with pytest.raises(IdempotencyMismatch):
        place(6)


def test_a_command_without_a_condition_of_its_own_commits_once(client: Any, outbox: Outbox) -> None:
    """The guard alone stops a second increment."""
    for _ in range(3):
        with outbox.transaction(idempotency_key="request-1") as tx:
            tx.update(COUNTER, add={"n": 1})
    assert item_of(client, "COUNTER") == {**COUNTER, "n": 1}


def test_an_expired_guard_that_is_still_there_counts(client: Any) -> None:
    """TTL deletion lags; until then the guard does its work."""
    clock = FakeClock()
    outbox = Outbox(TABLE, source="s", client=client, clock=clock, layout=Layout(guard_for=timedelta(minutes=1)))
    replayed = []
    for _ in range(2):
        with outbox.transaction(idempotency_key="k") as tx:
            tx.update(COUNTER, add={"n": 1})
        replayed.append(tx.receipt.replayed)
        clock.pass_ms(3_600_000)
    assert replayed == [False, True]


def test_one_command_in_many_threads(client: Any, outbox: Outbox) -> None:
    """Sixteen runs of one command at once: one commit, fifteen replays of it."""
    start = threading.Barrier(16)

    def run(_: int) -> Any:
        start.wait()
        with outbox.transaction(idempotency_key="request-1") as tx:
            tx.update(COUNTER, add={"n": 1})
            tx.emit("counted", {})
        return tx.receipt

    with ThreadPoolExecutor(16) as pool:
        receipts = list(pool.map(run, range(16)))
    assert item_of(client, "COUNTER") == {**COUNTER, "n": 1}
    assert sorted(receipt.replayed for receipt in receipts) == [False] + [True] * 15
    assert len({receipt.event_ids for receipt in receipts}) == 1


# --- the failure matrix -----------------------------------------------------------------------------------------------


class Faulty:
    """A client between which and the engine things go wrong, attempt by attempt, as `fates` says.

    ok        the attempt is sent and answered
    before    the attempt is lost on its way: the engine never sees it
    after     the engine acts, and the answer is lost
    expired   the engine acts as if it had forgotten the token, and answers
    gone      both: forgotten token, lost answer
    crash     the engine acts, and the process is interrupted
    conflict  the engine never sees it, and the answer is a conflict
    """

    def __init__(self, real: Any, fates: Iterable[str]) -> None:
        self.real = real
        self.meta = real.meta
        self.fates = iter(fates)
        self.get_item = real.get_item
        self._count = itertools.count()

    def transact_write_items(self, **request: Any) -> Any:
        """Do to one attempt what its fate says; after the last of them all is well."""
        fate = next(self.fates, "ok")
        if fate == "conflict":
            reasons = [{"Code": "TransactionConflict"}, *[{"Code": "None"}] * (len(request["TransactItems"]) - 1)]
            raise ClientError(
                {
                    "Error": {"Code": "TransactionCanceledException", "Message": "x"},
                    "CancellationReasons": reasons,
                    "ResponseMetadata": {"HTTPStatusCode": 400},
                },
                "TransactWriteItems",
            )
        if fate == "before":
            raise ReadTimeoutError(endpoint_url="before")
        if fate in {"expired", "gone"}:
            request = {**request, "ClientRequestToken": f"{request['ClientRequestToken'][:30]}{next(self._count):06d}"}
        answer = self.real.transact_write_items(**request)
        if fate == "crash":
            raise KeyboardInterrupt
        if fate in {"after", "gone"}:
            raise ReadTimeoutError(endpoint_url="after")
        return answer


HONEST = ("ok", "before", "after", "conflict")
FORGETFUL = (*HONEST, "expired", "gone")
MATRIX = [
    *(("bare", fates) for fates in itertools.product(HONEST, repeat=3)),
    *(("record", fates) for fates in itertools.product(FORGETFUL, repeat=3)),
    *(("guard", fates) for fates in itertools.product(FORGETFUL, repeat=3)),
]


@pytest.mark.parametrize("kind", ["bare", "record", "guard"])
def test_no_fault_commits_twice_or_lies(client: Any, kind: str) -> None:
    """Every sequence of three fates ends in one commit and a receipt.

    A put with if_absent is among the actions: the committed attempt itself makes its condition fail from then on.
    Without record and guard the token must live; the others do without.
    """
    cases = [fates for which, fates in MATRIX if which == kind]
    for number, fates in enumerate(cases):
        outbox = Outbox(TABLE, source="s", client=Faulty(client, fates), clock=FakeClock())
        counter = {"pk": f"COUNTER#{number}", "sk": "META"}
        with outbox.transaction(idempotency_key=f"k{number}" if kind == "guard" else None) as tx:
            tx.update(counter, add={"n": 1})
            tx.put({"pk": f"COUNTER#{number}", "sk": "ONCE"}, if_absent=True)
            if kind == "record":
                tx.emit("counted", {})
        assert item_of(client, counter["pk"]) == {**counter, "n": 1}, fates
        assert not tx.receipt.replayed, fates
        assert len(records_of(client, counter["pk"])) == (kind == "record"), fates
        if "gone" not in fates and "expired" not in fates:
            lost = any(fate in {"before", "after"} for fate in fates[: _first_ok(fates)])
            assert tx.receipt.resolved_by == ("token" if lost else "answer"), fates


def _first_ok(fates: tuple[str, ...]) -> int:
    return fates.index("ok") if "ok" in fates else len(fates)


@pytest.mark.parametrize("kind", ["bare", "record", "guard"])
def test_a_losing_condition_is_reported_whatever_the_faults(client: Any, kind: str) -> None:
    """The condition never holds: every sequence of fates ends in ConditionFailed, and nothing is written."""
    outbox = Outbox(TABLE, source="s", client=client)
    with outbox.transaction() as tx:
        tx.put(KEY, if_absent=True)
    for fates in [fates for which, fates in MATRIX if which == kind]:
        faulty = Outbox(TABLE, source="s", client=Faulty(client, fates), clock=FakeClock())
        tx = faulty.transaction(idempotency_key="k" if kind == "guard" else None)
        tx.put(KEY, if_absent=True)
        tx.update(COUNTER, add={"n": 1})
        if kind == "record":
            tx.emit("counted", {}, key="COUNTER")
        with pytest.raises(ConditionFailed):
            tx.commit()
    assert item_of(client, "COUNTER") is None
    assert records_of(client, "COUNTER") == []


@pytest.mark.parametrize("fate", ["before", "after", "gone"])
@pytest.mark.parametrize("kind", ["record", "guard"])
def test_what_is_lost_to_the_end_is_told_apart_by_the_table(client: Any, kind: str, fate: str) -> None:
    """All answers lost, the time is up: what is in the table decides; if nothing is, it is unknown and goes on."""
    faulty = Faulty(client, itertools.repeat(fate))
    outbox = Outbox(TABLE, source="s", client=faulty, clock=FakeClock(), commit_within=timedelta(seconds=1))
    tx = outbox.transaction(idempotency_key="k" if kind == "guard" else None)
    tx.update(COUNTER, add={"n": 1})
    if kind == "record":
        tx.emit("counted", {})
    if fate == "before":
        with pytest.raises(CommitUnknown):
            tx.commit()
        assert item_of(client, "COUNTER") is None
        faulty.fates = iter(())
        assert tx.commit().resolved_by == "token"
    else:
        assert tx.commit().resolved_by == kind
    assert item_of(client, "COUNTER") == {**COUNTER, "n": 1}


def test_a_crash_after_the_commit_is_resolved_by_running_the_command_again(client: Any) -> None:
    """The process dies with the answer unread; the command is run anew: one commit, and the first receipt."""

    def run(through: Any) -> Any:
        outbox = Outbox(TABLE, source="s", client=through)
        with outbox.transaction(idempotency_key="k") as tx:
            tx.update(COUNTER, add={"n": 1})
            tx.emit("counted", {})
        return tx.receipt

    with pytest.raises(KeyboardInterrupt):
        run(Faulty(client, ["crash"]))
    assert run(client).replayed
    assert item_of(client, "COUNTER") == {**COUNTER, "n": 1}


def test_many_writers_under_faults_lose_and_invent_nothing(client: Any) -> None:
    """Eight writers, hundreds of commits under random faults: the counter, the records and the receipts agree."""
    per_writer = 40

    def write(number: int) -> tuple[int, set[str]]:
        dice = random.Random(number)  # noqa: S311 -- faults, not secrets
        weights = {"ok": 6, "before": 2, "after": 2, "conflict": 1, "gone": 1}
        fates = (dice.choices(list(weights), list(weights.values()))[0] for _ in itertools.count())
        outbox = Outbox(TABLE, source="s", client=Faulty(client, fates))
        committed = 0
        ids: set[str] = set()
        for _ in range(per_writer):
            tx = outbox.transaction()
            tx.update(COUNTER, add={"n": 1})
            tx.emit("counted", {})
            try:
                ids.update(tx.commit().event_ids)
            except OutboxError as error:
                pytest.fail(f"{error}")
            committed += 1
        return committed, ids

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(write, range(8)))
    total = sum(committed for committed, _ in results)
    assert item_of(client, "COUNTER") == {**COUNTER, "n": total}
    stored = {record["id"]["S"] for record in _all_records(client, "COUNTER")}
    assert stored == set().union(*(ids for _, ids in results))
    assert len(stored) == total == 8 * per_writer


def _all_records(client: Any, pk: str) -> list[Any]:
    pages = client.get_paginator("query").paginate(
        TableName=TABLE,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)",
        ExpressionAttributeValues={":pk": {"S": pk}, ":sk": {"S": "OUTBOX#"}},
    )
    return [item for page in pages for item in page["Items"]]
