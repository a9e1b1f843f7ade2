"""The relay as a Lambda function: stream records in, events to their sinks, the first record that is not done out.

This is a shell over `core.relay`: it selects, decodes (`delivery`), has a crew of threads do what the machine says
(`invocation`), and keeps what one invocation hands on to the next. It answers with the LOWEST sequence number that is
neither accepted nor parked; Lambda then delivers that record and all after it again. It raises only for what concerns
the whole invocation (a wrong view type, a wrong layout), never for a part of the batch, and it never answers while a
request is under way. A destination that cannot be used (no Region, no credentials, no permission, no such bus) is
answered too, not raised: what was done before it keeps its place in the stream, its events and their keys are held, and
the log has the reason as an error.

The function's own deadline comes from the context; `margins` says what is begun before it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.arguments import refusal, text, whole
from dynamodb_outbox.core.record.parked_keys import can_park_keys
from dynamodb_outbox.core.record.waiting import is_region
from dynamodb_outbox.core.relay.health import NOTHING
from dynamodb_outbox.core.relay.memory import Memory
from dynamodb_outbox.core.relay.select import Selection, select
from dynamodb_outbox.errors import ConfigurationError, KeyNotReleased, TableMismatch
from dynamodb_outbox.relay.delivery import Delivery
from dynamodb_outbox.relay.invocation import Invocation, Tools
from dynamodb_outbox.relay.log import log as _log
from dynamodb_outbox.relay.margins import Margins, least_timeout_s, remaining_ms
from dynamodb_outbox.relay.misfits import judged
from dynamodb_outbox.relay.setup import (
    TABLE_CALLS,
    layout_of,
    routes_of,
    settings_of,
    source_of,
    table_of,
)
from dynamodb_outbox.relay.watch import onlooker_of
from dynamodb_outbox.words import counted, were

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.choices import OnPoison, Ordering
    from dynamodb_outbox.core.relay.facts import Relayed
    from dynamodb_outbox.core.relay.select import Selected
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Crew, Entropy, Observer, ParkedKeys, RecordStates, Routes, Sink

__all__ = ["Relay"]

_UNLIMITED_MS = 60_000
"""The time an invocation without a context takes at most."""
_MOST_REMEMBERED = 10_000_000  # each is some 300 bytes
_SHARE_OF_READING = 4
"""Of an invocation's time one in so many parts may go to asking the table about records of other layouts."""


