"""What a handler reaches past its world: threads, real clients, sleep, the terminal, the log; and clumsy arguments."""

from __future__ import annotations

import logging
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session
from simulation_ground import ground

from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.testing.simulation import NotSimulated, Scenario, run, simulate
from dynamodb_outbox.testing.simulation import kernel as kernels
from dynamodb_outbox.testing.simulation.facts import Answered, Raised, Said
from dynamodb_outbox.testing.simulation.scenario import Settings
from dynamodb_outbox.testing.simulation.timeline import timeline
from dynamodb_outbox.testing.simulation.writers import Write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dynamodb_outbox.testing.simulation import FunctionWorld
    from dynamodb_outbox.testing.simulation.facts import Fact

    Handler = Callable[[Any, Any], Any]

ONE_WRITE = Scenario(
    seed=1,
    settings=Settings(),
    writes=(Write(at_ms=10_000, writer="writer-1", change="c1", keys=("A",)),),
    faults=(),
    faults_until_ms=20_000,
)
A_SECOND = 1.0


def of_world(body: Callable[[FunctionWorld], object]) -> Callable[[FunctionWorld], Handler]:
    """Return what makes a handler that does `body` with its world."""

    def make_handler(world: FunctionWorld) -> Handler:
        return lambda *_: body(world)

    return make_handler


def publish(world: FunctionWorld) -> None:
    """Send an event."""
    entry = {"EventBusName": world.destination, "Source": "s", "DetailType": "t", "Detail": "{}"}
    world.client("events").put_events(Entries=[entry])


def run_once(body: Callable[[FunctionWorld], object]) -> list[Fact]:
    """Let one record be handed to a handler."""
    return run(ONE_WRITE, of_world(body))


# --- threads ----------------------------------------------------------------------------------------------------------


def in_a_pool(world: FunctionWorld) -> None:
    """Publish by a pool of threads."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(publish, [world, world]))


def in_a_pool_that_keeps_quiet(world: FunctionWorld) -> None:
    """Publish by a pool of threads, and ask none of them how it went."""
    with ThreadPoolExecutor(2) as pool:
        pool.submit(publish, world)


def by_a_worker(world: FunctionWorld) -> None:
    """Publish by a worker, and wait for it for ever."""
    work: queue.Queue[FunctionWorld] = queue.Queue()
    done: queue.Queue[int] = queue.Queue()

    def worker() -> None:
        publish(work.get())
        done.put(1)

    threading.Thread(target=worker, daemon=True).start()
    work.put(world)
    done.get()


def and_answer(world: FunctionWorld) -> None:
    """Start to publish in a thread, and answer at once."""
    threading.Thread(target=publish, args=(world,), daemon=True).start()


def by_its_clock(world: FunctionWorld) -> None:
    """Let a thread wait for the world's clock."""
    thread = threading.Thread(target=lambda: world.clock.sleep_ms(5), daemon=True)
    thread.start()
    thread.join()


def by_sleeping(world: FunctionWorld) -> None:
    """Let a thread sleep, and publish after that."""

    def late() -> None:
        time.sleep(30)
        publish(world)

    threading.Thread(target=late, daemon=True).start()


@pytest.mark.parametrize(
    "body", [in_a_pool, in_a_pool_that_keeps_quiet, by_a_worker, and_answer, by_its_clock, by_sleeping]
)
def test_a_thread_of_its_own_ends_the_run(body: Callable[[FunctionWorld], None]) -> None:
    """Whatever the handler makes of it: it neither hangs nor passes, and is told what to do instead."""
    began_s = time.monotonic()
    with pytest.raises(
        NotSimulated, match=r"from a thread of its own \(test_simulation_guard.py:\d+\).*world.crew\(size"
    ):
        run_once(body)
    assert time.monotonic() - began_s < 20


