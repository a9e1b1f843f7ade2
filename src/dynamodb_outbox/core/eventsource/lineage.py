"""In which order the shards of a stream are read: a parent to its end before its children.

A shard that splits is closed and followed by its children; a later change of an item may be in a child while an earlier
one is still unread in the parent. A child may be listed a moment after its parent was closed: what was read to its end
and has no child in the list is a reason to look at the list again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["childless", "readable"]


def readable(parents: Mapping[str, str | None], finished: Collection[str]) -> list[str]:
    """Return the shards to read now, in the order given.

    `parents` names each listed shard's parent (None for none); `finished` are the shards read to their end. A parent
    that is no longer listed was trimmed: it holds nothing back.
    """
    return [
        shard
        for shard, parent in parents.items()
        if shard not in finished and (parent is None or parent not in parents or parent in finished)
    ]


def childless(parents: Mapping[str, str | None], finished: Collection[str]) -> frozenset[str]:
    """Return the listed shards that were read to their end and have no child in the list yet; see `readable`."""
    return frozenset(finished) & frozenset(parents) - frozenset(parents.values())
