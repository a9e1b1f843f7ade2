"""Lambda's event source mapping in virtual time: the real shard machines, driven from the simulated stream.

The decisions are those of `core.eventsource`. Here is what carries them out: polls, timers, and invocations, of which
one may be under way in each lane of each shard. What a mapping has to remember (how far each shard is done) is kept
outside of the process that does the work; that may die between an answer and its checkpoint, and the next one goes on
from there. Invocations that were under way go on, and nobody hears of them.

A shard is polled when something can be read of it, up to a quarter of a second later, which is what polling all the
time comes to. It starts at the oldest records (TRIM_HORIZON), or at those that come after it has begun to read
(LATEST): that is a while after the mapping was created, and what is written until then is never seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from dynamodb_outbox.core.eventsource.answers import Outcome
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Discard, Invoke, Tried, WaitUntil
from dynamodb_outbox.core.eventsource.lineage import StartingPosition, from_latest, readable
from dynamodb_outbox.core.eventsource.machine import ShardMachine
from dynamodb_outbox.core.limits import ITERATOR_MS, STREAM_PAGE_RECORDS, STREAM_POLL_MS
from dynamodb_outbox.testing.simulation.facts import Checkpointed, Discarded, Gap, Started
from dynamodb_outbox.testing.simulation.faults import Met
from dynamodb_outbox.testing.simulation.process import START_MS
from dynamodb_outbox.testing.simulation.stream import Iterator, IteratorExpired, Page, ShardGone, TrimmedAway

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.eventsource.answers import Answer
    from dynamodb_outbox.core.eventsource.config import MappingConfig
    from dynamodb_outbox.core.eventsource.records import StreamRecord
    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.faults import FaultPlan
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.stream import Stream

__all__ = ["Invoker", "Kept", "Source"]

_DOWN_MS = (50, 2_000)
_CREATED_MS = (0, 5_000)
"""How long after its creation a mapping begins to read; AWS speaks of minutes."""


class Invoker(Protocol):
    """A function, as the event source sees it."""

    def invoke(
        self, records: Sequence[StreamRecord], answered: Callable[[Answer], object], *, shard: str, lane: int
    ) -> None:
        """Run the function on a batch of this lane of a shard; `answered` is called with its answer, later."""
        ...


@dataclass
class Kept:
    """What a mapping remembers: for each shard how far it is done, what was tried beyond that, and whether it ended."""

    positions: dict[str, str] = field(default_factory=dict)
    tried: dict[str, tuple[Tried, ...]] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    started: bool = False


@dataclass
class _Reader:
    """A shard that is being read, up to the number `seen`. The last poll to come is at `polls_until`, if any."""

    shard: str
    machine: ShardMachine
    seen: str | None
    iterator: Iterator | None = None
    polls_until: int = -1
    polling: bool = True
    exhausted: bool = False
    timer_ms: int | None = None
    answers: int = 0


@dataclass
class _Run:
    """One life of the process: all that is lost with it."""

    readers: dict[str, _Reader] = field(default_factory=dict)


class Source:
    """The mapping of a stream to the function of one destination.

    `machine` makes the machine of a shard: another one than ours can be tried. `kept` is what the mapping remembers.
    `on_failure(shard, discard)` is called with what it gives up.
    """

    def __init__(
        self,
        network: Network,
        chance: Chance,
        stream: Stream,
        function: Invoker,
        config: MappingConfig,
        *,
        destination: str,
        starting: StartingPosition = StartingPosition.TRIM_HORIZON,
        machine: Callable[..., ShardMachine] = ShardMachine,
        on_failure: Callable[[str, Discard], object] | None = None,
    ) -> None:
        self.destination = destination
        self.kept = Kept()
        self._kernel = network.kernel
        self._ledger = network.ledger
        self._faults = network.faults
        self._chance = chance.of("source", destination)
        self._stream = stream
        self._function = function
        self._config = config
        self._starting = starting
        self._machine = machine
        self._on_failure = on_failure
        self._run: _Run | None = None
        self._lives = 0
        stream.watch(self._readable)

    def create(self) -> None:
        """Create the mapping, now; it begins to read a while later."""
        created_ms = self._chance.whole(*_CREATED_MS, "created")
        self._kernel.call_at(self._kernel.now_ms + created_ms, self._begin)

    def arm(self, plan: FaultPlan) -> None:
        """Let the process die at the times of the faults of a plan that say so."""
        for fault in plan.of("source_killed"):
            if fault.where in ("", self.destination):
                self._kernel.call_at(fault.at_ms, self._struck_dead)

    def _struck_dead(self) -> None:
        if self._run is not None:
            self._faults.note("source_killed", self.destination)
            self.kill()

    def kill(self) -> None:
        """End the process, which is started again a while later."""
        run, self._run = self._run, None
        if run is not None:
            down_ms = self._chance.whole(*_DOWN_MS, "down", self._lives)
            self._kernel.call_at(self._kernel.now_ms + down_ms, self._begin)

    # --- shards and polls ---

    def _begin(self) -> None:
        self._lives += 1
        self._run = _Run()
        if not self.kept.started:
            self.kept.started = True
            if self._starting is StartingPosition.LATEST:
                self._pass_over()
        self._discover(self._run)

    def _pass_over(self) -> None:
        """Begin after what can be read now."""
        start = from_latest(self._stream.shards())
        self.kept.finished |= start.passed_over
        latest = {shard: self._stream.latest(shard) for shard in start.from_end | start.passed_over}
        passed = {shard: number for shard, number in latest.items() if number is not None}
        self.kept.positions |= {shard: number for shard, number in passed.items() if shard in start.from_end}
        self._ledger.note(Started(self._kernel.now_ms, self.destination, tuple(sorted(passed.items()))))

    def _discover(self, run: _Run) -> None:
        """Open the shards that can be read and are not; those that went unread are lost."""
        listed = self._stream.shards()
        for shard in self._stream.gone:
            if shard not in self.kept.finished and shard not in run.readers:
                self.kept.finished.add(shard)
                self._ledger.note(Gap(self._kernel.now_ms, self.destination, shard, self.kept.positions.get(shard)))
        for shard in readable(listed, self.kept.finished, run.readers, self._stream.gone):
            if shard not in run.readers:
                checkpoint, tried = self.kept.positions.get(shard), self.kept.tried.get(shard, ())
                machine = self._machine(self._config, checkpoint=checkpoint, tried=tried)
                run.readers[shard] = _Reader(shard, machine, checkpoint)
                self._readable(shard, self._kernel.now_ms)

    def _readable(self, shard: str, at_ms: int) -> None:
        """Plan a poll of a shard of which something can be read from a time on."""
        run = self._run
        reader = None if run is None else run.readers.get(shard)
        if reader is not None and reader.polls_until >= at_ms:
            return
        poll_ms = at_ms + self._chance.whole(0, STREAM_POLL_MS, "poll", shard, at_ms)
        if reader is not None:
            reader.polls_until = poll_ms
        self._kernel.call_at(poll_ms, partial(self._poll, shard))

    def _poll(self, shard: str) -> None:
        run = self._run
        if run is None or shard in self.kept.finished:
            return
        reader = run.readers.get(shard)
        if reader is None:
            self._discover(run)
            return
        if reader.polls_until <= self._kernel.now_ms:
            reader.polls_until = -1  # this is it: what can be read later in this millisecond needs another one
        if not reader.exhausted and reader.machine.wants_records:
            self._read(run, reader)

    def _read(self, run: _Run, reader: _Reader) -> None:
        now_ms = self._kernel.now_ms
        page = self._page(reader)
        if page is None:
            self._readable(reader.shard, now_ms + 1)  # the position was lost: the next poll looks for it anew
            return
        reader.iterator = page.following
        if page.records:
            reader.seen = page.records[-1].sequence_number
        commands = reader.machine.read(page.records, START_MS + now_ms)
        if page.following is None:
            reader.exhausted = True
            commands += reader.machine.close(START_MS + now_ms)
        reader.polling = reader.machine.wants_records
        self._carry_out(run, reader, commands)
        if len(page.records) == STREAM_PAGE_RECORDS:
            self._readable(reader.shard, now_ms + 1)

    def _page(self, reader: _Reader) -> Page | None:
        """Read from where the reader is; None when that is no longer known."""
        now_ms, shard = self._kernel.now_ms, reader.shard
        iterator = reader.iterator
        if iterator is not None and reader.polling:
            # It was polled all the time, and nothing was there.
            iterator = Iterator(iterator.shard, iterator.index, now_ms)
        if iterator is not None and self._expires(shard):
            iterator = Iterator(iterator.shard, iterator.index, now_ms - ITERATOR_MS - 1)
        try:
            if iterator is None:
                iterator = self._stream.iterator(shard, after=reader.seen)
                if reader.seen is None and iterator.index:
                    self._lost(reader)
            return self._stream.read(iterator)
        except IteratorExpired:
            reader.iterator = None
            return None
        except TrimmedAway:
            self._lost(reader)
            reader.iterator = self._stream.iterator(shard)
            return None
        except ShardGone:
            self._lost(reader)
            return Page((), None)

    def _lost(self, reader: _Reader) -> None:
        """Note that what was trimmed is not read any more; the ledger also has what no real source can know of."""
        self._ledger.note(Gap(self._kernel.now_ms, self.destination, reader.shard, reader.seen))

    def _expires(self, shard: str) -> bool:
        return self._faults.take("iterator_expired", self.destination, met=Met(shard=shard)) is not None

    def _tick(self, run: _Run, reader: _Reader, at_ms: int) -> None:
        if self._run is run and run.readers.get(reader.shard) is reader and reader.timer_ms == at_ms:
            reader.timer_ms = None
            self._carry_out(run, reader, reader.machine.tick(START_MS + self._kernel.now_ms))

    # --- what the machine says ---

    def _carry_out(self, run: _Run, reader: _Reader, commands: Sequence[Command]) -> None:
        kept, shard, now_ms = self.kept, reader.shard, self._kernel.now_ms
        for command in commands:
            if isinstance(command, Checkpoint):
                kept.positions[shard] = command.sequence_number
                self._ledger.note(Checkpointed(now_ms, self.destination, shard, command.sequence_number))
            elif isinstance(command, Discard):
                numbers = tuple(record.sequence_number for record in command.records)
                self._ledger.note(Discarded(now_ms, self.destination, shard, numbers, command.condition.value))
                if self._on_failure is not None:
                    self._on_failure(shard, command)
            elif isinstance(command, WaitUntil):
                reader.timer_ms = command.at_ms
                self._kernel.call_at(command.at_ms - START_MS, partial(self._tick, run, reader, command.at_ms))
            else:
                self._hand_out(run, reader, command)
        kept.tried[shard] = reader.machine.tried
        if reader.exhausted and reader.machine.drained:
            kept.finished.add(shard)
            del run.readers[shard]
            self._discover(run)
        elif not reader.polling and reader.machine.wants_records:
            self._readable(shard, now_ms)  # by the iterator that it had when it stopped polling

    def _hand_out(self, run: _Run, reader: _Reader, command: Invoke) -> None:
        """Have the function invoked, as the next thing."""

        def invoke() -> None:
            if self._run is run:
                answered = partial(self._answered, run, reader, command.lane)
                self._function.invoke(command.records, answered, shard=reader.shard, lane=command.lane)

        self._kernel.call_at(self._kernel.now_ms, invoke)

    def _answered(self, run: _Run, reader: _Reader, lane: int, answer: Answer) -> None:
        if self._run is not run:
            return  # whoever asked is dead
        met = Met(shard=reader.shard)
        if self._faults.take("source_restart", self.destination, met=met) is not None:
            self.kill()
            return
        now_ms, machine = START_MS + self._kernel.now_ms, reader.machine
        reader.answers += 1
        jitter = self._chance.unit("jitter", reader.shard, reader.answers)
        commands = machine.answered(answer, now_ms, jitter, lane)
        self._carry_out(run, reader, commands)
        idle = not any(isinstance(command, Invoke) and command.lane == lane for command in commands)
        verdict = machine.last_verdict
        if idle and verdict is not None and verdict.outcome is Outcome.SUCCEEDED and reader.shard in run.readers:
            self._deliver_again(run, reader, lane)

    def _deliver_again(self, run: _Run, reader: _Reader, lane: int) -> None:
        met = Met(shard=reader.shard)
        if self._faults.take("redelivered", self.destination, met=met) is not None:
            again = reader.machine.redeliver(START_MS + self._kernel.now_ms, lane)
            self._carry_out(run, reader, again)
