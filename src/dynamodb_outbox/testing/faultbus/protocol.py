"""What the bus must know of a batch-publishing protocol. One file a protocol implements this, and nothing else does.

A protocol reads a request into entries, writes a request for some of them, reads the upstream's own verdict on each,
and writes an answer from verdicts. It knows how its service tells of a destination that is not there. It decides
nothing and does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request

__all__ = ["Batch", "BatchProtocol", "Entry", "Verdict"]


@dataclass(frozen=True)
class Entry:
    """One entry of a publish request; see `Acceptance` for what its fields mean.

    `identity` is what stays the same when the entry is published again, `raw` its form in the request.
    """

    identity: str
    destination: str
    source: str | None
    detail_type: str | None
    id: str | None
    key: str | None
    group: str | None
    deduplication_id: str | None
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

    def asked(self, request: Request) -> str | None:
        """Return the destination that a request of the same service asks about; None when it asks about none."""
        ...

    def parse(self, body: bytes) -> Batch | None:
        """Return the entries, None when the body is not a batch of at least one (the upstream may say why)."""
        ...

    def body(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """Return the body of a request for some of the entries, in their order."""
        ...

    def verdicts(self, body: bytes, entries: Sequence[Entry]) -> tuple[Verdict, ...] | None:
        """Read the upstream's answer to `entries`, None when it does not speak of exactly these."""
        ...

    def rejection(self, entry: Entry, code: str, *, sender_fault: bool) -> Verdict:
        """Return the verdict of an entry that the bus itself refuses."""
        ...

    def swallowed(self, entry: Entry) -> Verdict | None:
        """Return the verdict of an entry for a destination that is not there, None when the whole request fails."""
        ...

    def answer(self, verdicts: Sequence[Verdict]) -> Answer:
        """Return the answer that says these verdicts."""
        ...

    def error(self, status: int, code: str, message: str) -> Answer:
        """Return the answer that refuses the whole request."""
        ...

    def not_found(self, destination: str) -> Answer:
        """Return the answer that says that the destination is not there."""
        ...
