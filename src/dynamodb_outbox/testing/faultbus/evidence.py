"""What the bus accepted and what it did wrong, in memory and as JSON lines, in the order in which it happened.

A line is handed to the operating system before the client gets its answer, so whoever reads the files after a client
was told "accepted" finds the acceptance there, even when the bus itself was killed meanwhile (`process.journal`).
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.process.journal import Journal
from dynamodb_outbox.testing.faultbus.errors import EvidenceUnusable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.ports import Clock
    from dynamodb_outbox.testing.faultbus.protocol import Entry

__all__ = ["ACCEPTED_FILE", "FAULTS_FILE", "Acceptance", "Evidence", "Fault", "FaultKind"]

ACCEPTED_FILE = "accepted.jsonl"
FAULTS_FILE = "faults.jsonl"

FaultKind = Literal[
    "entry_rejected",  # in band, by chance
    "entry_unacceptable",  # in band, for ever
    "entry_refused_upstream",  # in band, by the upstream itself
    "duplicated",  # handed upstream a second time, and accepted
    "duplicate_failed",  # handed upstream a second time, and not known to be accepted
    "destination_missing",  # published to, or asked about
    "outage",
    "request_error",
    "reset_before",
    "reset_after",
    "delayed",
    "held",
    "released",
    "client_gone",  # while its request was held
    "request_lost",  # a call passed through: dropped before
    "answer_lost",  # a call passed through: dropped after
    "upstream_error",  # a publish request refused whole by the upstream
    "upstream_failed",  # no answer from the upstream, or one that cannot be read: not planned
    "bus_error",  # a defect of the bus itself
]


@dataclass(frozen=True)
class Acceptance:
    """One acceptance of one entry by the upstream.

    `n` counts acceptances from 1, `request` is the number of the publish request, `copy` is 0, or 1 for the second
    time that the plan had the entry handed over. `destination` is the bus, topic or queue as the client told it, and
    `detail` the event as text: Detail, Message or MessageBody. `id` is the CloudEvent id, None when the detail is not
    a CloudEvent; `source` and `detail_type` are those of the entry (EventBridge) or of the CloudEvent. `key` is the
    CloudEvent's `partitionkey`, or else the MessageGroupId; `group` and `deduplication_id` are those of SNS and SQS.

    A FIFO topic or queue that recognises a deduplication id accepts the entry like any other: `Successful`. So does
    this evidence; what was delivered, the upstream knows.
    """

    n: int
    at_ms: int
    request: int
    copy: int
    destination: str
    source: str | None
    detail_type: str | None
    id: str | None
    key: str | None
    group: str | None
    deduplication_id: str | None
    detail: str


@dataclass(frozen=True)
class Fault:
    """One thing that went wrong, on purpose or not; `what` has the facts (`request`, `id`, `code`, …)."""

    kind: FaultKind
    at_ms: int
    operation: str
    what: Mapping[str, Any]


class Evidence:
    """The record of one run. `directory` None keeps it in memory alone. Safe to use from several threads."""

    def __init__(self, directory: Path | str | None, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._accepted: list[Acceptance] = []
        self._faults: list[Fault] = []
        self._kinds: Counter[str] = Counter()
        self._directory = None if directory is None else Path(directory)
        self._files: list[Journal] = []

    def open(self) -> None:
        """Make the files. Raises `EvidenceUnusable` when they cannot be written or are there from another run."""
        if self._directory is None:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for name in (ACCEPTED_FILE, FAULTS_FILE):
                self._files.append(Journal(self._directory / name, new=True))
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            if isinstance(error, FileExistsError):
                reason = "there is evidence of another run; give a directory of its own"
            raise EvidenceUnusable(str(self._directory), reason) from error

    @property
    def accepted(self) -> tuple[Acceptance, ...]:
        """All acceptances so far."""
        with self._lock:
            return tuple(self._accepted)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All faults so far."""
        with self._lock:
            return tuple(self._faults)

    def counts(self) -> tuple[int, dict[str, int]]:
        """Return how many acceptances there are, and how many faults of each kind."""
        with self._lock:
            return len(self._accepted), dict(self._kinds)

    def accept(self, entries: Sequence[Entry], *, request: int, copy: int) -> None:
        """Write down that the upstream accepted these entries, now and in this order."""
        with self._lock:
            at_ms = self._clock.now_ms()
            first = len(self._accepted) + 1
            new = [
                Acceptance(
                    n=first + offset,
                    at_ms=at_ms,
                    request=request,
                    copy=copy,
                    destination=entry.destination,
                    source=entry.source,
                    detail_type=entry.detail_type,
                    id=entry.id,
                    key=entry.key,
                    group=entry.group,
                    deduplication_id=entry.deduplication_id,
                    detail=entry.detail,
                )
                for offset, entry in enumerate(entries)
            ]
            self._accepted.extend(new)
            self._write(0, new)

    def fault(self, kind: FaultKind, operation: str, **what: Any) -> None:
        """Write down one fault."""
        with self._lock:
            fault = Fault(kind, self._clock.now_ms(), operation, what)
            self._faults.append(fault)
            self._kinds[kind] += 1
            self._write(1, [fault])

    def close(self) -> None:
        """Close the files; what is recorded after that stays in memory alone."""
        with self._lock:
            files, self._files = self._files, []
            for file in files:
                file.close()

    def _write(self, which: int, rows: Sequence[Acceptance] | Sequence[Fault]) -> None:
        if not self._files:
            return
        try:
            self._files[which].write_all(vars(row) for row in rows)
        except OSError as error:
            raise EvidenceUnusable(str(self._directory), error.strerror or str(error)) from error
