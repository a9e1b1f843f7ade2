"""The simulated table as the relay's adapter sees it: settling and parking, with every answer that can be lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from simulation_ground import Ground, ground

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.facts import Moved, Sent, Written
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.records import RecordsClient
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from dynamodb_outbox.testing.simulation.table import TABLE, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.core.values import WireItem

M = TypeVar("M", Settled, Parked)
PARKING = Parking("MalformedDetail", "no", START_MS)


def image(number: int = 1, **other: Any) -> WireItem:
    """Return a record as our writer makes it."""
    return {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": f"OUTBOX#{number}"},
        "ob_v": {"N": "1"},
        "id": {"S": str(number)},
        "key": {"S": "ORDER#1"},
        "at": {"N": str(START_MS)},
        "state": {"S": "pending"},
        "ob_pending": {"S": "03"},
        "type": {"S": "t"},
        "payload": {"S": "{}"},
        **other,
    }


class Shop:
    """A table, and the real adapter in a process that works on invocation 5."""

    def __init__(self, world: Ground) -> None:
        self.world = world
        self.table = Table(
            world.kernel, Stream(world.kernel, world.ledger, Chance(1), StreamSettings()), Layout(), Chance(1)
        )
        process = world.process()
        process.invocation = 5
        self.client = RecordsClient(world.network, process, self.table)
        self.states = DynamoRecordStates(Layout(), client=self.client)

    def write(self, *items: WireItem) -> None:
        """Put items into the table."""
        for item in items:
            self.table.write(self.table.key_of(item), item, by="writer")

    def settle(self, *images: WireItem) -> Settled:
        """Settle."""
        return self._done(lambda: self.states.settle(TABLE, images, START_MS), Settled)

    def park(self, record: WireItem, parking: Parking = PARKING) -> Parked:
        """Park."""
        return self._done(lambda: self.states.park(TABLE, record, parking), Parked)

    def _done(self, body: Callable[[], M], kind: type[M]) -> M:
        (outcome,) = self.world.run(body)
        assert isinstance(outcome, kind), outcome
        return outcome

    def state(self, number: int = 1) -> str | None:
        """Return the state of a record in the table."""
        item = self.table.items.get(("ORDER#1", f"OUTBOX#{number}"))
        return None if item is None else item["state"]["S"]

    def moves(self) -> list[tuple[str, str, int]]:
        """Return what was noted: sort key, state, invocation."""
        return [(fact.record[1], fact.state, fact.invocation) for fact in self.world.noted(Moved)]


def test_a_settled_record_is_published_has_a_ttl_and_is_out_of_the_index() -> None:
    """Each record of a call by itself; what is gone or was moved before is left alone."""
    with ground() as world:
        shop = Shop(world)
        parked = image(3, state={"S": "parked"})
        shop.write(image(1), parked)
        assert shop.settle(image(1), image(2), image(3)) == Settled(done=1, changed=2)
        item = shop.table.items["ORDER#1", "OUTBOX#1"]
        assert item["state"] == {"S": "published"}
        assert int(item["expires_at"]["N"]) > START_MS // 1000
        assert "ob_pending" not in item
        assert (shop.state(2), shop.state(3)) == (None, "parked")
        assert shop.moves() == [("OUTBOX#1", "published", 5)]
        assert [fact.by for fact in world.noted(Written)] == ["writer", "writer", "orders"]


def test_a_record_is_settled_as_it_says() -> None:
    """Kept without a TTL, deleted, or left alone; deleted is published, and what is gone or parked is left alone."""
    with ground() as world:
        shop = Shop(world)
        mark, delete, waiting = (
            image(number, ob_settle={"S": way}) for number, way in enumerate(("mark", "delete", "none"))
        )
        none = {name: value for name, value in waiting.items() if name != "ob_pending"}
        parked = image(3, ob_settle={"S": "delete"}, state={"S": "parked"})
        shop.write(mark, delete, none, parked)
        pending = image(3, ob_settle={"S": "delete"})
        assert shop.settle(mark, delete, none, pending) == Settled(done=3, changed=1)
        assert "expires_at" not in shop.table.items["ORDER#1", "OUTBOX#0"]
        assert [shop.state(number) for number in range(4)] == ["published", None, "pending", "parked"]
        assert [(fact.record[1], fact.state, fact.gone) for fact in world.noted(Moved)] == [
            ("OUTBOX#0", "published", False),
            ("OUTBOX#1", "published", True),
        ]
        assert shop.settle(delete) == Settled(done=1)
        assert len(world.noted(Moved)) == 2


def test_a_record_by_hand_is_deleted_where_it_has_no_state() -> None:
    """As the relay's layout has it."""
    with ground() as world:
        shop = Shop(world)
        shop.states = DynamoRecordStates(Layout(settle="delete"), client=shop.client)
        by_hand = {name: {"S": value} for name, value in {"pk": "ORDER#1", "sk": "OUTBOX#1", "state": "open"}.items()}
        shop.write(by_hand | {"ob_state": {"S": "published"}})
        assert shop.settle(by_hand) == Settled(changed=1)
        shop.write(by_hand)
        assert shop.settle(by_hand) == Settled(done=1)
        assert shop.state() is None


