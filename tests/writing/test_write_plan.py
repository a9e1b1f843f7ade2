"""From actions and events to one request."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pytest
from write_world import LAYOUT, PLACE, START_MS, TABLE, TABLES, new_id, some_event, some_guard, some_plan

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.commit.actions import Action, check, delete, put
from dynamodb_outbox.core.commit.conditions import Requirement
from dynamodb_outbox.core.commit.events import new_event
from dynamodb_outbox.core.commit.fingerprint import guard_hash
from dynamodb_outbox.core.commit.plan import CommitPlan, Draft, Guard
from dynamodb_outbox.core.commit.steady import SteadyTime
from dynamodb_outbox.core.commit.targets import target_of
from dynamodb_outbox.errors import (
    AmbiguousKey,
    DuplicateAction,
    EmptyTransaction,
    EventTooLarge,
    InvalidEvent,
    InvalidValue,
    ItemTooLarge,
    MissingKey,
    TransactionTooLarge,
)
from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout


def a_put(pk: str = "ORDER#1", sk: str = "META", **attributes: Any) -> Action:
    """Return a put of a new item."""
    item = {"pk": pk, "sk": sk, **attributes}
    return put(target_of("put", TABLE, item, TABLES), item, Requirement(if_absent=True), LAYOUT)


def plan_of(
    *members: Action | Event, guard: Guard | None = None, ids_from: int = 0, at_ms: int = START_MS, limit: int = 262_144
) -> CommitPlan:
    """Return the plan of a transaction with these actions and events."""
    draft = Draft(guard)
    for member in members:
        if isinstance(member, Event):
            draft.events.append(member)
        else:
            draft.add(member)
    ids = [new_id(ids_from + i) for i in range(len(draft.events) + 1)]
    return draft.plan(PLACE, at_ms=at_ms, ids=ids, max_event_bytes=limit)


def records_in(plan: CommitPlan) -> list[dict[str, Any]]:
    """Return the outbox records of a request, as items."""
    puts = [each["Put"]["Item"] for each in plan.request["TransactItems"][plan.own_from :]]
    return [item for item in puts if item["sk"]["S"].startswith("OUTBOX#")]


# --- keys and records -------------------------------------------------------------------------------------------------


def test_the_key_is_the_partition_written() -> None:
    """An event without a key is ordered by the one partition that the transaction writes, checks left aside."""
    plan = plan_of(
        some_event(),
        a_put("ORDER#1", "A"),
        delete(target_of("delete", TABLE, {"pk": "ORDER#1", "sk": "B"}, TABLES), Requirement(), LAYOUT),
        check(target_of("check", TABLE, {"pk": "STOCK#1", "sk": "A"}, TABLES), Requirement(if_exists=True), LAYOUT),
    )
    (record,) = records_in(plan)
    assert record["pk"] == record["key"] == {"S": "ORDER#1"}


def test_several_partitions_need_a_key() -> None:
    """With two partitions written, an event has to say which orders it."""
    with pytest.raises(AmbiguousKey) as caught:
        plan_of(a_put("A"), a_put("B"), some_event(type="t"))
    assert (caught.value.event_type, caught.value.partitions) == ("t", ("A", "B"))
    assert len(records_in(plan_of(a_put("A"), a_put("B"), some_event(key="B")))) == 1


def test_nothing_written_needs_a_key() -> None:
    """A check gives no key; an event alone with a key is a transaction."""
    target = target_of("check", TABLE, {"pk": "A", "sk": "B"}, TABLES)
    with pytest.raises(MissingKey):
        plan_of(check(target, Requirement(if_exists=True), LAYOUT), some_event())
    assert len(plan_of(some_event(key="K")).request["TransactItems"]) == 1


def test_one_record_for_each_key() -> None:
    """Events of one key share a record in the order of emit; ids of single events are the record's, others' are new."""
    events = [some_event(new_id(50 + i), key=key) for i, key in enumerate("ABAC")]
    plan = plan_of(a_put("A"), *events)
    first, second, third = records_in(plan)
    assert [e["id"] for e in json.loads(first["events"]["S"])] == [events[0].id, events[2].id]
    assert first["id"]["S"] == new_id(1)
    assert (second["id"]["S"], third["id"]["S"]) == (events[1].id, events[3].id)
    assert [r["tx"]["M"]["index"]["N"] for r in (first, second, third)] == ["0", "1", "2"]
    assert {r["tx"]["M"]["count"]["N"] for r in (first, second, third)} == {"3"}
    assert plan.receipt.event_ids == tuple(event.id for event in events)


def test_every_record_is_guarded() -> None:
    """A record is put where nothing is, so that a request sent twice cannot commit twice."""
    plan = some_plan()
    (record,) = [each["Put"] for each in plan.request["TransactItems"][plan.own_from :]]
    assert record["ConditionExpression"] == "attribute_not_exists(#ob_pk)"
    assert record["ExpressionAttributeNames"] == {"#ob_pk": "pk"}


# --- the request ------------------------------------------------------------------------------------------------------


def test_actions_come_first_and_in_order() -> None:
    """Members of the request: the caller's actions in their order, records, the guard. Labels name each."""
    plan = plan_of(a_put("A", "1"), some_event(), a_put("A", "2"), guard=some_guard())
    assert [next(iter(each)) for each in plan.request["TransactItems"]] == ["Put"] * 4
    assert plan.own_from == 2
    assert plan.labels[0] == "put shop {'pk': 'A', 'sk': '1'}"
    assert plan.labels[2] == "outbox record of key 'A' (order.placed)"
    assert plan.labels[3] == "guard of command 'command-1'"


