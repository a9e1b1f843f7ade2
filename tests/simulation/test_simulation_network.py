"""The simulated network: what a call comes to under each fault, for the server and for its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError
from simulation_ground import AN_HOUR_MS, Ground, ground

from dynamodb_outbox.sdk.errors import said
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.facts import Faulted, Heard, Sent
from dynamodb_outbox.testing.simulation.faults import FAULTS, LASTING, FaultPlan, PlannedFault
from dynamodb_outbox.testing.simulation.network import BUS, COMMIT, NO_TROUBLES, client_error
from dynamodb_outbox.testing.simulation.process import START_MS, WRITER_PERILS, Process

if TYPE_CHECKING:
    from dynamodb_outbox.testing.simulation.network import Troubles


class Server:
    """Remembers when it acted."""

    def __init__(self, world: Ground) -> None:
        self.world = world
        self.acted: list[int] = []

    def act(self) -> str:
        """Act."""
        self.acted.append(self.world.kernel.now_ms)
        return "answer"


def call(world: Ground, server: Server, troubles: Troubles = BUS, process: Process | None = None) -> str:
    """Make a call, with a time-out of 100 ms after another 50 for the connection."""
    caller = process if process is not None else world.process()
    return world.network.call(
        caller, "orders", "PutEvents", server.act, timeout_ms=100, connect_ms=50, troubles=troubles
    )


def outcome(*faults: PlannedFault, troubles: Troubles = BUS) -> tuple[str, int, list[int], list[str]]:
    """Return what one call came to, when its caller knew, when the server acted, and the faults that were noted."""
    with ground(*faults) as world:
        server = Server(world)
        ended: list[int] = []

        def body() -> str:
            try:
                return call(world, server, troubles)
            finally:
                ended.append(world.kernel.now_ms)

        (result,) = world.run(body)
        (sent,), (heard,) = world.noted(Sent), world.noted(Heard)
        assert (sent.at_ms, sent.where, sent.operation) == (0, "orders", "PutEvents")
        assert (heard.at_ms, heard.call) == (ended[0], sent.call)
        assert heard.error == ("" if result == "answer" else type(result).__name__)
        words = result if isinstance(result, str) else said(result).code
        return words, ended[0], server.acted, [fact.kind for fact in world.noted(Faulted)]


def test_a_call_takes_its_time_both_ways() -> None:
    """The server acts after the call was sent and before its answer is heard."""
    words, ended_ms, (acted_ms,), faults = outcome()
    assert words == "answer"
    assert 0 < acted_ms < ended_ms < 50
    assert faults == []


@pytest.mark.parametrize(
    ("fault", "words", "acts"),
    [
        (PlannedFault("reset_before", 0), "ConnectionClosedError", 0),
        (PlannedFault("reset_before", 0, amount_ms=1), "ReadTimeoutError", 0),
        (PlannedFault("reset_after", 0), "ConnectionClosedError", 1),
        (PlannedFault("reset_after", 0, amount_ms=1), "ReadTimeoutError", 1),
        (PlannedFault("throttled_request", 0), "ThrottlingException", 0),
        (PlannedFault("access_denied", 0, amount_ms=10), "AccessDeniedException", 0),
        (PlannedFault("missing_target", 0, amount_ms=10), "ResourceNotFoundException", 0),
        (PlannedFault("slow", 0, amount_ms=20), "answer", 1),
    ],
)
def test_a_fault_decides_whether_the_server_acts_and_what_its_caller_is_told(
    fault: PlannedFault, words: str, acts: int
) -> None:
    """Lost before: it never acts. Lost after: it has acted, and nobody hears of it."""
    found, ended_ms, acted, faults = outcome(fault)
    assert (found, len(acted), faults) == (words, acts, [fault.kind])
    assert (ended_ms == 150) is (words == "ReadTimeoutError")


def test_an_outage_refuses_connections_or_lets_them_time_out() -> None:
    """One or the other as chance has it, and the server never acts."""
    with ground(PlannedFault("outage", 0, amount_ms=AN_HOUR_MS)) as world:
        server = Server(world)
        told = set()

        def body() -> None:
            for _ in range(20):
                with pytest.raises(Exception, match="orders") as caught:
                    call(world, server)
                told.add(type(caught.value).__name__)

        world.run(body)
    assert told == {"EndpointConnectionError", "ConnectTimeoutError"}
    assert server.acted == []


def test_a_slow_call_may_be_acted_on_after_its_caller_gave_up() -> None:
    """The most treacherous of all: a time-out, and then it happens nevertheless."""
    moments = []
    for seed in range(20):
        with ground(PlannedFault("slow", 0, amount_ms=1_000), seed=seed) as world:
            server = Server(world)
            (result,) = world.run(lambda: call(world, server))  # noqa: B023 -- it runs within the turn of the loop
            assert type(result).__name__ == "ReadTimeoutError"
            moments += server.acted
    assert len(moments) == 20
    assert min(moments) < 150 < max(moments)


def test_a_call_is_acted_on_though_its_caller_is_dead() -> None:
    """A process that dies while it waits has asked for what it asked for."""
    with ground() as world:
        server, process = Server(world), world.process()
        world.kernel.call_at(0, lambda: process.spawn("body", lambda: call(world, server, process=process)))
        world.kernel.call_at(1, process.kill)
        world.kernel.run(1_000)
        assert len(server.acted) == 1
        assert len(world.noted(Sent)) == 1
        assert world.noted(Heard) == []


def test_a_dead_process_sends_nothing() -> None:
    """Not even from a finally block."""
    with ground() as world:
        server, process = Server(world), world.process()

        def body() -> None:
            try:
                world.kernel.sleep(100)
            finally:
                call(world, server, process=process)

        world.kernel.call_at(50, process.kill)
        assert world.run(body, process=process) == []
        assert server.acted == []
        assert world.noted(Sent) == []


def test_an_error_answer_of_the_server_is_raised_where_the_call_was_made() -> None:
    """At the time of the answer; an error of any other kind is a bug of the simulation and stops it."""
    with ground() as world:

        def refuse() -> str:
            raise client_error("PutItem", "ValidationException", "no", Item={"pk": {"S": "1"}})

        def body() -> None:
            world.network.call(world.process(), "table", "PutItem", refuse, timeout_ms=100)

        (error,) = world.run(body)
        assert isinstance(error, ClientError)
        assert error.response["Item"] == {"pk": {"S": "1"}}
        assert said(error) == ("ValidationException", "no", 400)

        def broken() -> str:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            world.run(lambda: world.network.call(world.process(), "table", "PutItem", broken, timeout_ms=100))


@pytest.mark.parametrize(("nth", "acts", "finished"), [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 2)])
def test_a_crash_strikes_before_or_after_the_call_of_its_number(nth: int, acts: int, finished: int) -> None:
    """Even boundaries stand before a call, odd ones after its answer was heard and before its caller acts on it."""
    with ground(PlannedFault("crash", 0, where="orders", nth=nth)) as world:
        server, process = Server(world), world.process()
        answers = []
        deaths = []
        process.when_killed = lambda: deaths.append(world.kernel.now_ms)

        def body() -> None:
            answers.append(call(world, server, process=process))
            answers.append(call(world, server, process=process))

        world.run(body, process=process)
        assert (len(server.acted), len(answers)) == (acts, finished)
        assert len(deaths) == len(world.noted(Faulted)) == (nth < 4)
        assert process.alive is (nth == 4)


def test_a_hang_never_comes_back_and_the_rest_of_the_process_goes_on() -> None:
    """It is for the function's time-out to end it."""
    with ground(PlannedFault("function_timeout", 0, nth=1)) as world:
        server, process = Server(world), world.process()
        seen: list[str] = []

        def other() -> None:
            world.kernel.sleep(500)
            seen.append("other")

        process.spawn("other", other)
        assert world.run(lambda: call(world, server, process=process), process=process) == []
        assert len(server.acted) == 1
        assert seen == ["other"]


