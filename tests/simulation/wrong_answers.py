"""Relays that are wrong in how their invocations end: what they answer, when, and whether they answer at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hand_written import PAUSE_MS, HandWritten, made

from dynamodb_outbox.core.relay.outcome import Fault, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hand_written import Handler

    from dynamodb_outbox.event import Event
    from dynamodb_outbox.testing.simulation.world import FunctionWorld


class EventIdAsIdentifier(HandWritten):
    """Names the record that failed by its eventID."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return {"batchItemFailures": [{"itemIdentifier": record["eventID"]} for record in failed]}


class GoingOn(HandWritten):
    """Goes on with the next record after one that failed."""

    tries = 1

    def goes_on(self) -> bool:
        """Go on, always."""
        return True


class HighestNumber(GoingOn):
    """Names the highest of the numbers that failed."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return super().answer(sorted(failed, key=self.place)[-1:])


class TextComparison(GoingOn):
    """Names the lowest of the numbers that failed, by comparing them as text."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        numbers = sorted(record["dynamodb"]["SequenceNumber"] for record in failed)
        return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}


class RaisingOnPartialFailure(HandWritten):
    """Raises when a part of the batch failed."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        if failed:
            raise RuntimeError(f"{len(failed)} records failed")
        return None


class DeadlineIgnored(HandWritten):
    """Tries until it works, however long that takes."""

    def has_time(self, context: Any) -> bool:  # noqa: ARG002 -- that it does not look is what is wrong
        """Say yes."""
        return True

    def send(self, event: Event, context: Any) -> Fault | None:
        """Send an event."""
        while True:
            fault = super().send(event, context)
            if fault is None or fault.kind is Kind.CONTENT:
                return fault
            self.world.clock.sleep_ms(PAUSE_MS)


class NumbersAsNumbers(HandWritten):
    """Names the record that failed by a number, where text is asked for."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return {"batchItemFailures": [{"itemIdentifier": self.place(record)} for record in failed]}


class NumbersAlone(HandWritten):
    """Names the record that failed, and not in an object."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        return {"batchItemFailures": [record["dynamodb"]["SequenceNumber"] for record in failed]}


class Exiting(HandWritten):
    """Ends its process when a part of the batch failed."""

    def answer(self, failed: Sequence[Any]) -> Any:
        """Return what the function answers."""
        if failed:
            raise SystemExit(1)
        return None


class NeverContent(HandWritten):
    """Has the last record of a batch delivered again when all of them are done."""

    def handler(self, event: Any, context: Any) -> Any:
        """Publish the records of a batch."""
        answer = super().handler(event, context)
        last = event["Records"][-1]["dynamodb"]["SequenceNumber"]
        return answer if answer["batchItemFailures"] else {"batchItemFailures": [{"itemIdentifier": last}]}


class AnsweringTooEarly(HandWritten):
    """Starts to publish and answers without waiting for it."""

    def is_done(self, record: Any, context: Any) -> bool:
        """Start to publish a record, and call that done."""
        self.world.crew(1).start(lambda: super(AnsweringTooEarly, self).is_done(record, context))
        return True


ANSWERS: dict[str, tuple[Callable[[FunctionWorld], Handler], str]] = {
    "eventID as identifier": (made(EventIdAsIdentifier), "answers_name_the_batch"),
    "going on after a failure": (made(GoingOn), "order_per_key"),
    "highest number": (made(HighestNumber), "checkpoint_follows_done"),
    "text comparison of sequence numbers": (made(TextComparison), "checkpoint_follows_done"),
    "raising on partial failure": (made(RaisingOnPartialFailure), "answers_after_partial_failure"),
    "deadline ignored": (made(DeadlineIgnored), "ends_in_time"),
    "identifiers that are numbers": (made(NumbersAsNumbers), "answers_name_the_batch"),
    "identifiers without an object": (made(NumbersAlone), "answers_name_the_batch"),
    "exit on partial failure": (made(Exiting), "dies_of_a_crash_alone"),
    "again and again": (made(NeverContent), "everything_ends"),
    "answering too early": (made(AnsweringTooEarly), "nothing_after_the_end"),
}
"""Each with the invariant that it breaks."""
