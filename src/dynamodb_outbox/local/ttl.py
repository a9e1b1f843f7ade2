"""Time to live on an engine that does not have it: expired items are deleted here, and their REMOVE records marked.

An item is deleted on condition that its TTL attribute is still what was read, so that one whose time was moved
survives. Which deletions were ours is written down before they are made, in a file beside the checkpoint, and kept
until the checkpoint is past their records: a record that is delivered again after a crash is marked again. The file
names its stream, since a table that was made again has other records under the same numbers.

A REMOVE record is taken for ours when it has the key of such a deletion and, where the stream carries the old image,
its TTL attribute. An ambiguity is left: somebody else's deletion of the same item just when the answer to ours is lost.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from dynamodb_outbox.adapters.streams import json_item
from dynamodb_outbox.core.error_codes import CONDITION_FAILED
from dynamodb_outbox.core.eventsource.records import is_sequence_number
from dynamodb_outbox.core.eventsource.ttl import expired, ttl_delete
from dynamodb_outbox.core.limits import STREAM_RETENTION_MS, TTL_OLDEST_S
from dynamodb_outbox.errors import ConfigurationError, OutboxError
from dynamodb_outbox.local.durable import write_whole
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["ExpiredItems", "TtlFileCorrupt", "TtlRefused", "ttl_attribute"]

_log = logging.getLogger(__name__)

_SWEEP_EVERY_MS = 1_000  # ours: AWS takes minutes to days; locally somebody is waiting
_REST = 9
"""A tenth of the time at most goes into looking for what has expired."""


class TtlRefused(OutboxError):
    """Expired items of `table` cannot be deleted, and that will not change by itself: `reason` says why."""

    def __init__(self, table: str, reason: str) -> None:
        self.table = table
        self.reason = reason
        super().__init__(f"expired items of {table} cannot be deleted: {reason}")


class TtlFileCorrupt(OutboxError):
    """The file at `path` cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path} is no list of TTL deletions. Remove it to go on: REMOVE records of items that were deleted, and "
            "are not delivered yet, will then look like anybody's"
        )


def ttl_attribute(client: Any, table: str) -> str:
    """Return the TTL attribute of a table; `client` is a `dynamodb` client.

    Raises ConfigurationError if TTL is off, or the table does not tell.
    """
    try:
        found = client.describe_time_to_live(TableName=table).get("TimeToLiveDescription", {})
    except TRANSPORT as error:
        raise ConfigurationError(
            f"The TTL attribute of {table} cannot be looked up ({said(error)}): name it."
        ) from error
    if found.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING"):
        raise ConfigurationError(f"TTL is not enabled on {table}: name the attribute, or enable it.")
    return str(found["AttributeName"])


@dataclass
class _Deletion:
    """An item deleted here: its key, its TTL attribute, when; and its record, once read."""

    keys: dict[str, Any]
    expires: str
    at_ms: int
    shard: str | None = None
    number: str | None = None


