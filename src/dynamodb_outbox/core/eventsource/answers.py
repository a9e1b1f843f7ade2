"""What a function's answer says about the batch it was given.

The rules are AWS's, and not obvious [LDG, REC]:

- without `ReportBatchItemFailures` any answer is a success, whatever it contains;
- an empty or null answer, an empty or null list, and an answer without the key `batchItemFailures` (a misspelt one, for
  instance) are a success of the whole batch;
- an identifier that is empty, null, missing, or not one of the batch fails the WHOLE batch;
- an answer that cannot be read as an object of that form fails the whole batch. AWS documents nothing for it; of the
  two readings this is the one that loses no record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = [
    "Answer",
    "FunctionFailed",
    "Outcome",
    "Reported",
    "Responded",
    "Throttled",
    "Verdict",
    "judge",
    "reported_failures",
]


_NAMES_SAID = 5


@dataclass(frozen=True)
class Responded:
    """The function returned; `payload` is its answer, read from JSON."""

    payload: Any


@dataclass(frozen=True)
class FunctionFailed:
    """The function did not return an answer.

    `kind` is Lambda's name of the error (`Runtime.ExitError`, `Sandbox.Timedout`, the exception's class, …), `message`
    says more.
    """

    kind: str
    message: str


@dataclass(frozen=True)
class Throttled:
    """The function was not run, for want of concurrency. Such attempts are not counted."""


Answer = Responded | FunctionFailed | Throttled


class Outcome(Enum):
    """What became of a batch."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    THROTTLED = "throttled"


@dataclass(frozen=True)
class Verdict:
    """An outcome; for PARTIAL, `first_failed` is the place of the lowest failed record.

    `reason` is for people; that of a success says that it may be none.
    """

    outcome: Outcome
    first_failed: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Reported:
    """The identifiers an answer calls failed; with `whole` set (to the reason) the whole batch failed instead.

    `doubt`: the whole batch is done, and it may be that its function meant to say something else.
    """

    failed: frozenset[str] = frozenset()
    whole: str = ""
    doubt: str = ""


def judge(answer: Answer, sequence_numbers: Sequence[str], *, report_failures: bool) -> Verdict:
    """Return what `answer` means for the batch of these sequence numbers, which are in stream order."""
    if isinstance(answer, Throttled):
        return Verdict(Outcome.THROTTLED, reason="throttled")
    if isinstance(answer, FunctionFailed):
        return Verdict(Outcome.FAILED, reason=f"{answer.kind}: {answer.message}")
    if not report_failures:
        return Verdict(Outcome.SUCCEEDED)
    reported = reported_failures(answer.payload, frozenset(sequence_numbers))
    if reported.whole:
        return Verdict(Outcome.FAILED, reason=reported.whole)
    if not reported.failed:
        return Verdict(Outcome.SUCCEEDED, reason=reported.doubt)
    # The batch is in stream order, so its first failed record is the one with the lowest number.
    first = next(place for place, number in enumerate(sequence_numbers) if number in reported.failed)
    return Verdict(Outcome.PARTIAL, first, f"{len(reported.failed)} reported, from {sequence_numbers[first]} on")


def reported_failures(payload: Any, batch: Collection[str]) -> Reported:
    """Read `batchItemFailures` from an answer; `batch` holds the identifiers that may be named. For SQS too."""
    if payload is None or payload in ("", [], {}):
        return Reported()
    if not isinstance(payload, dict):
        return Reported(whole=f"the answer is of type {type(payload).__name__}, not an object")
    entries = payload.get("batchItemFailures")
    if "batchItemFailures" not in payload:
        names = ", ".join(map(repr, sorted(map(str, payload))[:_NAMES_SAID]))
        return Reported(doubt=f"the answer has no batchItemFailures, so all of its batch is done; it has {names}")
    if entries is None or entries == []:
        return Reported()
    if not isinstance(entries, list):
        return Reported(whole=f"batchItemFailures is of type {type(entries).__name__}, not a list")
    return _named(entries, batch)


def _named(entries: list[Any], batch: Collection[str]) -> Reported:
    failed = set()
    for entry in entries:
        identifier = entry.get("itemIdentifier") if isinstance(entry, dict) else None
        if not isinstance(identifier, str) or identifier not in batch:
            return Reported(whole=f"batchItemFailures names {identifier!r}, which is not in the batch")
        failed.add(identifier)
    return Reported(frozenset(failed))
