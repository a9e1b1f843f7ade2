"""Words for people, with a number in front of them."""

from __future__ import annotations

__all__ = ["counted", "extra", "failure", "first_of", "were"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return "1 event" or "2 events"; `many` is the plural of a word that does not take an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def were(number: int, one: str) -> str:
    """Return "1 event was" or "2 events were"."""
    return f"{counted(number, one)} {'was' if number == 1 else 'were'}"


def extra(names: str) -> str:
    """Return how an extra of this library is installed, or several: from an index, and from a clone."""
    return f"pip install 'dynamodb-outbox[{names}]', or pip install -e '.[{names}]' inside a clone"


def failure(error: Exception) -> str:
    """Return what an error says; of one of the operating system the file and the words, without their number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"
    return str(error)


def first_of(number: int, named: str) -> str:
    """Return the name of one of so many things, said to be the first where it is not the only one."""
    return named if number == 1 else f"the first: {named}"
