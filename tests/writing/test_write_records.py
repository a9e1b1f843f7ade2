"""Records for transactions that are assembled elsewhere: made by an outbox, sent by the caller."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from write_scripted import World
from write_world import LAYOUT, START_MS, TABLE, create_table, get_item, new_id, records_of, some_event

from dynamodb_outbox import Event, Layout, Outbox
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.errors import (
    ConfigurationError,
    EventTooLarge,
    InvalidEvent,
    InvalidValue,
    ItemTooLarge,
    MissingKey,
    OutboxError,
    TransactionTooLarge,
)
from dynamodb_outbox.event import DataRef

if TYPE_CHECKING:
    from conftest import Account


def stored_events(client: Any, key: str) -> list[Event]:
    """Return the events in a partition as the relay reads them."""
    return [event for item in records_of(client, key) for event in decode(item, LAYOUT, source="?").events]


# --- what is made -----------------------------------------------------------------------------------------------------


def test_an_event_is_what_emit_would_make() -> None:
    """The same fields, checked in the same way, and a key that is given."""
    world = World()
    moment = datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    event = world.outbox.event(
        "order.placed", {"cents": 5}, key="ORDER#1", subject="1", time=moment, attributes={"traceparent": "00-1"}
    )
    emitted = world.outbox.transaction().emit(
        "order.placed", {"cents": 5}, key="ORDER#1", subject="1", time=moment, attributes={"traceparent": "00-1"}
    )
    assert replace(event, id="") == replace(emitted, id="")
    assert event.id != emitted.id
    assert world.outbox.event("t", None, key="K").time == datetime.fromtimestamp(START_MS / 1000, timezone.utc)
    with pytest.raises(InvalidValue, match=r"data\.cents"):
        world.outbox.event("order.placed", {"cents": 5.0}, key="K")
    with pytest.raises(InvalidEvent, match="key"):
        world.outbox.event("order.placed", {}, key="")


def test_the_records_are_those_of_a_commit() -> None:
    """One conditional put a key, the same items that a transaction of these events would write."""
    world = World()
    event = world.outbox.event("a", {"n": 1}, key="ORDER#1")
    first, second = world.outbox.records([event, some_event(new_id(101), key="B"), some_event(new_id(102), key="B")])
    tx = World().outbox.transaction()
    tx.emit("a", {"n": 1}, key="ORDER#1")
    (expected,) = tx.request()["TransactItems"]
    assert first.keys() == expected.keys()
    assert first["Put"].keys() == expected["Put"].keys()
    assert first["Put"]["ConditionExpression"] == expected["Put"]["ConditionExpression"]
    assert first["Put"]["Item"].keys() == expected["Put"]["Item"].keys()
    assert first["Put"]["Item"]["sk"] == {"S": f"OUTBOX#{event.id}"}
    assert [each["Put"]["Item"]["tx"]["M"]["index"]["N"] for each in (first, second)] == ["0", "1"]
    assert "events" in second["Put"]["Item"]
    assert world.client.requests == []


def test_no_events_are_no_records() -> None:
    """An empty list gives an empty list, which can be added to any transaction."""
    assert World().outbox.records([]) == []
    assert World().outbox.records(iter(())) == []


def test_where_the_data_is_kept_is_not_the_callers_to_say() -> None:
    """The payload is what is recorded; an event that has nothing but a reference is refused."""
    world = World()
    event = replace(world.outbox.event("t", {"n": 1}, key="K"), dataref=DataRef("s3://b/k", "0" * 64))
    (put,) = world.outbox.records([event])
    assert put["Put"]["Item"]["payload"] == {"S": '{"n":1}'}
    assert not {"dataref", "datasha256"} & put["Put"]["Item"].keys()
    with pytest.raises(InvalidEvent, match="payload"):
        world.outbox.records([replace(event, payload="")])


# --- sent by hand -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["client", "resource"])
def test_what_is_returned_is_the_callers(style: Any) -> None:
    """Changed at any depth, it changes no record that is made later, and none of the same call."""
    world = World(layout=Layout(select={"entity": "OUTBOX"}))

    def made() -> list[dict[str, Any]]:
        events = [some_event(new_id(n), key=key) for n, key in enumerate("AB")]
        return world.outbox.records(events, style=style)

    def spoil(value: Any) -> None:
        if isinstance(value, dict):
            for member in value.values():
                spoil(member)
            value.clear()

    first = made()
    second = copy.deepcopy(first[1])
    spoil(first[0])
    assert first[1] == second
    kept = [{**member["Put"], "Item": set(member["Put"]["Item"])} for member in made()]
    assert [{**second["Put"], "Item": set(second["Put"]["Item"])}] * 2 == kept
    assert all(
        member["Put"]["Item"]["entity"] == ("OUTBOX" if style == "resource" else {"S": "OUTBOX"}) for member in made()
    )


def test_a_transaction_of_a_client(engine: Account) -> None:
    """Items in wire form: change and event are written together, or neither is; the relay reads the event."""
    client = engine.client("dynamodb")
    create_table(client)
    outbox = Outbox(TABLE, source="shop.orders", client=client)
    event = outbox.event("order.placed", {"cents": Decimal("5.10")}, key="ORDER#1")
    members = [
        {
            "Put": {
                "TableName": TABLE,
                "Item": {"pk": {"S": "ORDER#1"}, "sk": {"S": "META"}},
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        },
        *outbox.records([event]),
    ]
    client.transact_write_items(TransactItems=members)
    assert stored_events(client, "ORDER#1") == [event]
    other = outbox.event("order.placed", {}, key="ORDER#1")
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        client.transact_write_items(TransactItems=[members[0], *outbox.records([other])])
    assert stored_events(client, "ORDER#1") == [event]


def test_a_transaction_of_a_resources_client(engine: Account) -> None:
    """Python values: the client of boto3's resource converts them, and the records are the same in the table."""
    client = engine.client("dynamodb")
    create_table(client)
    resource = boto3.session.Session().resource(
        "dynamodb",
        endpoint_url=engine.url,
        region_name="us-east-1",
        aws_access_key_id=engine.account,
        aws_secret_access_key="x",
    )
    outbox = Outbox(TABLE, source="shop.orders", client=client)
    events = [outbox.event("t", {"n": n}, key="ORDER#1", attributes={"a": "b"}) for n in range(2)]
    alone = outbox.event("t", {"n": 2}, key="ORDER#2", attributes={"a": "b"})
    resource.meta.client.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": TABLE, "Item": {"pk": "ORDER#1", "sk": "META", "cents": 5}}},
            *outbox.records([*events, alone], style="resource"),
        ]
    )
    assert get_item(client, "ORDER#1", "META") is not None
    assert stored_events(client, "ORDER#1") == events
    assert stored_events(client, "ORDER#2") == [alone]
    (record,) = records_of(client, "ORDER#2")
    (expected,) = outbox.records([alone])
    assert record.keys() == expected["Put"]["Item"].keys()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": "1"}, "id"),
        ({"id": 5}, "id"),
        ({"id": new_id(1).upper()}, "id"),
        ({"type": ""}, "type"),
        ({"type": "x" * 129}, "type"),
        ({"source": "aws.x"}, "source"),
        ({"source": None}, "source"),
        ({"source": "\ud800"}, "source"),
        ({"payload": ""}, "payload"),
        ({"payload": b"1"}, "payload"),
        ({"payload": '1,"id":"forged"'}, "payload"),
        ({"payload": '1}{"x":1'}, "payload"),
        ({"payload": "NaN"}, "payload"),
        ({"payload": '{"a":1,"a":2}'}, "payload"),
        ({"payload": "[" * 201 + "]" * 201}, "payload"),
        ({"payload": str(2**63)}, "payload"),
        ({"payload": '"\ud800"'}, "payload"),
        ({"time": datetime(2026, 1, 1)}, "time"),  # noqa: DTZ001 -- the case itself
        ({"time": None}, "time"),
        ({"key": "IDEMP#1"}, "key"),
        ({"key": ""}, "key"),
        ({"subject": ""}, "subject"),
        ({"sequence": ""}, "sequence"),
        ({"attributes": {"id": "forged"}}, "attributes"),
        ({"attributes": {'a":1,"b': "x"}}, "attributes"),
    ],
)
def test_an_event_made_by_hand_is_checked(fields: dict[str, Any], field: str) -> None:
    """An Event is a plain value that anyone can make: what emit refuses, or could forge an envelope, is refused."""
    with pytest.raises(InvalidEvent) as caught:
        World().outbox.records([some_event(**{"key": "K", **fields})])
    assert caught.value.field == field


