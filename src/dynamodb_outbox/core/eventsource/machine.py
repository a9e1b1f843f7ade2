"""One shard of a DynamoDB stream, read the way Lambda reads it: one invocation at a time, in order, from a checkpoint.

Inputs: records that were read (`read`), the function's answer (`answered`), time going by (`tick`), the shard's end
(`close`). Each returns commands. The machine keeps no clock: `now_ms` is epoch milliseconds, because a record's age is
measured against the time it was written. A clock that jumps back cannot make it wait longer than the pause itself.

What is remembered only here (the retries used, the halves of a split batch) is lost when the process dies. The
checkpoint is not: what comes after it is delivered again. That is what "at least once" costs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.core.eventsource.answers import Answer, Outcome, Verdict, judge
from dynamodb_outbox.core.eventsource.batches import Batch, aftermath
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Condition, Discard, Invoke, WaitUntil
from dynamodb_outbox.core.eventsource.config import (
    EVENT_WRAPPER_BYTES,
    FOREVER,
    PAYLOAD_BYTES,
    MappingConfig,
    retry_pause_ms,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamodb_outbox.core.eventsource.records import StreamRecord

__all__ = ["ShardMachine"]


class ShardMachine:
    """The state of one shard's processing. `checkpoint` is the sequence number that an earlier run reached, or None."""

    def __init__(self, config: MappingConfig, *, checkpoint: str | None = None) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._seen = checkpoint
        self._pending: deque[StreamRecord] = deque()
        self._pending_bytes = 0
        self._gathering_since = 0
        self._to_try: list[Batch] = []  # the next one last
        self._in_flight: Batch | None = None
        self._failures = 0
        self._not_before = 0
        self._closed = False
        self.last_verdict: Verdict | None = None

    @property
    def checkpoint(self) -> str | None:
        """The sequence number up to which everything is done."""
        return self._checkpoint

    @property
    def wants_records(self) -> bool:
        """Whether to read on: False while there is enough for the next batches."""
        return len(self._pending) < 2 * self._config.batch_size and self._pending_bytes < PAYLOAD_BYTES

    @property
    def drained(self) -> bool:
        """Whether everything that was read is done."""
        return not self._pending and not self._to_try and self._in_flight is None

    def read(self, records: Iterable[StreamRecord], now_ms: int) -> list[Command]:
        """Take records in stream order. Those at or before a number that was read already are passed over."""
        for record in records:
            if self._seen is not None and record.number <= int(self._seen):
                continue
            self._seen = record.sequence_number
            if self._config.filters.match(record.body):
                if not self._pending:
                    self._gathering_since = now_ms
                self._pending.append(record)
                self._pending_bytes += record.size
        return self._advance(now_ms)

    def tick(self, now_ms: int) -> list[Command]:
        """Time went by."""
        return self._advance(now_ms)

    def close(self, now_ms: int) -> list[Command]:
        """Say that the shard has no more records: a batch that is not full need not wait for others."""
        self._closed = True
        return self._advance(now_ms)

    def answered(self, answer: Answer, now_ms: int, jitter: float) -> list[Command]:
        """Take the answer to the last `Invoke`. `jitter` is a random number from 0 to 1.

        Raises ValueError when nothing was invoked.
        """
        batch = self._in_flight
        if batch is None:
            raise ValueError("an answer came, but no invocation is in flight")
        self._in_flight = None
        numbers = [record.sequence_number for record in batch.records]
        verdict = judge(answer, numbers, report_failures=self._config.report_batch_item_failures)
        self.last_verdict = verdict
        after = aftermath(batch, verdict, bisect=self._config.bisect_on_error)
        self._to_try.extend(reversed(after.rest))
        self._failures = 0 if after.done is not None else self._failures
        if verdict.outcome is not Outcome.SUCCEEDED:
            self._failures += 1
            self._not_before = now_ms + retry_pause_ms(self._config, self._failures, jitter)
        done = [] if after.done is None else self._reach(after.done)
        return [*done, *self._give_up(), *self._advance(now_ms)]

    def _give_up(self) -> list[Command]:
        """Discard the next batch when its retries are used up."""
        limit = self._config.maximum_retry_attempts
        if limit == FOREVER or not self._to_try or self._to_try[-1].retries <= limit:
            return []
        batch = self._to_try.pop()
        self._failures = 0
        self._not_before = 0
        return [
            Discard(Condition.RETRIES_EXHAUSTED, batch.records, batch.invocations),
            *self._reach(batch.through),
        ]

    def _advance(self, now_ms: int) -> list[Command]:
        """Go as far as possible: to an invocation, to a point in time, or to the end of what was read."""
        commands: list[Command] = []
        if self._in_flight is not None:
            return commands
        while self._to_try or self._batch_is_due(now_ms):
            self._not_before = min(self._not_before, now_ms + self._config.retry_cap_ms)
            if now_ms < self._not_before:
                return [*commands, WaitUntil(self._not_before)]
            batch = self._to_try.pop() if self._to_try else self._gather(now_ms)
            fresh, discarded = self._without_expired(batch, now_ms)
            commands += discarded
            if fresh is not None:
                self._in_flight = replace(fresh, invocations=fresh.invocations + 1)
                return [*commands, Invoke(fresh.records, fresh.invocations + 1)]
        if self._pending:
            return [*commands, WaitUntil(self._gathering_since + self._config.batching_window_ms)]
        # Only filtered records since: they are done by being passed over.
        return commands if self._seen is None else [*commands, *self._reach(self._seen)]

    def _batch_is_due(self, now_ms: int) -> bool:
        if not self._pending:
            return False
        self._gathering_since = min(self._gathering_since, now_ms)
        return (
            self._closed
            or len(self._pending) >= self._config.batch_size
            or self._pending_bytes >= PAYLOAD_BYTES
            or now_ms >= self._gathering_since + self._config.batching_window_ms
        )

    def _gather(self, now_ms: int) -> Batch:
        """Take the next batch from the records that wait: by count and by bytes, at least one."""
        records: list[StreamRecord] = []
        room = PAYLOAD_BYTES - EVENT_WRAPPER_BYTES
        while self._pending and len(records) < self._config.batch_size:
            room -= self._pending[0].size + 1
            if records and room < 0:
                break
            records.append(self._pending.popleft())
            self._pending_bytes -= records[-1].size
        self._gathering_since = now_ms
        last = self._seen if not self._pending and self._seen is not None else records[-1].sequence_number
        return Batch(tuple(records), through=last)

    def _without_expired(self, batch: Batch, now_ms: int) -> tuple[Batch | None, list[Command]]:
        """Discard the records at the head of a batch that are too old; None when nothing is left of it."""
        age_s = self._config.maximum_record_age_s
        if age_s == FOREVER:
            return batch, []
        oldest_ms = now_ms - age_s * 1000
        fresh = next((i for i, record in enumerate(batch.records) if record.arrived_ms >= oldest_ms), None)
        if fresh == 0:
            return batch, []
        expired = batch.records[:fresh]
        discard = Discard(Condition.AGE_EXCEEDED, expired, batch.invocations)
        if fresh is None:
            return None, [discard, *self._reach(batch.through)]
        rest = replace(batch, records=batch.records[fresh:])
        return rest, [discard, *self._reach(expired[-1].sequence_number)]

    def _reach(self, sequence_number: str) -> list[Command]:
        """Move the checkpoint forward, never back."""
        if self._checkpoint is not None and int(sequence_number) <= int(self._checkpoint):
            return []
        self._checkpoint = sequence_number
        return [Checkpoint(sequence_number)]
