"""What the machine tells its shell to do. The shell does it in the order given.

Only `Invoke` of different lanes may run side by side; everything else is done before what follows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.records import StreamRecord

__all__ = ["Checkpoint", "Command", "Condition", "Discard", "Invoke", "Response", "Tried", "WaitUntil"]


class Condition(Enum):
    """Why records are discarded; the values are AWS's, as an on-failure destination receives them."""

    RETRIES_EXHAUSTED = "RetryAttemptsExhausted"
    AGE_EXCEEDED = "RecordAgeExceeded"


@dataclass(frozen=True)
class Response:
    """How the last invocation of a batch ended: `function_error` as Lambda names it, None when the function returned.

    A function that returned may have failed its batch all the same, by what it said.
    """

    function_error: str | None = None


@dataclass(frozen=True)
class Invoke:
    """Run the function on `records` and give the machine its answer, for this `lane`. `attempt` counts from 1 up."""

    records: tuple[StreamRecord, ...]
    attempt: int
    lane: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """Everything up to and including `sequence_number` is done: remember it."""

    sequence_number: str


@dataclass(frozen=True)
class Discard:
    """Give `records` up and report it; the checkpoint moves past them.

    `invocations` is how often they were tried, `response` how the last of these ended (None: none ended).
    """

    condition: Condition
    records: tuple[StreamRecord, ...]
    invocations: int
    response: Response | None = None
    lane: int = 0

    @property
    def start(self) -> str:
        """The first sequence number of the range."""
        return self.records[0].sequence_number

    @property
    def end(self) -> str:
        """The last sequence number of the range."""
        return self.records[-1].sequence_number


@dataclass(frozen=True)
class WaitUntil:
    """Nothing to do before `at_ms` (epoch milliseconds), unless records arrive: call `tick` then."""

    at_ms: int


Command = Invoke | Checkpoint | Discard | WaitUntil


@dataclass(frozen=True)
class Tried:
    """A batch that was tried and is not done: its lane, its range of sequence numbers, and what was used up for it.

    It is what a machine would forget with its process: keep `ShardMachine.tried` with the checkpoint, and give both to
    the next machine. `lanes` is how many the shard had: with another number of them the range holds other records, and
    these counts are nobody's.
    """

    start: str
    end: str
    invocations: int
    retries: int
    lane: int = 0
    lanes: int = 1

    def covers(self, number: int) -> bool:
        """Whether a sequence number is in the range."""
        return int(self.start) <= number <= int(self.end)
