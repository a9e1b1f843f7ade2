"""The three lanes on the engine: the same commands, the same rows, and what each does when a step is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from dynamodb_outbox.local.demo.dual_write import DualWriter
from dynamodb_outbox.local.demo.evidence import changes, stored
from dynamodb_outbox.local.demo.names import LAYOUT, bus_of, event_names, table_of
from dynamodb_outbox.local.demo.outbox_lane import OutboxWriter
from dynamodb_outbox.local.demo.schedule import Order
from dynamodb_outbox.local.demo.tables import count_pending, scan
from dynamodb_outbox.local.demo.writers import LaneWriter, PublishFailed, WriterDied
from dynamodb_outbox.local.provision import create_bus, create_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox.local.demo.schedule import Lane

ORDER = Order(0, "1", "F1", 7, 500, flagged=True, paid=True, calm=False, due_ms=0)
DUAL: tuple[Lane, ...] = ("write_then_publish", "publish_then_write")
EVERY: tuple[Lane, ...] = ("outbox", *DUAL)


class Events:
    """An EventBridge client that remembers what it accepted, and rejects what it is told to reject, so often."""

    def __init__(self, *, reject: int = 0) -> None:
        self.accepted: list[str] = []
        self.reject = reject

    def put_events(self, **request: Any) -> dict[str, Any]:
        """Accept or reject, entry by entry."""
        results = []
        for entry in request["Entries"]:
            if self.reject:
                self.reject -= 1
                results.append({"ErrorCode": "InternalFailure", "ErrorMessage": "by chance"})
            else:
                self.accepted.append(entry["DetailType"])
                results.append({"EventId": "1"})
        return {"FailedEntryCount": sum("ErrorCode" in one for one in results), "Entries": results}


def go_on() -> None:
    """Do nothing after the first step."""


def die() -> None:
    """Die after the first step."""
    raise WriterDied


@pytest.fixture
def lane_of(engine: Account) -> Callable[..., LaneWriter]:
    """Return a function that makes a lane with its table and its bus."""

    def make(lane: Lane, events: Any = None, dynamodb: Any = None) -> LaneWriter:
        client = engine.client("dynamodb")
        create_table(client, table_of(lane), layout=LAYOUT)
        create_bus(engine.client("events"), bus_of(lane))
        if lane == "outbox":
            return OutboxWriter(dynamodb=dynamodb or client)
        return DualWriter(lane, dynamodb=dynamodb or client, events=events or Events())

    return make


def names(engine: Account, lane: Lane) -> list[str]:
    """Return the names of the events that the rows of a lane list, in the order of the commits."""
    return [change.name for change in changes(scan(engine.client("dynamodb"), table_of(lane)))]


@pytest.mark.parametrize("lane", EVERY)
def test_a_lane_places_and_pays_an_order(lane: Lane, lane_of: Callable[..., LaneWriter], engine: Account) -> None:
    """The row lists the events of both commands, numbered by the customer's commits."""
    writer = lane_of(lane)
    assert writer.place(ORDER, go_on) == "committed"
    assert writer.pay(ORDER) == "committed"
    found = changes(scan(engine.client("dynamodb"), table_of(lane)))
    assert [change.name for change in found] == event_names(ORDER)
    assert [(change.n, change.place) for change in found] == [(1, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("lane", EVERY)
def test_an_order_id_that_is_taken_is_rejected(lane: Lane, lane_of: Callable[..., LaneWriter], engine: Account) -> None:
    """Another command with the same order id changes nothing in the table."""
    writer = lane_of(lane)
    writer.place(ORDER, go_on)
    assert writer.place(replace(ORDER, request_id="F2", cents=1), go_on) == "rejected"
    assert names(engine, lane) == event_names(replace(ORDER, paid=False))


@pytest.mark.parametrize("lane", EVERY)
def test_an_order_that_is_not_there_cannot_be_paid(lane: Lane, lane_of: Callable[..., LaneWriter]) -> None:
    """The condition of the payment fails."""
    assert lane_of(lane).pay(ORDER) == "rejected"


@pytest.mark.parametrize("lane", EVERY)
def test_a_repeated_command_is_committed_once(lane: Lane, lane_of: Callable[..., LaneWriter], engine: Account) -> None:
    """Both commands, twice each: told "committed" each time, and in the table once."""
    writer = lane_of(lane)
    for _ in range(2):
        assert writer.place(ORDER, go_on) == "committed"
    for _ in range(2):
        assert writer.pay(ORDER) == "committed"
    assert names(engine, lane) == event_names(ORDER)


@pytest.mark.parametrize("lane", EVERY)
def test_a_race_for_the_counter_is_run_again(lane: Lane, lane_of: Callable[..., LaneWriter], engine: Account) -> None:
    """A command that read the customer's counter before another one moved it reads again, and is committed after it."""
    client = Behind(engine.client("dynamodb"))
    writer = lane_of(lane, dynamodb=client)
    other = lane_of(lane)
    client.before_write = lambda: other.place(replace(ORDER, order_id="2", request_id="F2"), go_on)
    assert writer.place(ORDER, go_on) == "committed"
    client.before_write = lambda: other.pay(replace(ORDER, order_id="2", request_id="F2"))
    assert writer.pay(ORDER) == "committed"
    found = changes(scan(engine.client("dynamodb"), table_of(lane)))
    assert [(change.name, change.n) for change in found if change.name.startswith("F1/")] == [
        ("F1/order.placed", 2),
        ("F1/order.flagged", 2),
    ]
    assert [change.n for change in found if "pay" in change.name] == [3, 4]


class Behind:
    """A DynamoDB client in front of whose next write something else happens."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.before_write: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **request: Any) -> Any:
        """Let the other thing happen, once, and write."""
        happens, self.before_write = self.before_write, None
        if happens is not None:
            happens()
        return self._client.transact_write_items(**request)


def test_the_outbox_needs_no_bus(lane_of: Callable[..., LaneWriter], engine: Account) -> None:
    """The records are in the table, pending, with the names of the events in order."""
    writer = lane_of("outbox")
    writer.place(ORDER, go_on)
    writer.pay(ORDER)
    records = stored(scan(engine.client("dynamodb"), table_of("outbox")))
    assert sorted(str(record.name) for record in records) == sorted(event_names(ORDER))
    assert {record.state for record in records} == {"pending"}
    assert count_pending(engine.client("dynamodb"), table_of("outbox"), LAYOUT) == 2


def test_a_writer_with_an_outbox_that_dies_has_done_all_or_nothing(
    lane_of: Callable[..., LaneWriter], engine: Account
) -> None:
    """There is one step: what comes after it is a repetition that changes nothing."""
    writer = lane_of("outbox")
    with pytest.raises(WriterDied):
        writer.place(ORDER, die)
    assert writer.place(ORDER, go_on) == "committed"
    assert names(engine, "outbox") == event_names(replace(ORDER, paid=False))


def test_write_then_publish_loses_the_events_of_a_writer_that_dies(
    lane_of: Callable[..., LaneWriter], engine: Account
) -> None:
    """The row is there and the bus knows nothing, until somebody submits the command again."""
    events = Events()
    writer = lane_of("write_then_publish", events)
    with pytest.raises(WriterDied):
        writer.place(ORDER, die)
    assert names(engine, "write_then_publish") == event_names(replace(ORDER, paid=False))
    assert events.accepted == []
    assert writer.place(ORDER, go_on) == "committed"
    assert events.accepted == ["order.placed", "order.flagged"]


def test_publish_then_write_announces_what_is_then_rejected(lane_of: Callable[..., LaneWriter]) -> None:
    """The condition speaks when the event is out already."""
    events = Events()
    writer = lane_of("publish_then_write", events)
    writer.place(ORDER, go_on)
    assert writer.place(replace(ORDER, request_id="F2", flagged=False), go_on) == "rejected"
    assert events.accepted == ["order.placed", "order.flagged", "order.placed"]


@pytest.mark.parametrize("lane", DUAL)
def test_dual_writes_read_the_result_of_each_entry(lane: Lane, lane_of: Callable[..., LaneWriter]) -> None:
    """Rejected entries, and only those, are sent again."""
    events = Events(reject=1)
    assert lane_of(lane, events).place(ORDER, go_on) == "committed"
    assert sorted(events.accepted) == ["order.flagged", "order.placed"]


@pytest.mark.parametrize("lane", DUAL)
def test_dual_writes_give_up_when_the_bus_keeps_rejecting(lane: Lane, lane_of: Callable[..., LaneWriter]) -> None:
    """After five sends the command fails with the bus's own code."""
    with pytest.raises(PublishFailed, match="InternalFailure"):
        lane_of(lane, Events(reject=100)).place(ORDER, go_on)


@pytest.mark.parametrize("lane", DUAL)
@pytest.mark.parametrize("reasons", [None, [{"Code": "TransactionConflict"}, {"Code": "None"}]])
def test_dual_writes_pass_on_what_they_do_not_understand(
    lane: Lane, reasons: list[dict[str, str]] | None, lane_of: Callable[..., LaneWriter], engine: Account
) -> None:
    """An error that is no lost condition goes to the caller."""
    client = Behind(engine.client("dynamodb"))
    response: Any = {"Error": {"Code": "X", "Message": "y"}}
    if reasons is not None:
        response["CancellationReasons"] = reasons
    error = ClientError(response, "TransactWriteItems")

    def fail() -> None:
        raise error

    client.before_write = fail
    with pytest.raises(ClientError) as caught:
        lane_of(lane, dynamodb=client).place(ORDER, go_on)
    assert caught.value is error


def test_a_scan_gives_plain_values(engine: Account) -> None:
    """Whole numbers are int, others keep their digits as text, and nested values are treated alike."""
    client = engine.client("dynamodb")
    create_table(client, "plain", view_type=None)
    item = {
        "pk": {"S": "a"},
        "sk": {"S": "b"},
        "n": {"N": "1.50"},
        "l": {"L": [{"N": "3"}, {"M": {"x": {"N": "-2"}}}]},
        "t": {"BOOL": True},
    }
    client.put_item(TableName="plain", Item=item)
    assert scan(client, "plain") == ({"pk": "a", "sk": "b", "n": "1.5", "l": [3, {"x": -2}], "t": True},)
