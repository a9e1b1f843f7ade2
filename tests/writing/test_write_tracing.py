"""Commits that are followed: what their events carry, what stays as it is, and what a tracing cannot break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from write_scripted import ITEM, World, cancelled, lost
from write_world import some_event

from dynamodb_outbox.core.commit.tracing import traced, trustworthy
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.errors import CommitUnknown, ConditionFailed, ConfigurationError, IdempotencyMismatch
from dynamodb_outbox.event import NO_ATTRIBUTES, Event
from dynamodb_outbox.layout import Layout
from spans_kept import BrokenTracing, Kept, attributes, linked, place, traceparent

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def emitted(world: World, **options: Any) -> None:
    """Commit an order with its event."""
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
        tx.emit("order.placed", {"n": 1}, **options)


def stored(request: Mapping[str, Any]) -> list[Event]:
    """Return the events of a request's records."""
    items = [member["Put"]["Item"] for member in request["TransactItems"] if "Put" in member]
    records = [item for item in items if item["sk"]["S"].startswith("OUTBOX#")]
    return [event for record in records for event in decode(record, Layout(), source="?").events]


def test_events_carry_the_context_of_their_commit() -> None:
    """Both events of a commit inside of an active span: the commit's span is a child of it, and is what they carry."""
    kept = Kept()
    world = World(tracing=kept.tracing)
    with kept.tracer.start_as_current_span("request") as around, world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
        events = [tx.emit("order.placed", {"n": n}, attributes={"tenant": "t"}) for n in (1, 2)]
    span = kept.one("commit")
    assert span.parent == around.get_span_context()
    (request,) = world.client.requests
    assert [event.attributes for event in stored(request)] == [{"tenant": "t", "traceparent": traceparent(span)}] * 2
    assert [event.attributes for event in events] == [{"tenant": "t"}] * 2


def test_a_commit_has_the_names_of_the_conventions() -> None:
    """It is a PRODUCER, since events carry its context; of one event it has id, source and type, of none the data."""
    kept = Kept()
    world = World(tracing=kept.tracing)
    emitted(world, key="secret", subject="secret")
    span = kept.one("commit")
    assert (span.name, span.kind, span.status.status_code) == ("commit shop", SpanKind.PRODUCER, StatusCode.UNSET)
    (event,) = stored(world.client.requests[0])
    assert attributes(span) == {
        "messaging.system": "dynamodb_outbox",
        "messaging.operation.name": "commit",
        "messaging.operation.type": "send",
        "messaging.destination.name": "shop",
        "messaging.batch.message_count": 1,
        "cloudevents.event_id": event.id,
        "cloudevents.event_source": "shop.orders",
        "cloudevents.event_type": "order.placed",
        "dynamodb_outbox.outcome": "committed",
    }


@pytest.mark.parametrize("own", [{"traceparent": OWN}, {"tracestate": "a=1"}, {"traceparent": "mine"}])
def test_a_context_that_the_caller_gave_is_left_alone(own: dict[str, str]) -> None:
    """None of it is mixed with another one; the commit is linked to it, where it is one."""
    kept = Kept()
    world = World(tracing=kept.tracing)
    emitted(world, attributes=own)
    assert [event.attributes for event in stored(world.client.requests[0])] == [own]
    assert linked(kept.one("commit")) == ([(int(OWN[3:35], 16), int(OWN[36:52], 16))] if OWN in own.values() else [])


def test_a_commit_without_events_has_no_span() -> None:
    """There is nothing to follow."""
    kept = Kept()
    world = World(tracing=kept.tracing)
    with world.outbox.transaction() as tx:
        tx.put(ITEM, if_absent=True)
    assert kept.spans("commit") == []


def test_all_attempts_of_a_commit_are_one_request() -> None:
    """Retries inside of a commit, and a commit that is called again, in another span: the same bytes."""
    kept = Kept()
    world = World(lost(), *[lost()] * 400, tracing=kept.tracing)
    world.client.items = [None] * 400
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    tx.emit("order.placed", {"n": 1})
    with kept.tracer.start_as_current_span("one"), pytest.raises(CommitUnknown):
        tx.commit()
    world.client.answers = iter(())
    with kept.tracer.start_as_current_span("two"):
        tx.commit()
    assert len(world.client.requests) > 2
    assert all(request == world.client.requests[0] for request in world.client.requests)
    first, second = kept.spans("commit")
    assert [event.attributes["traceparent"] for event in stored(world.client.requests[0])] == [traceparent(first)]
    assert (linked(first), linked(second)) == ([], [place(first)])


def guarded(world: World, data: object) -> Mapping[str, Any]:
    """Commit a command with an event, and return the item of its guard."""
    tx = world.outbox.transaction(idempotency_key="request-1")
    tx.put(ITEM, if_absent=True)
    tx.emit("order.placed", data)
    tx.commit()
    guard: Mapping[str, Any] = world.client.requests[-1]["TransactItems"][-1]["Put"]["Item"]
    return guard


def retried(guard: Mapping[str, Any], **options: Any) -> World:
    """Return a world in which a command finds the guard of an earlier run, which had other ids."""
    world = World(cancelled("None", "None", "ConditionalCheckFailed"), **options)
    world.client.items = [dict(guard)]
    world.outbox.event("order.placed", {}, key="ORDER#1")
    return world


