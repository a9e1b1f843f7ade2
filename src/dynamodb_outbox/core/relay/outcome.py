"""What a sink says of the entries it was given, in the four classes that decide what happens to them.

    transient   the same entry can pass later: it is sent again in this invocation, with growing pauses
    unknown     no answer said whether it was accepted (timeout, connection reset): not accepted, sent again
    content     this entry can never pass: it is parked
    target      the destination or the permission is wrong, not the entry: everything is held, nothing is parked

Which code of which bus belongs to which class is data of that bus's sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Answered", "Fault", "Kind", "Outcome", "Prepared", "Presence", "RequestFailed", "Verified"]


class Kind(Enum):
    """The class of a fault."""

    TRANSIENT = "transient"
    UNKNOWN = "unknown"
    CONTENT = "content"
    TARGET = "target"


@dataclass(frozen=True)
class Fault:
    """Why an entry, or a whole request, was not accepted: the class, the bus's own code, and its words.

    `reason` is stored with a parked record, and logged unless it is the bus's word on an entry's content, which may
    quote it. No other reason may contain an event's payload. `throttled`, of a transient fault: the destination asked
    for fewer requests.
    """

    kind: Kind
    code: str
    reason: str = ""
    throttled: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}" if self.reason else self.code


@dataclass(frozen=True)
class Answered:
    """The sink answered: one result for each entry, in the order sent; None is accepted."""

    results: tuple[Fault | None, ...]


@dataclass(frozen=True)
class RequestFailed:
    """The request failed as a whole: no entry of it is known to be accepted."""

    fault: Fault


Outcome = Answered | RequestFailed
"""What one publish request came to."""


@dataclass(frozen=True)
class Prepared:
    """An event as a sink will send it: the sink's own form of it, and its size in bytes as the bus counts them."""

    entry: Any
    size: int


class Presence(Enum):
    """Whether a destination is there."""

    OK = "ok"
    MISSING = "missing"
    UNSURE = "cannot tell"


@dataclass(frozen=True)
class Verified:
    """What a sink found out about its destination; `reason`: why it is missing, or cannot be told, without secrets.

    `passing`, of UNSURE: there was no answer, or one that may be another in a moment; so it is worth asking again.
    """

    presence: Presence
    reason: str = ""
    passing: bool = False
