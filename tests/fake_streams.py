"""A DynamoDB Streams client that answers from a script, for what no engine does: lineage, trimming, expiry, outages."""

from __future__ import annotations

import datetime as dt
from collections import deque
from typing import Any

from botocore.exceptions import ClientError

ARN = "arn:aws:dynamodb:us-east-1:000000000001:table/shop/stream/1"
WHEN = dt.datetime(2026, 11, 1, 12, 0, tzinfo=dt.timezone.utc)


def refusal(code: str, status: int = 400) -> ClientError:
    """Return an error as botocore raises it."""
    return ClientError({"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Op")


def raw(number: int) -> dict[str, Any]:
    """Return a record of GetRecords."""
    change = {"SequenceNumber": str(number), "ApproximateCreationDateTime": WHEN, "Keys": {"pk": {"S": "a"}}}
    return {"eventID": f"e{number}", "eventName": "INSERT", "dynamodb": change}


class FakeStreams:
    """A streams client that answers from a script: a value is an answer, an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)
        self.sought: list[str] = []
        self.sought_how: list[str] = []
        self.described: list[dict[str, Any]] = []

    def _next(self) -> Any:
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def get_shard_iterator(self, **request: Any) -> Any:
        """Note where the reader seeks; fails only when the script says so by a tuple."""
        self.sought.append(request.get("SequenceNumber", request["ShardIteratorType"]))
        self.sought_how.append(request["ShardIteratorType"])
        if self.answers and isinstance(self.answers[0], tuple):
            raise self.answers.popleft()[0]
        return {"ShardIterator": f"iterator-{len(self.sought)}"}

    def get_records(self, **_request: Any) -> Any:
        """Answer the next page."""
        return self._next()

    def describe_stream(self, **request: Any) -> Any:
        """Answer the next page of shards."""
        self.described.append(request)
        return self._next()


def page(*numbers: int, following: str | None = "next") -> dict[str, Any]:
    """Return an answer of GetRecords."""
    return {"Records": [raw(number) for number in numbers], "NextShardIterator": following}


def shards(*listed: tuple[str, str | None]) -> dict[str, Any]:
    """Return an answer of DescribeStream: shards with their parents."""
    entries = [
        {"ShardId": shard} if parent is None else {"ShardId": shard, "ParentShardId": parent}
        for shard, parent in listed
    ]
    return {"StreamDescription": {"Shards": entries}}
