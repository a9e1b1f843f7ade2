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

When conditions fail, DynamoDB names the actions at fault by their index. The inbox record's is the last: where it is
there the event has been applied, whatever else failed beside it, for its own first effect may be in the way of a copy.
Where it is not, the failure is the function's own, and the event goes back. An `if_version=` that failed is neither:
the item was changed between the function's read and the commit, so the function is run again, a few times.

A function that raises may have met its own effect: "there is an invoice already" is what it has to say of a copy. So
the record is looked for then, too, before the event is taken for one that failed, was rejected or skipped. The same
goes for data, and for a function, that is gone by the time a copy comes.

The data of a claim check is fetched and verified before the function runs; what cannot be fetched, or is not what was
stored, sends the message back to its source.

An expired record that DynamoDB has not deleted yet still counts.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.adapters.positions import DynamoPositions
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.arguments import duration, flag, shown
from dynamodb_outbox.consume.consumer import Consumer
from dynamodb_outbox.core.commit.writable import check_guardable
from dynamodb_outbox.core.consuming.facts import Applied, Duplicate, Gap, Late, OrderUnknown
from dynamodb_outbox.core.consuming.order import Behind, Unwritten, has_order, leaves_gap
from dynamodb_outbox.core.record.place import inbox_partition
from dynamodb_outbox.core.timing import full_jitter_ms
from dynamodb_outbox.errors import ConditionFailed
from dynamodb_outbox.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dynamodb_outbox.adapters.s3 import ClaimCheck
    from dynamodb_outbox.core.commit.receipt import Receipt
    from dynamodb_outbox.core.consuming.facts import Fact
    from dynamodb_outbox.core.consuming.foreign import ForeignEvents
    from dynamodb_outbox.core.consuming.order import Position
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.keys import Keys
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Entropy, Observer, Positions, Sink, Tracing

__all__ = ["Inbox"]

_RUNS = 5
"""How often a function is run for one event at most, where others keep changing the items that it read."""
_FIRST_PAUSE_MS = 25
_LONGEST_PAUSE_MS = 400


class Inbox(Consumer):
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
    read_first  look for the inbox record before the function runs: known duplicates cost a read in place of a run of
                the function and a refused transaction, and every other event costs that read too. It decides nothing:
                copies that come at one moment both run, and one commit applies
    records     of a function on the stream of a table, or on Kinesis behind one: the Layout of that table's outbox
    foreign     how events of other makers are told apart; without it, they go back to their source
    rejected    a sink that takes the events which a function rejects (`errors.Reject`); without it, they go back
    observer    is told of what happens to each event (`ports.Observer`)
    order       "late": the observer is told of each event with a `sequence` that is applied after a later one of its
                subject (`Late`). "gaps": of numbers that are missing, too (`Gap`); for writers with
                Layout(dense_versions=True). It costs a write for each such event, and needs an observer
    tracing     follows each event that the handler is given, and the commits of events that functions emit
                (`ports.Tracing`), as `otel.OpenTelemetry` does
    clock, entropy   time and randomness; the operating system's unless given

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
        read_first: bool = False,
        records: Layout | None = None,
        foreign: ForeignEvents | None = None,
        rejected: Sink | None = None,
        observer: Observer[Fact] | None = None,
        order: Literal["late", "gaps"] | None = None,
        tracing: Tracing | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        super().__init__(
            consumer,
            functions=("def invoice(event, tx):", 2),
            records=records,
            foreign=foreign,
            claim_check=claim_check,
            observer=observer,
            rejected=rejected,
            tracing=tracing,
        )
        self._clock = SystemClock() if clock is None else clock
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._outbox = Outbox(
            table,
            source=self._name if source is None else source,
            layout=layout,
            outbox_table=outbox_table,
            tables=tables,
            client=client,
            tracing=tracing,
            clock=self._clock,
            entropy=self._entropy,
        )
        check_guardable(self._outbox.layout, "Inbox")
        self._remember = duration(remember, self._refusal("remember"), least=timedelta(minutes=1))
        self._read_first = flag(read_first, self._refusal("read_first"))
        if order not in (None, "late", "gaps"):
            raise self._refusal("order")(f"is {shown(order)}; 'late', 'gaps' or None is needed.")
        if order is not None and observer is None:
            raise self._refusal("order")(f"is {order!r}, and nobody is told: give the inbox an observer=.")
        self._gaps = order == "gaps"
        place = self._outbox.records_table, self._outbox.layout
        self._positions: Positions | None = None if order is None else DynamoPositions(*place, client)

    def apply(self, event: Event) -> bool:
        """Apply one event: True when this call did, False when it had been applied before.

        Raises UnhandledEvent when no function takes its type, LimitExceeded when source and id together are too long
        for a key, PayloadMissing, PayloadAltered and PayloadUnavailable for data that is kept in S3 and cannot be had
        from there, what the function raises (Skip, RetryLater and Reject too), and what a commit raises. In each of
        these cases nothing is written, except that CommitUnknown leaves it open, and applying again settles it. None of
        them is raised for an event that had been applied before, as far as that can be read.
        """
        guard = inbox_partition(self._outbox.layout, self._name, event.source, event.id)
        if self._read_first and self._outbox._is_guarded(guard):  # noqa: SLF001 -- the inbox is that method's one reason
            return self._done(event, applied=False)
        try:
            function = self._functions.of(event)
            receipt = self._committed(function, self._with_data(event), guard)
        except Exception:
            if self._outbox._is_guarded(guard):  # noqa: SLF001 -- as above
                return self._done(event, applied=False)
            raise
        return self._done(event, applied=not receipt.replayed)

    def _done(self, event: Event, *, applied: bool) -> bool:
        self._observe(Applied(event) if applied else Duplicate(event))
        if self._positions is not None and has_order(event):
            expires_s = (self._clock.now_ms() + self._remember // timedelta(milliseconds=1)) // 1000
            self._tell_order(event, self._positions.advance(self._name, event, expires_s), applied=applied)
        return applied

    def _tell_order(self, event: Event, position: Position, *, applied: bool) -> None:
        if isinstance(position, Unwritten):
            self._observe(OrderUnknown(event, position.reason))
        elif isinstance(position, Behind):
            if applied:
                self._observe(Late(event, position.highest))
        elif self._gaps and position.before is not None and leaves_gap(position.before, str(event.sequence)):
            self._observe(Gap(event, position.before))

    def _committed(self, function: Callable[..., object], event: Event, guard: str) -> Receipt:
        """Run the function and commit what it added, again where others changed what it had read."""
        for run in range(_RUNS - 1):
            try:
                return self._run_once(function, event, guard)
            except ConditionFailed as error:
                if not all(failure.stale for failure in error.failures):
                    raise
            self._clock.sleep_ms(full_jitter_ms(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, run, self._entropy.unit()))
        return self._run_once(function, event, guard)

    def _run_once(self, function: Callable[..., object], event: Event, guard: str) -> Receipt:
        with self._outbox._transaction_under(guard, fingerprint=event.id, keep=self._remember) as tx:  # noqa: SLF001 -- as above
            self._functions.run(function, event, tx)
        return tx.receipt
