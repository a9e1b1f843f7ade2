"""Times in words, for people, and texts of anybody's as a terminal may have them."""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["moment", "plain", "span"]

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 24 * 3600


def plain(text: str) -> str:
    """Return a text in one line, with what would move a terminal's cursor escaped."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def moment(at_ms: int) -> str:
    """Return a time of epoch milliseconds, in UTC."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # a writer may date a record as it likes
        return f"{at_ms} ms after 1970"


def span(duration_ms: int) -> str:
    """Return how long something has lasted."""
    seconds = duration_ms // 1000
    if seconds < 2 * _MINUTE_S:
        return f"{seconds} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds // _MINUTE_S} min"
    return f"{seconds // _HOUR_S} h" if seconds < 2 * _DAY_S else f"{seconds // _DAY_S} days"
