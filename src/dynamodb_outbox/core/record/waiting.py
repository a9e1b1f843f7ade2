"""Whether a record waits for a relay, told without the layout that it was written by.

A relay meets records of other layouts: of another outbox in its table, or of its own before the layout was changed. Of
these it knows what has one name in all layouts, which is what begins with `ob_`, and the table's keys. That is enough
to tell that somebody's relay has yet to publish a record, and whether that has been done since its image was frozen.

A record that waits is in the index, or says that nothing settles it. The one is out of the index, or gone, once it is
published. The other is not changed then, and its TTL may have removed it before anybody has read it: of it only a park
tells anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record import schema

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem

__all__ = ["Found", "is_region", "waits", "waits_no_more"]

_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-[0-9]+", re.ASCII)


@dataclass(frozen=True)
class Found:
    """What a consistent read of an item came to: the `item`, empty when it is gone, or why it could not be read."""

    item: WireItem
    failure: str | None = None


def waits(item: WireItem) -> bool:
    """Whether an inserted item is an outbox record, of whatever layout, that waits to be published."""
    if schema.SCHEMA not in item or schema.GUARD in item:
        return False
    indexed = item.get(schema.PENDING_INDEX)
    return indexed != {"S": schema.PARKED} if indexed is not None else _is_never_settled(item)


def waits_no_more(image: WireItem, stored: WireItem) -> bool:
    """Whether a record that waited when `image` was frozen has been published, parked or deleted since.

    `stored` is the item as it is now, empty when it is gone.
    """
    indexed = stored.get(schema.PENDING_INDEX)
    return indexed == {"S": schema.PARKED} or (indexed is None and schema.PENDING_INDEX in image)


def is_region(text: str) -> bool:
    """Whether a text looks like the name of an AWS Region."""
    return _REGION.fullmatch(text) is not None


def _is_never_settled(item: WireItem) -> bool:
    return item.get(schema.SETTLE) == {"S": "none"}
