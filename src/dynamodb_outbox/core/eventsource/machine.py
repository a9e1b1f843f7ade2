"""One shard of a DynamoDB stream, read the way Lambda reads it: in order, from a checkpoint, in one lane or several.

Inputs: records that were read (`read`), the function's answer (`answered`), time going by (`tick`), the shard's end
(`close`). Each returns commands. The machine keeps no clock: `now_ms` is epoch milliseconds, because a record's age is
measured against the time it was written. A clock that jumps back cannot make it wait longer than the pause itself.

The checkpoint is the number below which everything is done, in every lane: it waits for the slowest one. What the
others did beyond it is delivered again after a restart. That is what "at least once" costs. The retries that were used
up need not be lost with the process: see `tried`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Discard, Invoke, Tried, WaitUntil
from dynamodb_outbox.core.eventsource.config import PAYLOAD_BYTES, MappingConfig
from dynamodb_outbox.core.eventsource.lanes import Lane, lane_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamodb_outbox.core.eventsource.answers import Answer, Verdict
    from dynamodb_outbox.core.eventsource.records import StreamRecord

__all__ = ["ShardMachine"]


class ShardMachine:
    """The state of one shard's processing.

    `checkpoint` is the sequence number that an earlier run reached, or None; `tried` what it had tried beyond that, as
    its machine said. With another parallelization factor that is of no use, and the counts begin anew.
    """

    def __init__(self, config: MappingConfig, *, checkpoint: str | None = None, tried: Iterable[Tried] = ()) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._seen = checkpoint
        earlier = tuple(tried)
        self._lanes = [Lane(config, number, earlier) for number in range(config.parallelization_factor)]
        self._before: dict[int, str | None] = {}  # for each record that is not done, the number that was read before it
        self._closed = False
        self.last_verdict: Verdict | None = None

    @property
    def checkpoint(self) -> str | None:
        """The sequence number up to which everything is done."""
        return self._checkpoint

    @property
    def wants_records(self) -> bool:
        """Whether to read on: False while there is enough for the next batches."""
        records = size = 0
        for lane in self._lanes:
            waiting, its_size = lane.pending
            records += waiting
            size += its_size
        lanes = len(self._lanes)
        return records < 2 * self._config.batch_size * lanes and size < PAYLOAD_BYTES * lanes

    @property
    def drained(self) -> bool:
        """Whether everything that was read is done."""
        return all(lane.first_undone is None for lane in self._lanes)

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The batches that were tried and are not done, with what was used up for them."""
        return tuple([one for lane in self._lanes for one in lane.tried])

    def read(self, records: Iterable[StreamRecord], now_ms: int) -> list[Command]:
        """Take records in stream order. Those at or before a number that was read already are passed over."""
        for record in records:
            if self._seen is not None and record.number <= int(self._seen):
                continue
            if self._config.filters.match(record.body):
                self._before[record.number] = self._seen
                self._lanes[lane_of(record, len(self._lanes))].add(record, now_ms)
            self._seen = record.sequence_number
        return self._advance(now_ms)

    def tick(self, now_ms: int) -> list[Command]:
        """Time went by."""
        return self._advance(now_ms)

    def close(self, now_ms: int) -> list[Command]:
        """Say that the shard has no more records: a batch that is not full need not wait for others."""
        self._closed = True
        return self._advance(now_ms)

    def answered(self, answer: Answer, now_ms: int, jitter: float, lane: int = 0) -> list[Command]:
        """Take the answer to the last `Invoke` of a lane. `jitter` is a random number from 0 to 1.

        Raises ValueError when nothing was invoked there.
        """
        self.last_verdict, discarded = self._lanes[lane].answered(answer, now_ms, jitter)
        return self._advance(now_ms, discarded)

    def redeliver(self, now_ms: int, lane: int = 0) -> list[Command]:
        """Hand the records that were last done in a lane over once more, before all others.

        AWS delivers at least once, so a function must bear this at any time. The checkpoint does not go back; it waits
        for the answer. Does nothing while an invocation is in flight in the lane, or when nothing was done in it since
        it was last redelivered.
        """
        return self._advance(now_ms) if self._lanes[lane].redeliver() else []

    def _advance(self, now_ms: int, discarded: Iterable[Discard] = ()) -> list[Command]:
        """Let every lane go as far as it can: what is given up, how far everything is done, what is next."""
        given_up: list[Command] = list(discarded)
        invocations: list[Command] = []
        for lane in self._lanes:
            for command in lane.advance(now_ms, closed=self._closed):
                (invocations if isinstance(command, Invoke) else given_up).append(command)
        waits = [lane.waits_until for lane in self._lanes if lane.waits_until is not None]
        return [*given_up, *self._reach(), *invocations, *([WaitUntil(min(waits))] if waits else [])]

    def _reach(self) -> list[Command]:
        """Move the checkpoint forward when something was done, never back and never past what is not done."""
        done = [record for lane in self._lanes for record in lane.take_done()]
        for record in done:
            self._before.pop(record.number, None)
        heads = [lane.first_undone for lane in self._lanes]
        undone = [head.number for head in heads if head is not None]
        if undone and not done:
            return []  # what was passed over since needs no write of its own
        reached = self._before.get(min(undone)) if undone else self._seen
        if reached is None or (self._checkpoint is not None and int(reached) <= int(self._checkpoint)):
            return []
        self._checkpoint = reached
        return [Checkpoint(reached)]
