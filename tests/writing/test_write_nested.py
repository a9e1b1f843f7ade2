"""Transactions inside of each other, and attributes that belong to the library: mistakes with a name."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest
from write_scripted import ITEM, KEY, World, cancelled

from dynamodb_outbox import Layout
from dynamodb_outbox.errors import ConditionFailed, InvalidAction, NestedTransaction
from dynamodb_outbox.transaction import _blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynamodb_outbox import Outbox, Transaction

OTHER = {"pk": "ORDER#2", "sk": "META"}


def _write(outbox: Outbox, item: dict[str, Any] = ITEM) -> None:
    with outbox.transaction() as tx:
        tx.put(item, if_absent=True)


# --- nesting ----------------------------------------------------------------------------------------------------------


def test_a_block_inside_of_a_block_is_refused() -> None:
    """It reads like one unit of work and would be two: nothing is written, and the outer block goes on."""
    world = World()
    with world.outbox.transaction() as outer:
        outer.put(ITEM, if_absent=True)
        with pytest.raises(NestedTransaction, match="without `with`"):
            _write(world.outbox, OTHER)
    assert len(world.client.requests) == 1
    assert len(world.sent()) == 1


def test_a_block_below_another_outboxes_block_is_refused_too() -> None:
    """What is between them does not matter."""
    shop, billing = World(), World()
    with shop.outbox.transaction() as outer:
        outer.put(ITEM, if_absent=True)
        with billing.outbox.transaction() as between:
            between.put(ITEM, if_absent=True)
            with pytest.raises(NestedTransaction):
                _write(shop.outbox)


def test_what_is_meant_to_be_two_can_be_written() -> None:
    """Another outbox; a commit without a block; a block after the outer one was committed, or has failed."""
    world, other = World(cancelled("ConditionalCheckFailed")), World()
    with world.outbox.transaction() as outer:
        outer.put(ITEM, if_absent=True)
        _write(other.outbox)
        with pytest.raises(ConditionFailed):
            outer.commit()
        _write(world.outbox)
    with world.outbox.transaction() as outer:
        outer.put(ITEM, if_absent=True)
        by_itself = world.outbox.transaction()
        by_itself.put(OTHER, if_absent=True)
        by_itself.commit()
        outer.commit()
        _write(world.outbox)
    assert len(world.client.requests) == 5


def test_a_block_that_raised_stands_in_nobodys_way() -> None:
    """The next block is not inside of it."""
    world = World()

    def fail() -> None:
        with world.outbox.transaction():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    _write(world.outbox)


def test_blocks_that_end_in_another_order() -> None:
    """Blocks of two outboxes, the outer one ended first: both are out afterwards."""
    shop, billing = World(), World()
    first, second = shop.outbox.transaction(), billing.outbox.transaction()
    first.__enter__()
    second.__enter__()
    for tx in (first, second):
        tx.emit("t", None, key="K")
    first.__exit__(None, None, None)
    with pytest.raises(NestedTransaction):
        _write(billing.outbox)
    second.__exit__(None, None, None)
    _write(shop.outbox)
    _write(billing.outbox)


def test_other_contexts_are_other_units() -> None:
    """A thread, or a context of its own, may write while this one is in a block."""
    world = World()
    with world.outbox.transaction() as outer:
        outer.put(ITEM, if_absent=True)
        thread = threading.Thread(target=_write, args=(world.outbox, OTHER))
        thread.start()
        thread.join()
        contextvars.Context().run(_write, world.outbox, {"pk": "ORDER#3", "sk": "META"})
        assert len(world.client.requests) == 2
        with pytest.raises(NestedTransaction):
            contextvars.copy_context().run(_write, world.outbox)
    assert len(world.client.requests) == 3


def test_a_block_that_a_generator_left_open() -> None:
    """A block is open until it ends, also when the generator it is in waits: the next one would be inside of it."""
    world = World()

    def steps() -> Iterator[None]:
        with world.outbox.transaction() as tx:
            tx.put(ITEM, if_absent=True)
            yield

    running = steps()
    next(running)
    with pytest.raises(NestedTransaction):
        _write(world.outbox)
    assert list(running) == []
    _write(world.outbox)


# --- attributes of the library's own ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ob_v", "ob_pending"])
@pytest.mark.parametrize(
    "action",
    [
        lambda tx, name: tx.put({**ITEM, name: "00"}, if_absent=True),
        lambda tx, name: tx.update(KEY, set={name: "00"}),
        lambda tx, name: tx.update(KEY, remove=[name]),
        lambda tx, name: tx.update(KEY, add={(name, "x"): 1}),
        lambda tx, name: tx.update(KEY, expression=f"SET a = b, {name} = c"),
        lambda tx, name: tx.update(KEY, expression="SET #x = c", names={"#x": name}),
    ],
)
def test_an_item_cannot_pass_for_a_record(action: Callable[[Transaction, str], None], name: str) -> None:
    """Attributes by which records are known, or enter the index of pending ones, are refused in other items."""
    tx = World().outbox.transaction()
    with pytest.raises(InvalidAction, match=rf"{name}.* the library's own"):
        action(tx, name)


def test_names_that_merely_look_alike_are_the_callers() -> None:
    """Below the top of an item, inside of other words, and names that records use in their own items."""
    tx = World(layout=Layout(version="version")).outbox.transaction()
    tx.put({**ITEM, "type": "t", "state": "s", "id": "1", "m": {"ob_v": 1}, "ob_version": 1}, if_absent=True)
    tx.update(
        OTHER, expression="SET ob_versions = xob_v, n.ob_v = b, m.a = :v, ob = #x", names={"#x": "a"}, values={":v": 1}
    )


def test_a_task_or_a_thread_started_inside_a_block_is_free() -> None:
    """It is given a copy of the context, and yet is no part of the block: its unit of work is its own."""
    outbox = World(None, None, None).outbox

    def other(number: int) -> None:
        with outbox.transaction() as tx:
            tx.put({"pk": f"OTHER#{number}", "sk": "META"}, if_absent=True)

    async def task() -> None:
        other(1)

    async def run() -> None:
        with outbox.transaction() as tx:
            tx.put({"pk": "P", "sk": "META"}, if_absent=True)
            await asyncio.create_task(task())
            await asyncio.to_thread(other, 2)
            with pytest.raises(NestedTransaction):
                other(3)

    asyncio.run(run())


def test_ended_blocks_are_forgotten() -> None:
    """A block that is left in another context than it was entered in does not stay behind for ever."""
    outbox = World(*[None] * 20).outbox
    for number in range(20):
        tx = outbox.transaction()
        tx.__enter__()
        tx.put({"pk": f"P#{number}", "sk": "META"}, if_absent=True)
        contextvars.copy_context().run(tx.__exit__, None, None, None)
        assert len(_blocks.get()) == 1
