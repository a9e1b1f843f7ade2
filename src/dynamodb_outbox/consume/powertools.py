"""Effects outside of DynamoDB: the surface of an inbox over Lambda Powertools' Idempotency. Needs `[powertools]`.

A mail that is sent, or a call of somebody's API, cannot be in one transaction with an inbox record. What can be done is
to note that the work has begun, do it, and note that it is done. Whoever dies in between, or whose note is lost, does
it again: here "once" is "nearly always once", and the receiver's own idempotency key, for which an event's `id` will
do, is the rest. Effects in DynamoDB belong into `Inbox`, which has no such gap.

Powertools takes and keeps those notes. Set up by hand it has traps, and this is what is done about each of them:

- the key is the event's source and id, under the consumer's name: left alone it has the function's qualified name in
  it, so that moving the function would do everything anew;
- a key that is missing is an error: left alone it is a warning, and the function runs unguarded;
- an event with the id of another one and other content is an error (payload validation), not a duplicate. The same
  content may come in other spellings: Lambda reads EventBridge's numbers as floats, so that 1.10 becomes 1.1, and rows
  that are written by hand have spaces. So data is compared as JSON with the numbers that floats make of it;
- the context of each invocation is registered, so that a note of work that timed out is given up when its time is up:
  without it, it blocks the event until the note expires. Outside of Lambda that is after 15 minutes;
- notes are kept for 30 days and not for an hour, so that a redelivery by way of a dead-letter queue is still known;
- what a function returns is not stored;
- a persistence layer keeps the settings of whoever uses it first: one that somebody uses already is refused.
"""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.words import extra

try:
    from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig, idempotent_function
    from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
except ImportError as error:
    raise ImportError(f"dynamodb_outbox.consume.powertools needs the extra: {extra('powertools')}.") from error

from dynamodb_outbox.arguments import duration, shown
from dynamodb_outbox.consume.consumer import Consumer
from dynamodb_outbox.core.consuming.facts import Applied, Duplicate
from dynamodb_outbox.core.limits import FUNCTION_LONGEST_MS
from dynamodb_outbox.errors import RetryLater

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.adapters.s3 import ClaimCheck
    from dynamodb_outbox.core.consuming.facts import Fact
    from dynamodb_outbox.core.consuming.foreign import ForeignEvents
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Observer, Sink, Tracing

__all__ = ["PowertoolsInbox"]


class PowertoolsInbox(Consumer):
    """Runs a function for each event, and not again for its copies, as far as that can be had outside of DynamoDB.

    Used like an `Inbox`, with functions of one argument: `@inbox.on("order.placed")` above `def mail(event):`.

    store       a persistence layer of Powertools that nobody else uses, such as DynamoDBPersistenceLayer(table)
    consumer    the consumer's name, part of every note: a new name does everything anew
    remember    how long an event is remembered: queue, dead-letter queue and replay together
    claim_check, records, foreign, rejected, observer, tracing   as those of Inbox

    A copy that comes while another one is being worked on goes back to its source, as by RetryLater.
    Raises ConfigurationError for arguments that cannot work.
    """

    def __init__(
        self,
        store: Any,
        *,
        consumer: str,
        remember: timedelta = timedelta(days=30),
        claim_check: ClaimCheck | None = None,
        records: Layout | None = None,
        foreign: ForeignEvents | None = None,
        rejected: Sink | None = None,
        observer: Observer[Fact] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(
            consumer,
            functions=("def mail(event):", 1),
            records=records,
            foreign=foreign,
            claim_check=claim_check,
            observer=observer,
            rejected=rejected,
            tracing=tracing,
        )
        if not isinstance(store, BasePersistenceLayer):
            raise self._refusal("store")(f"is {shown(store)}; a persistence layer of Powertools is needed.")
        if store.configured:
            raise self._refusal("store")(
                "is in use already, and keeps the settings of its first user. Give it one of its own."
            )
        keep = duration(remember, self._refusal("remember"), least=timedelta(minutes=1))
        self._config = _config(int(keep.total_seconds()))
        self._config.register_lambda_context(_OutsideOfLambda())
        store.configure(self._config, key_prefix=self._name)
        self._once = idempotent_function(
            _work, data_keyword_argument="told", persistence_store=store, config=self._config, key_prefix=self._name
        )

    def lambda_handler(self, event: Any, context: object = None) -> dict[str, list[dict[str, str]]]:
        """Consume what a source delivered, as `Inbox.lambda_handler` does; its context bounds the notes of the work."""
        if callable(getattr(context, "get_remaining_time_in_millis", None)):
            self._config.register_lambda_context(context)
        try:
            return super().lambda_handler(event, context)
        finally:
            self._config.register_lambda_context(_OutsideOfLambda())

    def apply(self, event: Event) -> bool:
        """Run the function for one event: True when this call did, False when it had been done before.

        Raises UnhandledEvent when no function takes its type, RetryLater when a copy of it is being worked on, what
        fetching its data and the function raise, and Powertools' own errors: IdempotencyValidationError for the id of
        another event, IdempotencyPersistenceLayerError for a store that fails. Of the latter it is not known whether
        the work was done.
        """
        function = self._functions.of(event)
        ran: list[bool] = []

        def work() -> None:
            ran.append(True)
            self._functions.run(function, self._with_data(event))

        try:
            self._once(told=_told(event), work=work)
        except IdempotencyAlreadyInProgressError as error:
            raise RetryLater("a copy of the event is being worked on") from error
        self._observe(Applied(event) if ran else Duplicate(event))
        return bool(ran)


def _config(keep_s: int) -> Any:
    return IdempotencyConfig(
        event_key_jmespath="key",
        payload_validation_jmespath="content",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=keep_s,
        hash_function="sha256",
    )


class _OutsideOfLambda:
    """The context where there is none: work takes no longer than a Lambda's may."""

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the work may take, in milliseconds."""
        return FUNCTION_LONGEST_MS


def _work(*, told: dict[str, Any], work: Callable[[], None]) -> None:
    del told  # what Powertools goes by
    work()


def _told(event: Event) -> dict[str, Any]:
    """Return what is hashed: the key, and what an event with that key must always say."""
    data = _canonical(event.payload) if event.dataref is None else event.dataref.sha256
    content = hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()
    return {"key": {"source": event.source, "id": event.id}, "content": {"type": event.type, "data": content}}


def _canonical(payload: str) -> str:
    """Return data in one spelling: what is compact and has no fractions, as nearly all is, in its own."""
    return json.dumps(json.loads(payload), ensure_ascii=False, separators=(",", ":"))
