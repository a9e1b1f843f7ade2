"""A file of JSON lines, appended to while things happen: what is left to recount from.

Each call is one write to a file opened for appending, so several processes may share the file and whoever reads it
after the call finds the entries there, even when the writer was killed meanwhile. (Not after a power cut: nothing is
forced to the disk.) A write that the system did not take whole, since the disk is full, is an error; a process that is
killed inside the write may leave the same torn line. Nothing is ever appended to a torn line: the next entry, of this
journal or of the next one on the file, begins a line of its own. Entries are escaped to ASCII, so that neither a lone
surrogate nor a character that ends a line elsewhere (U+2028) makes the file hard to read.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

__all__ = ["Journal"]


class Journal:
    """Appends entries to `path`; with None, goes nowhere. `new`: the file must not be there yet.

    Raises OSError when the file cannot be opened (FileExistsError: `new`, and it is there).
    """

    def __init__(self, path: Path | str | None, *, new: bool = False) -> None:
        self._path = None if path is None else Path(path)
        self._fd = -1
        self._torn = False
        if self._path is not None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else 0)
            self._torn = not new and _ends_in_a_torn_line(self._path)
            self._fd = os.open(self._path, flags, 0o644)

    def write(self, **entry: Any) -> None:
        """Append one entry; see `write_all`."""
        self.write_all([entry])

    def write_all(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Append entries, next to each other. They are with the operating system when this returns.

        Raises OSError, naming the file, when they could not be written, or not whole: that is not tried again.
        """
        if self._fd < 0:
            return
        lines = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries).encode("ascii")
        if self._torn:
            lines = b"\n" + lines
        try:
            written = os.write(self._fd, lines)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        self._torn = written != len(lines)
        if self._torn:
            reason = f"{written} of {len(lines)} bytes could be written: is the disk full?"
            raise OSError(errno.EIO, reason, str(self._path))

    def close(self) -> None:
        """Close the file; entries that come later go nowhere. May be repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ends_in_a_torn_line(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