def test_a_command_that_is_retried_in_another_trace_is_the_same_command() -> None:
    """It gets the first receipt, with a tracing or without one; other data is another command all the same."""
    kept = Kept()
    world = World(tracing=kept.tracing)
    with kept.tracer.start_as_current_span("first"):
        guard = guarded(world, {"n": 1})
    for tracing in (kept.tracing, None):
        again = retried(guard, tracing=tracing)
        with kept.tracer.start_as_current_span("again"):
            guarded(again, {"n": 1})
    assert [attributes(span)["dynamodb_outbox.outcome"] for span in kept.spans("commit")] == ["committed", "replayed"]
    other = retried(guard, tracing=kept.tracing)
    with pytest.raises(IdempotencyMismatch):
        guarded(other, {"n": 2})


def test_a_context_of_ones_own_is_no_part_of_a_command_either() -> None:
    """A caller who passes the trace on by hand may retry in another one."""
    world = World()
    fingerprints = set()
    for attributes_ in ({"traceparent": OWN}, {"traceparent": OTHER, "tracestate": "a=1"}, {}):
        tx = world.outbox.transaction(idempotency_key="request-1")
        tx.put(ITEM, if_absent=True)
        tx.emit("order.placed", {"n": 1}, attributes=attributes_)
        tx.commit()
        fingerprints.add(
            str(world.client.requests[-1]["TransactItems"][-1]["Put"]["Item"]["ob_guard"]["M"]["fingerprint"])
        )
    assert len(fingerprints) == 1


def test_a_commit_that_fails_says_so_without_the_item() -> None:
    """Its span has the error's type, and nothing of what the error tells."""
    kept = Kept()
    world = World(cancelled("ConditionalCheckFailed", "None"), tracing=kept.tracing)
    world.client.items = [None]
    with pytest.raises(ConditionFailed):
        emitted(world)
    span = kept.one("commit")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert attributes(span)["error.type"].endswith(".ConditionFailed")
    assert attributes(span)["dynamodb_outbox.outcome"] == "failed"
    assert [dict(event.attributes or {}).keys() for event in span.events] == [{"exception.type"}]


def test_requests_and_records_carry_the_context_of_their_caller() -> None:
    """Who sends them is not known: there is no span of a commit, and none where nobody has one."""
    kept = Kept()
    world = World(tracing=kept.tracing)
    tx = world.outbox.transaction()
    tx.put(ITEM, if_absent=True)
    tx.emit("order.placed", {"n": 1})
    event = world.outbox.event("order.placed", {"n": 2}, key="ORDER#1")
    assert [one.attributes for one in stored({"TransactItems": world.outbox.records([event])})] == [{}]
    with kept.tracer.start_as_current_span("mine") as mine:
        told = [*stored(tx.request()), *stored({"TransactItems": world.outbox.records([event])})]
    assert [one.attributes for one in told] == [{"traceparent": traceparent(mine)}] * 2
    tx.commit()
    assert linked(kept.one("commit")) == [place(mine)]


@pytest.mark.parametrize(
    "tracing",
    [
        BrokenTracing(begins=False),
        BrokenTracing(),
        BrokenTracing(said={"traceparent": "\ud800", "Bad Name": "x"}),
        BrokenTracing(said="no mapping"),
        BrokenTracing(said={"traceparent": 5}),
    ],
)
def test_what_a_tracing_does_wrong_changes_nothing(tracing: BrokenTracing, caplog: pytest.LogCaptureFixture) -> None:
    """It raises anywhere, or gives what no event can carry: the same request is sent as without it."""
    worlds = [World(tracing=tracing), World()]
    for world in worlds:
        emitted(world)
        tx = world.outbox.transaction()
        tx.emit("order.placed", {"n": 1}, key="ORDER#1")
        world.client.requests.append(tx.request())
    assert worlds[0].client.requests == worlds[1].client.requests
    assert "the tracing raised" in caplog.text


@pytest.mark.parametrize("given", [object(), Kept, "otel"])
def test_what_is_no_tracing_is_refused(given: Any) -> None:
    """When the outbox is made."""
    with pytest.raises(ConfigurationError, match="tracing is"):
        World(tracing=given)


@pytest.mark.parametrize(
    ("context", "kept"),
    [
        ({"traceparent": OWN, "tracestate": "a=1,b=2", "baggage": "x"}, {"traceparent": OWN, "tracestate": "a=1,b=2"}),
        ({"traceparent": OWN, "tracestate": "a" * 513}, {"traceparent": OWN}),
        ({"traceparent": OWN, "tracestate": ""}, {"traceparent": OWN}),
        ({"traceparent": OWN, "tracestate": "a=\n"}, {"traceparent": OWN}),
        ({"traceparent": OWN, "tracestate": None}, {"traceparent": OWN}),
        ({"tracestate": "a=1"}, {}),
        ({"traceparent": OWN + "\n"}, {}),
        ({"traceparent": "00" + OWN[2:].upper()}, {}),
        ({"traceparent": "ff" + OWN[2:]}, {}),
        ({"traceparent": f"00-{'0' * 32}-{OWN[36:]}"}, {}),
        ({"traceparent": f"{OWN[:36]}{'0' * 16}-01"}, {}),
        ([("traceparent", OWN)], {}),
    ],
)
def test_what_of_a_context_can_be_an_events(context: object, kept: dict[str, str]) -> None:
    """A traceparent by W3C's form, and with it a tracestate of up to 512 characters; nothing else."""
    assert trustworthy(context) == kept


def test_no_context_leaves_an_event_as_it_is() -> None:
    """It is the same object."""
    event = some_event()
    assert traced(event, NO_ATTRIBUTES) is event
