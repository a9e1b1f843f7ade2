"""Leases of partitions of the index, over a DynamoDB client: `ports.Leases`.

A write that the SDK repeated by itself may meet what its own first attempt has stored; then it is refused, and done all
the same. So the item that is there is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dynamodb_outbox.core.error_codes import CONDITION_FAILED
from dynamodb_outbox.core.record import leases
from dynamodb_outbox.core.sweeping.commands import Failed, LeaseFound, LeaseWritten
from dynamodb_outbox.errors import TableUnavailable
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.sdk.errors import FAILS, is_lost, is_refused, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.record.leases import Lease
    from dynamodb_outbox.core.sweeping.commands import WriteLease
    from dynamodb_outbox.layout import Layout

__all__ = ["DynamoLeases"]

_NO_LEASE = Failed("the item in the place of a lease (`SWEEP#` behind guard_prefix) is none", passing=False)


class DynamoLeases:
    """Leases in the records' table of `layout`; its keys have to be text.

    `client` is a boto3 client of "dynamodb"; made on first use when none is given: two attempts a request, each within
    `timeout_s` seconds. Raises ConfigurationError for a boto3 resource, its client, or a client of another service.
    """

    def __init__(self, layout: Layout, *, client: Any = None, timeout_s: float = 1.0) -> None:
        self._layout = layout
        self._client = TableClient(table_config(timeout_s), client)

    def read(self, table: str, shard: str) -> LeaseFound | Failed:
        """Read the lease of a partition of the index, consistently; every failure of the call is an answer."""
        try:
            item = self._client.get().get_item(**leases.read(table, shard, self._layout)).get("Item")
        except FAILS as error:
            return Failed(self._client.why(error, table, self._layout.keys), may_pass(error))
        if not item:
            return LeaseFound(None)
        found = leases.lease_of(item)
        return _NO_LEASE if found is None else LeaseFound(found)

    def write(self, table: str, asked: WriteLease) -> LeaseWritten | Failed:
        """Store a lease, if what is there is as it was seen; every failure of the call is an answer."""
        request = leases.write(table, asked.shard, asked.lease, self._layout, instead_of=asked.instead_of)
        try:
            self._client.get().put_item(**request)
        except ClientError as error:
            if is_refused(error, CONDITION_FAILED):
                return LeaseWritten(leases.lease_of(error.response.get("Item") or {}) == asked.lease)
            return _failed(error)
        except FAILS as error:
            return _failed(error)
        return LeaseWritten(written=True)

    def read_all(self, table: str, shards: Sequence[str]) -> Mapping[str, Lease]:
        """Return the leases that there are of up to 100 partitions. Raises TableUnavailable."""
        try:
            answer = self._client.get().batch_get_item(**leases.read_all(table, shards, self._layout))
        except FAILS as error:
            raise TableUnavailable(
                table, self._client.why(error, table, self._layout.keys), retryable=may_pass(error)
            ) from error
        if answer.get("UnprocessedKeys"):
            raise TableUnavailable(table, "leases were left unread (UnprocessedKeys)", retryable=True)
        found = {leases.shard_of(item, self._layout): leases.lease_of(item) for item in answer["Responses"][table]}
        return {shard: lease for shard, lease in found.items() if lease is not None}


def _failed(error: Exception) -> Failed:
    return Failed(str(said(error)), may_pass(error), untold=is_lost(error))
