"""What all consumers share: functions by type, a handler for every source, and what is said of each event.

A handler takes the batch apart, has each event applied, and answers in the source's own form. What fails goes back to
its source and does not touch the others, but for the rules of order (`core.consuming.progress`).
"""

from __future__ import annotations

import logging
import traceback
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dynamodb_outbox import arguments
from dynamodb_outbox.adapters.s3 import ClaimCheck
from dynamodb_outbox.arguments import refusal, shown, text
from dynamodb_outbox.consume.envelopes import Reader
from dynamodb_outbox.consume.functions import Functions
from dynamodb_outbox.consume.rejection import checked_sink, publish_rejected, reason_of
from dynamodb_outbox.core.codec.claim import verified
from dynamodb_outbox.core.consuming.facts import Failed, Rejected, Skipped
from dynamodb_outbox.core.consuming.foreign import ForeignEvents
from dynamodb_outbox.core.consuming.progress import Progress
from dynamodb_outbox.core.consuming.sources import recognise
from dynamodb_outbox.errors import (
    ConfigurationError,
    InvalidMessage,
    OutboxError,
    PayloadUnavailable,
    Reject,
    RetryLater,
    Skip,
)
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.tracing import follower_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.core.consuming.facts import Fact
    from dynamodb_outbox.core.consuming.sources import Delivery, Source
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.ports import Observer, PayloadStore, Sink, Tracing

__all__ = ["Consumer"]

F = TypeVar("F", bound="Callable[..., object]")

_log = logging.getLogger(__name__)
_NO_REASON = "no reason is given"


