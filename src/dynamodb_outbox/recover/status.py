"""What an outbox is left with: how much is pending and parked, since when, and when it was last swept.

All of it is read from the index, which is some way behind the table, and from the leases: nothing is written. Counting
costs a read unit for every 8 KiB of the index, about 40 pending records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.leases import DynamoLeases
from dynamodb_outbox.adapters.pending_index import DynamoPendingIndex
from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.core.limits import BATCH_GET_KEYS
from dynamodb_outbox.core.record.leases import can_lease
from dynamodb_outbox.core.record.pending import shards_of
from dynamodb_outbox.core.record.schema import PARKED
from dynamodb_outbox.errors import TableUnavailable
from dynamodb_outbox.relay.setup import layout_of, table_of
from dynamodb_outbox.sdk.clients import TableClient, table_config

if TYPE_CHECKING:
    from dynamodb_outbox.core.record.leases import Lease
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock

__all__ = ["OutboxStatus", "status_of"]

_TIMEOUT_S = 5.0
"""Of one attempt of our own client, of two."""


@dataclass(frozen=True)
class OutboxStatus:
    """How many records are `pending` and `parked`; times are epoch milliseconds, None where there is none.

    at_ms                     when it was asked for
    pending_since_ms          when the oldest pending record was written, by its writer's clock
    parked_since_ms           when the oldest parked record was written
    swept_ms                  when a sweep ended that had found something; a sweep that finds nothing leaves no trace
    sweeping                  partitions of the index that a sweep has at the moment
    """

    at_ms: int
    pending: int
    pending_since_ms: int | None
    parked: int
    parked_since_ms: int | None
    swept_ms: int | None
    sweeping: int

    @property
    def age_ms(self) -> int:
        """How old the oldest pending record is; 0 when there is none, or it is dated ahead."""
        return 0 if self.pending_since_ms is None else max(0, self.at_ms - self.pending_since_ms)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members, and `age_ms`."""
        return {**asdict(self), "age_ms": self.age_ms}


def status_of(
    table: str, *, layout: Layout | None = None, client: Any = None, clock: Clock | None = None
) -> OutboxStatus:
    """Return what is known of the outbox in a table, given by name or ARN; `client` is a boto3 client of "dynamodb".

    Raises TableUnavailable when it cannot be read, ConfigurationError for arguments that cannot work.
    """
    name, layout = table_of("status_of", table), layout_of("status_of", layout)
    client = TableClient(table_config(_TIMEOUT_S), client).get()
    index = DynamoPendingIndex(layout, client=client)
    leases = DynamoLeases(layout, client=client)
    shards = shards_of(layout)
    now_ms = (clock if clock is not None else SystemClock()).now_ms()
    tallies = {shard: index.tally(name, shard) for shard in (*shards, PARKED)}
    for tally in tallies.values():
        if tally.failure is not None:
            raise TableUnavailable(name, tally.failure.reason, retryable=tally.failure.passing)
    parked = tallies.pop(PARKED)
    held: list[Lease] = []
    for begin in range(0, len(shards) if can_lease(layout) else 0, BATCH_GET_KEYS):
        held += leases.read_all(name, shards[begin : begin + BATCH_GET_KEYS]).values()
    return OutboxStatus(
        at_ms=now_ms,
        pending=sum(tally.count for tally in tallies.values()),
        pending_since_ms=min((t.oldest_ms for t in tallies.values() if t.oldest_ms is not None), default=None),
        parked=parked.count,
        parked_since_ms=parked.oldest_ms,
        swept_ms=max((lease.swept_ms for lease in held if lease.swept_ms is not None), default=None),
        sweeping=sum(bool(lease.owner) and lease.until_ms > now_ms for lease in held),
    )
