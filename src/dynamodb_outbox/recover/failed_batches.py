"""Batches that an event source mapping has given up, published after all: from a queue, or from a bucket.

Where a mapping's retries or the age of its records are bounded, it hands what it gives up to an on-failure destination
and goes on behind it. So what is published here comes after what followed in the stream: P4 does not cover it.

A document is done when all of its records are accounted for: accepted, parked, published or decided about since. A
message is deleted when it is done, and not before; objects are left as they are. So whatever dies, or is run twice,
publishes twice at worst.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.failure_objects import FailureObjects
from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.parked_records import DynamoParkedRecords
from dynamodb_outbox.adapters.pending_index import DynamoPendingIndex
from dynamodb_outbox.adapters.queues import SqsMessages
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.arguments import flag, refusal, text
from dynamodb_outbox.core.eventsource.failures import failed_batch
from dynamodb_outbox.errors import BucketUnavailable, InvalidMessage, TableUnavailable
from dynamodb_outbox.recover.failed_reading import Fetching
from dynamodb_outbox.recover.failed_work import Home, Work
from dynamodb_outbox.recover.parked_reading import Reading
from dynamodb_outbox.recover.publishing import Publishing, Ways
from dynamodb_outbox.recover.reports import Kept
from dynamodb_outbox.recover.sweeper import Sweeper
from dynamodb_outbox.relay.invocation import Tools
from dynamodb_outbox.relay.setup import TABLE_CALLS, layout_of, routes_of, settings_of, source_of, table_of
from dynamodb_outbox.sdk.clients import OwnClient, TableClient, table_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.choices import OnPoison
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Crew, Entropy, MessageQueue, Routes, Sink
    from dynamodb_outbox.recover.reports import FailureReport

__all__ = ["FailedBatches"]

_TIMEOUT_S = 5.0
"""Of one attempt of our own client, of two."""
_RECEIVED = 10
_LOAD = 1_000
"""Messages that are taken from a queue before the first one is worked on: they come in any order."""
_WAIT_S = 1
_HOLD_S = 900


class FailedBatches:
    """Publishes to the relay's `sink` what its event source mapping has given up of the stream of `table`.

    table      its name, or its ARN: by that, batches of a table of this name in another account are told and left,
               as those of other Regions always are
    layout, source, client, on_poison, max_in_flight, rate_limit_per_instance, breaker_after    as for `Sweeper`
    streams_client, sqs_client, s3_client    boto3 clients of "dynamodbstreams", "sqs" and "s3"; made on first use when
                                             none are given

    `clock`, `entropy` and `crew` are ports (`dynamodb_outbox.ports`), for tests: the system's own when not given.

    Permissions: those of a sweeper, GetItem and PutItem among them; of the stream GetShardIterator and GetRecords; of
    the queue ReceiveMessage, DeleteMessage, ChangeMessageVisibility and GetQueueAttributes; of the bucket ListBucket
    and GetObject.

    Raises ConfigurationError for arguments that cannot work; its methods besides, TableUnavailable when the table
    cannot be read.
    """

    def __init__(
        self,
        sink: Sink | Routes,
        *,
        table: str,
        layout: Layout | None = None,
        source: str | None = None,
        client: Any = None,
        streams_client: Any = None,
        sqs_client: Any = None,
        s3_client: Any = None,
        on_poison: OnPoison = "park",
        max_in_flight: int = 8,
        rate_limit_per_instance: int | None = None,
        breaker_after: int | None = 5,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._ways = Ways(routes_of("FailedBatches", sink))
        self.sink = sink
        self.table = table_of("FailedBatches", table)
        self._given = str(table)
        self.layout = layout_of("FailedBatches", layout)
        self._settings = settings_of(
            "FailedBatches",
            self.layout,
            on_poison=on_poison,
            max_in_flight=max_in_flight,
            rate_limit_per_instance=rate_limit_per_instance,
            breaker_after=breaker_after,
        )
        self._source = self.table if source is None else source_of("FailedBatches", source)
        self._client = TableClient(table_config(_TIMEOUT_S), client)
        self._streams = OwnClient("dynamodbstreams", table_config(_TIMEOUT_S), streams_client)
        self._sqs_client = sqs_client
        self._s3_client = s3_client
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._entropy: Entropy = entropy if entropy is not None else SystemEntropy()
        self._crew: Crew = crew if crew is not None else ThreadCrew(max_in_flight + TABLE_CALLS, "outbox-redrive")
        self._sweeper = partial(
            Sweeper,
            sink,
            table=table,
            layout=layout,
            source=source,
            client=client,
            on_poison=on_poison,
            max_in_flight=max_in_flight,
            rate_limit_per_instance=rate_limit_per_instance,
            breaker_after=breaker_after,
            clock=clock,
            entropy=entropy,
            crew=crew,
        )

    def from_queue(
        self,
        url: str,
        *,
        publish_gone: bool = False,
        forget_gone: bool = False,
        forget_lost: bool = False,
        dry_run: bool = False,
    ) -> FailureReport:
        """Redrive what a queue has, until it gives no more; what is done is deleted, the rest is there again then.

        A message stays while it tells of records that are gone (`FailureReport.gone`), until `publish_gone` publishes
        them, or `forget_gone` takes them for published; and while it tells of records that are lost, until
        `forget_lost`. A `dry_run` receives messages, too, which counts against the queue's maxReceiveCount.

        Raises QueueRefused, QueueUnavailable, TableUnavailable: messages come again when they are held no longer.
        """
        flags = {"publish_gone": publish_gone, "forget_gone": forget_gone, "forget_lost": forget_lost}
        _check("from_queue", **flags, dry_run=dry_run)
        text(url, refusal("FailedBatches.from_queue", "url"))
        queue = SqsMessages(url, self._sqs_client)
        work = self._work(publish_gone=publish_gone, keeps_gone=not forget_gone, dry_run=dry_run)
        held: list[Mapping[str, Any]] = []
        try:
            while work.report.stopped is None and (load := _load(queue)):
                held += load
                self._work_on(load, queue, work, held, forget_lost=forget_lost)
        finally:
            for begin in range(0, len(held), _RECEIVED):
                queue.hold(held[begin : begin + _RECEIVED], 0)
        return self._ended(work)

    def from_s3(self, uri: str, *, publish_gone: bool = False, dry_run: bool = False) -> FailureReport:
        """Redrive what the objects say whose URI begins with `uri`, as s3://bucket/aws/lambda/<mapping>/ does.

        Raises BucketUnavailable, TableUnavailable.
        """
        _check("from_s3", publish_gone=publish_gone, dry_run=dry_run)
        objects = FailureObjects(text(uri, refusal("FailedBatches.from_s3", "uri")), self._s3_client)
        work = self._work(publish_gone=publish_gone, keeps_gone=False, dry_run=dry_run)
        names = (name for name in objects.names() if not name.endswith("/"))  # what consoles make for a folder
        starts = [(start, name) for name in names if (start := _start(objects, name, work)) is not None]
        for _, name in sorted(starts):
            _redrive(objects, name, work)
        return self._ended(work)

    def _work_on(
        self,
        load: Sequence[Mapping[str, Any]],
        queue: MessageQueue,
        work: Work,
        held: list[Mapping[str, Any]],
        *,
        forget_lost: bool,
    ) -> None:
        """Redrive messages in the order of the stream; delete each that is done."""
        batches = [(message, work.read(message["body"], f"message {message['messageId']}")) for message in load]
        known = [(message, batch) for message, batch in batches if batch is not None]
        held_ms = self._clock.monotonic_ms()
        for message, batch in sorted(known, key=lambda each: int(each[1].start)):
            if self._clock.monotonic_ms() - held_ms > 1000 * _HOLD_S // 3:
                held_ms = self._clock.monotonic_ms()
                for begin in range(0, len(held), _RECEIVED):
                    queue.hold(held[begin : begin + _RECEIVED], _HOLD_S)
            kept = work.redrive(batch)
            is_forgotten = kept is not None and kept.lost and forget_lost and not kept.gone
            if work.report.dry_run or (kept is not None and not is_forgotten):
                continue
            if queue.delete([message]):
                work.count(undeleted=1)
            else:
                held.remove(message)

    def _work(self, *, publish_gone: bool, keeps_gone: bool, dry_run: bool) -> Work:
        client = self._client.get()
        states = DynamoRecordStates(self.layout, client=client)
        keys = DynamoParkedKeys(
            self.layout, lambda marking: DynamoRecordStates(self.layout, client=marking), client=client
        )
        tools = Tools(self._ways.sinks, states, keys, self._crew, self._clock, self._entropy, self._settings)
        self._ways.release()
        return Work(
            Home.of(self._given, self.table, client.meta.region_name),
            self._reading,
            Fetching(self._reading, self._streams.get, self._clock),
            Publishing(self._ways, tools, self.table, self.layout, self._source),
            tools,
            publish_gone=publish_gone,
            keeps_gone=keeps_gone,
            dry_run=dry_run,
        )

    def _ended(self, work: Work) -> FailureReport:
        """Return the report; where records are lost, first publish what the index of pending records has of them."""
        report = work.report
        if not work.has_lost or report.dry_run or report.stopped is not None:
            return report
        try:
            return replace(report, swept=self._sweeper().sweep())
        except TableUnavailable as error:  # the report is all that there is of what is lost
            return replace(report, stopped=f"what the index has of lost records was not published: {error}")

    @cached_property
    def _reading(self) -> Reading:
        client = self._client.get()
        return Reading(
            self.table,
            self.layout,
            source=self._source,
            index=DynamoPendingIndex(self.layout, client=client),
            parked=DynamoParkedRecords(self.layout, client=client),
            clock=self._clock,
            entropy=self._entropy,
        )


def _start(objects: FailureObjects, name: str, work: Work) -> int | None:
    """Return the first sequence number of the batch that an object tells of; None where it tells of none."""
    try:
        batch = work.read(objects.text(name), objects.uri_of(name))
    except (BucketUnavailable, InvalidMessage) as error:
        work.keep(Kept(objects.uri_of(name), error.reason))
        return None
    return None if batch is None else int(batch.start)


def _redrive(objects: FailureObjects, name: str, work: Work) -> None:
    """Redrive what an object tells of; it is read again, as of thousands each may have 6 MB."""
    try:
        batch = failed_batch(objects.text(name), objects.uri_of(name))
    except (BucketUnavailable, InvalidMessage) as error:
        work.keep(Kept(objects.uri_of(name), error.reason))
    else:
        work.redrive(batch)


def _load(queue: MessageQueue) -> list[Mapping[str, Any]]:
    """Receive messages until the queue gives none, or many are there."""
    load: list[Mapping[str, Any]] = []
    while len(load) < _LOAD and (received := queue.receive(_RECEIVED, _WAIT_S, _HOLD_S)):
        load += received
    return load


def _check(method: str, **flags: bool) -> None:
    for name, given in flags.items():
        flag(given, refusal(f"FailedBatches.{method}", name))
