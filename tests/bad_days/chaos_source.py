"""What the relay's event source leaves in files, as it is seen while it works: its journal and its checkpoint."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

from days import CHECKPOINT, SOURCE_LOG

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ANSWERED", "DONE", "SourceFiles"]

ANSWERED, DONE = b'"answered"', b'"checkpoint"'
"""Entries of the journal: the function has answered, and the checkpoint is to be written; it was written."""

_LOOK_S = 0.001


class SourceFiles:
    """The files of the event source that works in a directory."""

    def __init__(self, directory: Path) -> None:
        self._journal = directory / SOURCE_LOG
        self._checkpoint = directory / CHECKPOINT
        self._reached: dict[str, int] = {}

    def size(self) -> int:
        """Return how many bytes the journal has."""
        return self._journal.stat().st_size if self._journal.exists() else 0

    def says(self, what: bytes, *, since: int, until_s: float) -> bool:
        """Wait until the journal has an entry beyond so many bytes, until some time of the steady clock."""
        while time.monotonic() < until_s:
            if self.size() > since:
                with self._journal.open("rb") as file:
                    file.seek(since)
                    if what in file.read():
                        return True
            time.sleep(_LOOK_S)
        return False

    def reached(self) -> dict[str, int]:
        """Return the number that each shard is done up to, or was when that was seen last."""
        with contextlib.suppress(FileNotFoundError):
            shards = json.loads(self._checkpoint.read_text())["shards"]
            self._reached.update({shard: int(at["after"]) for shard, at in shards.items() if at["after"] is not None})
        return dict(self._reached)

    def remove_checkpoint(self) -> None:
        """Let the next source find none."""
        self.reached()
        self._checkpoint.unlink(missing_ok=True)
