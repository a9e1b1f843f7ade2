"""What an argument must be, told in one place: text, a whole number, a duration, a mapping, a flag.

Python runs without looking at annotations, so a wrong argument would fail later, in another layer, with an error that
names neither the argument nor the line that gave it; or it would not fail, and mean something else (`True` is the int
1, text is a list of characters). Each function returns the value in its plain form: a subclass, such as a member of an
Enum that is a str, becomes what it is underneath. For anything else it raises what `refuse` makes of a reason that
reads after the argument's name: "is 5; text that is not empty is needed.".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from dynamodb_outbox.errors import ConfigurationError, OutboxError

__all__ = [
    "Refusal",
    "choice",
    "duration",
    "flag",
    "has_utf8_form",
    "mapping",
    "observer",
    "refusal",
    "shown",
    "text",
    "whole",
]

Refusal = Callable[[str], OutboxError]
"""Makes the error from the reason: `partial(InvalidEvent, "type")`."""

_SHOWN = 200
"""Characters of a value that an error shows: enough to know it again."""


def refusal(who: str, what: str) -> Refusal:
    """Return what makes a ConfigurationError about an argument: `who` is the name of what was called."""
    return lambda reason: ConfigurationError(reason, argument=what, owner=who)


def text(value: object, refuse: Refusal, *, most_bytes: int | None = None) -> str:
    """Return text that is not empty, has a form in UTF-8, and there at most `most_bytes` bytes."""
    if not isinstance(value, str) or not value:
        raise refuse(f"is {shown(value)}; text that is not empty is needed.")
    plain = value if type(value) is str else str.__str__(value)
    if not has_utf8_form(plain):
        raise refuse(f"is {shown(plain)}, which has a lone surrogate and so no form in UTF-8.")
    if most_bytes is not None and len(plain.encode("utf-8")) > most_bytes:
        raise refuse(f"has {len(plain.encode('utf-8')):,} bytes of UTF-8; {most_bytes:,} are the most.")
    return plain


def has_utf8_form(value: str) -> bool:
    """Whether text can be written as UTF-8: it has no lone surrogate."""
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def whole(value: object, refuse: Refusal, *, least: int, most: int) -> int:
    """Return a whole number from `least` to `most`; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refuse(f"is {shown(value)}; a whole number from {least:,} to {most:,} is needed.")
    return int(value)


def choice(value: object, refuse: Refusal, allowed: Sequence[str]) -> str:
    """Return one of some texts."""
    for each in allowed:
        if isinstance(value, str) and value == each:
            return each
    words = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
    raise refuse(f"is {shown(value)}; {words} is needed.")


def duration(value: object, refuse: Refusal, *, least: timedelta) -> timedelta:
    """Return a timedelta of `least` or more."""
    if not isinstance(value, timedelta):
        raise refuse(f"is {shown(value)}; a timedelta is needed.")
    if value < least:
        raise refuse(f"is {value.total_seconds():g} s; the least is {least.total_seconds():g} s.")
    return value


def mapping(value: object, refuse: Refusal) -> Mapping[Any, Any]:
    """Return a mapping, an empty one for None; lists of pairs are none, for their names could come twice."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise refuse(f"is {shown(value)}; a dict is needed.")
    return value


def flag(value: object, refuse: Refusal) -> bool:
    """Return True or False; what merely counts as one of them (the text "false") is refused."""
    if not isinstance(value, bool):
        raise refuse(f"is {shown(value)}; True or False is needed.")
    return value


def observer(value: object, refuse: Refusal) -> Any:
    """Return what has an `observe`, or None."""
    if value is not None and not callable(getattr(value, "observe", None)):
        raise refuse(f"is {shown(value)}; an object with observe() is needed.")
    return value


def shown(value: object) -> str:
    """Return a value as an error shows it: its repr, cut where it is long; its type where it has no repr.

    An int may have more digits than Python turns into text, and a class of the caller's a `__repr__` that raises.
    """
    try:
        said = repr(value)
    except Exception:  # noqa: BLE001 - the caller's own code: the error about the value matters, not one about its text
        said = f"a value of type {type(value).__name__}"
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."
