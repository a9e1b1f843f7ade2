"""DynamoDB Streams: shards, and the records of a shard in the JSON form that Lambda hands to a function.

The API speaks of iterators, which expire after 15 minutes and are lost with their process. Here a position is the last
sequence number that was read; an iterator is only a way to get there, made again whenever it is needed. Three ends are
told apart, because each loses records when it is taken for another: an expired iterator (seek again after the last
number), a closed shard (go on with its children), and trimmed data (records older than 24 hours are gone: `Page.gap`).

The numbers of a shard rise. A record whose number does not, from an engine that has lost its count, is an error, since
whoever reads from a position on would pass it over. So is a shard that does not know the position to go on from, and
whose records all come before it.

An answer that lacks what it must have (a proxy's page, half of an answer) is no answer: StreamUnavailable.

A reader that starts at the end of a shard (LATEST) has no position until it has read a record. When its iterator is
lost before that, what was written meanwhile is missed, and that is a gap as well.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.core.eventsource.records import is_sequence_number
from dynamodb_outbox.core.limits import STREAM_PAGE_RECORDS
from dynamodb_outbox.errors import InvalidRecord, StreamMissing, StreamRefused, StreamUnavailable
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

__all__ = [
    "DynamoDbStream",
    "Gap",
    "Page",
    "Shard",
    "ShardReader",
    "StreamsClient",
    "json_item",
    "lambda_form",
    "stream_arn",
]

_SEEKS = 3

_AS_IT_IS = frozenset(("S", "N", "BOOL", "NULL", "SS", "NS"))
"""Kinds of attribute values that are JSON as boto3 reads them."""


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
    """Records after the number `after` (None: at the start) may have been missed: trimmed, or written around LATEST."""

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
    described = _part(_call(client.describe_table, TableName=table), "Table")
    arn = described.get("LatestStreamArn")
    if not arn or not described.get("StreamSpecification", {}).get("StreamEnabled"):
        raise StreamMissing(table, "the table has no stream that is enabled")
    return str(arn)


class DynamoDbStream:
    """One table's stream. `client` is a boto3 `dynamodbstreams` client.

    `disabled` is what `shards` heard last: its records can still be read, and there are no new ones.
    """

    def __init__(self, client: StreamsClient, arn: str) -> None:
        self._client = client
        self.arn = arn
        self.disabled = False

    def shards(self, between_pages: Callable[[], object] = lambda: None) -> list[Shard]:
        """Return all shards that have records, or will. Raises StreamMissing, StreamUnavailable, StreamRefused.

        `between_pages` is called before each page but the first: DescribeStream may be called 10 times a second.
        """
        found: list[Shard] = []
        start: dict[str, str] = {}
        while True:
            answer = _call(self._client.describe_stream, StreamArn=self.arn, **start)
            description = _part(answer, "StreamDescription")
            shards = _part(description, "Shards")
            found += [Shard(shard["ShardId"], shard.get("ParentShardId")) for shard in shards]
            last = description.get("LastEvaluatedShardId")
            if not last:
                self.disabled = description.get("StreamStatus") in ("DISABLING", "DISABLED")
                return found
            between_pages()
            start = {"ExclusiveStartShardId": last}

    def open(
        self, shard_id: str, *, after: str | None = None, at: str | None = None, latest: bool = False
    ) -> ShardReader:
        """Return a reader of the records after the sequence number `after`.

        Without one: from the number `at` on, or, with `latest`, those that are written after the first `read`; and
        else all that are left.
        """
        return ShardReader(self._client, self.arn, shard_id, _Start(after, at, latest))


@dataclass(frozen=True)
class _Start:
    """Where to seek, the first of these that is given; the oldest record when none is."""

    after: str | None = None
    at: str | None = None
    latest: bool = False

    @property
    def request(self) -> dict[str, str]:
        if self.after is not None:
            return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self.after}
        if self.at is not None:
            return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": self.at}
        return {"ShardIteratorType": "LATEST" if self.latest else "TRIM_HORIZON"}

    @property
    def is_a_number(self) -> bool:
        return self.after is not None or self.at is not None


class ShardReader:
    """Reads a shard page by page. Made by `DynamoDbStream.open`."""

    def __init__(self, client: StreamsClient, arn: str, shard_id: str, start: _Start) -> None:
        self._client = client
        self._arn = arn
        self._shard_id = shard_id
        self._start = start
        self._iterator: str | None = None
        self._gap: Gap | None = None  # found, and not reported yet
        self._lost: str | None = None  # a position that the shard does not know, until something beyond it was read
        self._below: str | None = None  # the last record that was read before that position, by its eventID

    def read(self, limit: int = STREAM_PAGE_RECORDS) -> Page:
        """Return the next records, at most `limit` (1 to 1,000); none when nothing is new.

        A shard that is gone counts as closed, with a gap. Raises StreamUnavailable, after which the call may be
        repeated and no record is passed over; StreamRefused when that would not help; InvalidRecord for one that has no
        sequence number, or a lower one than the record before it, or is the last of a shard and lies before the
        position that reading had to go on from.
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
            if self._start.latest and not self._start.is_a_number:
                self._gap = Gap(None)
            return None
        except _Trimmed:
            self._gap = self._gap or Gap(self._start.after)
            self._lost = self._start.after or self._lost
            self._iterator, self._start = None, _Start()
            return None
        except StreamMissing:
            return Page(closed=True, gap=self._gap or Gap(self._start.after))
        return self._page(answer)

    def _seek(self) -> str:
        answer = _call(
            self._client.get_shard_iterator, StreamArn=self._arn, ShardId=self._shard_id, **self._start.request
        )
        return str(_part(answer, "ShardIterator"))

    def _page(self, answer: Mapping[str, Any]) -> Page:
        records = tuple(lambda_form(record, self._arn) for record in _part(answer, "Records"))
        last = self._start.after
        for record in records:
            last = _following(record, last)
        self._iterator = answer.get("NextShardIterator")
        if records:
            self._start = _Start(after=last)
        self._look_for_the_lost(records)
        gap, self._gap = self._gap, None
        return Page(records, closed=self._iterator is None, gap=gap)

    def _look_for_the_lost(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Raise InvalidRecord when a shard that does not know a position ends before it."""
        if self._lost is None:
            return
        if records and int(records[-1]["dynamodb"]["SequenceNumber"]) >= int(self._lost):
            self._lost = self._below = None
            return
        if records:
            self._below = str(records[-1].get("eventID", "without an eventID"))
        if self._below is not None and (not records or self._iterator is None):
            raise InvalidRecord(
                self._below,
                f"it is the last of shard {self._shard_id}, and reading was to go on after {self._lost}, a higher "
                "number that the shard does not know: its numbers began anew. To start again, remove the checkpoint",
            )


def _following(record: Mapping[str, Any], last: str | None) -> str:
    """Return the number of a record that was read after the one with the number `last`, or is that one again."""
    number = record["dynamodb"].get("SequenceNumber")
    where = str(record.get("eventID", "without an eventID"))
    if not is_sequence_number(number):
        raise InvalidRecord(where, f"its SequenceNumber is {number!r}, not a decimal string of at most 40 digits")
    if last is not None and int(number) < int(last):
        raise InvalidRecord(where, f"its SequenceNumber is {number}, and the one of the record before it {last}")
    return str(number)


def lambda_form(record: Mapping[str, Any], arn: str) -> dict[str, Any]:
    """Return a record of GetRecords, as boto3 reads it, in the JSON form of Lambda's event.

    Binary values become base64 text, the creation time a number of epoch seconds, and the record names its stream.
    What is missing in a record is missing in its form.
    """
    change = dict(record.get("dynamodb", {}))
    if "ApproximateCreationDateTime" in change:
        change["ApproximateCreationDateTime"] = _epoch_seconds(change["ApproximateCreationDateTime"])
    for part in ("Keys", "NewImage", "OldImage"):
        if part in change:
            change[part] = json_item(change[part])
    form = {name: value for name, value in record.items() if name not in ("dynamodb", "userIdentity")}
    form |= {"dynamodb": change, "eventSourceARN": arn}
    if identity := record.get("userIdentity"):
        form["userIdentity"] = {"principalId": identity.get("PrincipalId"), "type": identity.get("Type")}
    return form


def json_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item, or a key, as boto3 reads it, in the JSON form of Lambda's events: binary is base64 text."""
    return {name: value if value.keys() <= _AS_IT_IS else _json_value(value) for name, value in item.items()}


def _epoch_seconds(moment: datetime) -> int | float:
    seconds = moment.timestamp()
    return int(seconds) if seconds.is_integer() else seconds


def _json_value(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attribute value; an empty one, which some engine may make of what it does not know, stays empty."""
    return {kind: _json_inner(kind, inner) for kind, inner in value.items()}


def _json_inner(kind: str, inner: Any) -> Any:
    if kind == "B":
        return _base64(inner)
    if kind == "BS":
        return [_base64(one) for one in inner]
    if kind == "M":
        return json_item(inner)
    if kind == "L":
        return [_json_value(one) for one in inner]
    return inner


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class _Expired(Exception):
    """An iterator is older than 15 minutes. Stays inside this module."""


class _Trimmed(Exception):
    """A position is older than the stream's 24 hours. Stays inside this module."""


def _part(answer: Mapping[str, Any], name: str) -> Any:
    """Return what an answer must have. Raises StreamUnavailable when it has not: then it is not AWS's, or not whole."""
    if answer.get(name) is None:
        raise StreamUnavailable(f"an answer has no {name}: it is not one of DynamoDB, or not whole")
    return answer[name]


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
