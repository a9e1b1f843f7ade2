"""The simulated function: instances and what ends them, and the real relay in it, under every fault it can meet."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from simulation_ground import Ground, ground

from dynamodb_outbox.core.eventsource.answers import FunctionFailed, Outcome, Responded, Throttled, judge
from dynamodb_outbox.core.eventsource.records import StreamRecord, stream_record
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.sinks import EventBridge
from dynamodb_outbox.testing.simulation.bus import Bus
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.crew import StrandCrew
from dynamodb_outbox.testing.simulation.facts import (
    Accepted,
    Answered,
    Ended,
    Fact,
    Faulted,
    Invoked,
    Moved,
    Raised,
    Sent,
)
from dynamodb_outbox.testing.simulation.faults import PARTS, PlannedFault
from dynamodb_outbox.testing.simulation.functions import Function
from dynamodb_outbox.testing.simulation.history import Terms
from dynamodb_outbox.testing.simulation.kernel import Mailbox
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.records import RecordsClient
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from dynamodb_outbox.testing.simulation.table import Table
from dynamodb_outbox.testing.simulation.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.eventsource.answers import Answer
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.testing.simulation.process import Process


def record(number: int, kind: str = "INSERT") -> StreamRecord:
    """Return a stream record."""
    return stream_record(
        {
            "eventName": kind,
            "dynamodb": {
                "Keys": {"pk": {"S": "k"}, "sk": {"S": str(number)}},
                "SequenceNumber": str(number),
                "ApproximateCreationDateTime": 1,
            },
        }
    )


def function(world: Ground, handler: Callable[[Any, Any], Any], **options: Any) -> Function:
    """Return a function whose instances all have this handler."""
    return Function(world.network, "orders", lambda _: handler, **options)


def ask(world: Ground, made: Function, records: Sequence[StreamRecord], *, shard: str = "s", lane: int = 0) -> Answer:
    """Invoke a function on a strand, and wait there for its answer."""
    answers: Mailbox[Answer] = Mailbox(world.kernel)
    made.invoke(records, answers.put, shard=shard, lane=lane)
    return answers.take()


def invoke(world: Ground, made: Function, *records: StreamRecord) -> Answer:
    """Invoke a function once."""
    (answer,) = world.run(lambda: ask(world, made, records or [record(1)], lane=2))
    assert not isinstance(answer, Exception), answer
    return answer


def test_an_answer_and_all_about_the_invocation_are_noted() -> None:
    """The handler gets the batch in Lambda's form, and a context that knows the time that is left."""
    with ground() as world:
        seen: list[Any] = []

        def handler(event: Any, context: Any) -> Any:
            world.kernel.sleep(1_000)
            seen.append((event, context.get_remaining_time_in_millis(), context))
            return {"batchItemFailures": [{"itemIdentifier": "9"}]}

        answer = invoke(world, function(world, handler, timeout_ms=9_000), record(9), record(10, "MODIFY"))
        assert answer == Responded({"batchItemFailures": [{"itemIdentifier": "9"}]})
        ((event, left_ms, context),) = seen
        assert [one["dynamodb"]["SequenceNumber"] for one in event["Records"]] == ["9", "10"]
        (invoked,) = world.noted(Invoked)
        assert 7_500 < left_ms < 8_000
        assert context.until_ms == invoked.until_ms == invoked.at_ms + 9_000
        assert context.invoked_function_arn.endswith(":function:orders")
        assert context.log_group_name == "/aws/lambda/orders"
        assert len(context.aws_request_id) == 36
        assert (invoked.destination, invoked.invocation, invoked.shard, invoked.lane) == ("orders", 1, "s", 2)
        assert (invoked.instance, invoked.numbers, invoked.inserted) == (
            "orders#1",
            ("9", "10"),
            frozenset({("k", "9")}),
        )
        (answered,) = world.noted(Answered)
        assert (answered.invocation, answered.failed, answered.whole) == (1, ("9",), "")


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (None, ""),
        ("text", "not an object"),
        ({"batchItemFailures": "no"}, "not a list"),
        ({"batchItemFailures": [{"itemIdentifier": "9"}, "odd"]}, "names None"),
        ({"batchItemFailures": [{"itemIdentifier": 9}]}, "names 9"),
        ({"batchItemFailures": [{"itemIdentifier": "7"}]}, "names '7'"),
    ],
)
def test_any_answer_that_is_json_is_one(answer: Any, whole: str) -> None:
    """What it means is the event source's to say, and noted as that would: also that it fails the whole batch."""
    with ground() as world:
        assert invoke(world, function(world, lambda *_: answer), record(9)) == Responded(answer)
        (answered,) = world.noted(Answered)
        assert answered.failed == ()
        assert whole in answered.whole
        assert bool(whole) == bool(answered.whole)


