"""Parked records over a DynamoDB client: `ports.ParkedStore`.

Each write is on condition that the record is still parked, and the one that was seen. A discard that the SDK repeated
by itself may meet what its own first attempt has stored: the item that comes with the refusal tells.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dynamodb_outbox.core.error_codes import CONDITION_FAILED, INVALID
from dynamodb_outbox.core.record import moves, pending, schema
from dynamodb_outbox.core.record.decode import ordering_key
from dynamodb_outbox.core.record.place import is_of, partition_of
from dynamodb_outbox.core.record.same import is_same
from dynamodb_outbox.core.record.states import DISCARDED, PUBLISHED, state_of
from dynamodb_outbox.core.sweeping.commands import Failed
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.sdk.errors import FAILS, is_refused, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.record.moves import Parking
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["DynamoParkedRecords"]

_NEWEST = 25
"""Records that are looked at for a later one: what was published of a key since is most often among the last."""


class DynamoParkedRecords:
    """Read, note and discard, for records of `layout`.

    `client` is a boto3 client of "dynamodb"; made on first use when none is given: two attempts a request, each within
    `timeout_s` seconds. Raises ConfigurationError for a boto3 resource, its client, or a client of another service.
    """

    def __init__(self, layout: Layout, *, client: Any = None, timeout_s: float = 2.0) -> None:
        self._layout = layout
        self._client = TableClient(table_config(timeout_s), client)

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return self._client.call_ms

    def read(self, table: str, keys: Sequence[WireItem]) -> Sequence[WireItem] | Failed:
        """Return the items that there are of up to 100, read consistently; every failure of the call is an answer."""
        found: list[WireItem] = []
        wanted = list(keys)
        while wanted:
            try:
                answer = self._client.get().batch_get_item(**pending.items(table, wanted))
            except FAILS as error:
                return self._unread(error, table)
            items = answer.get("Responses", {}).get(table, [])
            left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if left and not items:
                return Failed("the answer left all items unread (UnprocessedKeys)", passing=True)
            found += items
            wanted = left  # of more than 16 MB the answer has the first ones
        return found

    def of_partition(self, table: str, key: str) -> Sequence[WireItem] | Failed:
        """Return the key attributes of what is parked in the partition of an ordering key, read consistently."""
        if self._layout.sk is None:
            return []
        try:
            partition = partition_of(self._layout, key)
        except ValueError:  # the key of a hand-written row, which names no partition
            return []
        found: list[WireItem] = []
        after = None
        while True:
            try:
                answer = self._client.get().query(**pending.parked_of(table, partition, self._layout, after=after))
            except FAILS as error:
                return self._unread(error, table)
            found += answer.get("Items", ())
            after = answer.get("LastEvaluatedKey") or None
            if after is None:
                return found

    def is_overtaken(self, table: str, image: WireItem) -> bool | Failed:
        """Whether a later record of the same ordering key is there and published; every failure is an answer.

        Later by the time at which it was written. One that is not among the last of its partition is not seen.
        """
        layout = self._layout
        written = schema.value(image, layout, schema.AT).get("N")
        if layout.sk is None or written is None:
            return False
        try:
            answer = self._client.get().query(**pending.newest(table, image[layout.pk], layout, most=_NEWEST))
        except FAILS as error:
            return self._unread(error, table)
        key = ordering_key(image, layout)
        return any(
            is_of(item, layout)
            and state_of(item, layout) == PUBLISHED
            and ordering_key(item, layout) == key
            and Decimal(schema.value(item, layout, schema.AT).get("N", "-1")) > Decimal(written)
            for item in answer.get("Items", ())
        )

    def refuse_again(self, table: str, item: WireItem, parking: Parking) -> str | None:
        """Note that a parked record was refused once more; return why that was not done, if it was not."""
        try:
            self._client.get().update_item(**moves.refuse_again(table, item, self._layout, parking))
        except FAILS as error:
            return str(said(error))
        return None

    def discard(self, table: str, item: WireItem, reason: str, now_ms: int) -> bool | str | Failed:
        """Make a parked record a discarded one; False when it is parked no more, a text why this one cannot be.

        Every failure of the call is an answer.
        """
        request = moves.discard(table, item, self._layout, reason=reason, now_ms=now_ms)
        try:
            self._client.get().update_item(**request)
        except ClientError as error:
            if is_refused(error, INVALID):  # with its marks it is no item that the table could hold
                return str(said(error))
            if not is_refused(error, CONDITION_FAILED):
                return _failed(error)
            there = error.response.get("Item") or {}
            return bool(there) and is_same(there, item, self._layout) and state_of(there, self._layout) == DISCARDED
        except FAILS as error:
            return _failed(error)
        return True

    def unlist(self, table: str, record: WireItem) -> bool | Failed:
        """Take a record out of the index that is parked apart; False when it is another one, or gone, by now."""
        try:
            self._client.get().update_item(**moves.out_of_index(table, record, self._layout))
        except FAILS as error:
            return False if is_refused(error, CONDITION_FAILED) else _failed(error)
        return True

    def _unread(self, error: Exception, table: str) -> Failed:
        return Failed(self._client.why(error, table, self._layout.keys), may_pass(error))


def _failed(error: Exception) -> Failed:
    return Failed(str(said(error)), may_pass(error))