class Relay:
    """Relays outbox records from a table's stream to `sink`, or to the sinks of a `Router`.

    layout         the writer's Layout
    table          the table's name, or its ARN; taken from the stream's ARN when not given, refused where that names
                   another one
    source         source of events whose record names none (hand-written ones), 1 to 256 characters that do not start
                   with "aws."; the table's name when not given
    client         a boto3 client of "dynamodb", for settling and parking; made on first use when none is given
    ordering       "key": of the events of one key the next is sent when the one before it was accepted; "none": all at
                   once, faster, in no order between records
    on_poison      what becomes of an event that its sink can never accept. "park": it is stored as parked, and its key
                   goes on. "park_key": it is parked, and so is whatever follows of its key, in any invocation and
                   instance, until somebody lets the key go; needs ordering="key" and keys of type S. "block": it is
                   held, and its key with it, until the sink takes it or the stream forgets it
    max_in_flight  publish requests at the same time, of all sinks together
    rate_limit_per_instance    events a second that one instance of the function sends to each sink; None: no limit
    breaker_after  requests that fail as a whole, one after the other, after which a sink is left alone for a while (up
                   to a second, up to a minute when it goes on failing); None: never
    remember_accepted    events accepted by their sink that an instance remembers, so that a batch which is delivered
                   again does not publish them again; 0: none

    observer       is told what each invocation came to (`ports.Observer`, `core.relay.facts.Relayed`), as
                   `metrics.EmfMetrics` is

    `clock`, `entropy` and `crew` are ports (`dynamodb_outbox.ports`), for tests: the system's own when not given.

    A sink is asked whether its destination is there before anything is published to it, and each minute; publishing
    waits for the answer. One that is missing, or closed to the relay, holds its own events and their keys; the events
    of others go on.

    One relay a table, or one of each layout where several share it. Published and parked are states of a record, not of
    a destination: of two relays on one stream the one would find a record published by the other, and take its own park
    of an event in it for done. Events that go to several places go to one bus, and from there by its rules.

    Its permissions are listed in docs/infrastructure.md, by sink, settle and on_poison. The event source mapping must
    have FunctionResponseTypes=["ReportBatchItemFailures"].

    Raises ConfigurationError for arguments that cannot work, such as a client of another service.
    """

    def __init__(
        self,
        sink: Sink | Routes,
        *,
        layout: Layout | None = None,
        table: str | None = None,
        source: str | None = None,
        client: Any = None,
        ordering: Ordering = "key",
        on_poison: OnPoison = "park",
        max_in_flight: int = 8,
        rate_limit_per_instance: int | None = None,
        breaker_after: int | None = 5,
        remember_accepted: int = 10_000,
        observer: Observer[Relayed] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._routes = routes_of("Relay", sink)
        self.sink = sink
        self.layout = layout_of("Relay", layout)
        self._settings = settings_of(
            "Relay",
            self.layout,
            ordering=ordering,
            on_poison=on_poison,
            max_in_flight=max_in_flight,
            rate_limit_per_instance=rate_limit_per_instance,
            breaker_after=breaker_after,
        )
        whole(remember_accepted, refusal("Relay", "remember_accepted"), least=0, most=_MOST_REMEMBERED)
        self._table = None if table is None else table_of("Relay", table)
        self._source = None if source is None else source_of("Relay", source)
        self._states: RecordStates = DynamoRecordStates(self.layout, client=client)
        self._parked_keys: ParkedKeys = DynamoParkedKeys(
            self.layout, lambda marking: DynamoRecordStates(self.layout, client=marking), client=client
        )
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._entropy: Entropy = entropy if entropy is not None else SystemEntropy()
        self._crew: Crew = crew if crew is not None else ThreadCrew(max_in_flight + TABLE_CALLS, "outbox-relay")
        self._onlooker = onlooker_of("Relay", observer)
        self._memory = Memory(remember_accepted)
        self._carried = NOTHING
        self._unsure: dict[int, str] = {}
        self._margins = Margins(self._routes.sinks)
        self._warned_of_strangers = False

    def __repr__(self) -> str:
        table = "" if self._table is None else f"table={self._table!r}, "
        ordering, on_poison = "key" if self._settings.ordered else "none", self._settings.on_poison
        return f"Relay({self.sink!r}, {table}{ordering=}, {on_poison=})"

    @property
    def least_timeout_s(self) -> int:
        """The function's time-out, in seconds, below which a request that hangs could outlive the function."""
        return least_timeout_s(self._routes.sinks, self._table_request_ms)

    def lambda_handler(self, event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Relay one batch of stream records; the function to name in Lambda.

        `context` is Lambda's; without one an invocation takes a minute at most. Returns
        {"batchItemFailures": [{"itemIdentifier": <SequenceNumber>}]}, with an empty list when everything is done.

        Raises ImageMissing, TableMismatch, ConfigurationError or InvalidRecord when the whole invocation is at fault:
        the set-up has to be changed, and the batch stays in the stream until then. A destination that cannot be used
        raises nothing: the records are answered as failed, stay in the stream as well, and the log has the reason.
        """
        started_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        left_ms = remaining_ms(context, without=_UNLIMITED_MS)
        records = _records_of(event)
        deadlines = self._margins.deadlines(started_ms + left_ms, left_ms, self._table_request_ms)
        delivery = self._delivery_of(records, started_ms + left_ms // _SHARE_OF_READING, deadlines.publish_ms)
        if not delivery.entries:
            return _answer(delivery.held_at)
        sinks = self._routes.sinks
        tools = Tools(
            sinks,
            self._states,
            self._parked_keys,
            self._crew,
            self._clock,
            self._entropy,
            self._settings,
            self._onlooker,
        )
        invocation = Invocation(delivery, tools, deadlines, self._unsure, self._carried.at(started_ms, wall_ms))
        try:
            lowest = invocation.to_the_end()
        finally:
            self._carried = invocation.machine.carried
        first = None if lowest is None else delivery.selected[lowest].sequence_number
        invocation.report(None if first is None else f"delivered again from {first} on")
        return _answer(delivery.held_at if first is None else first)

    def release_key(self, key: str, *, table: str | None = None) -> bool:
        """Let an ordering key go on that on_poison="park_key" parked; return whether it was parked.

        From the next invocation on, in each instance, what follows of the key is published; what was parked of it stays
        parked. `table` is the name or ARN of the table, needed where the relay was given none. The permission is
        DeleteItem.

        Raises KeyNotReleased when DynamoDB did not do it, or gave no answer; ConfigurationError for a key or a table
        that is none, and for a layout in whose table no key can be parked.
        """
        key = text(key, lambda reason: ConfigurationError(f"Relay.release_key: key {reason}"))
        if table is None and self._table is None:
            raise ConfigurationError("Relay.release_key: which table? This relay was given none. Say table=...")
        if not can_park_keys(self.layout):
            raise ConfigurationError("Relay.release_key: by this relay's Layout there are no parked keys.")
        where = str(self._table) if table is None else table_of("Relay", table)
        released = self._parked_keys.release(where, key)
        if released.failure is not None:
            raise KeyNotReleased(key, where, released.failure, retryable=released.retryable)
        return released.was_parked

    def _delivery_of(self, records: Sequence[Any], read_until_ms: int, publish_until_ms: int) -> Delivery:
        """Return what can be relayed of stream records, and report what cannot.

        Of the time until the last publish one half goes to reading records, at most, and the other to sending them.
        """
        selection = select(records, self.layout)
        self._check_table(selection)
        _report_elsewhere(selection)
        self._warn_of_strangers(selection)
        found = judged(selection, self._states, self._table, self._clock, read_until_ms)
        if found.passed:
            said = were(found.passed, "record")
            _log.info("%s of another layout, and published, parked or deleted since; passed over", said)
        if found.held is not None and not found.records and not found.passed:
            raise found.held.error
        table = self._table_of(found.records) if found.records else ""
        now_ms = self._clock.monotonic_ms()
        until_ms = now_ms + (publish_until_ms - now_ms) // 2
        delivery = Delivery(
            found,
            table,
            self._routes,
            self.layout,
            source=self._source or table,
            memory=self._memory,
            in_time=lambda: self._clock.monotonic_ms() < until_ms,
        )
        if delivery.late is not None:
            _log.warning(
                "decoding %s of %d took %d ms, half of the time for publishing; delivered again from %s on. A function "
                "with more memory has more of a CPU; a smaller BatchSize would do as well",
                counted(len(delivery.selected), "record"),
                len(found.records),
                self._clock.monotonic_ms() - now_ms,
                delivery.late,
            )
        if delivery.held is not None:
            _log.error("held at record %s: %s", delivery.held.sequence_number, delivery.held.error)
        return delivery

    def _check_table(self, selection: Selection) -> None:
        """Refuse records of another table than was named: the relay would read, settle and park in the wrong one."""
        if self._table is None:
            return
        streamed = {one.table for one in selection.records} | {one.table for one in selection.misfits}
        others = sorted(table for table in streamed if table not in (None, self._table))
        if others:
            raise TableMismatch(self._table, others)

    def _table_of(self, selected: Sequence[Selected]) -> str:
        tables = {self._table} if self._table else {one.table for one in selected}
        table = tables.pop()
        if tables or not table:
            raise ConfigurationError("the records do not name one table (eventSourceARN). Give the relay table=...")
        return table

    def _warn_of_strangers(self, selection: Selection) -> None:
        if selection.strangers and not self._warned_of_strangers:
            self._warned_of_strangers = True
            _log.warning(
                "%s of this table, which by Layout(placement='table') holds records alone, told as no record and not "
                "published. Say how records are told by Layout(select=...): select={} is every item",
                were(selection.strangers, "item"),
            )

    @property
    def _table_request_ms(self) -> int:
        """The longest time that one request to the table may take."""
        parks_keys = self._settings.on_poison == "park_key"
        return max(self._states.request_ms, self._parked_keys.request_ms if parks_keys else 0)


def _records_of(event: Any) -> list[Any]:
    records = event.get("Records") if isinstance(event, dict) else None
    if not isinstance(records, list):
        source = event.get("source") if isinstance(event, dict) else None  # an event that a rule delivered has one
        came = f"comes from {source} and has" if source else "has"
        raise ConfigurationError(f"the event {came} no Records: map the function to a DynamoDB stream.")
    return records


def _answer(sequence_number: str | None) -> dict[str, list[dict[str, str]]]:
    """Return Lambda's answer: the stream goes on from that record, or after the whole batch."""
    return {"batchItemFailures": [] if sequence_number is None else [{"itemIdentifier": sequence_number}]}


def _report_elsewhere(selection: Selection) -> None:
    """Log the records left to another Region's relay. Where one of the two is no Region, nobody may relay them."""
    for (written_in, here), count in selection.elsewhere.items():
        known = is_region(written_in) and is_region(here)
        _log.log(
            logging.INFO if known else logging.WARNING,
            "%s written in Region %r and not relayed from this stream, whose Region is %r",
            were(count, "record"),
            written_in,
            here,
        )