def test_an_answer_that_is_not_json_is_an_error() -> None:
    """As with Lambda; the instance is kept."""
    with ground() as world:
        made = function(world, lambda *_: {"a": object()})
        for answer in (invoke(world, made), invoke(world, made)):
            assert isinstance(answer, FunctionFailed)
            assert answer.kind == "Runtime.MarshalError"
        assert {fact.instance for fact in world.noted(Invoked)} == {"orders#1"}


def test_an_error_is_reported_and_its_instance_used_again() -> None:
    """With the place in the handler where it came from. The handler's own memory stays."""
    with ground() as world:
        calls: list[int] = []
        line = 1 + sys._getframe().f_lineno + 4

        def handler(*_: Any) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("broken")

        made = function(world, handler)
        assert invoke(world, made) == FunctionFailed("ValueError", "broken")
        assert invoke(world, made) == Responded(None)
        assert [fact.error for fact in world.noted(Raised)] == [
            f"ValueError: broken (test_simulation_functions.py:{line})"
        ]
        assert {fact.instance for fact in world.noted(Invoked)} == {"orders#1"}


def test_a_handler_may_change_its_event() -> None:
    """The next delivery of the same records is as the first one was."""
    with ground() as world:
        seen: list[int] = []

        def handler(event: Any, _: Any) -> None:
            seen.append(len(event["Records"]))
            event["Records"][0].clear()
            event["Records"].clear()

        made, batch = function(world, handler), record(1)
        for _ in range(2):
            invoke(world, made, batch)
        assert seen == [1, 1]
        assert batch.body["eventName"] == "INSERT"


def test_a_function_that_cannot_be_loaded_fails_and_is_loaded_anew() -> None:
    """No instance is kept."""
    with ground() as world:
        tries: list[str] = []

        def make_handler(process: Process) -> Callable[[Any, Any], Any]:
            tries.append(process.name)
            if len(tries) == 1:
                raise ImportError("no such module")
            return lambda *_: None

        made = Function(world.network, "orders", make_handler)
        assert invoke(world, made) == FunctionFailed("ImportError", "no such module")
        assert invoke(world, made) == Responded(None)
        assert tries == ["orders#1", "orders#2"]


@pytest.mark.parametrize("how", ["sleeps", "is killed"])
def test_a_process_that_ends_fails_its_invocation_and_is_replaced(how: str) -> None:
    """A time-out at its very time; a death at once."""
    with ground() as world:
        processes: list[Process] = []

        def make_handler(process: Process) -> Callable[[Any, Any], Any]:
            processes.append(process)

            def handler(*_: Any) -> None:
                if len(processes) > 1:
                    return
                if how == "is killed":
                    process.kill()
                world.kernel.sleep(50_000)

            return handler

        made = Function(world.network, "orders", make_handler, timeout_ms=9_000)
        answer = invoke(world, made)
        (ended,) = world.noted(Ended)
        late = ended.at_ms - world.noted(Invoked)[0].at_ms
        if how == "sleeps":
            assert (answer.kind, ended.how, late) == ("Sandbox.Timedout", "timeout", 9_000)  # type: ignore[union-attr]  # a failure is what is asserted
        else:
            assert (answer.kind, ended.how) == ("Runtime.ExitError", "crash")  # type: ignore[union-attr]  # as above
            assert late < 300
        assert not processes[0].alive
        assert invoke(world, made) == Responded(None)
        assert [process.name for process in processes] == ["orders#1", "orders#2"]