def test_an_event_made_by_hand_is_kept_as_it_is() -> None:
    """What passes is written unchanged, its sequence and its source too."""
    event = some_event(key="K", sequence="7", source="another", subject="s", payload="[1.50, 2]")
    (member,) = World().outbox.records([event])
    assert decode(member["Put"]["Item"], LAYOUT, source="?").events == (event,)


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([some_event()], MissingKey),
        ([some_event(key="K"), some_event(key="L")], InvalidEvent),
        (some_event(key="K"), InvalidEvent),
        (5, InvalidEvent),
        ("order.placed", InvalidEvent),
        (None, InvalidEvent),
        ({"a": 1}, InvalidEvent),
        (["order.placed"], InvalidEvent),
        ([some_event(key="K", payload=f'"{"x" * 300_000}"')], EventTooLarge),
        ([some_event(new_id(i), key="K", payload=f'"{"x" * 250_000}"') for i in range(2)], ItemTooLarge),
        ([some_event(new_id(i), key=str(i)) for i in range(101)], TransactionTooLarge),
    ],
)
def test_what_cannot_be_recorded(events: Any, error: type[OutboxError]) -> None:
    """No key, one id twice, no list of events, and what is too large: each a typed error before anything is built."""
    with pytest.raises(error):
        World().outbox.records(events)


def test_a_style_that_does_not_exist() -> None:
    """Only the two forms that boto3 has."""
    style: Any = "table"
    with pytest.raises(ConfigurationError, match="style"):
        World().outbox.records([], style=style)


def test_the_layout_decides_where_they_go() -> None:
    """Names and prefixes are those of the outbox's layout."""
    layout = Layout(pk="PK", sk="SK", prefix="EVENT#")
    world = World(layout=layout)
    (member,) = world.outbox.records([some_event(key="K")])
    assert member["Put"]["Item"]["PK"] == {"S": "K"}
    assert member["Put"]["Item"]["SK"]["S"].startswith("EVENT#")
    assert member["Put"]["ExpressionAttributeNames"] == {"#ob_pk": "PK"}
