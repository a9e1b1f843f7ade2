"""Settling: records whose events are all accepted, in as few calls as possible.

A call takes up to 25 records. A call with fewer goes only when nothing more can be published in this invocation, or
when the time for calls to the table runs out while a request is still under way. What that request brings in afterwards
would be one call more than needed, so it waits to be enough for that: an invocation makes ceil(accepted records / 25)
calls at most, besides those for records that are tried again. What is left of it stays pending, as after a settle that
failed. Neither changes the answer. What is known to be settled is remembered with the acceptance (`memory`), and idle
when it is delivered again.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import Settle
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dynamodb_outbox.core.relay.commands import Entry, Settings

__all__ = ["Settling"]


class Settling:
    """`unsettled` counts the records that were accepted, and that there was no time, or no attempt left, to settle.

    `settled` are the records of which it is known that they are. Of the records `idle` nothing is written when they are
    accepted.
    """

    def __init__(self, entries: Sequence[Entry], settings: Settings, until_ms: int, idle: Collection[int]) -> None:
        self.unsettled = 0
        self.settled: set[int] = set()
        self._settings = settings
        self._idle = idle
        self._until_ms = until_ms
        self._open = [0] * (entries[-1].record + 1 if entries else 0)  # record -> events not accepted yet
        for entry in entries:
            self._open[entry.record] += 1
        self._records = self._calls = self._again = 0  # accepted; made; calls for those that came to be tried again
        self._waiting: deque[int] = deque()
        self._later: list[tuple[int, int]] = []  # (due, record)
        self._attempts: dict[int, int] = {}

    @property
    def waits(self) -> bool:
        """Whether a record waits for more to fill a call."""
        return bool(self._waiting)

    def accepted(self, record: int) -> None:
        """Count one more event of a record as accepted; with its last one the record is to be settled."""
        left = self._open[record] - 1
        self._open[record] = left
        if not left and record not in self._idle:
            self._records += 1
            self._waiting.append(record)

    def calls(self, now_ms: int, free: int, *, all_of_them: bool) -> list[Settle]:
        """Return the calls to make, at most `free`; those that are not full only with `all_of_them`."""
        if now_ms >= self._until_ms:
            self.give_up()
        size = self._settings.settle_batch
        most = min(free, -(-self._records // size) + self._again - self._calls)
        calls: list[Settle] = []
        while len(calls) < most and (len(self._waiting) >= size or (self._waiting and all_of_them)):
            calls.append(Settle(tuple(self._waiting.popleft() for _ in range(min(size, len(self._waiting))))))
        self._calls += len(calls)
        return calls

    def give_up(self) -> None:
        """Leave the records that wait as they are."""
        self.unsettled += len(self._waiting)
        self._waiting.clear()

    def again(self, records: Sequence[int], now_ms: int, u: float) -> None:
        """Take in the records that were not settled, and may be when tried again."""
        settings = self._settings
        for record in records:
            attempts = self._attempts.get(record, 1)
            self._attempts[record] = attempts + 1
            due_ms = now_ms + full_jitter_ms(settings.backoff_base_ms, settings.backoff_cap_ms, attempts, u)
            if attempts < settings.settle_attempts and due_ms < self._until_ms:
                heappush(self._later, (due_ms, record))
            else:
                self.unsettled += 1

    def wake(self, now_ms: int) -> None:
        """Let the records wait for a call whose pause is over."""
        due = 0
        while self._later and self._later[0][0] <= now_ms:
            self._waiting.append(heappop(self._later)[1])
            due += 1
        self._again += -(-due // self._settings.settle_batch)

    def next_due(self) -> int | None:
        """Return when a record is due to be tried again."""
        return self._later[0][0] if self._later else None