def test_a_thread_that_keeps_to_itself_is_allowed() -> None:
    """It may work out what the handler asks for; what it prints and logs is nowhere."""

    def work(number: int) -> int:
        logging.getLogger("relay").warning("in a thread")
        print("in a thread")  # noqa: T201 -- a handler may
        return number * number

    def body(_: FunctionWorld) -> list[int]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(work, range(3)))

    facts = run_once(body)
    assert next(fact.answer for fact in facts if isinstance(fact, Answered)) == "[0, 1, 4]"
    assert not any(isinstance(fact, Said) for fact in facts)


def test_a_handler_that_does_not_come_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for something real: the run ends all the same, says where it was, and leaves nothing behind it."""
    monkeypatch.setattr(kernels, "PATIENCE_S", 0.3)
    held, returned = threading.Event(), []

    def body(world: FunctionWorld) -> None:
        held.wait()
        try:
            publish(world)
        finally:
            returned.append(world.destination)

    with pytest.raises(NotSimulated, match=r"does not come back \(test_simulation_guard.py:\d+\).*world.crew\(size\)"):
        run_once(body)
    held.set()
    until_s = time.monotonic() + 10
    while not returned and time.monotonic() < until_s:
        sleep(0.01)
    assert returned == ["orders"]
    run_once(lambda _: None)


def test_who_sits_at_the_keyboard_ends_the_run() -> None:
    """A signal comes to the main thread, wherever handlers are; what they raise themselves is their own death."""
    begun: list[float] = []

    def make_handler(_: FunctionWorld) -> Handler:
        def handler(*_: Any) -> None:
            begun.append(time.monotonic())
            if len(begun) == 1:
                raise KeyboardInterrupt
            if len(begun) == 2:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(5_000)

        return handler

    with pytest.raises(KeyboardInterrupt):
        simulate(make_handler, seeds=range(3))
    assert len(begun) >= 2
    assert time.monotonic() - begun[1] < 10


def test_a_strand_that_does_not_end_holds_nobody_up() -> None:
    """One that is killed, and waits for something real then, is given up after a second; the others end."""
    held, ended = threading.Event(), []
    with ground() as world:

        def stubborn() -> None:
            try:
                world.kernel.wait()
            finally:
                held.wait(60)

        def other() -> None:
            try:
                world.kernel.wait()
            finally:
                ended.append("other")

        for body in (stubborn, other, other):
            world.kernel.spawn("strand", body)
        world.kernel.run(10)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 20
    assert ended == ["other"] * 2
    held.set()


def test_what_was_kept_from_another_instance_or_run_is_refused() -> None:
    """A client in a variable of a module is one of a process that may be dead, and of a world that is over."""
    kept: list[FunctionWorld] = []

    def make_handler(world: FunctionWorld) -> Handler:
        kept.append(world)
        return lambda *_: publish(kept[0])

    facts = run(ONE_WRITE, make_handler)
    assert any(isinstance(fact, Answered) for fact in facts)
    with pytest.raises(NotSimulated, match="uses what it was given in another run"):
        run(ONE_WRITE, make_handler)
    kept.clear()
    with pytest.raises(NotSimulated, match=r"orders#\d uses a client of orders#\d \(test_simulation_guard.py:\d+\)"):
        simulate(make_handler, seeds=range(20), settings={"instances": 3}, without=["nothing_is_lost"])


# --- real things ------------------------------------------------------------------------------------------------------


def real_client() -> Any:
    """Return a client as people make it."""
    return boto3.client("events", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")


@pytest.mark.parametrize("how", ["by itself", "in a thread", "caught"])
def test_a_real_client_sends_nothing(how: str) -> None:
    """The run ends, though the handler may catch everything, or ask a thread."""
    client = real_client()

    def send(_: FunctionWorld) -> None:
        client.put_events(Entries=[{"Source": "s", "DetailType": "t", "Detail": "{}"}])

    def body(world: FunctionWorld) -> None:
        if how == "in a thread":
            thread = threading.Thread(target=send, args=(world,), daemon=True)
            thread.start()
            thread.join()
            return None
        while True:
            try:
                return send(world)
            except Exception:  # noqa: PERF203 -- such a handler would go on for ever
                if how != "caught":
                    raise

    before = URLLib3Session.send
    words = (
        r'a request to https://events.eu-west-1.* really sent .*: take the client from the world.*world.client\("events'
    )
    with pytest.raises(NotSimulated, match=words):
        run_once(body)
    assert URLLib3Session.send is before


def real_things() -> tuple[object, ...]:
    """Return what a handler could reach."""
    streams = sys.stdout, sys.stderr
    return URLLib3Session.send, time.sleep, sleep, *streams, logging.Logger.handle, threading.Thread.start


def test_everything_is_as_before_after_a_run() -> None:
    """Also in modules that have `sleep` of their own, and after an error."""
    before = real_things()
    during: list[bool] = []

    def body(_: FunctionWorld) -> None:
        during.append(all(now is not then for now, then in zip(real_things(), before, strict=True)))
        during.append(sleep is time.sleep)

    run_once(body)
    with pytest.raises(NotSimulated):
        run_once(in_a_pool)
    assert real_things() == before
    assert during == [True, True]


def test_sleep_is_virtual_in_a_handler() -> None:
    """As time.sleep, and as a name of a module; elsewhere it is what it was."""

    def body(world: FunctionWorld) -> int:
        began_ms = world.clock.monotonic_ms()
        time.sleep(2.5)
        sleep(0.0001)
        return world.clock.monotonic_ms() - began_ms

    began_s = time.monotonic()
    facts = run_once(body)
    assert next(fact.answer for fact in facts if isinstance(fact, Answered)) == "2501"
    assert time.monotonic() - began_s < 2.5
    (raised, *_) = [fact for fact in run_once(lambda _: time.sleep(-1)) if isinstance(fact, Raised)]
    assert raised.error.startswith("ValueError: ")


def test_what_a_handler_says_is_in_the_timeline(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that it prints, on both streams, and what it logs as it would; nothing of it is seen elsewhere."""

    def body(_: FunctionWorld) -> None:
        print("one\ntwo", end="")  # noqa: T201 -- a handler may
        print(" three")  # noqa: T201
        sys.stderr.write("four\n")
        logging.getLogger("relay").warning("five %s", 5)
        logging.getLogger("relay").debug("six")
        logging.getLogger("relay").error("%d", "seven")
        print("never ended", end="", flush=True)  # noqa: T201

    facts = run_once(body)
    said = [(fact.how, fact.text) for fact in facts if isinstance(fact, Said)]
    assert said == [
        ("prints", "'one'"),
        ("prints", "'two three'"),
        ("prints", "'four'"),
        ("logs", "WARNING relay: five 5"),
        ("logs", "ERROR relay: %d"),
    ]
    assert "orders invocation 1    prints 'two three'" in timeline(facts, ONE_WRITE.terms)
    assert capsys.readouterr() == ("", "")
    assert run_once(body) == facts


