"""A file of JSON lines, appended to while things happen: what is left to recount from.

Each entry is one write to a file opened for appending, so an entry is there in full or not at all when the process is
killed, and several processes may share the file.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["Journal"]


class Journal:
    """Appends entries to `path`; with None, goes nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._fd = -1 if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, **entry: Any) -> None:
        """Append one entry. It is with the operating system when this returns, though perhaps not on the disk."""
        if self._fd >= 0:
            line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n"
            os.write(self._fd, line.encode("utf-8", "surrogatepass"))

    def close(self) -> None:
        """Close the file. May be repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