class Own(BaseException):
    """An error that is no Exception."""


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Own])
def test_what_is_no_exception_is_the_death_of_its_process(error: type[BaseException]) -> None:
    """Of whoever raises it, its own thread or a worker of its crew, and never of the whole run."""
    with ground() as world:
        made: list[Process] = []

        def make_handler(process: Process) -> Callable[[Any, Any], Any]:
            made.append(process)

            def refuse() -> None:
                raise error("enough")

            def handler(*_: Any) -> None:
                crew = StrandCrew(world.kernel, process, 1)
                crew.start(refuse)
                crew.start(refuse)
                world.kernel.sleep(10)  # what a task raises is lost
                if len(made) == 1:
                    refuse()

            return handler

        function = Function(world.network, "orders", make_handler)
        answer = invoke(world, function)
        assert answer == FunctionFailed("Runtime.ExitError", "Runtime exited without providing a reason")
        (ended,) = world.noted(Ended)
        assert ended.error.startswith(f"{error.__name__}: enough (test_simulation_functions.py:")
        assert f"its process dies of {error.__name__}: enough (" in timeline([ended], Terms())
        assert invoke(world, function) == Responded(None)
        assert [process.alive for process in made] == [False, True]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_a_killed_process_raises_is_nothing_that_happened(error: type[BaseException]) -> None:
    """Code that takes its own end for an error has ended all the same: when the run is over, too."""
    answers: list[Answer] = []
    with ground() as world:

        def handler(*_: Any) -> None:
            try:
                world.kernel.sleep(5_000)
            except BaseException:  # noqa: BLE001 -- that is what it does wrong
                raise error from None

        Function(world.network, "orders", lambda _: handler).invoke([], answers.append, shard="s")
        world.kernel.run(1_000)
        world.kernel.close()
        assert not world.noted(Raised)
        assert not world.noted(Ended)
    assert not answers


def test_an_invocation_goes_on_when_whoever_asked_for_it_is_dead() -> None:
    """And its instance is free again after it."""
    with ground() as world:
        made = function(world, lambda *_: world.kernel.sleep(500))
        asking = world.process("source")
        asking.spawn("body", lambda: ask(world, made, [record(1)]))
        world.kernel.call_at(400, asking.kill)
        world.kernel.run(5_000)
        assert len(world.noted(Answered)) == 1
        invoke(world, made)
        assert {fact.instance for fact in world.noted(Invoked)} == {"orders#1"}


def test_invocations_side_by_side_have_instances_of_their_own() -> None:
    """Warm ones are used again; with several, chance says which, and no more are made than are needed."""
    with ground() as world:
        made = function(world, lambda *_: world.kernel.sleep(300), instances=3)

        def together() -> None:
            for _ in range(3):
                world.kernel.spawn("side by side", lambda: ask(world, made, [record(1)]))

        for _ in range(2):
            together()
            world.kernel.run(world.kernel.now_ms + 10_000)
        assert {fact.instance for fact in world.noted(Invoked)} == {f"orders#{number}" for number in (1, 2, 3)}
        for _ in range(20):
            invoke(world, made)
        instances = [fact.instance for fact in world.noted(Invoked)]
        assert set(instances) == {"orders#1", "orders#2", "orders#3"}
        assert len(set(instances[6:])) > 1


def test_the_faults_of_a_function() -> None:
    """It is throttled, replaced, and started with a wrong clock."""
    faults = [
        PlannedFault("invoke_throttled", 0),
        PlannedFault("cold_start", 0),
        PlannedFault("clock_skew", 0, amount_ms=60_000),
    ]
    with ground(*faults) as world:
        clocks: list[int] = []

        def make_handler(process: Process) -> Callable[[Any, Any], Any]:
            return lambda *_: clocks.append(process.clock.now_ms() - START_MS - world.kernel.now_ms)

        made = Function(world.network, "orders", make_handler)
        assert invoke(world, made) == Throttled()
        assert world.noted(Invoked) == []
        for _ in range(3):
            assert invoke(world, made) == Responded(None)
        assert [fact.instance for fact in world.noted(Invoked)] == ["orders#1", "orders#2", "orders#2"]
        assert clocks == [60_000, 0, 0]
        assert [fact.kind for fact in world.noted(Faulted)] == ["invoke_throttled", "clock_skew", "cold_start"]


# --- the real relay ---

EVENTS = 12
POISONED = 5


