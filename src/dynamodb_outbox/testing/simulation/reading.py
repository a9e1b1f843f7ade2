"""The client of "dynamodbstreams", by which an operator fetches records again that a queue tells of by their numbers.

What the stream has forgotten by then is refused, and so is an iterator that was kept for too long.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.simulation.client import SimulatedClient
from dynamodb_outbox.testing.simulation.network import NO_TROUBLES, client_error
from dynamodb_outbox.testing.simulation.records import TABLE_CONFIG
from dynamodb_outbox.testing.simulation.stream import Iterator, IteratorExpired, ShardGone, TrimmedAway
from dynamodb_outbox.testing.simulation.table import REGION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.exceptions import ClientError

    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.process import Process
    from dynamodb_outbox.testing.simulation.stream import Stream

__all__ = ["StreamClient"]


class StreamClient(SimulatedClient):
    """boto3's client of "dynamodbstreams", as far as records are fetched by their numbers."""

    def __init__(self, network: Network, process: Process, stream: Stream) -> None:
        super().__init__(
            network, process, service="dynamodbstreams", where="stream", region=REGION, config=TABLE_CONFIG
        )
        self._stream = stream
        self._iterators: dict[str, Iterator] = {}

    def get_shard_iterator(self, **request: Any) -> dict[str, Any]:
        """GetShardIterator."""

        def act() -> dict[str, Any]:
            return {"ShardIterator": self._token(self._sought(request))}

        return self._call("GetShardIterator", act, NO_TROUBLES)

    def get_records(self, **request: Any) -> dict[str, Any]:
        """GetRecords."""
        token, limit = self._arguments("GetRecords", request, "ShardIterator", "Limit")

        def act() -> dict[str, Any]:
            try:
                page = self._stream.read(self._iterators[token], limit)
            except IteratorExpired as error:
                raise client_error("GetRecords", "ExpiredIteratorException", str(error)) from None
            except (TrimmedAway, ShardGone) as error:
                raise _not_there("GetRecords", error) from None
            answer: dict[str, Any] = {"Records": [_as_read(record.body) for record in page.records]}
            return answer if page.following is None else {**answer, "NextShardIterator": self._token(page.following)}

        return self._call("GetRecords", act, NO_TROUBLES)

    def _sought(self, request: Mapping[str, Any]) -> Iterator:
        kind, shard, number = request["ShardIteratorType"], request["ShardId"], request.get("SequenceNumber")
        try:
            if kind == "AT_SEQUENCE_NUMBER":
                after = self._stream.iterator(shard, after=number)
                return Iterator(shard, after.index - 1, after.made_ms)
            return self._stream.iterator(shard, after=number)
        except (TrimmedAway, ShardGone) as error:
            raise _not_there("GetShardIterator", error) from None

    def _token(self, iterator: Iterator) -> str:
        token = f"{iterator.shard}/{len(self._iterators)}"
        self._iterators[token] = iterator
        return token


def _not_there(operation: str, error: Exception) -> ClientError:
    code = "TrimmedDataAccessException" if isinstance(error, TrimmedAway) else "ResourceNotFoundException"
    return client_error(operation, code, str(error))


def _as_read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of Lambda's event as boto3 reads it from the stream; there are no binary values in this world."""
    change = dict(body["dynamodb"])
    seconds = change["ApproximateCreationDateTime"]
    change["ApproximateCreationDateTime"] = datetime.fromtimestamp(seconds, timezone.utc)
    read = {name: value for name, value in body.items() if name not in ("eventSourceARN", "userIdentity")}
    if identity := body.get("userIdentity"):
        read["userIdentity"] = {"PrincipalId": identity["principalId"], "Type": identity["type"]}
    return {**read, "dynamodb": change}
