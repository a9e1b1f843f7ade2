"""What the tests of table, stream, event source and writers share: a world with no relay in it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from simulation_ground import Ground, kernel_of

from dynamodb_outbox import Layout
from dynamodb_outbox.core.eventsource.answers import Answer, Responded
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.core.eventsource.lineage import StartingPosition
from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.faults import FaultPlan, PlannedFault
from dynamodb_outbox.testing.simulation.source import Source
from dynamodb_outbox.testing.simulation.stream import Stream, StreamSettings
from dynamodb_outbox.testing.simulation.table import Table
from dynamodb_outbox.testing.simulation.writers import Write, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dynamodb_outbox.core.eventsource.records import StreamRecord

LAYOUT = Layout(version="version", published_for=timedelta(minutes=1))
FOREVER_MS = 10**9


class World(Ground):
    """A table and its stream, on the ground. `faults` are in force as long as the test."""

    def __init__(self, seed: int = 1, faults: Sequence[PlannedFault] = (), **settings: Any) -> None:
        super().__init__(kernel_of(seed), tuple(faults), FOREVER_MS, seed)
        self.chance = Chance(seed)
        self.stream = Stream(self.kernel, self.ledger, self.chance, StreamSettings(**settings))
        self.table = Table(self.kernel, self.stream, LAYOUT, self.chance)
        self.plan = FaultPlan(tuple(faults), FOREVER_MS)
        self.stream.arm(self.plan, self.faults)
        self.table.arm(self.plan, self.faults)

    def write(self, *names: str, n: int = 1) -> None:
        """Write, now, each of the items named, as `partition/sort key`."""
        for name in names:
            partition, _, sort_key = name.partition("/")
            item = {"pk": {"S": partition}, "sk": {"S": sort_key or "META"}, "n": {"N": str(n)}}
            self.table.write((partition, sort_key or "META"), item, by="test")

    def at(self, at_ms: int, action: Callable[[], object]) -> None:
        """Do something at a time."""
        self.kernel.call_at(at_ms, action)

    def source(self, function: Recorder, *, destination: str = "orders", **options: Any) -> Source:
        """Create an event source mapping, now."""
        starting, machine = StartingPosition(options.pop("starting", "TRIM_HORIZON")), options.pop("machine", None)
        config = MappingConfig(report_batch_item_failures=True, **options)
        more = {} if machine is None else {"machine": machine}
        source = Source(
            self.network,
            self.chance,
            self.stream,
            function,
            config,
            destination=destination,
            starting=starting,
            **more,
        )
        source.arm(self.plan)
        source.create()
        return source

    def writers(self, writes: Sequence[Write]) -> None:
        """Start the writers of these writes."""
        for name in sorted({write.writer for write in writes}):
            mine = [write for write in writes if write.writer == name]
            Writer(self.network, self.chance, self.table, mine, name=name).start()


@contextmanager
def world(seed: int = 1, faults: Sequence[PlannedFault] = (), **settings: Any) -> Iterator[World]:
    """Return a world that ends with its strands."""
    made = World(seed, faults, **settings)
    try:
        yield made
    finally:
        made.kernel.close()


@dataclass
class Recorder:
    """A function that notes what it is handed, takes its time, and answers as `answer` says."""

    world: World
    took_ms: int = 20
    answer: Callable[[Sequence[Mapping[str, Any]]], Answer] = lambda _: Responded(None)
    batches: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    delivered: list[tuple[str, str, str]] = field(default_factory=list)
    """(shard, number, `partition/sort key:kind`), in the order in which they were handed over."""
    under_way: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def invoke(
        self, batch: Sequence[StreamRecord], answered: Callable[[Answer], object], *, shard: str, lane: int
    ) -> None:
        """Note a batch, and answer later."""
        records = [record.body for record in batch]
        self.batches.append((shard, lane, tuple(record["dynamodb"]["SequenceNumber"] for record in records)))
        for record in records:
            keys = record["dynamodb"]["Keys"]
            name = f"{keys['pk']['S']}/{keys['sk']['S']}:{record['eventName']}"
            self.delivered.append((shard, record["dynamodb"]["SequenceNumber"], name))
        kernel = self.world.kernel
        kernel.call_at(kernel.now_ms + self.took_ms, lambda: answered(self.answer(records)))

    @property
    def names(self) -> list[str]:
        """What was delivered, by the names of the items."""
        return [name for _, _, name in self.delivered]
