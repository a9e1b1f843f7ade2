"""Records that were given up, kept as AWS keeps them in a bucket: in a directory, or in a bucket of the local engine.

Each is a file, or an object, of the form and under the name of an S3 destination's object, records included. It is kept
before the checkpoint moves past its records. Where AWS drops records whose destination cannot be reached, this stops:
the error ends the source, and the next one tries the batch again.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dynamodb_outbox.core.eventsource.on_failure import Mapped, failure_object, object_key
from dynamodb_outbox.local.durable import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from dynamodb_outbox.core.eventsource.commands import Discard
    from dynamodb_outbox.ports import Entropy

__all__ = ["FailureBucket", "FailureDirectory", "OnFailure", "mapped"]


def mapped(stream_arn: str, function_name: str, *, account: str, region: str) -> Mapped:
    """Return what names this mapping; its id is always the same for the same stream and function."""
    function_arn = f"arn:aws:lambda:{region}:{account}:function:{function_name}"
    return Mapped(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{function_arn} {stream_arn}")), function_arn, stream_arn)


class OnFailure(Protocol):
    """Where a mapping keeps what it gives up."""

    def keep(self, shard_id: str, discard: Discard, now_ms: int, entropy: Entropy) -> object:
        """Keep it, and return where; it is safe when this returns."""
        ...


@dataclass(frozen=True)
class FailureDirectory:
    """The on-failure destination of a mapping: files below `directory`."""

    directory: Path
    mapped: Mapped

    def keep(self, shard_id: str, discard: Discard, now_ms: int, entropy: Entropy) -> Path:
        """Write down what is given up; on the disk when this returns. Raises OSError when it cannot be."""
        key, document = _object(self.mapped, shard_id, discard, now_ms, entropy)
        path = self.directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, document)
        return path


@dataclass(frozen=True)
class FailureBucket:
    """The on-failure destination of a mapping: a bucket of the engine behind `client`, an `s3` client."""

    client: Any
    bucket: str
    mapped: Mapped

    def keep(self, shard_id: str, discard: Discard, now_ms: int, entropy: Entropy) -> str:
        """Store what is given up; return the object's key. Raises what boto3 raises."""
        key, document = _object(self.mapped, shard_id, discard, now_ms, entropy)
        self.client.put_object(Bucket=self.bucket, Key=key, Body=document.encode())
        return key


def _object(mapped: Mapped, shard_id: str, discard: Discard, now_ms: int, entropy: Entropy) -> tuple[str, str]:
    """Return the name and the text of an object.

    The id of the last invocation is not known here, so that `requestId` names this document alone.
    """
    request_id, unique = (str(uuid.UUID(bytes=entropy.bytes(16), version=4)) for _ in range(2))
    document = failure_object(discard, mapped, shard_id=shard_id, request_id=request_id, now_ms=now_ms)
    return object_key(mapped.mapping_id, shard_id, now_ms, unique), json.dumps(document)