def test_a_record_by_hand_is_settled_by_a_state_of_its_own() -> None:
    """Its column `state` is its writer's."""
    with ground() as world:
        shop = Shop(world)
        by_hand = {name: {"S": value} for name, value in {"pk": "ORDER#1", "sk": "OUTBOX#1", "state": "open"}.items()}
        shop.write(by_hand)
        assert shop.settle(by_hand) == Settled(done=1)
        assert shop.state() == "open"
        assert shop.moves() == [("OUTBOX#1", "published", 5)]


def test_a_settle_whose_answer_is_lost_is_repeated_and_changes_nothing_more() -> None:
    """The client's second attempt finds the record published."""
    with ground(PlannedFault("settle_lost_after", 0)) as world:
        shop = Shop(world)
        shop.write(image())
        assert shop.settle(image()) == Settled(changed=1)
        assert shop.moves() == [("OUTBOX#1", "published", 5)]
        assert len(world.noted(Sent)) == 2


def test_a_settle_that_is_lost_for_good_may_be_tried_again() -> None:
    """Nothing is published by then."""
    with ground(PlannedFault("settle_lost_before", 0, times=2)) as world:
        shop = Shop(world)
        shop.write(image())
        assert shop.settle(image()) == Settled(again=(0,))
        assert shop.state() == "pending"
        assert shop.settle(image()) == Settled(done=1)


def test_a_throttled_settle_is_so_as_a_whole_or_in_one_statement() -> None:
    """As chance has it; what was throttled may be tried again, the rest is done."""
    found = set()
    for seed in range(20):
        with ground(PlannedFault("settle_throttled", 0, times=2), seed=seed) as world:
            shop = Shop(world)
            shop.write(image(1), image(2))
            settled = shop.settle(image(1), image(2))
            assert settled.done + settled.changed + len(settled.again) == 2
            assert {number for number in (1, 2) if shop.state(number) == "pending"} == {
                number for number in (1, 2) if number - 1 in settled.again
            }
            found.add(settled.again)
    assert found == {(0,), (1,), (0, 1)}


def test_a_parked_record_is_written_whether_it_is_there_or_not() -> None:
    """As pending, deleted, and parked before; a record that was published meanwhile needs no parking."""
    with ground() as world:
        shop = Shop(world)
        shop.write(image(1), image(3, state={"S": "published"}))
        assert shop.park(image(1)) == Parked(new=True)
        assert shop.park(image(2)) == Parked(new=True)
        assert shop.park(image(3)) == Parked()
        assert shop.park(image(1)) == Parked(new=True)  # by the same park: maybe its answer was lost
        assert shop.park(image(1), Parking("MalformedDetail", "no", START_MS + 1)) == Parked()
        assert [shop.state(number) for number in (1, 2, 3)] == ["parked", "parked", "published"]
        assert shop.moves() == [("OUTBOX#1", "parked", 5), ("OUTBOX#2", "parked", 5)]


