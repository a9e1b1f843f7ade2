"""What the machine tells its shell to do. The shell does it in the order given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.records import StreamRecord

__all__ = ["Checkpoint", "Command", "Condition", "Discard", "Invoke", "WaitUntil"]


class Condition(Enum):
    """Why records are discarded; the values are AWS's, as an on-failure destination receives them."""

    RETRIES_EXHAUSTED = "RetryAttemptsExhausted"
    AGE_EXCEEDED = "RecordAgeExceeded"


@dataclass(frozen=True)
class Invoke:
    """Run the function on `records` and give the machine its answer. `attempt` counts the invocations from 1 up."""

    records: tuple[StreamRecord, ...]
    attempt: int


@dataclass(frozen=True)
class Checkpoint:
    """Everything up to and including `sequence_number` is done: remember it."""

    sequence_number: str


@dataclass(frozen=True)
class Discard:
    """Give `records` up and report it; the checkpoint moves past them. `invocations` is how often they were tried."""

    condition: Condition
    records: tuple[StreamRecord, ...]
    invocations: int

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
