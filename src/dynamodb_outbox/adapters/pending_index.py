"""The sparse index of pending records, and the records that it leads to, over a DynamoDB client: `ports.PendingIndex`.

A read of a key ends after two pages that hold something, which are 2 MiB at most: 25 keys are read at once. It ends
after fifty pages that hold nothing, too, as those of a key may that has thousands of published records an hour. Then
the records that the index named are read, one by one: what comes before them and is in no index yet is not seen, and
nothing is left unpublished for the work that it makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.limits import BATCH_GET_KEYS
from dynamodb_outbox.core.record import pending
from dynamodb_outbox.core.record.other_keys import entry_said, fits_keys
from dynamodb_outbox.core.sweeping.commands import Failed, KeyFound, Listed, Tally
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.sdk.errors import FAILS, may_pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.record.pending import Entry
    from dynamodb_outbox.core.sweeping.commands import List
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["DynamoPendingIndex"]

_FULL_PAGES = 2
_PAGES = 50
_LEFT_OUT = Failed("the answer left items unread (UnprocessedKeys), as a table does that is asked for too much", True)


class DynamoPendingIndex:
    """List, read and count, for records of `layout`.

    `client` is a boto3 client of "dynamodb"; made on first use when none is given: two attempts a request, each within
    `timeout_s` seconds. Raises ConfigurationError for a boto3 resource, its client, or a client of another service.
    """

    def __init__(self, layout: Layout, *, client: Any = None, timeout_s: float = 2.0) -> None:
        self._layout = layout
        self._client = TableClient(table_config(timeout_s), client)

    @property
    def region(self) -> str | None:
        """The AWS Region of the table. Raises ConfigurationError when no client can be made."""
        region: str | None = self._client.get().meta.region_name
        return region

    def list(self, table: str, asked: List) -> Listed | Failed:
        """Return a page of a partition of the index; every failure of the call is an answer."""
        request = pending.listing(
            table,
            asked.shard,
            self._layout,
            most=asked.most,
            after=asked.after,
            later_than_ms=asked.later_than_ms,
        )
        try:
            answer = self._client.get().query(**request)
        except FAILS as error:
            return self._failed(error, table)
        return self._listed(table, asked.shard, answer)

    def read(self, table: str, entries: Sequence[Entry]) -> KeyFound:
        """Return the pending records of the key that entries of the index are of; every failure is an answer."""
        try:
            if self._layout.sk is None:
                return self._read_one_by_one(table, entries, complete=len(entries) <= BATCH_GET_KEYS)
            return self._read_partition(table, entries)
        except FAILS as error:
            return KeyFound(failure=self._failed(error, table))

    def tally(self, table: str, shard: str) -> Tally:
        """Count the records of a partition of the index, and tell the oldest; every failure is an answer."""
        try:
            count, after = 0, None
            while True:
                answer = self._client.get().query(**pending.tally(table, shard, self._layout, after=after))
                count += answer["Count"]
                after = answer.get("LastEvaluatedKey") or None
                if after is None:
                    break
            if not count:
                return Tally()
            answer = self._client.get().query(**pending.listing(table, shard, self._layout, most=1))
        except FAILS as error:
            return Tally(failure=self._failed(error, table))
        first = self._listed(table, shard, answer)
        if isinstance(first, Failed):
            return Tally(failure=first)
        return Tally(count, first.entries[0].at_ms if first.entries else None)

    def _listed(self, table: str, shard: str, answer: Any) -> Listed | Failed:
        """Return the entries of an answer; a failure where they have other keys than the layout."""
        items = answer.get("Items", ())
        if all(fits_keys(item, self._layout) for item in items):
            return Listed(
                tuple(pending.entry_of(item, self._layout) for item in items), answer.get("LastEvaluatedKey") or None
            )
        try:  # an answer that is cut short has the keys alone
            cut = self._client.get().query(**pending.listing(table, shard, self._layout, most=1))
        except FAILS as error:
            return self._failed(error, table)
        return Failed(entry_said(cut.get("LastEvaluatedKey") or {}, self._layout), passing=False)

    def _read_partition(self, table: str, entries: Sequence[Entry]) -> KeyFound:
        partition, between = entries[0].item[self._layout.pk], pending.range_of(entries, self._layout)
        items: list[WireItem] = []
        after, full = None, 0
        for _ in range(_PAGES):
            answer = self._client.get().query(**pending.partition(table, partition, self._layout, between, after=after))
            items += answer.get("Items", ())
            full += bool(answer.get("Items"))
            after = answer.get("LastEvaluatedKey") or None
            if after is None or full == _FULL_PAGES:
                break
        if after is not None and not items:
            return self._read_one_by_one(table, entries)
        return KeyFound(tuple(items), complete=after is None)

    def _read_one_by_one(self, table: str, entries: Sequence[Entry], *, complete: bool = False) -> KeyFound:
        keys = [entry.item for entry in entries[:BATCH_GET_KEYS]]
        answer = self._client.get().batch_get_item(**pending.items(table, keys))
        if answer.get("UnprocessedKeys"):
            return KeyFound(failure=_LEFT_OUT)
        found = answer.get("Responses", {}).get(table, ())
        return KeyFound(tuple(filter(pending.is_in_index, found)), complete)

    def _failed(self, error: Exception, table: str) -> Failed:
        return Failed(self._client.why(error, table, self._layout.keys), may_pass(error))
