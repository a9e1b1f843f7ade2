"""The lease of a partition of the index: who may sweep it, as an item of the records' table, and its requests.

It lives apart from records and from other items, as guards do: its partition key is the layout's guard_prefix,
`SWEEP#` and the name of the index's partition, its sort key that of guards. Where keys are no text there is none.

    ob_lease           S   who has it: a text that every sweep makes anew; empty: nobody
    ob_lease_version   N   one more with each write: each write of it demands the version that the writer has seen
    ob_lease_until     N   epoch MILLISECONDS, by the clock of who has it
    ob_lease_ms        N   for how many milliseconds it was taken: sweepers with other time-outs take it for longer
    ob_swept_at        N   epoch MILLISECONDS at which the last sweep of this partition ended that had found anything
    ob_v               N   1

It has no TTL. `core.sweeping.leases` has the rules by which it is taken, kept and left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import guard_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["LEASE_MS", "Lease", "can_lease", "lease_of", "read", "read_all", "shard_of", "write"]

_PREFIX = "SWEEP#"
_OWNER, _VERSION, _UNTIL, _LASTS = "ob_lease", "ob_lease_version", "ob_lease_until", "ob_lease_ms"
_SWEPT = "ob_swept_at"

LEASE_MS = 60_000
"""For how long a lease is taken at least; for so long is one that does not say it."""


@dataclass(frozen=True)
class Lease:
    """A lease as it is stored; `owner` is empty when nobody has it, `swept_ms` None before the first sweep ended.

    It lasts until `until_ms` by the clock of who has it, who took it for `lasts_ms`.
    """

    owner: str
    version: int
    until_ms: int
    swept_ms: int | None = None
    lasts_ms: int = LEASE_MS


def can_lease(layout: Layout) -> bool:
    """Whether the records' table has a place for leases: key attributes that are text."""
    return layout.keys.are_text


def read(table: str, shard: str, layout: Layout) -> dict[str, Any]:
    """Return the arguments of GetItem, consistent, for the lease of a partition of the index."""
    return {"TableName": table, "Key": _keys(shard, layout), "ConsistentRead": True}


def read_all(table: str, shards: Sequence[str], layout: Layout) -> dict[str, Any]:
    """Return the arguments of BatchGetItem for the leases of up to 100 partitions."""
    return {"RequestItems": {table: {"Keys": [_keys(shard, layout) for shard in shards]}}}


def write(table: str, shard: str, lease: Lease, layout: Layout, *, instead_of: Lease | None) -> dict[str, Any]:
    """Return the arguments of PutItem that store a lease if what is there is still as it was seen (None: nothing)."""
    item: dict[str, Any] = {
        **_keys(shard, layout),
        schema.SCHEMA: {"N": str(schema.SCHEMA_VERSION)},
        _OWNER: {"S": lease.owner},
        _VERSION: {"N": str(lease.version)},
        _UNTIL: {"N": str(lease.until_ms)},
        _LASTS: {"N": str(lease.lasts_ms)},
    }
    if lease.swept_ms is not None:
        item[_SWEPT] = {"N": str(lease.swept_ms)}
    request = {"TableName": table, "Item": item, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    if instead_of is None:
        return request | {
            "ConditionExpression": "attribute_not_exists(#pk)",
            "ExpressionAttributeNames": {"#pk": layout.pk},
        }
    return request | {
        "ConditionExpression": "#owner = :owner AND #version = :version",
        "ExpressionAttributeNames": {"#owner": _OWNER, "#version": _VERSION},
        "ExpressionAttributeValues": {
            ":owner": {"S": instead_of.owner},
            ":version": {"N": str(instead_of.version)},
        },
    }


def lease_of(item: WireItem) -> Lease | None:
    """Return the lease that an item is, None for another one."""
    try:
        swept = item[_SWEPT]["N"] if _SWEPT in item else None
        return Lease(
            str(item[_OWNER]["S"]),
            int(item[_VERSION]["N"]),
            int(item[_UNTIL]["N"]),
            None if swept is None else int(swept),
            int(item[_LASTS]["N"]) if _LASTS in item else LEASE_MS,
        )
    except (KeyError, ValueError):
        return None


def shard_of(item: WireItem, layout: Layout) -> str:
    """Return which partition of the index a lease is of."""
    return str(item[layout.pk]["S"]).removeprefix(layout.guard_prefix + _PREFIX)


def _keys(shard: str, layout: Layout) -> WireItem:
    return guard_keys(layout, f"{layout.guard_prefix}{_PREFIX}{shard}")
