"""How long before its end a function may begin what may take long: the relay's, and a sweep's.

A publish starts only while a whole request, and the settling after it, still fit. At most half of the time is kept free
for them, and of that at most half for the table. Where the clients' time-outs are longer a warning is logged once: a
request that hangs could then outlive the function, which costs duplicates, no events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.relay.log import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.ports import Sink

__all__ = ["Deadlines", "Margins", "least_timeout_s", "remaining_ms"]

_SLACK_MS = 250
"""For what the time-outs do not cover: signing, parsing, the answer itself."""
_MOST_FUNCTION_S = 900  # Lambda's quota of a function's time-out


@dataclass(frozen=True)
class Deadlines:
    """Until when, on the monotonic clock, a publish or a question (`publish_ms`) or a table call may begin."""

    publish_ms: int
    table_ms: int


class Margins:
    """Those of a relay, or of a sweeper, that publishes to `sinks`."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._warned = False

    def deadlines(self, until_ms: int, remaining_ms: int, table_request_ms: int) -> Deadlines:
        """Return the deadlines of what ends at `until_ms` and has so much time in all.

        `table_request_ms` is the longest that one request to the table takes.
        """
        publish_ms, table_ms = self.kept_ms(remaining_ms, table_request_ms)
        return Deadlines(until_ms - publish_ms, until_ms - table_ms)

    def kept_ms(self, remaining_ms: int, table_request_ms: int) -> tuple[int, int]:
        """Return how long before the end of so much time the last publish, and the last table call, may begin."""
        slowest = max(self._sinks, key=lambda sink: sink.request_ms)
        table_ms = table_request_ms + _SLACK_MS
        publish_ms = table_ms + slowest.request_ms
        allowed = remaining_ms // 2, remaining_ms // 4
        if (publish_ms > allowed[0] or table_ms > allowed[1]) and not self._warned:
            self._warned = True
            _warn_of_time_outs(slowest, table_ms, remaining_ms)
        return min(publish_ms, allowed[0]), min(table_ms, allowed[1])


def least_timeout_s(sinks: Sequence[Sink], table_request_ms: int) -> int:
    """Return the function time-out, in whole seconds, with which what is kept free is room for requests that hang."""
    table_ms = table_request_ms + _SLACK_MS
    request_ms = max(sink.request_ms for sink in sinks) + table_ms
    return max(2 * request_ms, 4 * table_ms) // 1000 + 1  # time-outs are whole seconds, and some time has passed


def remaining_ms(context: Any, without: int) -> int:
    """Return what Lambda's context says is left; one that says nothing of use counts as none, `without` one."""
    ask = getattr(context, "get_remaining_time_in_millis", None)
    left = ask() if callable(ask) else None
    if isinstance(left, bool) or not isinstance(left, (int, float)) or not math.isfinite(left):
        return without
    return max(0, int(left))


def _warn_of_time_outs(sink: Sink, table_ms: int, remaining_ms: int) -> None:
    seconds = least_timeout_s([sink], table_ms - _SLACK_MS)
    give = f"the function a time-out of at least {seconds} s, or " if seconds <= _MOST_FUNCTION_S else ""
    log.warning(
        "a request to %r and one to the table can take %d ms, the table's alone %d ms. Half of a function's time is "
        "kept for both and a quarter for the table's, which is too little of the %d ms here: a request that hangs "
        "could outlive the function. Give %sthe clients shorter time-outs (one attempt, as the relay retries)",
        sink,
        sink.request_ms + table_ms,
        table_ms,
        remaining_ms,
        give,
    )
