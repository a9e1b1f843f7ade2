"""The gate of the keys: which event of a key comes next, and which keys may begin at all.

Of the events of a key only one is let through at a time, whatever their destinations; the next follows when it is
accepted or parked. Where keys can be parked, a key begins when the table has said whether it is, and never before:
what nobody could read is held.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.commands import ReadKeys
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dynamodb_outbox.core.relay.commands import Entry, KeysRead, Settings

__all__ = ["Gate"]

_NONE = -1


class Gate:
    """The order of `entries` within their keys. `parked` are the keys that are known to be parked."""

    def __init__(self, entries: Sequence[Entry], settings: Settings) -> None:
        self.parked: set[str] = set()
        self._settings = settings
        self._after = [_NONE] * len(entries)
        self._heads: dict[str | int, int] = {}
        self._reading = 0
        self._unread: deque[str] = deque()
        self._later: list[tuple[int, str]] = []  # (due, key)
        self._attempts: dict[str, int] = {}
        if settings.ordered:
            self._chain(entries)
        else:
            self._heads = {number: number for number in range(len(entries))}

    def _chain(self, entries: Sequence[Entry]) -> None:
        last: dict[str, int] = {}
        after = self._after
        for number, entry in enumerate(entries):
            key = entry.key
            before = last.get(key)
            if before is None:
                self._heads[key] = number
            else:
                after[before] = number
            last[key] = number

    def begin(self) -> Iterable[int]:
        """Return the heads of the keys that may begin at once."""
        if self._settings.on_poison != "park_key":
            return self._heads.values()
        self._unread.extend(str(key) for key in self._heads)
        return ()

    def after(self, number: int) -> int | None:
        """Return the event that follows in the key."""
        following = self._after[number]
        return None if following == _NONE else following

    # --- keys that may be parked ---

    @property
    def is_reading(self) -> bool:
        """Whether keys may begin yet."""
        return bool(self._reading or self._unread or self._later)

    def reads(self, free: int) -> list[ReadKeys]:
        """Return the calls to make, at most `free`."""
        calls: list[ReadKeys] = []
        while self._unread and len(calls) < free:
            size = min(self._settings.read_batch, len(self._unread))
            calls.append(ReadKeys(tuple(self._unread.popleft() for _ in range(size))))
        self._reading += len(calls)
        return calls

    def read(self, fact: KeysRead, now_ms: int, u: float, until_ms: int) -> list[int]:
        """Take in what a call has found; return the heads of the keys that may begin."""
        self._reading -= 1
        self.parked |= fact.parked
        for key in sorted(fact.unread):
            attempts = self._attempts.get(key, 0) + 1
            self._attempts[key] = attempts
            settings = self._settings
            due_ms = now_ms + full_jitter_ms(settings.backoff_base_ms, settings.backoff_cap_ms, attempts, u)
            if attempts < settings.read_attempts and due_ms < until_ms:
                heappush(self._later, (due_ms, key))
        return [self._heads[key] for key in fact.keys if key not in fact.unread]

    def wake(self, now_ms: int) -> None:
        """Let the keys be read again whose pause is over."""
        while self._later and self._later[0][0] <= now_ms:
            self._unread.append(heappop(self._later)[1])

    def stop(self) -> None:
        """Read no more keys."""
        self._unread.clear()
        self._later.clear()

    def next_due(self) -> int | None:
        """Return when the next key is due to be read again."""
        return self._later[0][0] if self._later else None
