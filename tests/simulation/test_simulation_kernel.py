"""Virtual time: one strand at a time, an order that a seed decides, and strands that can be killed."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from simulation_ground import ground, kernel_of

from dynamodb_outbox.testing.simulation.crew import StrandCrew
from dynamodb_outbox.testing.simulation.kernel import Killed, Mailbox, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.testing.simulation.kernel import Kernel, Strand


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """Return a kernel, closed at the end of the test."""
    made = kernel_of()
    yield made
    made.close()


def test_things_happen_in_the_order_of_their_times(kernel: Kernel) -> None:
    """Strands and actions alike, and years pass at once."""
    seen: list[tuple[str, int]] = []
    kernel.spawn("late", lambda: seen.append(("late", kernel.now_ms)), at_ms=40)

    def sleeper() -> None:
        for _ in range(2):
            kernel.sleep(30)
            seen.append(("sleeper", kernel.now_ms))
        kernel.sleep(10**12)
        seen.append(("years later", kernel.now_ms))

    kernel.spawn("sleeper", sleeper)
    kernel.call_at(50, lambda: seen.append(("action", kernel.now_ms)))
    kernel.run(10**13)
    assert seen == [("sleeper", 30), ("late", 40), ("action", 50), ("sleeper", 60), ("years later", 10**12 + 60)]
    assert kernel.now_ms == 10**13


def test_a_run_stops_at_its_end_and_can_go_on(kernel: Kernel) -> None:
    """What is due at the end itself still happens."""
    seen: list[int] = []

    def body() -> None:
        for _ in range(3):
            kernel.sleep(10)
            seen.append(kernel.now_ms)

    kernel.spawn("body", body)
    kernel.run(20)
    assert seen == [10, 20]
    kernel.run(25)
    assert kernel.now_ms == 25
    kernel.run(30)
    assert seen == [10, 20, 30]


def test_the_seed_decides_between_what_is_due_at_once() -> None:
    """The same seed gives the same order, and seeds differ."""

    def order(seed: int) -> str:
        kernel = kernel_of(seed)
        seen: list[str] = []

        def body(name: str) -> None:
            for _ in range(3):
                kernel.sleep(1)
                seen.append(name)

        for name in "abcd":
            kernel.spawn(name, lambda name=name: body(name))  # type: ignore[misc]  # a default binds the loop's name
        kernel.run(10)
        kernel.close()
        return "".join(seen)

    orders = [order(seed) for seed in range(10)]
    assert orders == [order(seed) for seed in range(10)]
    assert len(set(orders)) > 5


def test_what_is_due_at_one_time_leaves_the_order_at_others_alone() -> None:
    """So that leaving something out of a run changes no more than it has to."""

    def order(*, more: bool) -> list[int]:
        kernel, seen = kernel_of(3), list[int]()
        if more:
            kernel.call_at(5, lambda: None)
        for number in range(20):
            kernel.call_at(10, partial(seen.append, number))
        kernel.run(20)
        kernel.close()
        return seen

    assert order(more=True) == order(more=False) != sorted(order(more=False))


def test_a_killed_strand_ends_where_it_waits_and_can_do_nothing_more(kernel: Kernel) -> None:
    """Its finally blocks run, code that catches exceptions does not hold it up, and no call of the kernel works."""
    seen: list[str] = []

    def body() -> None:
        try:
            kernel.sleep(100)
            seen.append("survived")
        except Exception:
            seen.append("caught")
            raise
        finally:
            seen.append(f"finally at {kernel.now_ms}")
            with pytest.raises(Killed):
                kernel.sleep(1)
            with pytest.raises(Killed):
                kernel.here()

    strand = kernel.spawn("victim", body)
    kernel.call_at(40, strand.kill)
    kernel.run(200)
    assert seen == ["finally at 40"]
    assert not strand.alive


def test_a_strand_that_kills_itself_ends_at_its_next_call(kernel: Kernel) -> None:
    """As a process does that asks for its own end."""
    seen: list[str] = []
    strands: list[Strand] = []

    def body() -> None:
        kernel.sleep(1)
        strands[0].kill()
        seen.append("still here")
        kernel.sleep(1)
        seen.append("survived")

    strands.append(kernel.spawn("self", body))
    kernel.run(10)
    assert seen == ["still here"]


def test_a_strand_killed_before_its_first_turn_never_runs(kernel: Kernel) -> None:
    """Nor does it need a thread."""
    seen: list[str] = []
    strand = kernel.spawn("never", lambda: seen.append("ran"), at_ms=5)
    strand.kill()
    kernel.run(10)
    assert seen == []
    assert not strand.alive


@pytest.mark.parametrize("where", ["strand", "action"])
def test_an_error_stops_the_run_which_raises_it(kernel: Kernel, where: str) -> None:
    """Nothing happens after it."""
    seen: list[str] = []

    def fail() -> None:
        raise ValueError("a bug")

    if where == "strand":
        kernel.spawn("broken", fail, at_ms=5)
    else:
        kernel.call_at(5, fail)
    kernel.call_at(6, lambda: seen.append("later"))
    kernel.spawn("waiting", lambda: kernel.sleep(100))
    with pytest.raises(ValueError, match="a bug"):
        kernel.run(10)
    assert seen == []


def test_only_a_strand_can_wait(kernel: Kernel) -> None:
    """Neither the test itself nor an action."""
    with pytest.raises(RuntimeError, match="only a strand"):
        kernel.sleep(1)
    kernel.call_at(1, lambda: kernel.sleep(1))
    with pytest.raises(RuntimeError, match="only a strand"):
        kernel.run(2)


def test_a_wake_up_for_an_earlier_wait_is_void(kernel: Kernel) -> None:
    """Woken twice for one wait, a strand still waits the next one out."""
    seen: list[int] = []

    def body() -> None:
        kernel.wait(50)
        seen.append(kernel.now_ms)
        kernel.wait(100)
        seen.append(kernel.now_ms)

    strand = kernel.spawn("body", body)

    def wake_twice() -> None:
        kernel.wake(strand)
        kernel.wake(strand)

    kernel.call_at(20, wake_twice)
    kernel.run(1000)
    assert seen == [20, 100]


def test_threads_are_used_again() -> None:
    """A thousand strands, one after the other and on two kernels, need one thread for each that lives at a time."""
    threads = Threads()
    before = threading.active_count()
    for _ in range(2):
        kernel = kernel_of(1, threads)

        def body(kernel: Kernel = kernel) -> None:
            for _ in range(500):
                kernel.spawn("short", lambda: None)
                kernel.sleep(1)

        kernel.spawn("body", body)
        kernel.run(10_000)
        kernel.close()
    assert threading.active_count() - before <= 2
    threads.close()
    assert threading.active_count() == before


def test_closing_ends_every_strand_and_every_thread() -> None:
    """Also one that starts another strand while it ends, and after an error."""
    before = threading.active_count()
    kernel = kernel_of()
    seen: list[str] = []

    def stubborn() -> None:
        try:
            kernel.wait()
        finally:
            kernel.spawn("another", lambda: seen.append("another ran"))
            kernel.call_at(0, lambda: seen.append("action"))
            raise ValueError("while it ends")

    for _ in range(3):
        kernel.spawn("stubborn", stubborn)
    kernel.spawn("later", lambda: seen.append("later"), at_ms=100)
    kernel.run(10)
    kernel.close()
    assert threading.active_count() == before
    assert "another ran" not in seen
    assert "later" not in seen


def test_a_mailbox_hands_on_in_order_and_wakes_its_reader(kernel: Kernel) -> None:
    """At the time of the put, from a strand or an action."""
    box: Mailbox[str] = Mailbox(kernel)
    seen: list[tuple[str | None, int]] = []

    def reader() -> None:
        for until_ms in (None, None, 30, 60):
            item = box.get(until_ms=until_ms)
            seen.append((item, kernel.now_ms))
        seen.append((box.take(), kernel.now_ms))

    kernel.spawn("reader", reader)

    def put_two() -> None:
        box.put("a")
        box.put("b")

    kernel.call_at(10, put_two)
    kernel.call_at(40, lambda: box.put("c"))
    kernel.call_at(70, lambda: box.put("d"))
    kernel.run(100)
    assert seen == [("a", 10), ("b", 10), (None, 30), ("c", 40), ("d", 70)]


def test_a_mailbox_without_a_living_reader_keeps_what_is_put(kernel: Kernel) -> None:
    """The next reader gets it."""
    box: Mailbox[str] = Mailbox(kernel)
    seen: list[str] = []
    first = kernel.spawn("first", lambda: seen.append("first " + box.take()))
    kernel.call_at(5, first.kill)
    kernel.call_at(10, lambda: box.put("a"))
    kernel.spawn("second", lambda: seen.append("second " + box.take()), at_ms=20)
    kernel.run(30)
    assert seen == ["second a"]


def test_strands_that_ended_are_forgotten(kernel: Kernel) -> None:
    """A long run does not collect them."""

    def body() -> None:
        for _ in range(2_000):
            kernel.spawn("short", lambda: None)
            kernel.sleep(1)

    kernel.spawn("body", body)
    kernel.run(10_000)
    assert len(kernel._strands) < 600


def test_a_crew_of_strands_works_side_by_side_and_no_more_than_its_size() -> None:
    """Results come in the order in which tasks end; a wait without a result takes as long as it says."""
    with ground() as world:
        process = world.process()
        crew = StrandCrew(world.kernel, process, 2)
        results = crew.results()

        def task(name: str, duration_ms: int) -> None:
            world.kernel.sleep(duration_ms)
            results.put((name, world.kernel.now_ms))
            raise ValueError("what a task raises is lost")

        def body() -> list[object]:
            for name, duration_ms in (("a", 30), ("b", 10), ("c", 5)):
                crew.start(lambda name=name, duration_ms=duration_ms: task(name, duration_ms))  # type: ignore[misc]  # as above
            got = [results.get(3), *(results.get(None) for _ in range(3))]
            got += [results.get(20), world.kernel.now_ms]
            for name in "def":
                crew.start(lambda name=name: task(name, 10))  # type: ignore[misc]  # as above
            return got + sorted(at_ms for _, at_ms in (results.get(None) for _ in range(3)))  # type: ignore[misc]  # three come

        assert world.run(body, process=process) == [[None, ("b", 10), ("c", 15), ("a", 30), None, 50, 60, 60, 70]]


def test_a_crew_ends_with_its_process() -> None:
    """Its tasks end where they wait, and no more can be started."""
    with ground() as world:
        process = world.process()
        crew = StrandCrew(world.kernel, process, 2)
        seen: list[str] = []

        def task() -> None:
            world.kernel.sleep(10)
            seen.append("survived")

        def body() -> None:
            crew.start(task)
            world.kernel.sleep(5)
            process.kill()
            with pytest.raises(Killed):
                crew.start(lambda: seen.append("started"))

        world.run(body, process=process)
        process.spawn("late", lambda: seen.append("spawned"))
        world.kernel.run(world.kernel.now_ms + 10)
        assert seen == []