class Consumer(ABC):
    """A consumer by its name; how an event is applied is the subclass's."""

    def __init__(
        self,
        consumer: str,
        *,
        functions: tuple[str, int],
        records: Layout | None,
        foreign: ForeignEvents | None,
        claim_check: ClaimCheck | None,
        observer: Observer[Fact] | None,
        rejected: Sink | None,
        tracing: Tracing | None = None,
    ) -> None:
        self._refusal = partial(refusal, type(self).__name__)
        self._name = _consumer_name(consumer, self._refusal("consumer"))
        self._functions = Functions(self._name, *functions)
        self._reader = Reader(
            _one_of(records, Layout, self._refusal("records")) or Layout(),
            _one_of(foreign, ForeignEvents, self._refusal("foreign")),
        )
        self._payloads: PayloadStore | None = _one_of(claim_check, ClaimCheck, self._refusal("claim_check"))
        self._observer: Observer[Fact] | None = arguments.observer(observer, self._refusal("observer"))
        self._follower = follower_of(tracing, self._refusal("tracing"))
        if rejected is not None:
            checked_sink(rejected, self._refusal("rejected"))
        self._rejected = rejected

    def on(self, event_type: str) -> Callable[[F], F]:
        """Register the decorated function for events of one type: `@inbox.on("order.placed")`.

        It may be a coroutine function, which is run to its end. It may run more than once for one event. It may raise
        Skip, RetryLater or Reject (`dynamodb_outbox.errors`); what else it raises sends the event back to its source.
        Raises ConfigurationError when the type has a function, and for what cannot be called as it will be.
        """
        if not isinstance(event_type, str) or not event_type:
            raise ConfigurationError(
                f"inbox.on({shown(event_type)}): name the event type, as in @inbox.on('order.placed')."
            )
        return lambda function: self._functions.register(event_type, function)

    def consumer(self, function: F) -> F:
        """Register the decorated function for events of every type that has none of its own: `@inbox.consumer`."""
        return self._functions.register_otherwise(function)

    @abstractmethod
    def apply(self, event: Event) -> bool:
        """Apply one event: True when this call did, False when it had been applied before."""

    def lambda_handler(self, event: Any, context: object = None) -> dict[str, list[dict[str, str]]]:  # noqa: ARG002 -- Lambda passes it
        """Consume what a source delivered; the form Lambda calls.

        Messages of SQS, SNS, Kinesis, a DynamoDB stream, EventBridge or a pipe, told by what `event` looks like, and
        whatever they are wrapped in: docs/consumers.md has the table. Returns what failed in the form that mappings
        and pipes read, `{"batchItemFailures": [{"itemIdentifier": ...}]}`; the mapping must have
        `ReportBatchItemFailures`, else what failed counts as done. SNS and EventBridge have no such form: for them the
        error is raised, and they try again.

        One event's failure does not touch the others. But in a FIFO queue the rest of its group goes back with it, and
        in a stream everything after it. It is logged, without its content.

        Raises ConfigurationError for what is no known source's: an answer would read as "all done", and its events
        would be gone.
        """
        batch = recognise(event)
        progress = Progress(batch)
        traces: set[str] = set()
        for delivery in progress.untried():
            error = self._consume(delivery, batch.source, traces)
            if error is not None:
                progress.failed(delivery, error)
        if progress.error is not None:
            raise progress.error
        return progress.answer()

    def _consume(self, delivery: Delivery, source: Source, traces: set[str]) -> Exception | None:
        """Have the events of a delivery applied; return the error when it goes back."""
        event = None
        try:
            for event in self._reader.events(delivery, source):
                self._follow(event, delivery.origin)
        except Exception as error:  # noqa: BLE001 - the function's own errors: any class, and none may fail the others
            self._tell(delivery, error, traces)
            self._observe(Failed(delivery.where, error, event))
            return error
        return None

    def _follow(self, event: Event, origin: str) -> None:
        """Have an event settled, and followed where somebody does."""
        if self._follower is None:
            self._settle(event)
            return
        with self._follower.processing(self._name, event, origin) as work:
            work.outcome = self._settle(event)

    def _settle(self, event: Event) -> str:
        """Apply an event, or see to it that it is done in another way; return what came of it (`ports.Span.end`)."""
        try:
            return "applied" if self.apply(event) else "duplicate"
        except Skip as skip:
            reason = reason_of(skip)
            _log.info("%s: event %s is skipped: %s", self._name, event.id, reason or _NO_REASON)
            self._observe(Skipped(event, reason))
            return "skipped"
        except Reject as reject:
            if self._rejected is None:
                raise
            reason = reason_of(reject)
            sink = self._rejected
            publish_rejected(sink, event, self._name, reason)
            said = reason or _NO_REASON
            _log.error("%s: event %s was rejected, and is in %s: %s", self._name, event.id, sink.name, said)
            self._observe(Rejected(event, reason))
            return "rejected"

    def _tell(self, delivery: Delivery, error: Exception, traces: set[str]) -> None:
        """Log why a message goes back: a traceback once, though each message that met it is named."""
        told = "%s: message %s goes back"
        if isinstance(error, RetryLater):
            _log.info(f"{told}, to be tried later: %s", self._name, delivery.where, error)
            return
        if isinstance(error, OutboxError):
            said = error.reason if isinstance(error, InvalidMessage) else error  # which names the message itself
            _log.error(f"{told}: %s", self._name, delivery.where, said)
            return
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if trace in traces:
            _log.error(f"{told}, with the error above: %s", self._name, delivery.where, type(error).__name__)
        else:
            _log.error(told, self._name, delivery.where, exc_info=error)
        traces.add(trace)

    def _observe(self, fact: Fact) -> None:
        if self._observer is None:
            return
        try:
            self._observer.observe(fact)
        except Exception:  # noqa: BLE001 - whoever looks on must not change what becomes of an event
            _log.exception("%s: the observer raised, and was not told of %s", self._name, type(fact).__name__)

    def _with_data(self, event: Event) -> Event:
        """Return an event with its data, fetched and verified where it is kept elsewhere."""
        reference = event.dataref
        if reference is None or event.payload:
            return event
        if self._payloads is None:
            who = f"{type(self).__name__}(consumer={self._name!r})"
            raise PayloadUnavailable(reference.uri, f"give {who} a claim_check=ClaimCheck(bucket) that reads there.")
        return verified(event, reference, self._payloads.load(reference))


def _consumer_name(given: object, refuse: Refusal) -> str:
    """Return a consumer's name."""
    name = text(given, refuse)
    if "#" in name:
        raise refuse(f"is {name!r}; '#' separates the parts of an inbox record's key.")
    return name


T = TypeVar("T")


def _one_of(given: T | None, kind: type[T], refuse: Refusal) -> T | None:
    if given is not None and not isinstance(given, kind):
        raise refuse(f"is {shown(given)}; a {kind.__name__} is needed.")
    return given
