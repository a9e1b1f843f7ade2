"""One lane of a shard: batches of its records, one invocation at a time, in order.

With a parallelization factor of n a shard has n lanes, and the key of its item puts a record into one of them: the
records of an item stay in order, those of different items need not [LDG]. AWS does not say how it picks the lane; here
it is a checksum of the key, so that a record finds the same lane in every process.

A lane knows nothing of checkpoints: it says which records are done, and the shard draws the line.
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.core.eventsource.answers import Answer, FunctionFailed, Outcome, Throttled, Verdict, judge
from dynamodb_outbox.core.eventsource.batches import Batch, aftermath
from dynamodb_outbox.core.eventsource.commands import Condition, Discard, Invoke, Response, Tried
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

__all__ = ["UNHANDLED", "Lane", "lane_of"]

UNHANDLED = "Unhandled"  # [LDG] functionError of a function that raised, died or ran out of time


def lane_of(record: StreamRecord, lanes: int) -> int:
    """Return the lane of a record, 0 to `lanes` - 1, by the key attributes of its item."""
    if lanes == 1:
        return 0
    keys = record.body["dynamodb"].get("Keys")
    return zlib.crc32(json.dumps(keys, sort_keys=True).encode()) % lanes


class Lane:
    """The state of one lane. `tried` are the batches of an earlier run that were not done, of any lane."""

    def __init__(self, config: MappingConfig, number: int = 0, tried: Iterable[Tried] = ()) -> None:
        self._config = config
        self._number = number
        mine = (one for one in tried if (one.lane, one.lanes) == (number, config.parallelization_factor))
        self._tried = deque(sorted(mine, key=lambda one: int(one.start)))
        self._pending: deque[StreamRecord] = deque()
        self._pending_bytes = 0
        self._gathering_since = 0
        self._to_try: list[Batch] = []  # the next one last
        self._in_flight: Batch | None = None
        self._finished: Batch | None = None  # the last one, see `redeliver`
        self._failures = 0
        self._not_before = 0
        self._done: list[StreamRecord] = []
        self.waits_until: int | None = None

    @property
    def pending(self) -> tuple[int, int]:
        """How many records wait to be put into a batch, and their bytes."""
        return len(self._pending), self._pending_bytes

    @property
    def first_undone(self) -> StreamRecord | None:
        """The first record that is not done; None when all are."""
        heads = [batch.records[0] for batch in self._to_try]
        if self._in_flight is not None:
            heads.append(self._in_flight.records[0])
        if self._pending:
            heads.append(self._pending[0])
        return min(heads, key=_number) if len(heads) > 1 else heads[0] if heads else None

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The batches that were tried and are not done, in order. An invocation without an answer does not count."""
        here = [] if self._in_flight is None else self._tried_of(self._in_flight, running=1)
        for batch in reversed(self._to_try):
            here += self._tried_of(batch, running=0)
        return (*here, *self._tried)

    def _tried_of(self, batch: Batch, *, running: int) -> list[Tried]:
        if batch.invocations <= running:
            return []
        return [
            Tried(
                *(batch.records[0].sequence_number, batch.records[-1].sequence_number),
                *(batch.invocations - running, batch.retries),
                *(self._number, self._config.parallelization_factor),
            )
        ]

    def take_done(self) -> list[StreamRecord]:
        """Return the records that are done since this was last asked."""
        done, self._done = self._done, []
        return done

    def add(self, record: StreamRecord, now_ms: int) -> None:
        """Take the next record."""
        if not self._pending:
            self._gathering_since = now_ms
        self._pending.append(record)
        self._pending_bytes += record.size

    def answered(self, answer: Answer, now_ms: int, jitter: float) -> tuple[Verdict, list[Discard]]:
        """Take the answer to the last `Invoke`. Raises ValueError when nothing was invoked."""
        batch = self._in_flight
        if batch is None:
            raise ValueError(f"an answer came, but no invocation is in flight in lane {self._number}")
        self._in_flight = None
        if not isinstance(answer, Throttled):
            error = UNHANDLED if isinstance(answer, FunctionFailed) else None
            batch = Batch(batch.records, batch.invocations, batch.retries, Response(error))
        numbers = [record.sequence_number for record in batch.records]
        verdict = judge(answer, numbers, report_failures=self._config.report_batch_item_failures)
        after = aftermath(batch, verdict, bisect=self._config.bisect_on_error)
        self._to_try.extend(reversed(after.rest))
        if after.done:
            self._failures = 0
            self._done += after.done
            self._finished = Batch(after.done, batch.invocations, batch.retries, batch.response)
        if verdict.outcome is not Outcome.SUCCEEDED:
            self._failures += 1
            self._not_before = now_ms + retry_pause_ms(self._config, self._failures, jitter)
        return verdict, self._give_up()

    def redeliver(self) -> bool:
        """Put what was done last in front of everything else; see `ShardMachine.redeliver`."""
        if self._in_flight is not None or self._finished is None:
            return False
        self._to_try.append(self._finished)
        self._finished = None
        return True

    def advance(self, now_ms: int, *, closed: bool) -> list[Discard | Invoke]:
        """Go as far as possible: to an invocation, to a point in time (`waits_until`), or to the end of what is here.

        `closed`: no more records will come.
        """
        commands: list[Discard | Invoke] = []
        self.waits_until = None
        if self._in_flight is not None:
            return commands
        while self._to_try or self._batch_is_due(now_ms, closed=closed):
            self._not_before = min(self._not_before, now_ms + self._config.retry_cap_ms)
            if now_ms < self._not_before:
                self.waits_until = self._not_before
                return commands
            batch = self._to_try.pop() if self._to_try else self._gather(now_ms)
            fresh, expired = self._without_expired(batch, now_ms)
            commands += expired
            if fresh is not None:
                attempt = fresh.invocations + 1
                self._in_flight = Batch(fresh.records, attempt, fresh.retries, fresh.response)
                return [*commands, Invoke(fresh.records, attempt, self._number)]
        if self._pending:
            self.waits_until = self._gathering_since + self._config.batching_window_ms
        return commands

    def _give_up(self) -> list[Discard]:
        """Discard the next batch when its retries are used up."""
        limit = self._config.maximum_retry_attempts
        if limit == FOREVER or not self._to_try or self._to_try[-1].retries <= limit:
            return []
        batch = self._to_try.pop()
        self._failures = 0
        self._not_before = 0
        return [self._discard(Condition.RETRIES_EXHAUSTED, batch, batch.records)]

    def _discard(self, condition: Condition, batch: Batch, records: tuple[StreamRecord, ...]) -> Discard:
        self._done += records
        return Discard(condition, records, batch.invocations, batch.response, self._number)

    def _batch_is_due(self, now_ms: int, *, closed: bool) -> bool:
        if not self._pending:
            return False
        self._gathering_since = min(self._gathering_since, now_ms)
        return (
            closed
            or len(self._pending) >= self._config.batch_size
            or self._pending_bytes >= PAYLOAD_BYTES
            or now_ms >= self._gathering_since + self._config.batching_window_ms
        )

    def _gather(self, now_ms: int) -> Batch:
        """Take the next batch from the records that wait: by count and by bytes, at least one.

        What an earlier run tried together is not mixed with anything else: it keeps its counts, and nothing else gets
        them.
        """
        records: list[StreamRecord] = []
        room = PAYLOAD_BYTES - EVENT_WRAPPER_BYTES
        earlier = self._tried_before(self._pending[0])
        while self._pending and len(records) < self._config.batch_size:
            room -= self._pending[0].size + 1
            if records and (room < 0 or not self._belongs(self._pending[0], earlier)):
                break
            records.append(self._pending.popleft())
            self._pending_bytes -= records[-1].size
        self._gathering_since = now_ms
        if earlier is None:
            return Batch(tuple(records))
        self._tried[0] = replace(earlier, start=str(records[-1].number + 1))
        if records[-1].number >= int(earlier.end):
            self._tried.popleft()
        return Batch(tuple(records), earlier.invocations, earlier.retries)

    def _belongs(self, record: StreamRecord, earlier: Tried | None) -> bool:
        """Whether a record goes with those tried together as `earlier`; for None, with those that were not tried."""
        if earlier is not None:
            return earlier.covers(record.number)
        return not (self._tried and self._tried[0].covers(record.number))

    def _tried_before(self, record: StreamRecord) -> Tried | None:
        while self._tried and int(self._tried[0].end) < record.number:
            self._tried.popleft()
        return self._tried[0] if self._tried and self._tried[0].covers(record.number) else None

    def _without_expired(self, batch: Batch, now_ms: int) -> tuple[Batch | None, list[Discard]]:
        """Discard the records at the head of a batch that are too old; None when nothing is left of it."""
        age_s = self._config.maximum_record_age_s
        if age_s == FOREVER:
            return batch, []
        oldest_ms = now_ms - age_s * 1000
        fresh = next((i for i, record in enumerate(batch.records) if record.arrived_ms >= oldest_ms), None)
        if fresh == 0:
            return batch, []
        discard = self._discard(Condition.AGE_EXCEEDED, batch, batch.records[:fresh])
        return (None if fresh is None else replace(batch, records=batch.records[fresh:])), [discard]


def _number(record: StreamRecord) -> int:
    return record.number
