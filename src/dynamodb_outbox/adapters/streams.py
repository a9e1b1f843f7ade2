"""DynamoDB Streams: shards, and the records of a shard in the JSON form that Lambda hands to a function.

The API speaks of iterators, which expire after 15 minutes and are lost with their process. Here a position is the last
sequence number that was read; an iterator is only a way to get there, made again whenever it is needed. Three ends are
told apart, because each loses records when it is taken for another: an expired iterator (seek again after the last
number), a closed shard (go on with its children), and trimmed data (records older than 24 hours are gone: `Page.gap`).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.core.limits import STREAM_PAGE_RECORDS
from dynamodb_outbox.errors import StreamMissing, StreamRefused, StreamUnavailable
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "DynamoDbStream",
    "Gap",
    "Page",
    "Shard",
    "ShardReader",
    "StreamsClient",
    "lambda_form",
    "stream_arn",
]

_SEEKS = 3


class StreamsClient(Protocol):
    """What is used of boto3's `dynamodbstreams` client."""

    def describe_stream(self, **request: Any) -> Any:
        """DescribeStream."""
        ...

    def get_shard_iterator(self, **request: Any) -> Any:
        """GetShardIterator."""
        ...

    def get_records(self, **request: Any) -> Any:
        """GetRecords."""
        ...


@dataclass(frozen=True)
class Shard:
    """One shard, and the shard it came from (which may be gone already)."""

    shard_id: str
    parent_id: str | None = None


@dataclass(frozen=True)
class Gap:
    """Records after the number `after` (None: at the start) may have been trimmed before they were read."""

    after: str | None


@dataclass(frozen=True)
class Page:
    """Records that were read, in Lambda's form; whether the shard has no more; whether some were lost before them."""

    records: tuple[dict[str, Any], ...] = ()
    closed: bool = False
    gap: Gap | None = None


def stream_arn(client: Any, table: str) -> str:
    """Look up the ARN of a table's stream; `client` is a boto3 `dynamodb` client.

    It changes whenever the stream is enabled again, so it is never stored. Raises StreamMissing, StreamUnavailable,
    StreamRefused.
    """
    answer = _call(client.describe_table, TableName=table)
    arn = answer["Table"].get("LatestStreamArn")
    if not arn or not answer["Table"].get("StreamSpecification", {}).get("StreamEnabled"):
        raise StreamMissing(table, "the table has no stream that is enabled")
    return str(arn)


class DynamoDbStream:
    """One table's stream. `client` is a boto3 `dynamodbstreams` client."""

    def __init__(self, client: StreamsClient, arn: str) -> None:
        self._client = client
        self.arn = arn

    def shards(self) -> list[Shard]:
        """Return all shards that have records, or will. Raises StreamMissing, StreamUnavailable, StreamRefused."""
        found: list[Shard] = []
        start: dict[str, str] = {}
        while True:
            answer = _call(self._client.describe_stream, StreamArn=self.arn, **start)
            description = answer["StreamDescription"]
            found += [Shard(shard["ShardId"], shard.get("ParentShardId")) for shard in description["Shards"]]
            last = description.get("LastEvaluatedShardId")
            if not last:
                return found
            start = {"ExclusiveStartShardId": last}

    def open(self, shard_id: str, *, after: str | None = None) -> ShardReader:
        """Return a reader of the records after the sequence number `after`; of all that are left when it is None."""
        return ShardReader(self._client, self.arn, shard_id, after)


