"""One run: the parts of the simulated world put together as a scenario says, and let go.

    writers ─▶ table ─▶ stream ─▶ event source ─▶ function ─▶ bus        (the last three once for each destination)
                 ▲                                    │          │
                 └────────────── settle, park ────────┘          └─▶ queue ─▶ consumer ─▶ its own table   (if any)

Everything between the parts goes through the network, and everything that happens through the kernel; the ledger is
what is left of a run.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.core.eventsource.filters import NO_FILTERS, compile_filters
from dynamodb_outbox.core.eventsource.lineage import StartingPosition
from dynamodb_outbox.core.record.place import stream_filter
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.relay.publisher import Relay
from dynamodb_outbox.relay.setup import TABLE_CALLS
from dynamodb_outbox.sdk.errors import TRANSPORT
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.testing.simulation.bus import Bus
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.consuming.world import subscribed
from dynamodb_outbox.testing.simulation.crew import StrandCrew
from dynamodb_outbox.testing.simulation.facts import Ledger, Left
from dynamodb_outbox.testing.simulation.faults import Faults
from dynamodb_outbox.testing.simulation.functions import Function
from dynamodb_outbox.testing.simulation.guard import guarded
from dynamodb_outbox.testing.simulation.index import Index
from dynamodb_outbox.testing.simulation.instance_world import InstanceWorld
from dynamodb_outbox.testing.simulation.kernel import Kernel, Threads
from dynamodb_outbox.testing.simulation.network import Network
from dynamodb_outbox.testing.simulation.on_failure import BucketClient, OnFailure, QueueClient
from dynamodb_outbox.testing.simulation.operating import Operator
from dynamodb_outbox.testing.simulation.queries import QueryingClient
from dynamodb_outbox.testing.simulation.reading import StreamClient
from dynamodb_outbox.testing.simulation.records import RecordsClient
from dynamodb_outbox.testing.simulation.refusal import raised_at
from dynamodb_outbox.testing.simulation.source import Source
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from dynamodb_outbox.testing.simulation.sweeping import SweeperFunction, sweeper_handler
from dynamodb_outbox.testing.simulation.table import TABLE, Table
from dynamodb_outbox.testing.simulation.writers import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.choices import Settle
    from dynamodb_outbox.testing.simulation.consuming.queue import Queue
    from dynamodb_outbox.testing.simulation.consuming.world import ConsumerWorld
    from dynamodb_outbox.testing.simulation.facts import Fact
    from dynamodb_outbox.testing.simulation.instance_world import Handler
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.testing.simulation.scenario import Scenario, Settings
    from dynamodb_outbox.testing.simulation.writers import Write

    MakeHandler = Callable[["FunctionWorld"], Handler]
    MakeConsumer = Callable[[ConsumerWorld], Handler]

W = TypeVar("W")

__all__ = ["LAYOUT", "FunctionWorld", "mapping_of", "relay_handler", "run"]

LAYOUT = Layout(version="version", published_for=timedelta(minutes=1), index_shards=2)
"""The table of every run, but for what settling makes of a record.

Published records are kept for a minute, so that TTL has something to delete.
"""

_FILTERS = compile_filters(stream_filter(LAYOUT))

_LISTED_MS = 1_000
"""The children of a split are listed so much later, at most."""


@dataclass(frozen=True, kw_only=True)
class FunctionWorld(InstanceWorld):
    """What the code of a function finds in a new instance: its clients, its clock, and how it was set up.

    destination     what the function publishes to; its bus has this name. Entries for another name are answered as
                    accepted, and are gone, as EventBridge does it
    table, layout   where the records are
    ordering        "key" or "none": whether order is asked of the relay in this run
    in_flight       how many requests to the bus the relay is to have under way at the same time
    on_poison       "park" or "park_key": what is asked of the relay about events that the bus can never accept
    min_age_ms      of a sweeper: how old a record has to be for it, in milliseconds

    `client()` has "events" (PutEvents), and "dynamodb" (what records need).
    """

    destination: str
    ordering: Any
    in_flight: int
    on_poison: Any
    min_age_ms: int


def relay_handler(world: FunctionWorld) -> Handler:
    """Return this library's own relay to EventBridge."""
    relay = Relay(
        EventBridge(world.destination, client=world.client("events")),
        layout=world.layout,
        client=world.client("dynamodb"),
        ordering=world.ordering,
        on_poison=world.on_poison,
        max_in_flight=world.in_flight,
        clock=world.clock,
        entropy=world.entropy,
        crew=world.crew(world.in_flight + TABLE_CALLS),
    )
    return relay.lambda_handler