def test_the_events_for_which_a_record_is_parked_are_noted() -> None:
    """And what is added to them; None is all."""
    with ground() as world:
        shop = Shop(world)
        shop.write(image())
        for events in ((1,), (0, 1), (0,), None):
            assert shop.park(image(), Parking("c", "r", START_MS, events)).failure is None
        assert [fact.events for fact in world.noted(Moved)] == [frozenset("1"), frozenset("01"), None]


@pytest.mark.parametrize("kind", ["park_lost_before", "park_lost_after", "park_throttled"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_park_under_faults_says_what_is_true(kind: str, times: int) -> None:
    """One fault is the client's own matter; after two nobody knows, unless the table said that it did nothing."""
    with ground(PlannedFault(kind, 0, times=times)) as world:
        shop = Shop(world)
        shop.write(image())
        parked = shop.park(image())
        assert (shop.state() == "parked") is (times == 1 or kind == "park_lost_after")
        assert (parked.failure is None) is (times == 1)
        assert parked.lost is (times == 2 and kind != "park_throttled")
        assert shop.moves() == [("OUTBOX#1", "parked", 5)] * (shop.state() == "parked")
        assert shop.park(image()).failure is None
        assert shop.moves() == [("OUTBOX#1", "parked", 5)]


def test_an_item_that_stands_for_a_record_is_noted_as_that_record() -> None:
    """So a record that was parked apart counts as parked."""
    with ground() as world:
        shop = Shop(world)
        apart = image(9, parked_sk={"S": "OUTBOX#1"}, state={"S": "parked"})
        world.run(lambda: shop.client.put_item(TableName=TABLE, Item=apart))
        assert shop.moves() == [("OUTBOX#1", "parked", 5)]


def test_a_write_that_moves_nothing_is_not_noted() -> None:
    """Of a parked record, say, something else may change."""
    with ground() as world:
        shop = Shop(world)
        shop.write(image(state={"S": "parked"}))
        for item in (image(state={"S": "parked"}, colour={"S": "red"}), image()):
            world.run(lambda item=item: shop.client.put_item(TableName=TABLE, Item=item))  # type: ignore[misc]  # a default binds the loop's name
        assert shop.state() == "pending"
        assert shop.moves() == []


def test_an_item_can_be_read() -> None:
    """A copy of it; none is an answer without an item."""
    with ground() as world:
        shop = Shop(world)
        shop.write(image())
        key = {"pk": {"S": "ORDER#1"}, "sk": {"S": "OUTBOX#1"}}
        there, missing = (
            world.run(lambda key=key: shop.client.get_item(TableName=TABLE, Key=key, ConsistentRead=True))[0]  # type: ignore[misc]  # a default binds the loop's name
            for key in (key, key | {"sk": {"S": "-"}})
        )
        assert there == {"Item": image()}
        assert missing == {}


def test_a_statement_of_another_form_is_refused_loudly() -> None:
    """To guess at its meaning would make the simulation worthless."""
    for statement in (
        "DELETE FROM x",
        'DELETE FROM "t" WHERE "pk"=? AND "sk"=?',
        'UPDATE "t" SET "a"=? SET "b"=? REMOVE "c" WHERE "pk"=? AND "sk"=? AND "z"=?',
    ):
        with ground() as world:
            client = Shop(world).client
            statements: list[Any] = [{"Statement": statement, "Parameters": []}]
            with pytest.raises(NotSimulated, match=r"the statement '(DELETE|UPDATE)"):
                world.run(partial(client.batch_execute_statement, Statements=statements))
    with ground() as world:
        shop = Shop(world)
        (error,) = world.run(lambda: shop.client.batch_execute_statement(Statements=[]))
        assert "ValidationException" in str(error)
