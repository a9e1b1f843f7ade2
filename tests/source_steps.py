"""What tests of the local event source share: a function that keeps what it is given, and waiting."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.answers import Answer, Responded
from dynamodb_outbox.core.eventsource.config import MappingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dynamodb_outbox.local.source import EventSource


READ_ANSWERS = MappingConfig(report_batch_item_failures=True, retry_base_ms=1, retry_cap_ms=1)


class Recorder:
    """A function that notes the batches it gets and answers from a script, then with success."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = list(answers)
        self.batches: list[list[str]] = []

    def invoke(self, event: Mapping[str, Any]) -> Answer:
        """Note the batch and answer."""
        self.batches.append([record["dynamodb"]["SequenceNumber"] for record in event["Records"]])
        answer = self.answers.pop(0) if self.answers else Responded(None)
        return answer() if callable(answer) else answer


def run_until(source: EventSource, done: Callable[[], bool]) -> None:
    """Step until the condition holds, for at most 10 s."""
    deadline = time.monotonic() + 10
    while not done() and time.monotonic() < deadline:
        source.step()
    assert done()


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the entries of a log of one kind."""
    return [entry for line in path.read_text().splitlines() if (entry := json.loads(line))["event"] == kind]


@dataclass
class SteadyClock:
    """A clock under the test's hand."""

    steady_ms: int = 0

    def now_ms(self) -> int:
        """Return some time of the day."""
        return 1_800_000_000_000 + self.steady_ms

    def monotonic_ms(self) -> int:
        """Return the steady time."""
        return self.steady_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        self.steady_ms += duration_ms
