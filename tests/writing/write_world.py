"""What the tests of the writing side share: a clock and entropy without surprises, plans, a table on the engine."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError

from dynamodb_outbox.core.commit.actions import put
from dynamodb_outbox.core.commit.conditions import Requirement
from dynamodb_outbox.core.commit.plan import CommitPlan, Draft, Guard, Place
from dynamodb_outbox.core.commit.targets import Tables, target_of
from dynamodb_outbox.event import Event
from dynamodb_outbox.ids import uuid7
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local import provision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.keys import Keys

START_MS = 1_700_000_000_000
LAYOUT = Layout()
TABLE = "shop"
TABLES = Tables(TABLE, TABLE, LAYOUT)
PLACE = Place(TABLES, "eu-west-1")


@dataclass
class FakeClock:
    """Both clocks under the test's hand; sleeping moves them."""

    wall_ms: int = START_MS
    steady_ms: int = 0
    slept: list[int] = field(default_factory=list)

    def now_ms(self) -> int:
        """Return the wall clock."""
        return self.wall_ms

    def monotonic_ms(self) -> int:
        """Return the steady clock."""
        return self.steady_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Move both clocks, by a millisecond at least."""
        self.slept.append(duration_ms)
        self.pass_ms(max(1, duration_ms))

    def pass_ms(self, duration_ms: int) -> None:
        """Move both clocks."""
        self.wall_ms += duration_ms
        self.steady_ms += duration_ms


@dataclass
class CountingEntropy:
    """Bytes that count up, so that ids are distinct and known; jitter at its middle."""

    counter: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def bytes(self, count: int) -> bytes:
        """Return the next number as bytes."""
        return next(self.counter).to_bytes(count, "big")

    def unit(self) -> float:
        """Return a half."""
        return 0.5


def new_id(number: int) -> str:
    """Return a valid UUIDv7 that the number decides."""
    return uuid7(START_MS, number.to_bytes(10, "big"))


def some_event(event_id: str = "", **fields: Any) -> Event:
    """Return an event with defaults for what the test does not care about."""
    defaults: dict[str, Any] = {
        "id": event_id or new_id(7),
        "type": "order.placed",
        "source": "shop.orders",
        "payload": '{"n":1}',
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
    }
    return Event(**(defaults | fields))


def some_plan(
    *, events: int = 1, guard: Guard | None = None, at_ms: int = START_MS, layout: Layout = LAYOUT
) -> CommitPlan:
    """Return a plan of one conditional put with that many events of its key."""
    draft = Draft(guard)
    tables = Tables(TABLE, TABLE, layout)
    item = {"pk": "ORDER#1", "sk": "META", "n": 1}
    draft.add(put(target_of("put", TABLE, item, tables), item, Requirement(if_absent=True), layout))
    draft.events += [some_event(new_id(100 + i)) for i in range(events)]
    ids = [new_id(i) for i in range(events + 1)]
    return draft.plan(Place(tables, "eu-west-1"), at_ms=at_ms, ids=ids, max_event_bytes=262_144)


def some_guard(fingerprint: str | None = None, keep: timedelta = timedelta(days=7)) -> Guard:
    """Return the guard of a command."""
    return Guard("IDEMP#x", "command-1", fingerprint, keep)


def other_guard(item: Mapping[str, Any], **other: Any) -> dict[str, Any]:
    """Return a guard with some of its content from another run."""
    return {**item, "ob_guard": {"M": {**item["ob_guard"]["M"], **other}}}


def create_table(client: Any, name: str = TABLE, *, layout: Layout = LAYOUT) -> None:
    """Create a table for records, as infrastructure does, with the index that they enter.

    Its TTL is switched off again: by the tests' own clocks much is past already, and the engine would remove it.
    """
    provision.create_table(client, name, layout=layout, view_type=None)
    client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": False, "AttributeName": layout.ttl})


def create_items_table(client: Any, name: str, keys: Keys) -> None:
    """Create a table of items alone, with these keys."""
    types = keys.types
    client.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": each, "KeyType": kind} for each, kind in zip(types, ("HASH", "RANGE"), strict=False)
        ],
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": kind} for each, kind in types.items()],
        BillingMode="PAY_PER_REQUEST",
    )


def get_item(client: Any, pk: str, sk: str, table: str = TABLE) -> Mapping[str, Any] | None:
    """Return an item in wire form, None when there is none."""
    key = {"pk": {"S": pk}, "sk": {"S": sk}}
    found: Mapping[str, Any] | None = client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
    return found


def records_of(client: Any, pk: str, table: str = TABLE) -> list[Mapping[str, Any]]:
    """Return the outbox records in a partition, by sort key."""
    found: list[Mapping[str, Any]] = client.query(
        TableName=table,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)",
        ExpressionAttributeValues={":pk": {"S": pk}, ":sk": {"S": "OUTBOX#"}},
        ConsistentRead=True,
    )["Items"]
    return found


def sends(client: Any, request: dict[str, Any]) -> bool:
    """Send a request; whether it is accepted."""
    try:
        client.transact_write_items(**request)
    except (ClientError, ParamValidationError):
        return False
    return True
