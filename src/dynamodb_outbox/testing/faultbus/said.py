"""What the text of an entry says of itself, when it is a CloudEvent in its structured JSON form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

__all__ = ["Said", "identity", "said_by"]


@dataclass(frozen=True)
class Said:
    """A CloudEvent's own words: its `id`, its key (`partitionkey`), its `source` and its `type`; None what is not said.

    All of them are None for a text that is no CloudEvent.
    """

    id: str | None = None
    key: str | None = None
    source: str | None = None
    type: str | None = None


def said_by(text: str) -> Said:
    """Read a text; a CloudEvent is an object with `specversion`."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return Said()
    if not isinstance(event, dict) or "specversion" not in event:
        return Said()
    found = (event.get(name) for name in ("id", "partitionkey", "source", "type"))
    return Said(*(value if isinstance(value, str) else None for value in found))


def identity(known: str | None, text: str) -> str:
    """Return what stays the same when an entry is published again: what it is known by, or a hash of its text."""
    if known is not None:
        return known
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
