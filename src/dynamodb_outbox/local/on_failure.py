"""Records that were given up, kept in a directory as AWS keeps them in a bucket.

Each is a file of the form and under the name of an S3 destination's object, records included. It is on the disk before
the checkpoint moves past its records. Where AWS drops records whose destination cannot be reached, this stops: the
error ends the source, and the next one tries the batch again.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.eventsource.on_failure import Mapped, failure_object, object_key
from dynamodb_outbox.local.durable import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from dynamodb_outbox.core.eventsource.commands import Discard
    from dynamodb_outbox.ports import Entropy

__all__ = ["FailureDirectory", "mapped"]


def mapped(stream_arn: str, function_name: str, *, account: str, region: str) -> Mapped:
    """Return what names this mapping; its id is always the same for the same stream and function."""
    function_arn = f"arn:aws:lambda:{region}:{account}:function:{function_name}"
    return Mapped(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{function_arn} {stream_arn}")), function_arn, stream_arn)


@dataclass(frozen=True)
class FailureDirectory:
    """The on-failure destination of a mapping: files below `directory`."""

    directory: Path
    mapped: Mapped

    def keep(self, shard_id: str, discard: Discard, now_ms: int, entropy: Entropy) -> Path:
        """Write down what is given up; on the disk when this returns. Raises OSError when it cannot be.

        The id of the last invocation is not known here, so that `requestId` names this document alone.
        """
        request_id, unique = (str(uuid.UUID(bytes=entropy.bytes(16), version=4)) for _ in range(2))
        document = failure_object(discard, self.mapped, shard_id=shard_id, request_id=request_id, now_ms=now_ms)
        path = self.directory / object_key(self.mapped.mapping_id, shard_id, now_ms, unique)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(document))
        return path