def run(
    scenario: Scenario,
    make_handler: MakeHandler,
    *,
    consumer: MakeConsumer | None = None,
    threads: Threads | None = None,
    sweeper: MakeHandler = sweeper_handler,
) -> list[Fact]:
    """Let a scenario happen to the end, and return its ledger; the same scenario gives the same one.

    `sweeper` makes the handler of the sweeper, where the scenario has one. Without `consumer` there is no consumer,
    whatever the scenario says. `threads` are kept from run to run, which is faster. Raises NotSimulated for what
    handlers ask of the world that is not in it, ConfigurationError for a `make_handler`, `sweeper` or `consumer` that
    makes none, and what a part of the world raised that none may raise.
    """
    world = _World(scenario, make_handler, consumer, threads)
    if scenario.settings.sweep_every_ms:
        world.sweep(scenario, sweeper)
    if scenario.operations:
        world.operate(scenario)
    with guarded(world.kernel, world.ledger):
        try:
            world.kernel.run(scenario.ends_ms)
            world.note_what_is_left()
        finally:
            world.kernel.close()
    return world.ledger.close()


class _World:
    def __init__(
        self,
        scenario: Scenario,
        make_handler: MakeHandler,
        consumer: MakeConsumer | None,
        threads: Threads | None,
    ) -> None:
        self._settings = scenario.settings
        self._is_operated = bool(scenario.operations)
        self._chance = Chance(scenario.seed).of("run")
        self._make_handler = make_handler
        self.kernel = Kernel(random.Random(scenario.seed), threads)  # noqa: S311 -- the same in each run
        self.ledger = Ledger()
        faults = Faults(scenario.plan, self.kernel, self.ledger)
        self._network = Network(self.kernel, self.ledger, faults, self._chance)
        self._queue = self._subscribe(consumer)
        self._stream = Stream(self.kernel, self.ledger, self._chance, _stream_settings(self._settings))
        self._table = Table(self.kernel, self._stream, _layout(self._settings.settle), self._chance)
        self._buses: list[Bus] = []
        self._on_failure = OnFailure(self.kernel)
        self._stream.arm(scenario.plan, faults)
        self._table.arm(scenario.plan, faults)
        for destination in self._settings.destinations:
            self._connect(destination).arm(scenario.plan)
        self._start_writers(scenario)

    def sweep(self, scenario: Scenario, make_sweeper: MakeHandler) -> None:
        """Put a sweeper beside the relay of the first destination."""
        bus, index = self._buses[0], self._index

        def handler(process: Process) -> Handler:
            client = partial(QueryingClient, self._network, process, self._table, index)
            return self._handler(make_sweeper, "sweeper", self._function_world(process, bus, dynamodb=client))

        SweeperFunction(self._network, bus.destination, handler, self._settings).schedule(scenario)

    def operate(self, scenario: Scenario) -> None:
        """Let an operator do what the scenario says, to the first destination."""
        bus, index = self._buses[0], self._index

        def world_of(process: Process) -> FunctionWorld:
            return self._function_world(
                process,
                bus,
                dynamodb=partial(QueryingClient, self._network, process, self._table, index),
                dynamodbstreams=partial(StreamClient, self._network, process, self._stream),
                s3=partial(BucketClient, self._network, process, self._on_failure),
                sqs=partial(QueueClient, self._network, process, self._on_failure),
            )

        Operator(self._network, bus.destination, world_of).plan(scenario.operations)

    def note_what_is_left(self) -> None:
        """Write down how the outbox is at the end."""
        self.ledger.note(Left(self.kernel.now_ms, self._table.left()))

    def _connect(self, destination: str) -> Source:
        """Put a bus, a function and an event source mapping behind the stream; return the mapping."""
        refuses_poison = destination not in self._settings.tolerant
        bus = Bus(self._network, destination, refuses_poison=refuses_poison, queue=self._queue)
        self._buses.append(bus)
        function = Function(
            self._network,
            destination,
            lambda process: self._handler(self._make_handler, "make_handler", self._function_world(process, bus)),
            instances=self._settings.instances,
            timeout_ms=self._settings.function_timeout_ms,
        )
        source = Source(
            self._network,
            self._chance,
            self._stream,
            function,
            mapping_of(self._settings),
            destination=destination,
            starting=StartingPosition(self._settings.starting),
            on_failure=partial(self._on_failure.keep, destination) if self._is_operated else None,
        )
        source.create()
        return source

    def _subscribe(self, consumer: MakeConsumer | None) -> Queue | None:
        """Put a consumer behind the buses, if there is to be one, and return its queue."""
        settings = self._settings
        if consumer is None or not settings.consumers:
            return None
        return subscribed(
            self._network,
            lambda world: self._handler(consumer, "consumer", world),
            instances=settings.consumers,
            timeout_ms=settings.function_timeout_ms,
        )

    def _handler(self, make: Callable[[W], Handler], named: str, world: W) -> Handler:
        """Make a handler. One that cannot be made because of a call that failed may be the next time."""
        try:
            handler = make(world)
        except Exception as error:
            if _is_of_a_call(error):
                raise
            place = raised_at(error)
            said = f"{named}(world) raised {type(error).__name__}: {error} ({place})."
            wrong = ConfigurationError(said)
            wrong.__cause__ = error
            self.kernel.stop(wrong)
        if not callable(handler):
            made = "nothing" if handler is None else f"{type(handler).__name__} {handler!r}"
            self.kernel.stop(
                ConfigurationError(
                    f"{named}(world) returned {made[:100]}, and has to return the handler, a function of (event, "
                    f"context). For a handler that needs nothing of the world: {named}=lambda world: handler."
                )
            )
        return handler

    @cached_property
    def _index(self) -> Index:
        """The index of pending records; it has what is written after it was first asked for."""
        return Index(self.kernel, self._table, self._chance, self._settings.index_lag_ms)

    def _function_world(self, process: Process, bus: Bus, **clients: Callable[[], Any]) -> FunctionWorld:
        return FunctionWorld(
            destination=bus.destination,
            table=TABLE,
            layout=_layout(self._settings.relay_settle),
            ordering=self._settings.ordering,
            in_flight=self._settings.in_flight,
            on_poison=self._settings.on_poison,
            min_age_ms=self._settings.min_age_ms,
            clock=process.clock,
            entropy=process.entropy,
            _clients={
                "events": partial(bus.client, process),
                "dynamodb": partial(RecordsClient, self._network, process, self._table),
                **clients,
            },
            _make_crew=partial(StrandCrew, self.kernel, process),
            _stop=self.kernel.stop,
        )

    def _start_writers(self, scenario: Scenario) -> None:
        of_writer: defaultdict[str, list[Write]] = defaultdict(list)
        for write in scenario.writes:
            of_writer[write.writer].append(write)
        for name, writes in sorted(of_writer.items()):
            Writer(self._network, self._chance, self._table, writes, name=name).start()


@lru_cache(maxsize=8)
def _layout(settle: Settle) -> Layout:
    return replace(LAYOUT, settle=settle)


def _is_of_a_call(error: BaseException | None) -> bool:
    """Whether an error comes from a call of a client, maybe by way of others."""
    while error is not None:
        if isinstance(error, TRANSPORT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stream_settings(settings: Settings) -> StreamSettings:
    return StreamSettings(
        shards=settings.shards,
        order=settings.order,
        spread_ms=settings.spread_ms,
        lag_ms=(0, settings.lag_ms),
        listed_ms=_LISTED_MS,
        retention_ms=settings.retention_ms,
    )


def mapping_of(settings: Settings) -> MappingConfig:
    """Return the event source mapping of these settings. Raises ConfigurationError for a value out of range."""
    return MappingConfig(
        batch_size=settings.batch_size,
        batching_window_ms=settings.window_ms,
        parallelization_factor=settings.parallelization,
        filters=_FILTERS if settings.filtered else NO_FILTERS,
        maximum_retry_attempts=settings.retries,
        maximum_record_age_s=settings.record_age_s,
        bisect_on_error=settings.bisect,
        report_batch_item_failures=True,
    )
