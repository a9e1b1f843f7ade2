"""The relay's crew: tasks side by side, in threads."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from relay_shell import CONTENT, Bus, Context, Table, failures, relay, row, several

from dynamodb_outbox import Layout
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record.parked_keys import KeysFound
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.relay.delivery import Delivery
from dynamodb_outbox.relay.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Closed(ThreadCrew):
    """Takes no work, as when the interpreter is shutting down; what it refused it may do all the same."""

    def __init__(self, *, does_it: bool = False) -> None:
        super().__init__(1, "closed")
        self.does_it = does_it

    def start(self, task: Callable[[], object]) -> None:
        """Refuse."""
        if self.does_it:
            super().start(task)
            self.results().get(20)
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")


def test_a_crew_that_takes_no_work_holds_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing was sent: the records are answered as failed, with the reason in the log, and no error is raised."""
    bus = Bus()
    made = relay(bus, crew=Closed())
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context(1000))) == ["1"]
    assert (bus.asked, bus.calls) == (0, 0)
    assert "after interpreter shutdown" in caplog.text


def test_a_task_that_was_refused_and_done_gives_one_fact() -> None:
    """Whoever comes first has it; nothing is counted twice, and nothing runs after the answer."""
    bus = Bus()
    made = relay(bus, crew=Closed(does_it=True))
    assert failures(made.lambda_handler({"Records": [row(1), row(2)]}, Context())) == []
    assert [event.id.rpartition("#")[2] for event in bus.accepted] == ["1", "2"]


class AtOnce(ThreadCrew):
    """Does each task in the thread that starts it."""

    def start(self, task: Callable[[], object]) -> None:
        """Do it."""
        task()


def test_an_invocation_is_freed_when_it_is_over() -> None:
    """It holds no circle, which would stay until Python looks for garbage: that takes time, and a batch is large."""
    made = relay(Bus(lambda event: CONTENT if event.id.endswith("2") else None), crew=AtOnce(1, "at once"))
    gc.collect()
    gc.disable()
    others = parts_of_invocations()  # of tests whose log is kept, with the tracebacks in it
    try:
        made.lambda_handler({"Records": [row(1), row(2), row(3)]}, Context())
        left = parts_of_invocations()
    finally:
        gc.enable()
    assert [one for one in left if all(one is not other for other in others)] == []


def parts_of_invocations() -> list[object]:
    """Return what there is of invocations, of any relay."""
    return [one for one in gc.get_objects() if isinstance(one, (Invocation, Machine, Delivery))]


class Scarce(ThreadCrew):
    """Refuses the tasks of these numbers, from 1 on, and keeps them."""

    def __init__(self, *refused: int, error: BaseException | None = None, does_it: bool = False) -> None:
        super().__init__(4, "scarce")
        self.refused = refused
        self.error = error or RuntimeError("can't start new thread")
        self.does_it = does_it
        self.count = 0
        self.kept: list[Callable[[], object]] = []

    def start(self, task: Callable[[], object]) -> None:
        """Refuse, or do."""
        self.count += 1
        if self.count in self.refused:
            self.kept.append(task)
            if self.does_it:
                task()
            raise self.error
        super().start(task)


@pytest.mark.parametrize("layout", [Layout(), Layout(settle="none")], ids=["expire", "none"])
def test_records_that_nothing_settles_take_no_thread(layout: Layout) -> None:
    """It is the record that says so, whatever the relay's layout: one task asks for the bus, one publishes."""
    record, settled = several(1, "a"), several(2, "b")
    record["dynamodb"]["NewImage"]["ob_settle"] = {"S": "none"}
    settled["dynamodb"]["NewImage"]["ob_settle"] = {"S": "mark"}
    for records, tasks in (([record], 2), ([record, settled], 3)):
        table, crew = Table(), Scarce()
        made = relay(Bus(), table, crew=crew, layout=layout, ordering="none")
        assert failures(made.lambda_handler({"Records": records}, Context())) == []
        assert (crew.count, table.settled) == (tasks, ["OUTBOX#2"][: tasks - 2])