def test_a_clock_jumps_at_a_boundary_and_monotonic_time_does_not() -> None:
    """Backwards too; the clock of another owner stays right."""
    with ground(PlannedFault("clock_jump", 0, where="orders", amount_ms=-5_000)) as world:
        server, process, other = Server(world), world.process(), world.process("other", owner="other")

        def body() -> None:
            for one in (other, process):
                call(world, server, process=one)

        world.run(body)
        assert process.clock.now_ms() == START_MS + world.kernel.now_ms - 5_000
        assert other.clock.now_ms() == START_MS + world.kernel.now_ms
        assert process.clock.monotonic_ms() == world.kernel.now_ms


def test_the_perils_of_a_writer_are_its_own() -> None:
    """A crash of functions does not strike it, and one of writers does."""
    with ground(PlannedFault("crash", 0), PlannedFault("writer_crash", 0, where="till")) as world:
        server = Server(world)
        writer = Process(world.kernel, "till.1", 7, owner="till", perils=WRITER_PERILS)
        world.run(lambda: call(world, server, COMMIT, writer), process=writer)
        assert [fact.kind for fact in world.noted(Faulted)] == ["writer_crash"]


def test_the_time_that_a_call_takes_does_not_depend_on_other_calls() -> None:
    """So that leaving something out of a run does not change the rest of it."""

    def times(others: int) -> list[int]:
        with ground() as world:
            server, crowd = Server(world), Server(world)

            def noise() -> None:
                for number in range(others):
                    call(world, crowd, process=world.process(f"other {number}"))

            def body() -> list[int]:
                durations = []
                for _ in range(5):
                    started_ms = world.kernel.now_ms
                    call(world, server, NO_TROUBLES, world.process())
                    durations.append(world.kernel.now_ms - started_ms)
                return durations

            world.kernel.spawn("noise", noise)
            (result,) = world.run(body)
            assert isinstance(result, list)
            return result

    assert times(0) == times(7)
    assert len(set(times(0))) > 1


# --- the plan ---


