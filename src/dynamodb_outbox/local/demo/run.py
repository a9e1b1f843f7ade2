"""One demo from its start to its evidence.

Calm orders first, through the outbox alone: the first of them by itself, to wake the functions, and the others while
latency is measured. Then all lanes at once under the faults. Then everything that is on its way may arrive, for a
bounded time. What is still on its way after that is in the evidence, like all the rest.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.local.demo.conductor import Conductor
from dynamodb_outbox.local.demo.dual_write import DualWriter
from dynamodb_outbox.local.demo.functions import check_again, check_functions
from dynamodb_outbox.local.demo.outbox_lane import OutboxWriter
from dynamodb_outbox.local.demo.patience import Patience
from dynamodb_outbox.local.demo.progress import Progress
from dynamodb_outbox.local.demo.schedule import LANES, Lane, Order, Schedule, plan
from dynamodb_outbox.local.demo.world import World
from dynamodb_outbox.local.demo.writers import LaneWriter, Verdict, Writers
from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.local.demo.evidence import Evidence
    from dynamodb_outbox.local.demo.progress import Observer
    from dynamodb_outbox.local.demo.settings import Settings

__all__ = ["run"]

_DUAL: tuple[Lane, ...] = ("write_then_publish", "publish_then_write")
_TICK_S = 0.02
_TICKS = 5  # between two looks at a condition that costs calls
_OBSERVE_S = 0.2
_CALM_WITHIN_S = 10.0
_OUTBOX_ATTEMPTS = 2
_DUAL_ATTEMPTS = 3  # what botocore's `standard` mode makes by default


def run(settings: Settings, observe: Observer) -> Evidence:
    """Run one demo and return its evidence; no process and no file of it is left.

    Raises OrdersOutOfRange and CustomersOutOfRange, FunctionUnusable before any order is submitted, and what keeps
    a demo from running: EngineError (extra missing, port taken, engine died), ChildDied, DemoFailed, TimeoutError.
    KeyboardInterrupt passes through.
    """
    started = time.monotonic()
    schedule = plan(settings.orders, settings.seed, customers=settings.customers, rejected=settings.rejected)
    undecided = check_functions(settings)
    with World(settings, schedule) as world, world.explained():
        check_again(settings, undecided, {"relay": world.buses["outbox"].control.url, "consumer": world.engine.url})
        demo = _Demo(settings, schedule, world, observe, started)
        try:
            demo.calm()
            demo.faulty()
            demo.drain()
        finally:
            demo.stop()
        world.end_functions()
        return world.evidence(seconds=time.monotonic() - started)


class _Demo:
    """The phases of one demo, and the loop that all of them wait in."""

    def __init__(self, settings: Settings, schedule: Schedule, world: World, observe: Observer, started: float) -> None:
        self._settings = settings
        self._schedule = schedule
        self._world = world
        self._observe = observe
        self._started = started
        self._observed = 0.0
        self._stage = "starting"
        self._happened: list[str] = []
        self._happened_lock = threading.Lock()
        self._writers: list[tuple[Lane, Writers]] = []
        self._verdicts = Journal(world.verdicts_file)
        self._conductor = Conductor(
            schedule,
            buses=world.every_bus,
            relays_bus=world.buses["outbox"].control,
            relay=world.relay,
            journal=world.kills_file,
            say=self._say,
        )
        self._lanes: dict[Lane, LaneWriter] = {
            "outbox": OutboxWriter(dynamodb=world.client("dynamodb", "outbox", attempts=_OUTBOX_ATTEMPTS)),
            "write_then_publish": self._dual("write_then_publish"),
            "publish_then_write": self._dual("publish_then_write"),
        }

    def calm(self) -> None:
        """Submit the calm orders: through the outbox alone, waiting for their events, then through the other lanes."""
        first, *others = self._schedule.phase(calm=True)
        self._calmly("waking the functions", ("outbox",), [first])
        self._calmly("measuring without faults", ("outbox",), others)
        at_once = [replace(order, due_ms=0) for order in (first, *others)]
        self._calmly("the dual writes catch up", _DUAL, at_once)

    def faulty(self) -> None:
        """Submit everything that is left, in all lanes, while the faults happen."""
        self._stage = "all lanes, with faults"
        writers = [self._start(lane, self._schedule.phase(calm=False)) for lane in LANES]
        while not all(one.done() for one in writers) or self._conductor.out:
            self._tick()

    def drain(self) -> None:
        """Wait until nothing is on its way any more, or nothing can be expected any more."""
        self._stage = "waiting for what is on its way"
        self._wait(lambda: self._conductor.idle, Patience(time.monotonic(), within_s=self._settings.drain_s))
        self._tell()

    def stop(self) -> None:
        """Let no writer start anything new."""
        for _, writers in self._writers:
            writers.stop()
        self._verdicts.close()

    def _calmly(self, stage: str, lanes: Sequence[Lane], orders: Sequence[Order]) -> None:
        self._stage = stage
        writers = [self._start(lane, orders) for lane in lanes]
        patience = Patience(time.monotonic(), within_s=_CALM_WITHIN_S + orders[-1].due_ms / 1000, still_s=0)
        self._wait(lambda: all(one.done() for one in writers), patience)

    def _start(self, lane: Lane, orders: Sequence[Order]) -> Writers:
        own = lane == "outbox"
        writers = Writers(
            self._lanes[lane],
            orders,
            count=self._schedule.writers,
            on_submit=self._conductor.submitted if own else None,
            on_verdict=self._told if own else None,
        )
        self._writers.append((lane, writers))
        return writers.start()

    def _told(self, order: Order, verdict: Verdict) -> None:
        self._verdicts.write(request=order.request_id, verdict=verdict)

    def _wait(self, ready: Callable[[], bool], patience: Patience) -> None:
        """Run the loop until it is `ready` and nothing is on its way to the bus or the consumer, or patience ends."""
        while True:
            on_its_way = (self._world.pending(), self._world.queued())
            requests = [bus.state().requests for bus in self._world.every_bus]
            moved = (on_its_way, requests, self._submitted())
            done = ready() and not any(on_its_way)
            if patience.over(time.monotonic(), done=done, picture=moved):
                if not done:
                    pending, queued = counted(on_its_way[0], "record"), counted(on_its_way[1], "message")
                    self._say(f"not waited for any longer: {pending} pending, {queued} queued")
                return
            for _ in range(_TICKS):
                self._tick()

    def _tick(self) -> None:
        self._world.check()
        for _, writers in self._writers:
            writers.check()
        self._conductor.tick()
        if time.monotonic() - self._observed >= _OBSERVE_S:
            self._observed = time.monotonic()
            self._tell()
        time.sleep(_TICK_S)

    def _tell(self) -> None:
        with self._happened_lock:
            happened, self._happened = tuple(self._happened), []
        self._observe(
            Progress(
                stage=self._stage,
                seconds=time.monotonic() - self._started,
                orders=len(self._schedule.orders),
                submitted=self._submitted(),
                accepted={lane: bus.control.state().accepted for lane, bus in self._world.buses.items()},
                kills=self._conductor.kills,
                out=self._conductor.out,
                happened=happened,
            )
        )

    def _submitted(self) -> dict[Lane, int]:
        submitted: Counter[Lane] = Counter()
        for lane, writers in self._writers:
            submitted[lane] += writers.submitted
        return dict(submitted)

    def _say(self, line: str) -> None:
        with self._happened_lock:
            self._happened.append(line)

    def _dual(self, lane: Literal["write_then_publish", "publish_then_write"]) -> DualWriter:
        dynamodb, events = (self._world.client(kind, lane, attempts=_DUAL_ATTEMPTS) for kind in ("dynamodb", "events"))
        return DualWriter(lane, dynamodb=dynamodb, events=events)