def test_the_token_is_the_transactions_id_without_a_guard() -> None:
    """Without a command the token is the transaction's id, which its records carry too."""
    plan = some_plan()
    assert plan.token == plan.tx == plan.request["ClientRequestToken"] == records_in(plan)[0]["tx"]["M"]["id"]["S"]


def test_the_token_of_a_command_is_bound_to_its_request() -> None:
    """With a command the token is a hash of guard and request: 36 characters, another for any other content."""
    one, same = (plan_of(a_put("A", n=1), guard=some_guard()) for _ in range(2))
    other = plan_of(a_put("A", n=2), guard=some_guard())
    assert len(one.token) == 36
    assert one.token == same.token != other.token


def test_a_plan_says_what_its_command_is_called() -> None:
    """As the caller called it; a transaction without a guard has no command."""
    assert (some_plan(guard=some_guard()).command, some_plan().command) == ("command-1", "")


def test_nothing_to_commit_is_an_error() -> None:
    """A transaction without actions and events is refused, unless its guard may stand alone."""
    with pytest.raises(EmptyTransaction):
        plan_of()
    with pytest.raises(EmptyTransaction):
        plan_of(guard=some_guard("fingerprint"))
    alone = plan_of(guard=Guard("INBOX#1", "INBOX#1", "f", timedelta(days=1), alone=True))
    assert len(alone.request["TransactItems"]) == 1


def test_one_action_an_item() -> None:
    """A second action on an item is refused and names the first; another table's item of the same key is another."""
    draft = Draft()
    draft.add(a_put("A"))
    with pytest.raises(DuplicateAction) as caught:
        draft.add(a_put("A"))
    assert caught.value.first == "put shop {'pk': 'A', 'sk': 'META'}"
    item = {"pk": "A", "sk": "META"}
    draft.add(put(target_of("put", "other", item, TABLES), item, Requirement(if_absent=True), LAYOUT))


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_hundred_actions_records_and_guard_included() -> None:
    """100 members are sent; 101 are refused before anything is, whoever brought them in."""
    puts = [a_put("A", str(i)) for i in range(98)]
    assert len(plan_of(*puts, some_event(), guard=some_guard()).request["TransactItems"]) == 100
    with pytest.raises(TransactionTooLarge) as caught:
        plan_of(*puts, a_put("A", "more"), some_event(), guard=some_guard())
    assert (caught.value.size, caught.value.limit, caught.value.unit) == (101, 100, "actions")


