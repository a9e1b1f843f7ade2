"""The inbox: a consumer that applies each event once.

A bus delivers at least once, so a consumer sees duplicates: the relay published twice, the bus delivered twice, the
queue delivered twice, or the consumer itself died after its work and before it said so. Looking first whether an event
was seen, and working then, leaves a gap in which two copies pass. Here there is no gap: the effect and the record that
says "this consumer has applied this event" are ONE transaction, guarded by a condition on that record. However often
the function runs, one commit wins; every other one finds the record, and is a duplicate.

The inbox record is the guard of a command, as the writing side has it: the command is "apply event E for consumer C".
So a lost answer is resolved the same way, and a duplicate is a replayed receipt. It is one item,
`INBOX#<consumer>#<source>#<id>`; a duplicate is an event with the same source and id, as CloudEvents has it. (`#` and
`%` in a source are percent-encoded in that key.)

The data of a claim check is fetched and verified before the function runs; what cannot be fetched, or is not what was
stored, sends the message back to its queue.

An expired record that DynamoDB has not deleted yet still counts.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.s3 import ClaimCheck
from dynamodb_outbox.arguments import duration, shown, text
from dynamodb_outbox.consume.envelopes import event_of_sqs_record
from dynamodb_outbox.core.codec.claim import verified
from dynamodb_outbox.core.commit.writable import check_guardable
from dynamodb_outbox.core.record.place import inbox_partition
from dynamodb_outbox.errors import ConfigurationError, OutboxError, PayloadUnavailable, UnhandledEvent
from dynamodb_outbox.outbox import Outbox

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.keys import Keys
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.outbox import Transaction
    from dynamodb_outbox.ports import PayloadStore

__all__ = ["Inbox"]

Function = Callable[["Event", "Transaction"], object]
"""A consumer's function: it adds its effect to the transaction. What it returns is not looked at."""

_log = logging.getLogger(__name__)