@dataclass
class ExpiredItems:
    """Deletes the expired items of `table` by their `attribute`, and marks what the stream says of it.

    `client` is a `dynamodb` client, `path` where deletions are written down, those of the stream `stream` alone. Raises
    TtlFileCorrupt.
    """

    client: Any
    table: str
    attribute: str
    path: Path
    stream: str = ""
    sweep_every_ms: int = _SWEEP_EVERY_MS
    _deletions: list[_Deletion] = field(init=False)
    _due_ms: int | None = None
    _keys: tuple[str, ...] = ()
    _outage: bool = False

    def __post_init__(self) -> None:
        self._deletions = _read(self.path, self.stream)

    def sweep(self, now_ms: int, steady_ms: int) -> int:
        """Delete what has expired, unless that was done a moment ago; return how many items.

        `now_ms` is wall-clock time, `steady_ms` monotonic. A table that does not answer is left for the next time.
        Raises TtlRefused.
        """
        if self._due_ms is not None and steady_ms < self._due_ms:
            return 0
        self._due_ms = steady_ms + self.sweep_every_ms
        try:
            count = sum(self._delete(item, now_ms) for item in self._expired(now_ms))
        except TRANSPORT as error:
            if not may_pass(error):
                raise TtlRefused(self.table, str(said(error))) from error
            if not self._outage:
                _log.warning("expired items of %s stay for now: %s", self.table, said(error))
            self._outage = True
            return 0
        self._outage = False
        return count

    def rest(self, began_ms: int, ended_ms: int) -> None:
        """Take note of how long `sweep` took, by the monotonic clock: the next pass over the table waits longer.

        A large table takes an engine seconds to scan, in which nothing is read from the stream.
        """
        due_ms = ended_ms + _REST * (ended_ms - began_ms)
        self._due_ms = due_ms if self._due_ms is None else max(self._due_ms, due_ms)

    def mark(self, body: Mapping[str, Any], shard_id: str) -> Mapping[str, Any]:
        """Return a record as TTL made it, if that was here; else as it is."""
        if body.get("eventName") != "REMOVE":
            return body
        number = body["dynamodb"].get("SequenceNumber")
        known = next((one for one in self._deletions if (one.shard, one.number) == (shard_id, number)), None)
        if known is None:
            known = next((one for one in self._deletions if one.number is None and self._made(one, body)), None)
            if known is None:
                return body
            known.shard, known.number = shard_id, number
            self._save()
        return ttl_delete(body)

    def forget(self, shard_id: str, number: str, now_ms: int) -> None:
        """Drop the deletions whose records a shard's checkpoint has passed, and those whose records never came."""
        kept = [
            one
            for one in self._deletions
            if now_ms - one.at_ms < STREAM_RETENTION_MS
            and (one.shard != shard_id or one.number is None or int(one.number) > int(number))
        ]
        if len(kept) != len(self._deletions):
            self._deletions = kept
            self._save()

    def _made(self, deletion: _Deletion, body: Mapping[str, Any]) -> bool:
        change = body["dynamodb"]
        old = change.get("OldImage")
        same = old is None or old.get(self.attribute) == {"N": deletion.expires}
        return same and bool(change.get("Keys") == deletion.keys)

    def _expired(self, now_ms: int) -> Iterator[dict[str, Any]]:
        """Yield what has expired: key attributes and the TTL attribute."""
        if not self._keys:
            schema = self.client.describe_table(TableName=self.table).get("Table", {}).get("KeySchema")
            if not schema:
                return  # an answer that says nothing: what has expired is looked for the next time
            self._keys = tuple(key["AttributeName"] for key in schema)
        names = {f"#k{place}": name for place, name in enumerate(self._keys)} | {"#ttl": self.attribute}
        now_s = now_ms // 1000
        pages = self.client.get_paginator("scan").paginate(
            TableName=self.table,
            ProjectionExpression=", ".join(names),
            FilterExpression="#ttl BETWEEN :oldest AND :now",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={":oldest": {"N": str(now_s - TTL_OLDEST_S)}, ":now": {"N": str(now_s)}},
        )
        for page in pages:
            yield from (item for item in page.get("Items", ()) if expired(item, self.attribute, now_ms))

    def _delete(self, item: Mapping[str, Any], now_ms: int) -> bool:
        """Delete an item if its TTL attribute is as it was read; return whether it was deleted."""
        key = {name: item[name] for name in self._keys}
        deletion = _Deletion(json_item(key), item[self.attribute]["N"], now_ms)
        if not any(
            (one.keys, one.expires, one.number) == (deletion.keys, deletion.expires, None) for one in self._deletions
        ):
            self._deletions.append(deletion)
            self._save()
        try:
            self.client.delete_item(
                TableName=self.table,
                Key=key,
                ConditionExpression="#ttl = :read",
                ExpressionAttributeNames={"#ttl": self.attribute},
                ExpressionAttributeValues={":read": item[self.attribute]},
            )
        except ClientError as error:
            if said(error).code != CONDITION_FAILED:
                raise
            self._deletions = [one for one in self._deletions if one is not deletion]
            self._save()
            return False
        return True

    def _save(self) -> None:
        content = {"stream": self.stream, "deletions": [asdict(one) for one in self._deletions]}
        write_whole(self.path, json.dumps(content))


def _read(path: Path, stream: str) -> list[_Deletion]:
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["stream"] != stream:
            return []
        deletions = [_Deletion(**one) for one in content["deletions"]]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, RecursionError):
        raise TtlFileCorrupt(path) from None
    if not all(map(_is_whole, deletions)):
        raise TtlFileCorrupt(path)
    return deletions


def _is_whole(deletion: _Deletion) -> bool:
    typed = isinstance(deletion.keys, dict) and isinstance(deletion.expires, str) and type(deletion.at_ms) is int
    read = isinstance(deletion.shard, str) and is_sequence_number(deletion.number)
    return typed and (read or (deletion.shard, deletion.number) == (None, None))
