"""What happens to a batch once it was answered: finished, tried again, cut, or halved.

                 bisect off                        bisect on
    SUCCEEDED    finish                            finish
    PARTIAL      cut at the number, a retry        cut at the number, no retry
    FAILED       again, a retry                    halve, no retry
    THROTTLED    again, no retry                   again, no retry

A cut keeps the records from the lowest failed one on: everything before it is done, everything after it is delivered
again, successes too. Splitting uses up no retries [LDG], but only where it makes the batch smaller: a single record,
and a partial answer that names the first record, are retries under every setting, or a finite number of retries would
never be reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from dynamodb_outbox.core.eventsource.answers import Outcome, Verdict

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.commands import Response
    from dynamodb_outbox.core.eventsource.records import StreamRecord

__all__ = ["Aftermath", "Batch", "aftermath"]


@dataclass(frozen=True)
class Batch:
    """Records of one lane, in stream order.

    `invocations` is how often this batch, or the one it was split from, was handed over; `retries` how many of these
    count against the limit; `response` how the last one ended.
    """

    records: tuple[StreamRecord, ...]
    invocations: int = 0
    retries: int = 0
    response: Response | None = None


@dataclass(frozen=True)
class Aftermath:
    """`done` are the records that need no more attempt; `rest` is what is still to be tried, in order."""

    done: tuple[StreamRecord, ...] = ()
    rest: tuple[Batch, ...] = ()


class _Reaction(Enum):
    FINISH = "finish"
    AGAIN = "again"
    RETRY = "retry"
    CUT = "cut"
    CUT_AND_RETRY = "cut and retry"
    HALVE = "halve"


_REACTIONS = {
    (Outcome.SUCCEEDED, False): _Reaction.FINISH,
    (Outcome.SUCCEEDED, True): _Reaction.FINISH,
    (Outcome.PARTIAL, False): _Reaction.CUT_AND_RETRY,
    (Outcome.PARTIAL, True): _Reaction.CUT,
    (Outcome.FAILED, False): _Reaction.RETRY,
    (Outcome.FAILED, True): _Reaction.HALVE,
    (Outcome.THROTTLED, False): _Reaction.AGAIN,
    (Outcome.THROTTLED, True): _Reaction.AGAIN,
}


def aftermath(batch: Batch, verdict: Verdict, *, bisect: bool) -> Aftermath:
    """Return what is done and what remains of an answered batch."""
    reaction = _REACTIONS[verdict.outcome, bisect]
    place = verdict.first_failed
    if (reaction in (_Reaction.CUT, _Reaction.CUT_AND_RETRY) and place == 0) or (
        reaction is _Reaction.HALVE and len(batch.records) == 1
    ):
        reaction = _Reaction.RETRY

    if reaction is _Reaction.FINISH:
        return Aftermath(done=batch.records)
    if reaction is _Reaction.AGAIN:
        return Aftermath(rest=(batch,))
    if reaction is _Reaction.RETRY:
        return Aftermath(rest=(replace(batch, retries=batch.retries + 1),))
    if reaction is _Reaction.HALVE:
        return Aftermath(rest=_split(batch, len(batch.records) // 2))
    before, after = _split(batch, place)
    counted = 1 if reaction is _Reaction.CUT_AND_RETRY else 0
    return Aftermath(done=before.records, rest=(replace(after, retries=batch.retries + counted),))


def _split(batch: Batch, place: int) -> tuple[Batch, Batch]:
    return replace(batch, records=batch.records[:place]), replace(batch, records=batch.records[place:])
