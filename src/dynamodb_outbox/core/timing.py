"""How long one call of an AWS client may take: what the margins before a deadline are made of."""

from __future__ import annotations

from typing import Any

__all__ = ["longest_call_ms"]

_SDK_TIMEOUT_S = 60.0  # [BC] both time-outs of a client that sets none
_SDK_ATTEMPTS = 5  # [BC] of the legacy mode, for most services


def longest_call_ms(settings: Any) -> int:
    """Return milliseconds from a client's settings (`client.meta.config`): attempts * (connect + read time-out).

    Pauses between the SDK's own attempts come on top; a client made for this library makes one attempt or two.
    """
    retries = getattr(settings, "retries", None) or {}
    attempts = retries.get("total_max_attempts") or _SDK_ATTEMPTS
    timeouts = (getattr(settings, name, None) for name in ("connect_timeout", "read_timeout"))
    return int(1000 * attempts * sum(_SDK_TIMEOUT_S if timeout is None else timeout for timeout in timeouts))
