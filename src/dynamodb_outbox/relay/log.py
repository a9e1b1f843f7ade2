"""What one invocation of the relay writes to the log: each thing once, with a count, and no event's content.

A fault of the set-up meets every event of a batch in the same words, and one broken function of a sink raises the same
error for each request; a line for each would hide that there is one cause. So what recurs is counted, and said at the
end; a traceback is written where it first arises, in case the process does not live to the end.

What the bus says of the destination, the permission or the connection is logged as it is. Of an entry's content only
the code is: a bus may quote the content that it refuses, and a log is no place for data. An event is named by its type,
its id and its key, where the one that is named, or the first of many, is what somebody has to look at.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from typing import TYPE_CHECKING

from dynamodb_outbox.core.relay.outcome import Fault, Kind
from dynamodb_outbox.words import counted, first_of, were

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

__all__ = ["InvocationLog", "log"]

log = logging.getLogger("dynamodb_outbox.relay")


class InvocationLog:
    """Collects what recurs in one invocation. Several threads may use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._raised: Counter[tuple[str, str]] = Counter()  # (what failed, the traceback) -> how often
        self._unsettled: Counter[str] = Counter()  # reason -> records
        self._whole: set[Fault] = set()
        self._unread: dict[str, str] = {}  # key -> why it could not be read, when last tried

    def raised(self, what: str, error: Exception) -> None:
        """Write the traceback of an error, the first time that it arises."""
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with self._lock:
            self._raised[what, trace] += 1
            first = self._raised[what, trace] == 1
        if first:
            log.error("%s failed", what, exc_info=error)

    def not_settled(self, reasons: Mapping[str, int]) -> None:
        """Count published records that could not be settled, by reason."""
        with self._lock:
            self._unsettled.update(reasons)

    def keys_read(self, keys: Iterable[str], unread: Collection[str], reason: str | None) -> None:
        """Note which of these keys could not be read, and why; the others were."""
        with self._lock:
            for key in keys:
                if key in unread:
                    self._unread[key] = reason or "no reason was given"
                else:
                    self._unread.pop(key, None)

    def request_failed(self, fault: Fault) -> None:
        """Remember a fault that a whole request met: unless it is of the content, its words are the connection's."""
        if fault.kind is not Kind.CONTENT:
            self._whole.add(fault)

    def accepted_after(self, faults: Mapping[Fault, Sequence[int]]) -> None:
        """Write what events met that were accepted afterwards, one line for each text."""
        for (level, words), numbers in self._lines(faults).items():
            log.log(level, "%s accepted after a fault: %s", were(len(numbers), "event"), words)

    def not_accepted(self, faults: Mapping[Fault, Sequence[int]], named: Callable[[int], str]) -> None:
        """Write what events met that were not accepted, one line for each text, which names the first of them."""
        for (level, words), numbers in self._lines(faults).items():
            which = first_of(len(numbers), named(min(numbers)))
            log.log(level, "%s not accepted: %s (%s)", were(len(numbers), "event"), words, which)

    def _lines(self, faults: Mapping[Fault, Sequence[int]]) -> Mapping[tuple[int, str], Sequence[int]]:
        lines: dict[tuple[int, str], list[int]] = {}
        for fault, numbers in faults.items():
            level = logging.ERROR if fault.kind is Kind.TARGET else logging.WARNING
            lines.setdefault((level, self._words(fault)), []).extend(numbers)
        return lines

    def finish(self) -> None:
        """Write what was counted."""
        for reason, count in Counter(self._unread.values()).items():
            held, are = ("1 key is", "it is") if count == 1 else (f"{counted(count, 'key')} are", "they are")
            log.error("%s held: BatchGetItem does not say whether %s parked: %s", held, are, reason)
        for reason, count in self._unsettled.items():
            log.warning("%s could not be settled: %s", counted(count, "published record"), reason)
        for (what, trace), count in self._raised.items():
            if count > 1:
                more, last = counted(count - 1, "more time"), trace.rstrip().rpartition("\n")[2]
                log.error("%s failed %s with the same error: %s", what, more, last)

    def _words(self, fault: Fault) -> str:
        told = fault.kind in (Kind.TARGET, Kind.UNKNOWN) or fault in self._whole
        return str(fault) if told else fault.code
