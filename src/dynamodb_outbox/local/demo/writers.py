"""The writers of one lane: threads that submit orders when they are due, as clients of the service would.

A lane is the service's code: it places an order or pays it, and raises when it does not know how that ended. What a
client does then is the same for all lanes: it submits the command once more, a second later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from dynamodb_outbox.errors import OutboxError

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Order

__all__ = ["LaneWriter", "PublishFailed", "Step", "Verdict", "WriterDied", "Writers", "submit"]

Verdict = Literal["committed", "rejected", "unknown"]
Step = Callable[[], None]

AGAIN_AFTER_S = 1.0
_TRIES = 2


class WriterDied(Exception):
    """The process of a writer is gone in the middle of a command; none of its remaining steps runs."""


class PublishFailed(OutboxError):
    """A bus did not take an event, `code` says why in its words; the writer gave up."""

    retryable = True

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"the bus did not take the event: {code}")


class _Stopped(Exception):
    """The demo ends early."""


class LaneWriter(Protocol):
    """The service's code in one lane. Each call is one run of a command; commands are safe to repeat.

    `after_first_step` is called when the first step that others can see is done. Raises BotoCoreError, ClientError or a
    retryable OutboxError when the command did not come to its end.
    """

    def place(self, order: Order, after_first_step: Step) -> Verdict:
        """Place the order."""
        ...

    def pay(self, order: Order) -> Verdict:
        """Pay an order that was placed."""
        ...


def submit(lane: LaneWriter, order: Order, wait: Callable[[float], None]) -> Verdict:
    """Submit one order as its schedule says, wait(seconds) between repetitions; return what its client is told."""
    steps = iter([_die] if order.fault == "writer-dies" else [])
    verdict = _insist(lambda: lane.place(order, next(steps, _go_on)), wait)
    if verdict == "committed" and order.fault == "repeated":
        wait(AGAIN_AFTER_S)
        verdict = _insist(lambda: lane.place(order, _go_on), wait)
    if verdict == "committed" and order.paid:
        return _insist(lambda: lane.pay(order), wait)
    return verdict


def _insist(command: Callable[[], Verdict], wait: Callable[[float], None]) -> Verdict:
    for again in range(_TRIES):
        if again:
            wait(AGAIN_AFTER_S)
        try:
            return command()
        except OutboxError as error:
            if not error.retryable:
                raise
        except (BotoCoreError, ClientError, WriterDied):
            pass  # how it ended is not known to the client: that is what the second try is for
    return "unknown"


def _die() -> None:
    raise WriterDied


def _go_on() -> None:
    """Nothing happens after the first step."""


class Writers:
    """`count` threads that submit `orders` through one lane, each order not before it is due.

    `on_submit(order)` is called before an order's first try, `on_verdict(order, verdict)` after its last. An exception
    that no client would retry ends all of them and is raised by `check`.
    """

    def __init__(
        self,
        lane: LaneWriter,
        orders: Sequence[Order],
        *,
        count: int,
        on_submit: Callable[[Order], None] | None = None,
        on_verdict: Callable[[Order, Verdict], None] | None = None,
    ) -> None:
        self._lane = lane
        self._orders: Iterator[Order] = iter(orders)
        self._on_submit = on_submit
        self._on_verdict = on_verdict
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._started = 0.0
        self._failure: BaseException | None = None
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        self.submitted = 0

    def start(self) -> Writers:
        """Begin; due times count from now."""
        self._started = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def check(self) -> None:
        """Raise what ended the writers early, if something did."""
        if self._failure is not None:
            raise self._failure

    def done(self) -> bool:
        """Whether all orders have their verdicts; raises like `check`."""
        self.check()
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Ask the threads to end after the call they are in; they are not waited for."""
        self._stop.set()

    def _work(self) -> None:
        try:
            while (order := self._next()) is not None:
                self._wait(self._started + order.due_ms / 1000 - time.monotonic())
                with self._lock:
                    self.submitted += 1
                if self._on_submit is not None:
                    self._on_submit(order)
                verdict = submit(self._lane, order, self._wait)
                if self._on_verdict is not None:
                    self._on_verdict(order, verdict)
        except _Stopped:
            return
        except Exception as error:  # noqa: BLE001 -- handed to the thread that asks `done`
            self._failure = error
            self.stop()

    def _next(self) -> Order | None:
        with self._lock:
            return next(self._orders, None)

    def _wait(self, seconds: float) -> None:
        if self._stop.is_set() or (seconds > 0 and self._stop.wait(seconds)):
            raise _Stopped
