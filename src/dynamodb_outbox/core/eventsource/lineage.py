"""In which order the shards of a stream are read: a parent to its end before its children.

A shard that splits is closed and followed by its children; a later change of an item may be in a child while an earlier
one is still unread in the parent. A child may be listed a moment after its parent was closed: what was read to its end
and has no child in the list is a reason to look at the list again. A child may even be listed before its parent is
(`LateParents`): a shard whose parent is missing in the list is the beginning of the stream, or came too early.

Where reading starts is settled once, by the first list of shards: TRIM_HORIZON is the oldest record that is left;
LATEST is the end of the shards that are open then, and the beginning of every shard that comes later. LATEST has a gap
[LDG]: what is written until all the ends were found is missed. It is for those who can do without it; an outbox cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["LATE_PARENT_MS", "LateParents", "Latest", "StartingPosition", "childless", "from_latest", "readable"]

LATE_PARENT_MS = 10_000
"""How long a parent that is not listed yet is waited for; ours."""


class StartingPosition(Enum):
    """Where a mapping starts to read a stream; the values are AWS's."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"


@dataclass(frozen=True)
class Latest:
    """What LATEST means for the first list of shards: which are `passed_over` whole, and which are read `from_end` on.

    Shards that are listed later are in neither, and are read from their beginning.
    """

    passed_over: frozenset[str]
    from_end: frozenset[str]


def from_latest(parents: Mapping[str, str | None]) -> Latest:
    """Return where to start in each of the shards; `parents` as in `readable`, of the first list.

    A shard that has a child has ended. One that ended and has no child in the list yet is read from its end on, which
    is no record, so that its children follow.
    """
    ended = frozenset(parents) & frozenset(parents.values())
    return Latest(frozenset(ended), frozenset(parents) - ended)


def readable(
    parents: Mapping[str, str | None],
    finished: Collection[str],
    reading: Collection[str] = (),
    trimmed: Mapping[str, str | None] | None = None,
) -> list[str]:
    """Return the shards to read now, in the order given.

    `parents` names each listed shard's parent (None for none); `finished` are the shards read to their end, `reading`
    those that somebody is at work on, or that are waited for; `trimmed` are shards that are no longer listed, with
    their parents, as far as they are known. A parent that is no longer listed holds nothing back, unless its last
    records were read before and are not done, or those of a shard before it.
    """
    holding = (frozenset(parents) | frozenset(reading)) - frozenset(finished)
    before = {**(trimmed or {}), **parents}
    return [shard for shard in parents if shard not in finished and holding.isdisjoint(_ancestors(shard, before))]


def _ancestors(shard: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    parent = parents.get(shard)
    while parent is not None:
        yield parent
        parent = parents.get(parent)


class LateParents:
    """Parents that are not listed yet, though their children are, from one list of shards to the next.

    `known` are shards of earlier lists, as far as the checkpoint has them. While nothing is known, a missing parent is
    taken for trimmed: the stream begins there. Later on it cannot be: its child was in no list before, so the parent
    was open until a moment ago, and records are kept for 24 hours. It is waited for, but for no longer than
    LATE_PARENT_MS, whatever the stream may be.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = set(known)
        self._since: dict[str, int] = {}

    @property
    def awaited(self) -> frozenset[str]:
        """The parents that hold their children back; for `readable`, as if somebody was reading them."""
        return frozenset(self._since)

    def look(self, parents: Mapping[str, str | None], steady_ms: int) -> list[str]:
        """Take a list of shards, at a monotonic time; return the parents that are waited for no longer, in vain.

        Their records, if there are any, come late or were missed.
        """
        if self._known:
            for shard, parent in parents.items():
                if parent is not None and shard not in self._known and parent not in self._known | parents.keys():
                    self._since[parent] = steady_ms
        self._known |= parents.keys()
        needed = set(parents.values()) - parents.keys()
        self._since = {parent: since for parent, since in self._since.items() if parent in needed}
        late = [parent for parent, since in self._since.items() if steady_ms - since >= LATE_PARENT_MS]
        for parent in late:
            del self._since[parent]
        return late


def childless(parents: Mapping[str, str | None], finished: Collection[str]) -> frozenset[str]:
    """Return the listed shards that were read to their end and have no child in the list yet; see `readable`."""
    return frozenset(finished) & frozenset(parents) - frozenset(parents.values())