def test_four_megabytes() -> None:
    """More than 4 MB together is refused, and the largest action is named."""
    puts = [a_put("A", str(i), blob=b"x" * (390 * 1024)) for i in range(11)]
    with pytest.raises(TransactionTooLarge, match="largest action is put shop"):
        plan_of(*puts)


def test_an_event_is_measured_as_it_is_published() -> None:
    """An entry's bytes count: its time, source, type and envelope, in UTF-8, with the key that the commit found."""
    event = some_event(payload='"' + "é" * 100 + '"')
    envelope = cloudevent(some_event(payload=event.payload, key="ORDER#1"))
    size = 14 + len("shop.orders") + len("order.placed") + len(envelope.encode())
    plan_of(a_put(), event, limit=size)
    with pytest.raises(EventTooLarge) as caught:
        plan_of(a_put(), event, limit=size - 1)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)


def test_a_record_of_many_events_must_fit_an_item() -> None:
    """Events that fit one by one and not together in their record are refused by the record's name."""
    events = [some_event(new_id(i), payload='"' + "x" * 200_000 + '"') for i in range(3)]
    with pytest.raises(ItemTooLarge) as caught:
        plan_of(a_put(), *events)
    assert caught.value.what == "outbox record of key 'ORDER#1' (order.placed, order.placed, order.placed)"


# --- commands ---------------------------------------------------------------------------------------------------------


def command(*members: Action | Event, custom: str | None = None, ids_from: int = 0, at_ms: int = START_MS) -> str:
    """Return the fingerprint of a command."""
    return plan_of(*members, guard=some_guard(custom), ids_from=ids_from, at_ms=at_ms).fingerprint or ""


def test_a_repetition_has_the_same_fingerprint() -> None:
    """New ids and times do not make another command."""
    first = command(a_put(n={1, 2}), some_event(new_id(1)))
    later = some_event(new_id(2), time=datetime(2027, 1, 1, tzinfo=timezone.utc))
    assert command(a_put(n={2, 1}), later, ids_from=40, at_ms=START_MS + 99) == first


@pytest.mark.parametrize(
    "members",
    [
        (a_put(n=2), some_event()),
        (a_put(n=1), some_event(payload='{"n":2}')),
        (a_put(n=1), some_event(type="other")),
        (a_put(n=1), some_event(key="K")),
        (a_put(n=1), some_event(subject="s")),
        (a_put(n=1), some_event(attributes={"a": "b"})),
        (a_put(n=1), some_event(), some_event(new_id(8))),
        (a_put(n=1),),
        (a_put(n=b"1"), some_event()),
    ],
)
def test_other_content_has_another_fingerprint(members: tuple[Action | Event, ...]) -> None:
    """Items, conditions, and type, data, key, subject and attributes of events make the command."""
    assert command(*members) != command(a_put(n=1), some_event())


def test_a_fingerprint_of_the_callers_own() -> None:
    """A given fingerprint decides alone."""
    assert command(a_put(n=1), custom="x") == command(a_put(n=2), custom="x") != command(a_put(n=1), custom="y")


def test_commands_of_two_sources_never_meet() -> None:
    """Two services with one table can use the same idempotency key."""
    assert guard_hash("orders", "1") != guard_hash("billing", "1")


def test_the_evidence_of_a_commit() -> None:
    """A record shows it for as long as published records are kept, a guard for as long as it is kept; else nothing."""
    layout = Layout(published_for=timedelta(hours=2))
    record = some_plan(layout=layout).evidence
    assert record is not None
    assert (record.kind, record.lasts_ms, record.key["pk"]) == ("record", 7_200_000, {"S": "ORDER#1"})
    for settle, lasts_ms in (("mark", 7_200_000), ("none", 7_200_000), ("delete", 0)):
        other = some_plan(layout=replace(layout, settle=cast("Any", settle))).evidence
        assert other == replace(record, lasts_ms=lasts_ms), settle
    guard = some_plan(guard=some_guard(keep=timedelta(hours=3)), layout=Layout(settle="delete")).evidence
    assert guard is not None
    assert (guard.kind, guard.lasts_ms, guard.key) == (
        "guard",
        10_800_000,
        {"pk": {"S": "IDEMP#x"}, "sk": {"S": "GUARD"}},
    )
    assert some_plan(events=0).evidence is None


