"""How far the local event source is in a stream: what its checkpoint says, held against the stream itself.

A position is a sequence number, which tells no time and no distance. So the stream is asked for the first record after
it: how long that has been waiting is what an operator wants to know. The checkpoint is read and left as it is, and the
source goes on meanwhile.

Of Lambda's own mappings no such thing is known: no call of its API tells their positions. They tell how far they are
behind in CloudWatch, as IteratorAge.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.streams import DynamoDbStream, stream_arn
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.local.checkpoint import CheckpointFile

if TYPE_CHECKING:
    from pathlib import Path

    from dynamodb_outbox.adapters.streams import StreamsClient

__all__ = ["ShardPosition", "positions_of"]


@dataclass(frozen=True)
class ShardPosition:
    """How far a source is in one shard that it has not read to its end.

    after              the sequence number of the last record that was processed; None: none was yet
    unread_since_ms    when the first record behind it was written, epoch milliseconds; None: there is none
    lost               the stream has forgotten records behind it: only a sweeper can publish what they told
    """

    shard_id: str
    after: str | None
    unread_since_ms: int | None
    lost: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members."""
        return asdict(self)


def positions_of(checkpoint: Path, table: str, *, tables: Any, streams: StreamsClient) -> tuple[ShardPosition, ...]:
    """Return where the source with this checkpoint file is, in each shard of the table's stream that is not done.

    `tables` and `streams` are boto3 clients of "dynamodb" and "dynamodbstreams". One page of each shard is read: where
    that is empty, nothing counts as unread.

    Raises ConfigurationError where there is no checkpoint, or one of another stream; CheckpointCorrupt; StreamMissing,
    StreamUnavailable and StreamRefused when the stream cannot be read.
    """
    stream = DynamoDbStream(streams, stream_arn(tables, table))
    kept = CheckpointFile(checkpoint, stream.arn)
    if kept.fresh or kept.discarded:
        of = "is no file" if kept.fresh else "is of another stream than the table has now"
        raise ConfigurationError(f"the checkpoint {checkpoint} {of}: nothing is known of where its source is.")
    done = kept.finished()
    return tuple(_position(stream, shard.shard_id, kept) for shard in stream.shards() if shard.shard_id not in done)


def _position(stream: DynamoDbStream, shard_id: str, kept: CheckpointFile) -> ShardPosition:
    at = kept.position(shard_id)
    page = stream.open(shard_id, after=at.after, at=at.first, latest=at.latest).read(1)
    since = None
    if page.records:
        since = page.records[0]["dynamodb"].get("ApproximateCreationDateTime")
    return ShardPosition(shard_id, at.after, None if since is None else int(since * 1000), page.gap is not None)
