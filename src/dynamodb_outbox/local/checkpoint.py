"""How far each shard was processed, in a file that survives the process and never holds half a truth.

The file is replaced as a whole (written beside, flushed to the disk, renamed over), so a crash leaves the old content
or the new one. It names its stream: sequence numbers of another stream mean nothing, so a file of another stream (the
table was made again) counts as empty, and everything is delivered again rather than skipped.
"""

from __future__ import annotations

import json
import os
import re
import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import OutboxError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CheckpointCorrupt", "CheckpointFile", "Position"]

_FORMAT = 1
_SEQUENCE_NUMBER = re.compile(r"[0-9]{1,40}")  # [BC] at most 40 characters; local engines have shorter ones


class CheckpointCorrupt(OutboxError):
    """The checkpoint file at `path` cannot be read; `reason` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path} is no checkpoint ({reason}). Remove it to start again from the oldest record of the stream: "
            "records that were processed are delivered again, and none is lost"
        )


@dataclass(frozen=True)
class Position:
    """One shard: everything up to and including `after` is done (None: nothing yet); `finished`: it has no more."""

    after: str | None = None
    finished: bool = False


class CheckpointFile:
    """The positions of the shards of stream `stream`, kept in `path`.

    Reads the file at once. Raises CheckpointCorrupt when it is there and is not one of ours. `discarded` tells whether
    it was of another stream.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self._path = path
        self._stream = stream
        self.discarded = False
        self._positions = self._load()

    def position(self, shard_id: str) -> Position:
        """Return where a shard stands."""
        return self._positions.get(shard_id, Position())

    def finished(self) -> frozenset[str]:
        """Return the shards that were processed to their end."""
        return frozenset(shard for shard, position in self._positions.items() if position.finished)

    def keep(self, shard_id: str, position: Position) -> None:
        """Move a shard forward; on the disk when this returns."""
        self._positions[shard_id] = position
        self._save()

    def forget_all_but(self, listed: set[str]) -> None:
        """Drop shards that the stream no longer lists; written with the next `keep`."""
        self._positions = {shard: position for shard, position in self._positions.items() if shard in listed}

    def _load(self) -> dict[str, Position]:
        try:
            content = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise CheckpointCorrupt(self._path, str(error)) from None
        except RecursionError:
            raise CheckpointCorrupt(self._path, "nested too deeply") from None
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise CheckpointCorrupt(self._path, f"not of format {_FORMAT}")
        if content.get("stream") != self._stream:
            self.discarded = True
            return {}
        shards = content.get("shards")
        if not isinstance(shards, dict):
            raise CheckpointCorrupt(self._path, "it has no shards")
        return {shard: self._position(entry) for shard, entry in shards.items()}

    def _position(self, entry: Any) -> Position:
        after, finished = (entry.get("after"), entry.get("finished")) if isinstance(entry, dict) else ("", None)
        if not isinstance(finished, bool) or not (after is None or _is_sequence_number(after)):
            raise CheckpointCorrupt(self._path, f"{reprlib.repr(entry)} is no position")
        return Position(after, finished)

    def _save(self) -> None:
        shards = {shard: {"after": at.after, "finished": at.finished} for shard, at in self._positions.items()}
        content = {"format": _FORMAT, "stream": self._stream, "shards": shards}
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _is_sequence_number(after: Any) -> bool:
    return isinstance(after, str) and _SEQUENCE_NUMBER.fullmatch(after) is not None