def outbox_record(number: int) -> WireItem:
    """Return a record as our writer makes it; a few keys, and one event that the bus can never accept."""
    key, name = f"ORDER#{number % 4}", f"00000000-0000-7000-8000-{number:012d}"
    return {
        "pk": {"S": key},
        "sk": {"S": f"OUTBOX#{name}"},
        "ob_v": {"N": "1"},
        "id": {"S": name},
        "key": {"S": key},
        "at": {"N": str(START_MS)},
        "ts": {"N": str(START_MS // 1000)},
        "time": {"S": "2026-01-31T12:00:00.000000Z"},
        "tx": {"M": {"id": {"S": name}, "index": {"N": "0"}, "count": {"N": "1"}}},
        "source": {"S": "shop"},
        "state": {"S": "pending"},
        "ob_pending": {"S": "03"},
        "type": {"S": "t"},
        "payload": {"S": f'{{"n":{number},"poison":{"true" if number == POISONED else "false"}}}'},
    }


def relay_a_batch(fault: PlannedFault, seed: int = 1) -> list[Fact]:
    """Run the real relay on a batch until it is done, as an event source would, and then on all of it once more.

    Return all that happened.
    """
    with ground(fault, seed=seed) as world:
        layout = Layout()
        stream = Stream(world.kernel, world.ledger, Chance(seed), StreamSettings())
        table = Table(world.kernel, stream, layout, Chance(seed))
        bus = Bus(world.network, "orders")

        def make_handler(process: Process) -> Callable[[Any, Any], Any]:
            relay = Relay(
                EventBridge("orders", client=bus.client(process)),
                layout=layout,
                client=RecordsClient(world.network, process, table),
                clock=process.clock,
                entropy=process.entropy,
                crew=StrandCrew(world.kernel, process, 10),
            )
            return relay.lambda_handler

        made = Function(world.network, "orders", make_handler, timeout_ms=10_000)

        def deliver(shard: str, batch: list[StreamRecord]) -> bool:
            for _ in range(20):
                answer = ask(world, made, batch, shard=shard)
                verdict = judge(answer, [one.sequence_number for one in batch], report_failures=True)
                if verdict.outcome is Outcome.SUCCEEDED:
                    return True
                if verdict.outcome is Outcome.PARTIAL:
                    batch = batch[verdict.first_failed :]
                world.kernel.sleep(1_000)
            return False

        def source() -> bool:
            for number in range(EVENTS):
                item = outbox_record(number)
                table.write(table.key_of(item), item, by="writer")
                world.kernel.sleep(10)
            (shard,) = stream.shards()
            batch = list(stream.read(stream.iterator(shard)).records)
            return deliver(shard, batch) and deliver(shard, batch)

        assert world.run(source) == [True]
        return world.ledger.facts


def of(kind: type[Fact], facts: list[Fact]) -> list[Any]:
    """Return the facts of a class."""
    return [fact for fact in facts if isinstance(fact, kind)]


WRONGLY_PARKED = "content_refused"
MET_BY_A_RELAY = [*PARTS["bus"], *PARTS["network"], *PARTS["table"], *PARTS["function"], *PARTS["clock"]]
MET_BY_A_RELAY.remove(WRONGLY_PARKED)  # for which good events are parked
AMOUNTS = {"slow": 4_000, "outage": 3_000, "missing_target": 500, "access_denied": 500, "clock_jump": -90_000}


@pytest.mark.parametrize("kind", MET_BY_A_RELAY)
@pytest.mark.parametrize("nth", [1, 4])
def test_the_real_relay_gets_a_batch_through_every_fault(kind: str, nth: int) -> None:
    """Every event is accepted or parked, in the order of its key; and the same seed gives the same run, to the last."""
    at_ms = 0 if kind in ("invoke_throttled", "clock_skew") else 100
    fault = PlannedFault(kind, at_ms, amount_ms=AMOUNTS.get(kind, 0), nth=nth, times=nth)
    facts = relay_a_batch(fault)
    assert facts == relay_a_batch(fault)
    first: dict[str, int] = {}
    for place, fact in enumerate(of(Accepted, facts)):
        first.setdefault(fact.event_id, place)
    names = [outbox_record(number)["id"]["S"] for number in range(EVENTS)]
    poisoned = names[POISONED]
    assert first.keys() == set(names) - {poisoned}
    for key in range(4):
        places = [first[name] for name in names[key::4] if name != poisoned]
        assert places == sorted(places)
    assert {fact.record[1] for fact in of(Moved, facts) if fact.state == "parked"} == {f"OUTBOX#{poisoned}"}
    assert {fact.kind for fact in of(Faulted, facts)} == {kind}
    assert of(Raised, facts) == []


def test_seeds_differ() -> None:
    """Else the same run twice would show nothing."""
    fault = PlannedFault("reset_after", 100)
    assert relay_a_batch(fault, 1) != relay_a_batch(fault, 2)


def test_the_relay_sends_nothing_more_after_it_has_answered() -> None:
    """Also under a fault that makes it wait for the rest."""
    facts = relay_a_batch(PlannedFault("slow", 100, amount_ms=4_000, times=2))
    ended = {fact.invocation: place for place, fact in enumerate(facts) if isinstance(fact, (Answered, Ended))}
    assert all(
        place < ended[fact.invocation] for place, fact in enumerate(facts) if isinstance(fact, Sent) and fact.invocation
    )