class ShardReader:
    """Reads a shard page by page. Made by `DynamoDbStream.open`."""

    def __init__(self, client: StreamsClient, arn: str, shard_id: str, after: str | None) -> None:
        self._client = client
        self._arn = arn
        self._shard_id = shard_id
        self._after = after
        self._iterator: str | None = None
        self._gap: Gap | None = None  # found, and not reported yet

    def read(self, limit: int = STREAM_PAGE_RECORDS) -> Page:
        """Return the next records, at most `limit` (1 to 1,000); none when nothing is new.

        A shard that is gone counts as closed, with a gap. Raises StreamUnavailable, after which the call may be
        repeated and no record is passed over; StreamRefused when that would not help.
        """
        for _ in range(_SEEKS):
            page = self._try(limit)
            if page is not None:
                return page
        raise StreamUnavailable(f"the position in shard {self._shard_id} was lost {_SEEKS} times in a row")

    def _try(self, limit: int) -> Page | None:
        """Read once; None when the position was lost and another try starts from the last number."""
        try:
            if self._iterator is None:
                self._iterator = self._seek()
            answer = _call(self._client.get_records, ShardIterator=self._iterator, Limit=limit)
        except _Expired:
            self._iterator = None
            return None
        except _Trimmed:
            self._gap = self._gap or Gap(self._after)
            self._iterator = self._after = None
            return None
        except StreamMissing:
            return Page(closed=True, gap=self._gap or Gap(self._after))
        return self._page(answer)

    def _seek(self) -> str:
        position = {"ShardIteratorType": "TRIM_HORIZON"}
        if self._after is not None:
            position = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._after}
        answer = _call(self._client.get_shard_iterator, StreamArn=self._arn, ShardId=self._shard_id, **position)
        return str(answer["ShardIterator"])

    def _page(self, answer: Mapping[str, Any]) -> Page:
        records = tuple(lambda_form(record, self._arn) for record in answer["Records"])
        self._iterator = answer.get("NextShardIterator")
        if records:
            self._after = records[-1]["dynamodb"]["SequenceNumber"]
        gap, self._gap = self._gap, None
        return Page(records, closed=self._iterator is None, gap=gap)


def lambda_form(record: Mapping[str, Any], arn: str) -> dict[str, Any]:
    """Return a record of GetRecords, as boto3 reads it, in the JSON form of Lambda's event.

    Binary values become base64 text, the creation time a number of epoch seconds, and the record names its stream.
    """
    change = dict(record["dynamodb"])
    if "ApproximateCreationDateTime" in change:
        change["ApproximateCreationDateTime"] = _epoch_seconds(change["ApproximateCreationDateTime"])
    for part in ("Keys", "NewImage", "OldImage"):
        if part in change:
            change[part] = {name: _json_value(value) for name, value in change[part].items()}
    form = {name: value for name, value in record.items() if name not in ("dynamodb", "userIdentity")}
    form |= {"dynamodb": change, "eventSourceARN": arn}
    if identity := record.get("userIdentity"):
        form["userIdentity"] = {"principalId": identity.get("PrincipalId"), "type": identity.get("Type")}
    return form


def _epoch_seconds(moment: datetime) -> int | float:
    seconds = moment.timestamp()
    return int(seconds) if seconds.is_integer() else seconds


def _json_value(value: Mapping[str, Any]) -> dict[str, Any]:
    [(kind, inner)] = value.items()
    if kind == "B":
        return {kind: _base64(inner)}
    if kind == "BS":
        return {kind: [_base64(one) for one in inner]}
    if kind == "M":
        return {kind: {name: _json_value(one) for name, one in inner.items()}}
    if kind == "L":
        return {kind: [_json_value(one) for one in inner]}
    return {kind: inner}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class _Expired(Exception):
    """An iterator is older than 15 minutes. Stays inside this module."""


class _Trimmed(Exception):
    """A position is older than the stream's 24 hours. Stays inside this module."""


def _call(operation: Any, **request: Any) -> Any:
    """Make a call, with what the SDK raises turned into this library's errors."""
    try:
        return operation(**request)
    except TRANSPORT as error:
        raise _meant(error, str(request.get("StreamArn") or request.get("TableName") or "the stream")) from error


def _meant(error: Exception, name: str) -> Exception:
    what = said(error)
    if what.code == "ExpiredIteratorException":
        return _Expired()
    if what.code == "TrimmedDataAccessException":
        return _Trimmed()
    if what.code == "ResourceNotFoundException":
        return StreamMissing(name, what.message)
    if may_pass(error):
        return StreamUnavailable(str(what))
    return StreamRefused(what.code, what.message)
