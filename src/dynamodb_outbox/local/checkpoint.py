"""How far each shard was processed, in a file that survives the process and never holds half a truth.

The file is replaced as a whole, so a crash leaves the old content or the new one; a symbolic link stays, and the file
that it leads to is replaced. It names its stream: sequence numbers of another stream mean nothing, so a file of another
stream (the table was made again) counts as empty, and everything is delivered again rather than skipped. Beside the
checkpoint it keeps what was tried beyond it, so that the retries of a batch are counted on after a restart.
"""

from __future__ import annotations

import dataclasses
import json
import os
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.commands import Tried
from dynamodb_outbox.core.eventsource.records import is_sequence_number
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.local.durable import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CheckpointCorrupt", "CheckpointFile", "Position"]

_FORMAT = 1


class CheckpointCorrupt(OutboxError):
    """The file at `path` cannot be read as a checkpoint; `reason` says why; `ours`: it looks like one of ours."""

    def __init__(self, path: Path, reason: str, *, ours: bool = True) -> None:
        self.path = path
        self.reason = reason
        self.ours = ours
        advice = (
            "Remove it to start again, at TRIM_HORIZON, from the oldest record of the stream: records that were "
            "processed are delivered again, and none is lost"
            if ours
            else "It is left as it is: give the checkpoint another name"
        )
        super().__init__(f"{path} is no checkpoint ({reason}). {advice}")


@dataclass(frozen=True)
class Position:
    """One shard: everything up to and including `after` is done (None: nothing yet); `finished`: it has no more.

    `tried` is what was tried beyond that. A shard that is read from LATEST on, and has nothing done yet, has `latest`
    until its first record was seen, then the number of that record: `first`.
    """

    after: str | None = None
    finished: bool = False
    tried: tuple[Tried, ...] = ()
    latest: bool = False
    first: str | None = None


class CheckpointFile:
    """The positions of the shards of stream `stream`, kept in `path`.

    Reads the file at once. Raises CheckpointCorrupt when it is there and is not one of ours. `fresh` tells whether
    there was none, `discarded` whether it was of another stream.
    """

    def __init__(self, path: Path, stream: str) -> None:
        self._path = Path(os.path.realpath(path))
        self._stream = stream
        self.fresh = False
        self.discarded = False
        self._positions = self._load()

    def begin(self, positions: Mapping[str, Position]) -> None:
        """Settle where shards start; on the disk when this returns, also when there are none. No longer `fresh`."""
        self._positions.update(positions)
        self._save()
        self.fresh = False

    def position(self, shard_id: str) -> Position:
        """Return where a shard stands."""
        return self._positions.get(shard_id, Position())

    def known(self) -> frozenset[str]:
        """Return the shards that have a position."""
        return frozenset(self._positions)

    def finished(self) -> frozenset[str]:
        """Return the shards that were processed to their end."""
        return frozenset(shard for shard, position in self._positions.items() if position.finished)

    def unseen(self) -> frozenset[str]:
        """Return the shards that are read from LATEST on, and of which no record was seen yet."""
        return frozenset(shard for shard, position in self._positions.items() if position.latest)

    def keep(self, shard_id: str, position: Position) -> None:
        """Move a shard forward; on the disk when this returns."""
        self._positions[shard_id] = position
        self._save()

    def forget_all_but(self, known: set[str]) -> dict[str, Position]:
        """Drop the shards that are not `known` any more, and return those that were not read to their end.

        Written with the next `keep`.
        """
        gone = {shard: position for shard, position in self._positions.items() if shard not in known}
        self._positions = {shard: position for shard, position in self._positions.items() if shard in known}
        return {shard: position for shard, position in gone.items() if not position.finished}

    def _load(self) -> dict[str, Position]:
        try:
            content = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            self.fresh = True
            return {}
        except ValueError as error:
            raise CheckpointCorrupt(self._path, str(error), ours=False) from None
        except RecursionError:
            raise CheckpointCorrupt(self._path, "nested too deeply", ours=False) from None
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            ours = isinstance(content, dict) and content.keys() >= {"stream", "shards"}
            raise CheckpointCorrupt(self._path, f"not of format {_FORMAT}", ours=ours)
        if content.get("stream") != self._stream:
            self.discarded = True
            return {}
        shards = content.get("shards")
        if not isinstance(shards, dict):
            raise CheckpointCorrupt(self._path, "it has no shards")
        return {shard: self._position(entry) for shard, entry in shards.items()}

    def _position(self, entry: Any) -> Position:
        position = _read(entry) if isinstance(entry, dict) else None
        if position is None:
            raise CheckpointCorrupt(self._path, f"{reprlib.repr(entry)} is no position")
        return position

    def _save(self) -> None:
        shards = {shard: _entry(position) for shard, position in self._positions.items()}
        content = {"format": _FORMAT, "stream": self._stream, "shards": shards}
        write_whole(self._path, json.dumps(content))


def _entry(position: Position) -> dict[str, Any]:
    """Return a position as JSON; what it lacks is left out, beside the two that are always there."""
    entry = dataclasses.asdict(position)
    return {name: value for name, value in entry.items() if value or name in ("after", "finished")}


def _read(entry: dict[str, Any]) -> Position | None:
    after, finished, first = entry.get("after"), entry.get("finished"), entry.get("first")
    tried = entry.get("tried", [])
    latest = entry.get("latest", False)
    numbers = [number for number in (after, first) if number is not None]
    if not isinstance(finished, bool) or not isinstance(latest, bool) or not all(map(is_sequence_number, numbers)):
        return None
    if not isinstance(tried, list) or not all(map(_is_tried, tried)):
        return None
    return Position(after, finished, tuple(Tried(**one) for one in tried), latest, first)


_TRIED = {"start": str, "end": str, "invocations": int, "retries": int, "lane": int, "lanes": int}


def _is_tried(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() | {"lanes"} != _TRIED.keys():  # older ones do not have it
        return False
    typed = all(type(value) is _TRIED[name] for name, value in entry.items())
    return typed and is_sequence_number(entry["start"]) and is_sequence_number(entry["end"])
