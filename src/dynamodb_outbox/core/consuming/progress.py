"""One batch on its way through a consumer: what is tried next, and what the source is told in the end.

A failure does not touch the others, with two exceptions, both about order. In a FIFO queue what follows a failed
message in its group goes back with it, untried, while other groups go on. In a stream nothing after a failure is tried,
since it all comes again. Nothing is remembered beyond the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.consuming.sources import Answering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox.core.consuming.sources import Batch, Delivery

__all__ = ["Progress"]

_ENDS_THERE = frozenset((Answering.FIRST, Answering.REST))


class Progress:
    """Whoever consumes goes over `untried`, and says `failed` of each delivery that was not applied."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._failed: list[Delivery] = []
        self._groups: set[str] = set()
        self.error: Exception | None = None
        """What to raise in place of an answer: the first error, of a source that has no partial answers."""

    def untried(self) -> Iterator[Delivery]:
        """Yield what is to be tried next, by what has failed so far."""
        for at, delivery in enumerate(self._batch.deliveries):
            if delivery.group in self._groups:
                self._failed.append(delivery)
                continue
            if self._failed and self._batch.source.answering in _ENDS_THERE:
                self._end(at)
                return
            yield delivery

    def failed(self, delivery: Delivery, error: Exception) -> None:
        """Take note that this delivery, the last that was yielded, was not applied."""
        self._failed.append(delivery)
        if delivery.group is not None:
            self._groups.add(delivery.group)
        if self.error is None and self._batch.source.answering is Answering.WHOLE:
            self.error = error

    def answer(self) -> dict[str, list[dict[str, str]]]:
        """Return the answer, in the form that mappings and pipes read (ReportBatchItemFailures)."""
        return {"batchItemFailures": [{"itemIdentifier": each.identifier} for each in self._failed]}

    def _end(self, at: int) -> None:
        if self._batch.source.answering is Answering.REST:
            self._failed.extend(self._batch.deliveries[at:])
