"""The life of a transaction: its block, its request, its retries, its end. Over a scripted client."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
from write_scripted import ITEM, KEY, World, cancelled, lost
from write_world import START_MS

from dynamodb_outbox import Receipt
from dynamodb_outbox.errors import (
    CommitUnknown,
    ConditionFailed,
    EmptyTransaction,
    NestedTransaction,
    NotCommitted,
    OutboxError,
    TransactionClosed,
)

# --- the block --------------------------------------------------------------------------------------------------------


def test_a_clean_exit_commits() -> None:
    """Put and event are one request, sent when the block ends; the receipt is there afterwards."""
    world = World()
    with world.outbox.transaction() as tx:
        event = tx.emit("order.placed", {"cents": 5})
        tx.put(ITEM, if_absent=True)
        assert world.client.requests == []
    order, record = world.sent()
    assert order["Put"]["Item"]["cents"] == {"N": "5"}
    assert record["Put"]["Item"]["payload"] == {"S": '{"cents":5}'}
    assert record["Put"]["Item"]["region"] == {"S": "eu-west-1"}
    assert tx.receipt == Receipt((event.id,), {}, False, "answer")
    assert event.key is None


def test_an_exception_writes_nothing() -> None:
    """The block raises: nothing is sent, the exception passes, and the transaction is of no more use."""
    world = World()
    tx = world.outbox.transaction()

    def block() -> None:
        with tx:
            tx.put(ITEM, if_absent=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert world.client.requests == []
    for late in (tx.commit, tx.request, lambda: tx.emit("t", {}), lambda: tx.put(ITEM, overwrite=True)):
        with pytest.raises(TransactionClosed, match="abandoned"):
            late()
    with pytest.raises(NotCommitted, match="abandoned"):
        _ = tx.receipt


def test_after_the_commit_nothing_can_be_added() -> None:
    """Every operation after the end is refused by name."""
    world = World()
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
    operations = {
        "put": lambda: tx.put(ITEM, overwrite=True),
        "update": lambda: tx.update(KEY, set={"a": 1}),
        "delete": lambda: tx.delete(KEY),
        "check": lambda: tx.check(KEY, if_exists=True),
        "emit": lambda: tx.emit("t", {}),
        "commit": tx.commit,
        "request": tx.request,
    }
    for name, operation in operations.items():
        with pytest.raises(TransactionClosed) as caught:
            operation()
        assert (caught.value.operation, caught.value.state) == (name, "committed")


def test_a_transaction_does_not_nest() -> None:
    """Entering again, inside or after, is refused."""
    world = World()
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
        with pytest.raises(NestedTransaction), tx:
            pass
    with pytest.raises(NestedTransaction), tx:
        pass
    assert len(world.client.requests) == 1


def test_commit_inside_the_block_is_the_only_commit() -> None:
    """An explicit commit() leaves nothing for the end of the block."""
    world = World()
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
        assert tx.commit() is tx.receipt
    assert len(world.client.requests) == 1


def test_a_failed_commit_inside_the_block_is_not_tried_again() -> None:
    """A caller that catches the error inside the block is not surprised at its end."""
    world = World(cancelled("ConditionalCheckFailed"))
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
        with pytest.raises(ConditionFailed):
            tx.commit()
    assert len(world.client.requests) == 1
    with pytest.raises(TransactionClosed, match="failed"):
        tx.commit()


def test_without_a_block() -> None:
    """A transaction is usable without `with`."""
    world = World()
    tx = world.outbox.transaction()
    with pytest.raises(NotCommitted, match="open"):
        _ = tx.receipt
    tx.emit("ping", None, key="K")
    assert tx.commit().event_ids


def test_nothing_in_the_transaction() -> None:
    """An empty block is a mistake, also under an idempotency key."""
    world = World()
    with pytest.raises(EmptyTransaction), world.outbox.transaction():
        pass
    with pytest.raises(EmptyTransaction), world.outbox.transaction(idempotency_key="k"):
        pass


# --- the request ------------------------------------------------------------------------------------------------------


def test_the_request_is_what_the_commit_sends() -> None:
    """request() sends nothing, fixes the transaction, and gives a copy of exactly what commit() sends later."""
    world = World()
    tx = world.outbox.transaction(idempotency_key="k")
    tx.put(ITEM, if_absent=True)
    tx.emit("order.placed", {})
    request = copy.deepcopy(tx.request())
    assert world.client.requests == []
    again = tx.request()
    assert request == again
    again["TransactItems"][0]["Put"]["Item"].clear()
    again["TransactItems"].clear()
    world.clock.pass_ms(5_000)
    with pytest.raises(TransactionClosed, match="fixed"):
        tx.emit("more", {})
    tx.commit()
    assert world.client.requests == [request]
    assert len(request["ClientRequestToken"]) == 36


def test_every_retry_is_the_same_request() -> None:
    """Ids, times and token are those of the first attempt, across retries and across calls of commit()."""
    world = World(lost(), cancelled("TransactionConflict", "None"), *[lost()] * 60)
    world.client.items = [None]
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    tx.emit("order.placed", {})
    with pytest.raises(CommitUnknown) as caught:
        tx.commit()
    assert caught.value.token == world.client.requests[0]["ClientRequestToken"]
    world.client.answers = iter(())
    world.clock.pass_ms(60_000)
    assert tx.commit().resolved_by == "token"
    assert len(world.client.requests) > 10
    assert all(request == world.client.requests[0] for request in world.client.requests)
    at = world.client.requests[-1]["TransactItems"][1]["Put"]["Item"]["at"]
    assert at == {"N": str(START_MS)}


def test_the_time_for_a_commit_is_kept() -> None:
    """commit_within bounds the retries; pauses go through the clock that was given."""
    world = World(*[cancelled("TransactionConflict")] * 1000, commit_within=timedelta(seconds=3))
    with pytest.raises(OutboxError), world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
    assert world.clock.wall_ms - START_MS <= 3_000
    assert world.clock.slept


def test_an_unknown_commit_in_a_block_can_go_on_after_it() -> None:
    """The block raises CommitUnknown; the transaction is kept, and commit() goes on."""
    world = World(*[lost()] * 100, commit_within=timedelta(milliseconds=50))
    tx = world.outbox.transaction()
    with pytest.raises(CommitUnknown), tx:
        tx.put(ITEM, if_absent=True)
    world.client.answers = iter(())
    assert tx.commit().resolved_by == "token"


def test_an_unknown_commit_that_leaves_the_block_can_go_on() -> None:
    """commit() inside the block raises CommitUnknown and the block ends with it: the transaction is not abandoned."""
    world = World(*[lost()] * 100, commit_within=timedelta(milliseconds=50))
    tx = world.outbox.transaction()

    def block() -> None:
        with tx:
            tx.put(ITEM, if_absent=True)
            tx.commit()

    with pytest.raises(CommitUnknown):
        block()
    world.client.answers = iter(())
    assert tx.commit().resolved_by == "token"


def test_an_exception_after_the_commit_leaves_the_receipt() -> None:
    """What is committed stays committed, whatever the block raises afterwards."""
    tx = World().outbox.transaction()

    def block() -> None:
        with tx:
            tx.put(ITEM, if_absent=True)
            tx.commit()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert tx.receipt.resolved_by == "answer"


def test_an_unknown_commit_swallowed_in_a_block_goes_on_at_its_end() -> None:
    """A clean exit means committed: what is unknown is tried again."""
    world = World(*[lost()] * 100, commit_within=timedelta(milliseconds=50))
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
        with pytest.raises(CommitUnknown):
            tx.commit()
        world.client.answers = iter(())
    assert tx.receipt.resolved_by == "token"


def test_an_interrupted_commit_goes_on() -> None:
    """Ctrl-C during the call: the answer is lost, and the next commit() resolves it."""
    world = World(KeyboardInterrupt())
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    with pytest.raises(KeyboardInterrupt):
        tx.commit()
    assert tx.commit().resolved_by == "token"


def test_a_wall_clock_that_is_set_back_does_not_make_a_token_young() -> None:
    """Ten minutes passed on one of the clocks: without events nothing is sent again."""
    world = World(*[lost()] * 100, commit_within=timedelta(milliseconds=50))
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    with pytest.raises(CommitUnknown):
        tx.commit()
    sent = len(world.client.requests)
    world.clock.steady_ms += 600_000
    world.clock.wall_ms -= 3_600_000
    with pytest.raises(CommitUnknown):
        tx.commit()
    assert len(world.client.requests) == sent