def test_a_fault_is_noted_with_what_it_met() -> None:
    """Which call it was, and whose; at a boundary, whose."""
    with ground(PlannedFault("reset_after", 0, where="orders"), PlannedFault("crash", 0, nth=3)) as world:
        process = world.process("f#1")

        def body() -> None:
            with pytest.raises(Exception, match="Connection was closed"):
                call(world, Server(world), process=process)
            call(world, Server(world), process=process)

        world.run(body, process=process)
        reset, crash = world.noted(Faulted)
        assert (reset.kind, reset.call, reset.process) == ("reset_after", 1, "f#1")
        assert (crash.kind, crash.call, crash.process) == ("crash", 0, "f#1")


def test_a_fault_strikes_as_often_as_it_says_from_its_time_on_where_it_says() -> None:
    """And is noted each time."""
    planned = PlannedFault("slow", 100, where="orders", times=2)
    with ground(planned) as world:

        def body() -> list[bool]:
            found = [world.faults.take("slow", "orders") is not None]
            world.kernel.sleep(100)
            return [*found, *(world.faults.take("slow", where) is not None for where in ("table", *["orders"] * 3))]

        assert world.run(body) == [[False, False, True, True, False]]
        assert world.noted(Faulted) == [Faulted(100, "slow", "orders")] * 2


@pytest.mark.parametrize("kind", sorted(LASTING))
def test_a_fault_that_lasts_strikes_every_time_until_it_is_over(kind: str) -> None:
    """And no longer than faults last at all."""
    with ground(PlannedFault(kind, 10, amount_ms=20), PlannedFault(kind, 90, amount_ms=50), until_ms=100) as world:

        def body() -> list[int]:
            struck = []
            for _ in range(15):
                if world.faults.take(kind, "x") is not None:
                    struck.append(world.kernel.now_ms)
                world.kernel.sleep(10)
            return struck

        assert world.run(body) == [[10, 20, 90]]


def test_a_fault_at_a_boundary_waits_for_one_that_is_far_enough() -> None:
    """An invocation that is over before it leaves the fault to the next."""
    with ground(PlannedFault("crash", 0, nth=3)) as world:
        boundaries = (0, 2, 0, 2, 4, 5)
        taken = [world.faults.take("crash", "f", boundary=boundary) is not None for boundary in boundaries]
        assert taken == [False, False, False, False, True, False]


def test_the_first_of_several_kinds_that_strikes_is_taken() -> None:
    """Each by itself."""
    with ground(PlannedFault("entry_internal", 0), PlannedFault("entry_throttled", 0, where="other")) as world:
        kinds = ("entry_throttled", "entry_internal")
        first = world.faults.first(kinds, "orders")
        assert first is not None
        assert first.kind == "entry_internal"
        assert world.faults.first(kinds, "orders") is None


def test_a_plan_knows_its_kinds() -> None:
    """Each has a sentence, and what is no kind is refused; what is armed too late is left out."""
    assert all(words.endswith(".") for words in FAULTS.values())
    assert FAULTS.keys() >= LASTING
    with pytest.raises(ValueError, match="sloow"):
        FaultPlan((PlannedFault("sloow", 0),), 10)
    plan = FaultPlan((PlannedFault("slow", 9), PlannedFault("trim", 3), PlannedFault("slow", 10)), 10)
    assert plan.of("slow", "trim") == (PlannedFault("trim", 3), PlannedFault("slow", 9))


def test_chance_depends_on_what_it_is_drawn_for_and_on_nothing_else() -> None:
    """The same whenever it is asked for, and evenly spread."""
    chance = Chance(1)
    draws = [chance.unit("n", number) for number in range(2_000)]
    assert draws == [Chance(1).unit("n", number) for number in range(2_000)]
    assert draws != [Chance(2).unit("n", number) for number in range(2_000)]
    assert chance.of("a").unit("b") == Chance(1).of("a").unit("b") != chance.of("b").unit("a")
    assert 0.47 < sum(draws) / len(draws) < 0.53
    assert {chance.whole(1, 3, number) for number in range(100)} == {1, 2, 3}


def test_the_randomness_of_a_process_comes_from_its_name_and_seed() -> None:
    """Two processes of one world differ, and each is the same in the next run."""
    with ground() as world:
        first, again, other = (world.process(name).entropy for name in ("a", "a", "b"))
        assert first.bytes(16) == again.bytes(16) != other.bytes(16)
        assert first.unit() == again.unit()
        assert 0 <= first.unit() < 1


def test_a_process_dies_once_and_does_not_collect_its_strands() -> None:
    """However often it is killed, and however many strands it has had."""
    with ground() as world:
        process, deaths = world.process(), []
        process.when_killed = lambda: deaths.append(world.kernel.now_ms)

        def body() -> None:
            for _ in range(500):
                process.spawn("short", lambda: None)
                world.kernel.sleep(1)

        world.run(body, process=process)
        assert len(process._strands) < 100
        process.kill()
        process.kill()
        assert len(deaths) == 1