def test_what_others_print_and_log_meanwhile_goes_where_it_always_does(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A thread of the program that runs the simulation is none of its business."""
    go, gone = threading.Event(), threading.Event()

    def other() -> None:
        go.wait(60)
        print("from elsewhere")  # noqa: T201
        logging.getLogger("elsewhere").warning("from elsewhere")
        time.sleep(0.001)
        gone.set()

    thread = threading.Thread(target=other)
    thread.start()

    def body(_: FunctionWorld) -> None:
        go.set()
        gone.wait(60)

    facts = run_once(body)
    thread.join()
    assert capsys.readouterr().out == "from elsewhere\n"
    assert [record.name for record in caplog.records] == ["elsewhere"]
    assert not any(isinstance(fact, Said) for fact in facts)


# --- clumsy arguments -------------------------------------------------------------------------------------------------


def lambda_handler(event: Any, context: Any) -> Any:
    """Do nothing."""
    return event, context


def half_made(_: FunctionWorld) -> Any:
    """Return no handler."""


def broken(_: FunctionWorld) -> Any:
    """Fail to make a handler."""
    raise KeyError("BUS_NAME")


@pytest.mark.parametrize(
    ("make_handler", "words"),
    [
        (lambda_handler, r"simulate\(lambda_handler\): lambda_handler\(.*simulate\(lambda world: lambda_handler\)"),
        ("relay", r"simulate\('relay'\): takes a function that gets a world"),
        (half_made, r"make_handler\(world\) returned nothing, and has to return the handler"),
        (lambda _: {"batchItemFailures": []}, r"returned dict \{'batchItemFailures': \[\]\}, and has to"),
        (broken, r"make_handler\(world\) raised KeyError: 'BUS_NAME' \(test_simulation_guard.py:\d+\)"),
    ],
)
def test_what_makes_no_handler_is_said_at_once(make_handler: Any, words: str) -> None:
    """It is no failure of a relay, and is not told as one."""
    with pytest.raises(ConfigurationError, match=words):
        simulate(make_handler, seeds=[1])


def test_an_instance_that_cannot_be_loaded_because_of_a_call_is_a_bad_day() -> None:
    """What a client raises, also as the cause of another error, may be over at the next try."""
    failures: list[Exception] = [ClientError({"Error": {"Code": "Throttling"}}, "GetItem"), RuntimeError("no settings")]
    failures[1].__cause__ = failures[0]

    def make_handler(_: FunctionWorld) -> Handler:
        if failures:
            raise failures.pop()
        return lambda *_: None

    facts = run(ONE_WRITE, make_handler)
    assert [fact.error.partition(" (")[0] for fact in facts if isinstance(fact, Raised)] == [
        "RuntimeError: no settings",
        "ClientError: An error occurred",
    ]
    assert [fact.invocation for fact in facts if isinstance(fact, Answered)] == [3]


def test_a_service_that_is_not_simulated_is_refused() -> None:
    """When it is asked for, with those that are."""
    with pytest.raises(NotSimulated, match=r"no service 'sqs' is simulated \(test_sim.*\): events, dynamodb are"):
        run_once(lambda world: world.client("sqs"))


def test_an_operation_that_is_not_simulated_is_refused() -> None:
    """A handler that catches everything does not get past it."""

    def body(world: FunctionWorld) -> None:
        try:
            world.client("dynamodb").query(TableName=world.table)
        except Exception:  # noqa: BLE001 -- as handlers do
            pytest.fail("the handler survived")

    with pytest.raises(NotSimulated, match=r"client\('dynamodb'\) has no query: batch_execute.*, get_item, .* are sim"):
        run_once(body)


def test_only_what_is_understood_is_read() -> None:
    """An argument of GetItem that is not simulated is none that may be overlooked; a wrong table is one."""

    def body(world: FunctionWorld, **more: Any) -> None:
        key = {"pk": {"S": "A"}, "sk": {"S": "x"}}
        client = world.client("dynamodb")
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.get_item(TableName="other", Key=key)
        client.get_item(TableName=world.table, Key=key, **more)

    assert any(isinstance(fact, Answered) for fact in run_once(body))
    with pytest.raises(NotSimulated, match="GetItem with ConsistentRead, TableName, Key, ProjectionExpression: with"):
        run_once(lambda world: body(world, ProjectionExpression="a"))


# --- processes --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_sent_to_other_processes_is_refused() -> None:
    """A lambda has no name by which it could be found there; and no processes at all do nothing."""
    with pytest.raises(ConfigurationError, match=r"processes=2\): other processes find make_handler by its name"):
        simulate(lambda _: lambda_handler, seeds=[1], processes=2)
    with pytest.raises(ConfigurationError, match="processes is 0; a whole number from 1 "):
        simulate(half_made, seeds=[1], processes=0)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """Each process imports it anew, and would start processes again."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from dynamodb_outbox.testing.simulation import relay_handler, simulate

            simulate(relay_handler, seeds=[1, 2], processes=2)
            """
        ),
        encoding="utf-8",
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert "ConfigurationError: simulate(processes=2): the processes could not start" in last
    assert 'if __name__ == "__main__":' in last
    assert "freeze_support" not in ended.stderr
