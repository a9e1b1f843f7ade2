"""The local event source on a scripted stream, for the rows of the table that are about effects."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.streams import DynamoDbStream
from dynamodb_outbox.core.eventsource.answers import Answer, Responded
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.local.checkpoint import CheckpointFile
from dynamodb_outbox.local.source import EventSource
from dynamodb_outbox.process.stop import StopFlag
from fake_streams import ARN, FakeStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

CONFIG = MappingConfig(report_batch_item_failures=True, retry_base_ms=1, retry_cap_ms=1)


class Recorder:
    """A function that notes the batches it gets and answers from a script, then with success."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = list(answers)
        self.records: list[list[dict[str, Any]]] = []

    @property
    def batches(self) -> list[list[str]]:
        """The sequence numbers that it was given."""
        return [[one["dynamodb"]["SequenceNumber"] for one in batch] for batch in self.records]

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Note the batch and answer."""
        self.records.append(list(event["Records"]))
        answer = self.answers.pop(0) if self.answers else Responded(None)
        return answer() if callable(answer) else answer


@dataclass
class SetClock:
    """A clock that stands where it is set."""

    at_ms: int = 0

    def now_ms(self) -> int:
        """Return the time since some day."""
        return 1_800_000_000_000 + self.at_ms

    def monotonic_ms(self) -> int:
        """Return the time since the start."""
        return self.at_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        self.at_ms += duration_ms


@contextlib.contextmanager
def source(client: FakeStreams, function: Recorder, checkpoint: Path, **settings: Any) -> Iterator[EventSource]:
    """Open a source with the checkpoint file at `checkpoint`."""
    stop = StopFlag()
    stream = DynamoDbStream(client, ARN)
    try:
        yield EventSource(stream, function, CheckpointFile(checkpoint, ARN), stop, **{"config": CONFIG} | settings)
    finally:
        stop.close()
