"""Words for people, with a number in front of them."""

from __future__ import annotations

__all__ = ["counted", "first_of", "were"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return "1 event" or "2 events"; `many` is the plural of a word that does not take an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def were(number: int, one: str) -> str:
    """Return "1 event was" or "2 events were"."""
    return f"{counted(number, one)} {'was' if number == 1 else 'were'}"


def first_of(number: int, named: str) -> str:
    """Return the name of one of so many things, said to be the first where it is not the only one."""
    return named if number == 1 else f"the first: {named}"