# --- new events -------------------------------------------------------------------------------------------------------


def emitted(**fields: Any) -> Event:
    """Return an event made as emit makes it."""
    defaults: dict[str, Any] = {
        "type": "order.placed",
        "data": {"n": 1},
        "id": new_id(1),
        "source": "shop",
        "time": datetime(2026, 1, 2, tzinfo=timezone.utc),
        "key": None,
        "subject": None,
        "attributes": None,
        "layout": LAYOUT,
    }
    return new_event(**(defaults | fields))


def test_an_event_is_fixed_when_it_is_made() -> None:
    """Changing the data afterwards changes nothing, and neither does changing the attributes."""
    data, attributes = {"n": 1}, {"a": "b"}
    event = emitted(data=data, attributes=attributes, type="x" * 128)
    data["n"] = 2
    attributes["a"] = "c"
    assert (event.data, event.attributes) == ({"n": 1}, {"a": "b"})


def test_an_events_time_is_kept_in_utc() -> None:
    """A time with any zone is taken."""
    zone = timezone(timedelta(hours=2))
    assert emitted(time=datetime(2026, 1, 2, tzinfo=zone)).time == datetime(2026, 1, 1, 22, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": ""}, "type"),
        ({"type": None}, "type"),
        ({"type": "x" * 129}, "type"),
        ({"type": "\ud800"}, "type"),
        ({"subject": ""}, "subject"),
        ({"key": ""}, "key"),
        ({"key": 5}, "key"),
        ({"key": "é" * 1025}, "key"),
        ({"key": "IDEMP#1"}, "key"),
        ({"time": datetime(2026, 1, 1)}, "time"),  # noqa: DTZ001 -- the case itself
        ({"time": "2026-01-01"}, "time"),
        ({"time": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))}, "time"),
        ({"time": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))}, "time"),
        ({"type": b"order.placed"}, "type"),
        ({"subject": 5}, "subject"),
        ({"subject": "\ud800"}, "subject"),
        ({"key": "\ud800"}, "key"),
        ({"attributes": [("a", "b")]}, "attributes"),
        ({"attributes": "a"}, "attributes"),
        ({"attributes": {"a": "\ud800"}}, "attributes['a']"),
        ({"attributes": {"Upper": "x"}}, "attributes"),
        ({"attributes": {"id": "x"}}, "attributes"),
        ({"attributes": {"a": 1}}, "attributes"),
        ({"attributes": {"a": ""}}, "attributes['a']"),
    ],
)
def test_events_that_cannot_be_emitted(fields: dict[str, Any], field: str) -> None:
    """Every argument is checked, and the error names it."""
    with pytest.raises(InvalidEvent) as caught:
        emitted(**fields)
    assert caught.value.field == field


def test_data_is_checked_with_its_path() -> None:
    """A float in the data is refused where it is."""
    with pytest.raises(InvalidValue) as caught:
        emitted(data={"price": 1.5})
    assert caught.value.path == "data.price"


# --- time -------------------------------------------------------------------------------------------------------------


def test_time_follows_the_faster_clock_and_never_goes_back() -> None:
    """A wall clock set back, a monotonic clock that stood still: the larger span counts, and once counted stays."""
    steady = SteadyTime(wall_ms=1_000, monotonic_ms=50)
    assert steady.now_ms(1_100, 150) == 1_100
    assert steady.now_ms(500, 250) == 1_200
    assert steady.now_ms(9_000, 250) == 9_000
    assert steady.now_ms(1_000, 251) == 9_000
