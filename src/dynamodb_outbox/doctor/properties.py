"""Reading properties: text that is a number or a boolean counts as one, and what was not seen stays that.

CloudFormation takes `"100"` for 100 and `"true"` for true, and so do people who write templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamodb_outbox.doctor.inventory import Seen, Unseen

__all__ = ["Properties"]

_FLAGS = {"true": True, "false": False}


class Properties:
    """The properties of a resource, or of a part of it."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def raw(self, *path: str) -> Any:
        """Return what is there, None when nothing is; Unseen where the way there leads through such a value."""
        found = self._given
        for name in path:
            if isinstance(found, Unseen):
                return found
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def part(self, *path: str) -> Properties:
        """Return a part."""
        return Properties(self.raw(*path))

    def text(self, *path: str) -> Seen[str | None]:
        """Return text, None when there is none."""
        found = self.raw(*path)
        return found if found is None or isinstance(found, Unseen) else str(found)

    def number(self, *path: str, default: int | None = None) -> Seen[int | None]:
        """Return a whole number."""
        found = self.raw(*path)
        if found is None:
            return default
        if isinstance(found, Unseen):
            return found
        try:
            return int(found)
        except (TypeError, ValueError):
            return Unseen(f"{path[-1]} is {found!r}, which is no number")

    def decimal(self, *path: str) -> Seen[float | None]:
        """Return a number that may have decimals."""
        found = self.raw(*path)
        if found is None or isinstance(found, Unseen):
            return found
        try:
            return float(found)
        except (TypeError, ValueError):
            return Unseen(f"{path[-1]} is {found!r}, which is no number")

    def flag(self, *path: str, default: bool = False) -> Seen[bool]:
        """Return True or False."""
        found = self.raw(*path)
        if found is None:
            return default
        if isinstance(found, (Unseen, bool)):
            return found
        return _FLAGS.get(str(found).lower(), Unseen(f"{path[-1]} is {found!r}, which is neither true nor false"))

    def items(self, *path: str) -> Seen[tuple[Any, ...]]:
        """Return a list; one value that is no list is a list of it."""
        found = self.raw(*path)
        if found is None:
            return ()
        if isinstance(found, Unseen):
            return found
        return tuple(found) if isinstance(found, Sequence) and not isinstance(found, str) else (found,)

    def parts(self, *path: str) -> Seen[tuple[Properties, ...]]:
        """Return a list of parts."""
        found = self.items(*path)
        return found if isinstance(found, Unseen) else tuple(map(Properties, found))

    def texts(self, *path: str) -> Seen[tuple[str, ...]]:
        """Return a list of texts; one of them that was not seen leaves the list unseen."""
        found = self.items(*path)
        if isinstance(found, Unseen):
            return found
        hidden = next((each for each in found if isinstance(each, Unseen)), None)
        return hidden if hidden is not None else tuple(map(str, found))

    def mapping(self, *path: str) -> Seen[Mapping[str, Any]]:
        """Return a mapping."""
        found = self.raw(*path)
        if found is None:
            return {}
        return found if isinstance(found, (Unseen, Mapping)) else Unseen(f"{found!r} is no mapping")