def test_a_settle_that_found_no_thread_is_tried_again() -> None:
    """The third task: the bus was asked for, and has accepted."""
    table = Table()
    assert failures(relay(Bus(), table, crew=Scarce(3)).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert table.settled == ["OUTBOX#1"]


def test_a_park_that_found_no_thread_holds_its_record_and_costs_no_unit_of_the_limit() -> None:
    """Nothing was sent: it is neither parked nor perhaps parked."""
    table = Table()
    made = relay(Bus(lambda _: CONTENT), table, crew=Scarce(3))
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == ["1"]
    assert (table.parked, made._carried.parks) == ([], ())
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    assert len(table.parked) == 1


def test_keys_that_no_thread_could_read_are_read_again() -> None:
    """And nothing of them is published before."""
    bus, asked = Bus(), []

    def read(_: str, keys: Sequence[str]) -> KeysFound:
        asked.append((bus.calls, *keys))
        return KeysFound(frozenset(), frozenset())

    made = relay(bus, crew=Scarce(1), on_poison="park_key")
    stand_in: Any = SimpleNamespace(request_ms=100, read=read)
    made._parked_keys = stand_in
    assert failures(made.lambda_handler({"Records": [row(1)]}, Context())) == []
    assert asked == [(0, "ORDER#1")]


def test_a_task_that_was_refused_is_not_done_later() -> None:
    """Whoever refused it has told that nothing was sent; it would be sent after the answer."""
    bus, crew = Bus(), Scarce(2)
    assert failures(relay(bus, crew=crew).lambda_handler({"Records": [row(1)]}, Context())) == []
    assert bus.calls == 1
    (late,) = crew.kept
    late()
    assert bus.calls == 1


@pytest.mark.parametrize("does_it", [False, True])
def test_an_interrupt_while_a_task_is_handed_over_is_raised_when_nothing_is_under_way(does_it: bool) -> None:
    """Whether the task was taken before or never will be: it is waited for, or not, and counted once."""
    bus = Bus()
    crew = Scarce(2, error=KeyboardInterrupt(), does_it=does_it)
    with pytest.raises(KeyboardInterrupt):
        relay(bus, crew=crew).lambda_handler({"Records": [row(1)]}, Context())
    assert (bus.at_once, bus.calls) == (0, int(does_it))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_with_fewer_threads_less_is_under_way(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives no more: what there are do it all; without any the batch is held, and nothing was sent."""
    started: list[str] = []
    start = threading.Thread.start

    def scarce(self: threading.Thread) -> None:
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    bus = Bus()
    bus.limits = SinkLimits(1, 1000, 1000)
    bus.pause_s = 0.02
    records = [row(number, pk=str(number)) for number in range(1, 13)]
    answer = failures(relay(bus).lambda_handler({"Records": records}, Context(20_000 if most else 1000)))
    assert answer == ([] if most else ["1"])
    assert len(bus.accepted) == (12 if most else 0)
    assert (bus.at_once, bus.most_at_once) == (0, most)


def test_what_a_thread_comes_to_too_late_is_not_begun() -> None:
    """It would outlive the function. One thread, requests of a second, and time for publishing of half of that."""
    bus = Bus()
    bus.limits = SinkLimits(1, 1000, 1000)
    bus.pause_s = 0.8
    records = [row(number, pk=str(number)) for number in range(1, 4)]
    assert failures(relay(bus, crew=ThreadCrew(1, "one")).lambda_handler({"Records": records}, Context(900))) == ["2"]
    assert bus.calls == 1


def test_a_crew_that_nobody_holds_ends_its_threads() -> None:
    """And does what it was given before."""
    crew = ThreadCrew(2, "dropped")
    results = crew.results()
    crew.start(lambda: results.put(threading.current_thread()))
    thread = results.get(10_000)
    assert thread is not None
    del crew
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_a_crew_hands_results_back_in_the_order_in_which_they_come() -> None:
    """Not in the order in which the tasks were started; and it says so when none comes in time."""
    crew = ThreadCrew(2, "crew")
    results = crew.results()
    first_may_go = threading.Event()

    def first() -> None:
        first_may_go.wait()
        results.put("first")

    crew.start(first)
    crew.start(lambda: results.put("second"))
    assert results.get(None) == "second"
    assert results.get(0) is None
    assert results.get(-1) is None
    first_may_go.set()
    assert results.get(10_000) == "first"


def test_a_crew_does_no_more_tasks_at_a_time_than_it_is_large() -> None:
    """The third task begins when one of two has ended; queues of one crew do not see each other's results."""
    crew = ThreadCrew(2, "crew")
    begun, others = crew.results(), crew.results()
    may_go = threading.Event()

    def task() -> None:
        begun.put(threading.current_thread().name)
        may_go.wait()

    for _ in range(3):
        crew.start(task)
    names = {begun.get(10_000), begun.get(10_000)}
    assert begun.get(20) is None
    may_go.set()
    assert begun.get(10_000) in names
    assert names == {"crew_0", "crew_1"}
    assert others.get(0) is None


_FORKS = """
import os, sys
from dynamodb_outbox.adapters.threads import ThreadCrew
crew = ThreadCrew(2, "crew")
def done():
    results = crew.results()
    crew.start(lambda: results.put("done"))
    return results.get(5_000)
before = done()
child = os.fork()
if child == 0:
    os._exit(0 if done() == "done" else 1)
print(before, done(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_crew_works_in_a_forked_process() -> None:
    """Its threads are not in the child, which starts some of its own; the parent's go on."""
    command = [sys.executable, "-W", "ignore", "-c", _FORKS]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("done done 0\n", "")
