"""What the records of a layout need of their table: its keys, the sparse index, the TTL attribute.

What deploys a table, what makes one on the local engine, and whoever looks at one that is there, have this from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynamodb_outbox.core.record.schema import AT, ID, KEY, PENDING_INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.layout import Layout

__all__ = ["Index", "RecordsTable", "table_of"]


@dataclass(frozen=True, kw_only=True)
class Index:
    """A global index of a table: its partition key (type S), its sort key (type N), and what is projected besides.

    The keys of the table are projected by DynamoDB itself.
    """

    name: str
    partition: str
    sort: str
    projected: tuple[str, ...]

    @property
    def types(self) -> Mapping[str, str]:
        """The types of its key attributes by their names, the partition key's first."""
        return {self.partition: "S", self.sort: "N"}


@dataclass(frozen=True, kw_only=True)
class RecordsTable:
    """A table as records need it. `sort` is None without a sort key; `types` are of all keys."""

    partition: str
    sort: str | None
    types: Mapping[str, str] = field(hash=False)
    index: Index
    ttl: str


def table_of(layout: Layout) -> RecordsTable:
    """Return what the records of a layout need. The attributes of the index are called as its `columns` say."""
    index = Index(
        name=layout.index,
        partition=PENDING_INDEX,
        sort=layout.column(AT),
        projected=(layout.column(ID), layout.column(KEY)),
    )
    return RecordsTable(
        partition=layout.pk,
        sort=layout.sk,
        types={**layout.keys.types, **index.types},
        index=index,
        ttl=layout.ttl,
    )
