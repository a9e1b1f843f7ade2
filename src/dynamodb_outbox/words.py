"""Words for people, with a number in front of them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return "1 event" or "2 events"; `many` is the plural of a word that does not take an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
