"""What a sweep does, one thing after the other, as a table. docs/sweeper.md has it as a diagram, which is made of it.

The partitions of the index are swept in turn. One of which the index names nothing that is due costs one query, and
neither reads nor writes a lease. Where something is due the lease is taken, and the index is asked again: what it named
before may have been published by whoever had the lease until then. Then the keys are read and published in rounds, and
the lease is written anew before each of them but the first.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TRANSITIONS", "Cause", "Phase", "diagram"]


class Phase(Enum):
    """What is being done."""

    BETWEEN = "between two partitions"
    LISTING = "a page of the index is read"
    ASKING = "the lease is read"
    TAKING = "the lease is written, to have it"
    READING = "partitions of keys are read, consistently"
    PUBLISHING = "their records are published, settled and parked"
    KEEPING = "the lease is written, to keep it"
    LEAVING = "the lease is written, to leave it"
    OVER = "nothing more"


class Cause(Enum):
    """What leads on."""

    NEXT = "the next partition"
    NO_MORE = "no partition is left, or the sweep stops"
    DUE = "something is due"
    OURS = "something is due, and no lease is missing"
    ON = "the next page"
    NOTHING = "nothing is due"
    FREE = "it may be taken"
    TAKEN = "another sweep has it"
    WRITTEN = "it is written"
    REFUSED = "another one has written it"
    UNTOLD = "no answer says whether it is written"
    CHOSEN = "there are records to publish"
    KEYS = "keys are left"
    RENEW = "keys are left, and the lease is to be kept"
    PAGE = "no key is left, and the index has more"
    END = "the partition is done"
    FAILED = "it cannot be done"


_P, _C = Phase, Cause

TRANSITIONS: Mapping[tuple[Phase, Cause], Phase] = MappingProxyType(
    {
        (_P.BETWEEN, _C.NEXT): _P.LISTING,
        (_P.BETWEEN, _C.NO_MORE): _P.OVER,
        (_P.LISTING, _C.ON): _P.LISTING,
        (_P.LISTING, _C.NOTHING): _P.BETWEEN,
        (_P.LISTING, _C.DUE): _P.ASKING,
        (_P.LISTING, _C.OURS): _P.READING,
        (_P.LISTING, _C.END): _P.LEAVING,
        (_P.LISTING, _C.FAILED): _P.BETWEEN,
        (_P.ASKING, _C.FREE): _P.TAKING,
        (_P.ASKING, _C.TAKEN): _P.BETWEEN,
        (_P.ASKING, _C.FAILED): _P.BETWEEN,
        (_P.TAKING, _C.WRITTEN): _P.LISTING,
        (_P.TAKING, _C.REFUSED): _P.BETWEEN,
        (_P.TAKING, _C.UNTOLD): _P.ASKING,
        (_P.TAKING, _C.FAILED): _P.BETWEEN,
        (_P.READING, _C.CHOSEN): _P.PUBLISHING,
        (_P.READING, _C.KEYS): _P.READING,
        (_P.READING, _C.RENEW): _P.KEEPING,
        (_P.READING, _C.PAGE): _P.LISTING,
        (_P.READING, _C.NOTHING): _P.BETWEEN,
        (_P.READING, _C.END): _P.LEAVING,
        (_P.PUBLISHING, _C.KEYS): _P.READING,
        (_P.PUBLISHING, _C.RENEW): _P.KEEPING,
        (_P.PUBLISHING, _C.PAGE): _P.LISTING,
        (_P.PUBLISHING, _C.NOTHING): _P.BETWEEN,
        (_P.PUBLISHING, _C.END): _P.LEAVING,
        (_P.KEEPING, _C.WRITTEN): _P.READING,
        (_P.KEEPING, _C.REFUSED): _P.BETWEEN,
        (_P.KEEPING, _C.UNTOLD): _P.ASKING,
        (_P.KEEPING, _C.FAILED): _P.BETWEEN,
        (_P.LEAVING, _C.NEXT): _P.BETWEEN,
    }
)
"""The whole way of a sweep; a pair that is not here cannot happen."""


def diagram() -> str:
    """Return the table as a diagram in the language of Mermaid."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.BETWEEN.name}"]
    lines += [
        f"    {before.name} --> {after.name}: {cause.name.lower()}" for (before, cause), after in TRANSITIONS.items()
    ]
    return "\n".join([*lines, f"    {Phase.OVER.name} --> [*]"])
