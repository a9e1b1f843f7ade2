"""Writers: clients that submit orders when they are due, and once more when they do not know how it ended."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import EndpointConnectionError

from dynamodb_outbox.errors import ConditionFailed, OutboxError
from dynamodb_outbox.local.demo.schedule import Fault, Order
from dynamodb_outbox.local.demo.writers import PublishFailed, Step, Verdict, Writers, submit

if TYPE_CHECKING:
    from collections.abc import Callable

ORDER = Order(0, "1", "F1", 1, 5, flagged=False, paid=False, calm=False, due_ms=0)


class Lane:
    """A lane that answers as told, one step for each call, and remembers what it was asked."""

    def __init__(self, *steps: Verdict | Exception, take_s: float = 0.0) -> None:
        self.steps = list(steps)
        self.calls: list[str] = []
        self.take_s = take_s

    def place(self, order: Order, after_first_step: Step) -> Verdict:
        """Take the next step, after the first one."""
        self.calls.append(f"place {order.request_id}")
        time.sleep(self.take_s)
        after_first_step()
        return self._next()

    def pay(self, order: Order) -> Verdict:
        """Take the next step."""
        self.calls.append(f"pay {order.request_id}")
        return self._next()

    def _next(self) -> Verdict:
        step = self.steps.pop(0) if self.steps else "committed"
        if isinstance(step, Exception):
            raise step
        return step


def hit(fault: Fault, *, paid: bool = False) -> Order:
    """Return an order with this fault."""
    return replace(ORDER, fault=fault, paid=paid)


def run(lane: Lane, order: Order) -> tuple[Verdict, list[float]]:
    """Submit an order; return the verdict and the pauses that were made."""
    pauses: list[float] = []
    return submit(lane, order, pauses.append), pauses


def test_an_order_is_submitted_once() -> None:
    """A command that ends well is not repeated."""
    lane = Lane()
    assert run(lane, ORDER) == ("committed", [])
    assert lane.calls == ["place F1"]


def test_a_paid_order_is_placed_and_then_paid() -> None:
    """The second command follows the first."""
    lane = Lane()
    assert run(lane, replace(ORDER, paid=True)) == ("committed", [])
    assert lane.calls == ["place F1", "pay F1"]


@pytest.mark.parametrize("error", [PublishFailed("x"), EndpointConnectionError(endpoint_url="x")])
def test_a_command_with_an_unknown_end_comes_again_a_second_later(error: Exception) -> None:
    """The client waits a second and submits it once more."""
    lane = Lane(error, "committed")
    assert run(lane, ORDER) == ("committed", [1.0])
    assert lane.calls == ["place F1"] * 2


def test_a_client_gives_up_after_the_second_try() -> None:
    """Two ends that are not known are one that stays unknown; such an order is not paid."""
    lane = Lane(PublishFailed("x"), PublishFailed("x"))
    assert run(lane, replace(ORDER, paid=True)) == ("unknown", [1.0])
    assert lane.calls == ["place F1"] * 2


def test_a_rejected_order_is_neither_repeated_nor_paid() -> None:
    """A rejection is an answer."""
    lane = Lane("rejected")
    assert run(lane, hit("repeated", paid=True)) == ("rejected", [])
    assert lane.calls == ["place F1"]


def test_a_writer_that_dies_stops_after_its_first_step_and_its_command_comes_again() -> None:
    """The first run ends at the first step and has no verdict; the second runs to its end."""
    lane = Lane("committed", "rejected")
    assert run(lane, hit("writer-dies")) == ("committed", [1.0])
    assert lane.steps == ["rejected"]


def test_a_repeated_command_is_submitted_again_although_it_succeeded() -> None:
    """The second verdict is what the client is told in the end."""
    lane = Lane("committed", "rejected")
    assert run(lane, hit("repeated")) == ("rejected", [1.0])
    assert lane.calls == ["place F1"] * 2


def test_an_error_that_no_client_would_retry_is_not_swallowed() -> None:
    """A defect of the lane ends the demo instead of becoming a figure."""
    with pytest.raises(ConditionFailed):
        run(Lane(ConditionFailed([])), ORDER)
    assert not OutboxError.retryable


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds, ten seconds at most."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_writers_submit_every_order_once_and_not_before_it_is_due() -> None:
    """All orders get a verdict, each is announced before its first try, and due times are kept."""
    orders = [replace(ORDER, number=n, request_id=f"F{n}", due_ms=n * 5) for n in range(20)]
    announced: dict[str, float] = {}
    verdicts: dict[str, Verdict] = {}

    def announce(order: Order) -> None:
        announced[order.request_id] = time.monotonic() - begun

    def told(order: Order, verdict: Verdict) -> None:
        verdicts[order.request_id] = verdict

    begun = time.monotonic()
    writers = Writers(
        Lane(),
        orders,
        count=4,
        on_submit=announce,
        on_verdict=told,
    ).start()
    wait_for(writers.done)
    assert verdicts == {order.request_id: "committed" for order in orders}
    assert all(announced[order.request_id] >= order.due_ms / 1000 for order in orders)
    assert writers.submitted == 20


def test_writers_work_at_the_same_time() -> None:
    """As many orders are in progress as there are writers."""
    orders = [replace(ORDER, number=n) for n in range(8)]
    begun = time.monotonic()
    writers = Writers(Lane(take_s=0.1), orders, count=8).start()
    wait_for(writers.done)
    assert time.monotonic() - begun < 0.5


def test_a_defect_reaches_whoever_asks() -> None:
    """The exception of a thread is raised by `done`, and the other threads end."""
    orders = [replace(ORDER, number=n, due_ms=n * 1000) for n in range(5)]
    writers = Writers(Lane(ConditionFailed([])), orders, count=2).start()
    with pytest.raises(ConditionFailed):
        wait_for(writers.done)
    wait_for(lambda: threading.active_count() == 1 or not any(t.is_alive() for t in writers._threads))


def test_writers_that_are_stopped_start_nothing_new() -> None:
    """Threads that wait for a due time end at once."""
    lane = Lane()
    writers = Writers(lane, [replace(ORDER, due_ms=60_000)], count=2).start()
    writers.stop()
    wait_for(writers.done)
    assert lane.calls == []
