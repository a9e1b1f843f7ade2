"""The simulated bus: EventBridge's rules for entries, its faults, and the real sink on top of it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError
from simulation_ground import Ground, ground

from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.event import Event
from dynamodb_outbox.sdk.errors import said
from dynamodb_outbox.sinks import EventBridge
from dynamodb_outbox.testing.simulation.bus import Bus
from dynamodb_outbox.testing.simulation.facts import Accepted, Faulted, Rejected, Sent, Swallowed
from dynamodb_outbox.testing.simulation.faults import PlannedFault
from dynamodb_outbox.testing.simulation.refusal import NotSimulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def entry(event_id: str, *, poison: bool = False, **other: Any) -> dict[str, Any]:
    """Return an entry of PutEvents."""
    detail = json.dumps({"id": event_id, "data": {"n": 1, "poison": poison}})
    return {"EventBusName": "orders", "Source": "shop", "DetailType": "t", "Detail": detail, **other}


def put(world: Ground, *entries: dict[str, Any]) -> Any:
    """Send entries, and return the answer or the error."""
    bus, process = Bus(world.network, "orders"), world.process()
    process.invocation = 5
    client = bus.client(process)
    (outcome,) = world.run(lambda: client.put_events(Entries=list(entries)))
    return outcome


def codes(answer: Any) -> list[str]:
    """Return the code of each result, "" for what was accepted."""
    return [result.get("ErrorCode", "") for result in answer["Entries"]]


def test_what_is_accepted_is_noted_with_the_invocation_that_sent_it() -> None:
    """Equal entries share their text, and each acceptance has an id of its own."""
    with ground() as world:
        answer = put(world, entry("a"), entry("b"), entry("a"))
        assert answer["FailedEntryCount"] == 0
        assert len({result["EventId"] for result in answer["Entries"]}) == 3
        facts = world.noted(Accepted)
        assert [(fact.destination, fact.invocation, fact.event_id) for fact in facts] == [
            ("orders", 5, event_id) for event_id in "aba"
        ]
        assert facts[0].entry == facts[2].entry != facts[1].entry


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (entry("x", poison=True), "MalformedDetail"),
        (entry("x", Detail="[1]"), "MalformedDetail"),
        (entry("x", Detail="{"), "MalformedDetail"),
        (entry("x", Detail=None), "MalformedDetail"),
        (entry("x", Detail='{"poison": true}'), "MalformedDetail"),
        (entry("x", DetailType=""), "InvalidArgument"),
        (entry("x", DetailType="t" * 129), "InvalidArgument"),
        (entry("x", Source="aws.shop"), "InvalidArgument"),
        (entry("x", Source=None), "InvalidArgument"),
    ],
)
def test_an_entry_that_is_not_valid_is_refused_by_itself(broken: dict[str, Any], code: str) -> None:
    """The others are accepted; when no entry is valid the request fails as a whole."""
    with ground() as world:
        answer = put(world, entry("a"), broken)
        assert codes(answer) == ["", code]
        assert answer["FailedEntryCount"] == 1
        assert [fact.event_id for fact in world.noted(Accepted)] == ["a"]
        assert [fact.code for fact in world.noted(Rejected)] == [code]
        assert said(put(world, broken)).code == "ValidationException"
        assert len(world.noted(Accepted)) == 1


def test_an_entry_for_a_bus_that_does_not_exist_is_gone() -> None:
    """Answered as if it were accepted; the bus is found by its ARN, too."""
    with ground() as world:
        arn = "arn:aws:events:eu-west-1:123456789012:event-bus/orders"
        answer = put(world, entry("a", EventBusName="ordres"), entry("b", EventBusName=arn))
        assert codes(answer) == ["", ""]
        assert [fact.event_id for fact in world.noted(Accepted)] == ["b"]


def test_a_request_has_limits() -> None:
    """Of the number of entries, and of their size."""
    with ground() as world:
        for entries in ([], [entry("a")] * 11, [entry("a", Resources=["x" * 600_000])] * 2):
            error = put(world, *entries)
            assert isinstance(error, ClientError)
            assert said(error).code == "ValidationException"
        assert isinstance(put(world, entry("a", Colour="red")), TypeError)
        assert world.noted(Accepted) == []


@pytest.mark.parametrize(
    ("kind", "code"), [("entry_throttled", "ThrottlingException"), ("entry_internal", "InternalFailure")]
)
def test_a_fault_of_entries_refuses_as_many_as_it_says(kind: str, code: str) -> None:
    """In a 200 answer; an entry that is not valid is refused for that reason."""
    with ground(PlannedFault(kind, 0, times=2)) as world:
        assert codes(put(world, entry("p", poison=True), *map(entry, "abc"))) == ["MalformedDetail", code, code, ""]
        assert [fact.event_id for fact in world.noted(Accepted)] == ["c"]
        assert world.noted(Faulted) == [Faulted(fact.at_ms, kind, "orders", 5) for fact in world.noted(Faulted)]


def test_a_bus_that_takes_everything_takes_poison() -> None:
    """What one bus can never accept, another one may."""
    with ground() as world:
        client = Bus(world.network, "audit", refuses_poison=False).client(world.process())
        (answer,) = world.run(lambda: client.put_events(Entries=[entry("p", EventBusName="audit", poison=True)]))
        assert codes(answer) == [""]
        assert [fact.event_id for fact in world.noted(Accepted)] == ["p"]


def test_events_for_a_bus_that_is_gone_are_gone() -> None:
    """EventBridge answers as if it had accepted them; each such request is a strike."""
    with ground(PlannedFault("target_vanishes", 0, amount_ms=3_600_000)) as world:
        assert codes(put(world, entry("a"), entry("b"))) == ["", ""]
        assert world.noted(Accepted) == []
        assert len(world.noted(Faulted)) == 1
        assert codes(put(world, entry("a"))) == [""]
        assert [fact.event_id for fact in world.noted(Accepted)] == ["a"]  # an hour later


def test_a_malformed_answer_has_a_result_too_few_though_everything_was_accepted() -> None:
    """Which of the results is missing, nobody can tell."""
    with ground(PlannedFault("entry_malformed_answer", 0)) as world:
        assert len(put(world, entry("a"), entry("b"))["Entries"]) == 1
        assert len(world.noted(Accepted)) == 2


def test_the_ledger_has_what_a_bus_that_does_not_exist_swallowed() -> None:
    """The answer says that it was accepted, as EventBridge does; the ledger says what became of it."""
    with ground() as world:
        assert codes(put(world, entry("a", EventBusName="my-bus"), entry("b"))) == ["", ""]
        assert [fact.event_id for fact in world.noted(Accepted)] == ["b"]
        (gone,) = world.noted(Swallowed)
        assert (gone.destination, gone.invocation, gone.event_id, gone.bus) == ("orders", 5, "a", "my-bus")
    with ground(PlannedFault("target_vanishes", 0, amount_ms=1_000)) as world:
        assert codes(put(world, entry("a"))) == [""]
        assert [(fact.event_id, fact.bus) for fact in world.noted(Swallowed)] == [("a", "orders")]


def test_an_entry_that_is_not_valid_may_take_the_whole_request_with_it() -> None:
    """Nothing is accepted then; the fault waits for such a request."""
    with ground(PlannedFault("request_rejected", 0)) as world:
        assert codes(put(world, entry("a"))) == [""]
        assert said(put(world, entry("b"), entry("c", poison=True))).code == "ValidationException"
        assert [fact.event_id for fact in world.noted(Accepted)] == ["a"]
        assert codes(put(world, entry("b"), entry("c", poison=True))) == ["", "MalformedDetail"]


def test_what_a_client_does_not_know_ends_the_run() -> None:
    """An operation, an argument: nobody may take a simulated error for one of AWS."""
    calls: list[Callable[[Any], Any]] = [
        lambda client: client.put_events(Entry=[entry("a")]),
        lambda client: client.list_event_buses(),
    ]
    for call, words in zip(calls, ("PutEvents with Entry: with Entries it is", "no list_event_buses: "), strict=True):
        with ground() as world:
            client = Bus(world.network, "orders").client(world.process())
            assert not hasattr(client, "_endpoint")
            with pytest.raises(NotSimulated, match=words):
                world.run(partial(call, client))


def test_errors_are_those_that_boto3_names() -> None:
    """`client.exceptions` has them, and what is raised is one of them."""
    with ground(PlannedFault("missing_target", 0, amount_ms=1_000)) as world:
        client = Bus(world.network, "orders").client(world.process())
        (error,) = world.run(lambda: client.put_events(Entries=[entry("a")]))
        assert isinstance(error, client.exceptions.ResourceNotFoundException)
        assert isinstance(error, client.exceptions.ClientError)


def test_a_client_makes_as_many_attempts_as_its_configuration_says() -> None:
    """With pauses, for what may pass; one alone for an error that will not, and by default."""
    patient = Config(connect_timeout=0.1, read_timeout=0.2, retries={"mode": "standard", "total_max_attempts": 3})
    faults = [PlannedFault("reset_before", 0, amount_ms=1), PlannedFault("throttled_request", 0)]
    with ground(*faults) as world:
        client = Bus(world.network, "orders").client(world.process(), config=patient)
        assert repr(client) == "<simulated client of orders>"
        (answer,) = world.run(lambda: client.put_events(Entries=[entry("a")]))
        assert codes(answer) == [""]
        assert len(world.noted(Sent)) == 3
        (error,) = world.run(lambda: client.put_events(Entries=[]))
        assert said(error).code == "ValidationException"  # type: ignore[arg-type]  # an error is what came back
        assert len(world.noted(Sent)) == 4
    with ground(*faults) as world:
        assert said(put(world, entry("a"))).code == "ThrottlingException"
        assert isinstance(put(world, entry("a")), ReadTimeoutError)
        assert len(world.noted(Sent)) == 2


def publish(world: Ground, *events: Event) -> Any:
    """Publish with the real sink."""
    bus, process = Bus(world.network, "orders"), world.process()
    sink = EventBridge("orders", client=bus.client(process))
    assert sink.request_ms == 2_500
    entries: Sequence[Any] = [one.entry for event in events if isinstance(one := sink.prepare(event), Prepared)]
    (outcome,) = world.run(lambda: sink.publish(entries))
    return outcome


def event(event_id: str, payload: str = "{}") -> Event:
    """Return an event."""
    return Event(
        id=event_id,
        type="order.placed",
        source="shop",
        time=datetime(2026, 1, 31, tzinfo=timezone.utc),
        key="k",
        payload=payload,
    )


def test_the_real_sink_runs_on_the_simulated_bus() -> None:
    """It understands its answers, and the bus finds the event's id in what it sends."""
    with ground() as world:
        poison = event("bad", '{"poison":true}')
        outcome = publish(world, event("good"), poison)
        assert isinstance(outcome, Answered)
        fault = outcome.results[1]
        assert outcome.results[0] is None
        assert fault is not None
        assert (fault.kind, fault.code) == (Kind.CONTENT, "MalformedDetail")
        assert [fact.event_id for fact in world.noted(Accepted)] == ["good"]
        assert [fact.event_id for fact in world.noted(Rejected)] == ["bad"]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("throttled_request", Kind.TRANSIENT),
        ("reset_before", Kind.UNKNOWN),
        ("reset_after", Kind.UNKNOWN),
        ("outage", Kind.TRANSIENT),
        ("missing_target", Kind.TARGET),
        ("access_denied", Kind.TARGET),
    ],
)
def test_the_real_sink_knows_the_troubles_of_the_network(kind: str, fault: Kind) -> None:
    """By the exceptions that boto3 would raise."""
    with ground(PlannedFault(kind, 0, amount_ms=10)) as world:
        outcome = publish(world, event("a"))
        assert isinstance(outcome, RequestFailed)
        assert isinstance(outcome.fault, Fault)
        assert outcome.fault.kind is fault
