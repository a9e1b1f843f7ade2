"""What the bus must know of a batch-publishing protocol. One file a protocol implements this, and nothing else does.

A protocol reads a request into entries, writes a request for some of them, reads the upstream's own verdict on each,
and writes an answer from verdicts. It decides nothing and does no I/O.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request

__all__ = ["Batch", "BatchProtocol", "Entry", "Verdict", "cloudevent_id", "identity"]


@dataclass(frozen=True)
class Entry:
    """One entry of a publish request. `id` is its CloudEvent id, None when `detail` is not a CloudEvent."""

    identity: str
    bus: str
    source: str | None
    detail_type: str | None
    id: str | None
    detail: str
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Batch:
    """A publish request's entries, and the document they came in."""

    entries: tuple[Entry, ...]
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What becomes of one entry: accepted when `code` is None. `raw` is its form in the protocol's answer."""

    raw: Mapping[str, Any]
    code: str | None = None


class BatchProtocol(Protocol):
    """A way of publishing several entries in one request with a verdict on each."""

    @property
    def operation(self) -> str:
        """The operation's name, as `PutEvents`."""
        ...

    def matches(self, request: Request) -> bool:
        """Whether the request is of this protocol."""
        ...

    def parse(self, body: bytes) -> Batch | None:
        """Return the entries, None when the body is not a batch of at least one (the upstream may say why)."""
        ...

    def body(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """Return the body of a request for some of the entries, in their order."""
        ...

    def verdicts(self, body: bytes, count: int) -> tuple[Verdict, ...] | None:
        """Read the upstream's answer to `count` entries, None when it does not speak of exactly that many."""
        ...

    def rejection(self, code: str) -> Verdict:
        """Return the verdict of an entry that the bus itself refuses."""
        ...

    def answer(self, verdicts: Sequence[Verdict]) -> Answer:
        """Return the answer that says these verdicts."""
        ...

    def error(self, status: int, code: str, message: str) -> Answer:
        """Return the answer that refuses the whole request."""
        ...


def cloudevent_id(detail: str) -> str | None:
    """Return the id of a CloudEvent (an object with `specversion` and a text as `id`), None for any other text."""
    try:
        event = json.loads(detail)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or "specversion" not in event:
        return None
    found = event.get("id")
    return found if isinstance(found, str) else None


def identity(event_id: str | None, detail: str) -> str:
    """Return what stays the same when the entry is published again: its id, or a hash of its text."""
    if event_id is not None:
        return event_id
    return "sha256:" + hashlib.sha256(detail.encode("utf-8", "surrogatepass")).hexdigest()