class Inbox:
    """Applies each event once per `consumer`, for as long as the inbox keeps its records.

    table       where the effects are written unless an action names another table, and the inbox records, except with
                Layout(placement="table") and another `outbox_table`. With that placement and without it, `table` holds
                nothing but inbox records and records, and each action has to name its table
    consumer    the consumer's name, part of every inbox record: a new name applies everything anew, and two consumers
                of one table do not see each other's records. It never follows from a function's name, which may change
    source      CloudEvents source of the events that the functions emit themselves; the consumer's name unless given
    layout      the keys of the table that holds the inbox records, names of attributes and prefixes
    outbox_table, tables   as those of Outbox: another table for inbox records and the records of the functions' events,
                and the keys of tables that do not have the layout's
    client      a boto3 client of "dynamodb"; one is made on first use when none is given
    claim_check a ClaimCheck with the bucket and the prefix of the writers whose events it consumes: data that they keep
                in S3 is read from there, and from nowhere else. It is never deleted. Events that the functions emit
                themselves are not claimed
    remember    how long an applied event is remembered: at least the queue's retention, the dead-letter queue's, and
                the horizon of any replay, together

    Effects that do not go through the transaction given to the function are outside this promise.
    Raises ConfigurationError for a consumer that is empty or contains `#`, and for a layout whose partition keys are no
    text: an inbox record has to be one.
    """

    def __init__(
        self,
        table: str,
        *,
        consumer: str,
        source: str | None = None,
        layout: Layout | None = None,
        outbox_table: str | None = None,
        tables: Mapping[str, Keys] | None = None,
        client: Any = None,
        claim_check: ClaimCheck | None = None,
        remember: timedelta = timedelta(days=30),
    ) -> None:
        name = text(consumer, partial(_unfit, "consumer"))
        if "#" in name:
            raise _unfit("consumer", f"is {name!r}; '#' separates the parts of an inbox record's key.")
        self._name = name
        self._remember = duration(remember, partial(_unfit, "remember"), least=timedelta(minutes=1))
        self._outbox = Outbox(
            table,
            source=name if source is None else source,
            layout=layout,
            outbox_table=outbox_table,
            tables=tables,
            client=client,
        )
        check_guardable(self._outbox.layout, "Inbox")
        if claim_check is not None and not isinstance(claim_check, ClaimCheck):
            raise _unfit("claim_check", f"is {shown(claim_check)}; a ClaimCheck is needed.")
        self._payloads: PayloadStore | None = claim_check
        self._functions: dict[str, Function] = {}
        self._otherwise: Function | None = None

    def on(self, event_type: str) -> Callable[[Function], Function]:
        """Register the decorated function for events of one type: `@inbox.on("order.placed")`.

        The function is called with (event, tx). It may run more than once for one event, and so must have no effect
        but what it adds to `tx`; one of its runs is committed. Raises ConfigurationError when the type has a function,
        and for what is no plain function of two arguments: async functions and generators would never run.
        """
        if not isinstance(event_type, str) or not event_type:
            raise ConfigurationError(
                f"inbox.on({shown(event_type)}): name the event type, as in @inbox.on('order.placed')."
            )

        def register(function: Function) -> Function:
            if event_type in self._functions:
                raise ConfigurationError(f"inbox.on({event_type!r}): a function is registered for this type already.")
            self._functions[event_type] = _plain(function)
            return function

        return register

    def consumer(self, function: Function) -> Function:
        """Register the decorated function for events of every type that has none of its own: `@inbox.consumer`."""
        if self._otherwise is not None:
            raise ConfigurationError("inbox.consumer: a function for all types is registered already.")
        self._otherwise = _plain(function)
        return function

    def apply(self, event: Event) -> bool:
        """Apply one event: True when this call did, False when it had been applied before.

        Raises UnhandledEvent when no function takes its type, LimitExceeded when source and id together are too long
        for a key, PayloadMissing, PayloadAltered and PayloadUnavailable for data that is kept in S3 and cannot be had
        from there, what the function raises, and what a commit raises. In each of these cases nothing is written,
        except that CommitUnknown leaves it open, and applying again settles it.
        """
        function = self._functions.get(event.type, self._otherwise)
        if function is None:
            raise UnhandledEvent(event.type, self._name)
        guard = self._guard_key(event)
        event = self._with_data(event)
        with self._outbox._transaction_under(guard, fingerprint=event.id, keep=self._remember) as tx:  # noqa: SLF001 -- the inbox is that method's one reason
            _refuse_unrun(function(event, tx), event)
        return not tx.receipt.replayed

    def lambda_handler(self, event: Any, context: object = None) -> dict[str, list[dict[str, str]]]:  # noqa: ARG002 -- Lambda passes it
        """Consume a batch of SQS messages that an EventBridge rule delivered; the form Lambda calls.

        Returns the messages that failed, in SQS's own form: `{"batchItemFailures": [{"itemIdentifier": messageId}]}`.
        The event source mapping must have `ReportBatchItemFailures`, else the failed ones are deleted as done. One
        message's failure does not touch the others, except those after it in its group of a FIFO queue, which go back
        with it; it is logged, without its content, and SQS delivers it again.

        Raises ConfigurationError for what is not a batch of SQS messages: an answer would read as "all done" to
        another source, and its events would be gone.
        """
        records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(records, list) or not all(map(_is_sqs_message, records)):
            raise ConfigurationError(
                "the inbox was not given a batch of SQS messages. Send the events to an SQS queue with an EventBridge "
                "rule, and map the function to the queue."
            )
        failures: list[str] = []
        traces: set[str] = set()
        stopped: set[str] = set()  # groups of a FIFO queue in which a message failed: what follows it must wait
        for record in records:
            group = _fifo_group(record)
            if group in stopped or not self._consume(record, traces):
                failures.append(record["messageId"])
                if group is not None:
                    stopped.add(group)
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failures]}

    def _consume(self, record: Mapping[str, Any], traces: set[str]) -> bool:
        """Apply the event of a message, or log why not: a traceback once, though each message that met it is named."""
        try:
            received = event_of_sqs_record(record)
            self.apply(received)
        except OutboxError as error:
            _log.error("%s: message %s goes back to its queue: %s", self._name, record["messageId"], error)
            return False
        except Exception as error:  # noqa: BLE001 - the function's own errors: any class, and none may fail the others
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            told = "%s: message %s goes back to its queue"
            if trace in traces:
                _log.error(f"{told}, with the error above: %s", self._name, record["messageId"], type(error).__name__)
            else:
                _log.exception(told, self._name, record["messageId"])
            traces.add(trace)
            return False
        return True

    def _with_data(self, event: Event) -> Event:
        reference = event.dataref
        if reference is None or event.payload:
            return event
        if self._payloads is None:
            raise PayloadUnavailable(
                reference.uri, f"give Inbox(consumer={self._name!r}) a claim_check=ClaimCheck(bucket) that reads there."
            )
        return verified(event, reference, self._payloads.load(reference))

    def _guard_key(self, event: Event) -> str:
        return inbox_partition(self._outbox.layout, self._name, event.source, event.id)


def _unfit(argument: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"Inbox: {argument} {reason}")


def _plain(function: Function) -> Function:
    """Return a function that runs when it is called; refuse any other."""
    if not callable(function):
        raise ConfigurationError(f"inbox: {shown(function)} is no function.")
    for code in (function, type(function).__call__):
        if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
            raise ConfigurationError(
                f"inbox: {shown(function)} is async or a generator, and would not run when called."
            )
    _check_takes_two(function)
    return function


def _check_takes_two(function: Function) -> None:
    """Refuse a function that cannot be called with (event, tx): each of its messages would fail."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are written in C do not tell
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise ConfigurationError(
            f"inbox: {shown(function)} is called with two arguments, the event and the transaction, as in "
            f"'def invoice(event, tx):'. It takes {signature}: {error}."
        ) from None


def _refuse_unrun(result: object, event: Event) -> None:
    """Raise when what a function returned is work still to be done: committing would record an effect nobody made."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        raise ConfigurationError(
            f"the function for {event.type!r} events returned a {type(result).__name__}: its work was not done. Do the "
            "work in the function itself."
        )


def _is_sqs_message(record: object) -> bool:
    return (
        isinstance(record, Mapping)
        and record.get("eventSource") == "aws:sqs"
        and isinstance(record.get("messageId"), str)
    )


def _fifo_group(record: Mapping[str, Any]) -> str | None:
    if not str(record.get("eventSourceARN", "")).endswith(".fifo"):
        return None
    group: str | None = record.get("attributes", {}).get("MessageGroupId")
    return group
