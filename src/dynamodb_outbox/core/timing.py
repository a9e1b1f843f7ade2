"""Time that is counted and not read: how long one call of an AWS client may take, and pauses between attempts.

The margins before a deadline, and the warning of a client that outlasts a transaction's token, are made of the first.
Both go by the settings that a client ended up with (`client.meta.config`), so that what the environment and the
profile say is in them too.
"""

from __future__ import annotations

from typing import Any

from dynamodb_outbox.core.limits import SDK_ATTEMPTS, SDK_LEGACY_ATTEMPTS, SDK_LEGACY_ATTEMPTS_OF, SDK_TIMEOUT_S

__all__ = ["UNBOUNDED_MS", "attempts_of", "call_ms", "full_jitter_ms"]

UNBOUNDED_MS = 24 * 60 * 60 * 1000
"""What a call without a time-out counts as: a day, which is longer than anything here waits."""

_MOST_DOUBLINGS = 30


def attempts_of(config: Any, service: str) -> int:
    """Return how often a client of `service` ("dynamodb", "events") sends a request at most, the first time included.

    `config` is `client.meta.config`.
    """
    retries = getattr(config, "retries", None) or {}
    total = retries.get("total_max_attempts")
    if total is not None:
        return int(total)
    if (retries.get("mode") or "legacy") == "legacy":
        return SDK_LEGACY_ATTEMPTS_OF.get(service, SDK_LEGACY_ATTEMPTS)
    return SDK_ATTEMPTS


def call_ms(config: Any, service: str) -> int:
    """Return the longest that one call may take, in milliseconds: attempts * (connect + read time-out).

    A time-out of None never ends, and the call counts as UNBOUNDED_MS. Pauses between the SDK's own attempts come on
    top; a client made for this library makes one attempt or two.
    """
    timeouts = [getattr(config, name, SDK_TIMEOUT_S) for name in ("connect_timeout", "read_timeout")]
    bounded = [timeout for timeout in timeouts if timeout is not None]
    if len(bounded) < len(timeouts):
        return UNBOUNDED_MS
    return min(UNBOUNDED_MS, round(1000 * attempts_of(config, service) * sum(bounded)))


def full_jitter_ms(base_ms: int, cap_ms: int, attempt: int, u: float) -> int:
    """Return a pause with full jitter: from 0 to a ceiling that doubles with each attempt (from 0) up to `cap_ms`.

    `u` is a random number from 0 (included) to 1 (excluded).
    """
    return int(u * min(cap_ms, base_ms << min(attempt, _MOST_DOUBLINGS)))
