"""The relay as a Lambda function: stream records in, events to the sink, the first record that is not done out.

This is a shell over `core.relay`: it decodes, has a crew of threads do what the machine says, and hands back what came
of it, until the machine is done. It answers with the LOWEST sequence number that is neither accepted nor parked;
Lambda then delivers that record and all after it again. It raises only for what concerns the whole invocation (a wrong
view type, a wrong layout), never for a part of the batch, and it never answers while a request is under way. A
destination that cannot be used (no Region, no credentials, no permission, no such bus) is answered too, not raised:
what was done before it keeps its place in the stream, all the rest is held, and the log has the reason as an error.

Time. The function's own deadline comes from the context. A publish starts only while a whole request, and the settling
after it, still fit before that. At most half of the function's time is kept free for them, and of that at most half for
the table. Where the clients' time-outs are longer a warning is logged once: a request that hangs could then outlive the
function, which costs duplicates, no events.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.arguments import shown, text, whole
from dynamodb_outbox.core.codec.envelope import source_fault
from dynamodb_outbox.core.commit.targets import table_name
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record.decode import Record, decode, ordering_key
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.core.record.waiting import is_region
from dynamodb_outbox.core.relay.commands import (
    Done,
    Entry,
    Fact,
    Park,
    ParkDone,
    Publish,
    PublishDone,
    Settings,
    Settle,
    SettleDone,
    Tick,
    WaitUntil,
)
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Prepared, RequestFailed
from dynamodb_outbox.core.relay.select import Selection, select
from dynamodb_outbox.core.relay.states import State
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord
from dynamodb_outbox.invocation_log import InvocationLog
from dynamodb_outbox.invocation_log import log as _log
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.misfits import Held, judged
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.core.relay.commands import Command
    from dynamodb_outbox.core.relay.select import Selected
    from dynamodb_outbox.misfits import Judged
    from dynamodb_outbox.ports import Clock, Crew, Entropy, RecordStates, Results, Sink

__all__ = ["Relay"]

_SLACK_MS = 250
"""For what the time-outs do not cover: signing, parsing, the answer itself."""
_MOST_FUNCTION_S = 900  # Lambda's quota of a function's time-out
_UNLIMITED_MS = 60_000
"""The time an invocation without a context takes at most."""
_TABLE_CALLS = 2
_MOST_IN_FLIGHT = 1000  # each is a thread
_SHARE_OF_READING = 4
"""Of an invocation's time one in so many parts may go to asking the table about records of other layouts."""


class Relay:
    """Relays outbox records from a table's stream to `sink`.

    layout         the writer's Layout
    table          the table's name, or its ARN; taken from the stream's ARN when not given
    source         source of events whose record names none (hand-written ones), 1 to 256 characters that do not start
                   with "aws."; the table's name when not given
    client         a boto3 client of "dynamodb", for settling and parking; made on first use when none is given
    ordering       "key": of the events of one key the next is sent when the one before it was accepted; "none": all at
                   once, faster, in no order between records
    max_in_flight  publish requests at the same time

    `clock`, `entropy` and `crew` are ports (`dynamodb_outbox.ports`), for tests: the system's own when not given.

    An event that the sink can never accept is stored as parked, and its key goes on.

    One relay a table, or one of each layout where several share it. Published and parked are states of a record, not of
    a destination: of two relays on one stream the one would find a record published by the other, and take its own park
    of an event in it for done. Events that go to several places go to one bus, and from there by its rules.

    Its permissions: the sink's publish action; on the table PartiQLUpdate, PutItem, UpdateItem and GetItem; reading the
    stream. The event source mapping must have FunctionResponseTypes=["ReportBatchItemFailures"].

    Raises ConfigurationError for arguments that cannot work, such as a client of another service.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        layout: Layout | None = None,
        table: str | None = None,
        source: str | None = None,
        client: Any = None,
        ordering: Literal["key", "none"] = "key",
        max_in_flight: int = 8,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        crew: Crew | None = None,
    ) -> None:
        _check_parts(sink, layout)
        if ordering not in ("key", "none"):
            raise ConfigurationError(f"Relay(ordering={shown(ordering)}): 'key' or 'none'.")
        whole(max_in_flight, _refusal("max_in_flight"), least=1, most=_MOST_IN_FLIGHT)
        if table is not None:
            table = table_name(text(table, _refusal("table")))
        if source is not None and (fault := source_fault(text(source, _refusal("source")))) is not None:
            raise ConfigurationError(f"Relay(source={shown(source)}): {fault}")
        self.sink = sink
        self.layout = layout if layout is not None else Layout()
        self._table = table
        self._source = source
        self._states: RecordStates = DynamoRecordStates(self.layout, client=client)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._entropy: Entropy = entropy if entropy is not None else SystemEntropy()
        self._settings = Settings(
            sink.limits, ordered=ordering == "key", max_in_flight=max_in_flight, max_table_calls=_TABLE_CALLS
        )
        self._crew: Crew = crew if crew is not None else ThreadCrew(max_in_flight + _TABLE_CALLS, "outbox-relay")
        self._recent_parks: tuple[int, ...] = ()
        self._warned = False
        self._warned_of_strangers = False

    def lambda_handler(self, event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Relay one batch of stream records; the function to name in Lambda.

        `context` is Lambda's; without one an invocation takes a minute at most. Returns
        {"batchItemFailures": [{"itemIdentifier": <SequenceNumber>}]}, with an empty list when everything is done.

        Raises ImageMissing, ConfigurationError or InvalidRecord when the whole invocation is at fault: the set-up has
        to be changed, and the batch stays in the stream until then. A destination that cannot be used raises nothing:
        the records are answered as failed, stay in the stream as well, and the log has the reason.
        """
        started_ms = self._clock.monotonic_ms()
        remaining_ms = _remaining_ms(context)
        batch = self._batch_of(_records_of(event), started_ms + remaining_ms // _SHARE_OF_READING)
        if not batch.entries:
            return _answer(batch.held_at)
        machine = Machine(
            batch.entries,
            self._settings,
            publish_until_ms=started_ms + remaining_ms - self._margin(remaining_ms, for_publish=True),
            table_until_ms=started_ms + remaining_ms - self._margin(remaining_ms, for_publish=False),
            recent_parks=self._recent_parks,
        )
        run = _Run(machine, batch, _Tools(self.sink, self._states, self._crew, self._clock, self._entropy))
        lowest = run.to_the_end()
        self._recent_parks = machine.recent_parks
        run.report(lowest)
        return _answer(batch.held_at if lowest is None else batch.selected[lowest].sequence_number)

    def _batch_of(self, records: Sequence[Any], read_until_ms: int) -> _Batch:
        """Return what can be relayed of stream records, and report what cannot."""
        selection = select(records, self.layout)
        _report_elsewhere(selection)
        self._warn_of_strangers(selection)
        found = judged(selection, self._states, self._table, self._clock, read_until_ms)
        if found.passed:
            said = f"{counted(found.passed, 'record')} {'was' if found.passed == 1 else 'were'}"
            _log.info("%s of another layout, and published, parked or deleted since; passed over", said)
        if found.held is not None and not found.records and not found.passed:
            raise found.held.error
        table = self._table_of(found.records) if found.records else ""
        batch = _Batch(found, table, self.sink, self.layout, source=self._source or table)
        if batch.held is not None:
            _log.error("held at record %s: %s", batch.held.sequence_number, batch.held.error)
        return batch

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
                f"{counted(selection.strangers, 'item')} {'was' if selection.strangers == 1 else 'were'}",
            )

    def _margin(self, remaining_ms: int, *, for_publish: bool) -> int:
        """How long before the deadline the last publish, or the last table call, may start."""
        table_ms = self._states.request_ms + _SLACK_MS
        wanted_ms = table_ms + (self.sink.request_ms if for_publish else 0)
        allowed_ms = remaining_ms // (2 if for_publish else 4)
        if wanted_ms > allowed_ms and not self._warned:
            self._warned = True
            _warn_of_time_outs(self.sink, table_ms, remaining_ms)
        return min(wanted_ms, allowed_ms)


class _Batch:
    """The records of one invocation, decoded, and their events as entries of the machine and of the sink.

    It ends before the record at which the stream is `held`: one of another layout, or one that cannot be decoded here.
    """

    def __init__(self, found: Judged, table: str, sink: Sink, layout: Layout, *, source: str) -> None:
        self.selected = found.records
        self.held = found.held
        self.table = table
        self.entries: list[Entry] = []
        self.prepared: list[Prepared | None] = []
        self.first: list[int] = []  # record -> its first entry
        for number, one in enumerate(found.records):
            self.first.append(len(self.entries))
            try:
                record = decode(one.image, layout, source=source)
            except ConfigurationError as error:
                self.selected, self.held = found.records[:number], Held(one.sequence_number, error)
                break
            except InvalidRecord as error:
                fault = Fault(Kind.CONTENT, "InvalidRecord", error.reason)
                self._add(Entry(number, ordering_key(one.image, layout), 0, fault), None)
            else:
                self._prepare(number, record, sink)

    @property
    def held_at(self) -> str | None:
        """The sequence number at which the stream is held, if it is."""
        return None if self.held is None else self.held.sequence_number

    def _prepare(self, number: int, record: Record, sink: Sink) -> None:
        for event in record.events:
            prepared = sink.prepare(event)
            if isinstance(prepared, Fault):
                self._add(Entry(number, record.key, 0, prepared), None)
            else:
                self._add(Entry(number, record.key, prepared.size), prepared)

    def _add(self, entry: Entry, prepared: Prepared | None) -> None:
        self.entries.append(entry)
        self.prepared.append(prepared)

    def to_send(self, numbers: Sequence[int]) -> list[Any]:
        return [prepared.entry for number in numbers if (prepared := self.prepared[number]) is not None]

    def positions(self, command: Park) -> tuple[int, ...] | None:
        """Which events of the record are refused, None when all are."""
        first = self.first[command.record]
        following = command.record + 1
        end = self.first[following] if following < len(self.first) else len(self.entries)
        return None if len(command.refused) == end - first else tuple(number - first for number in command.refused)


@dataclass(frozen=True)
class _Tools:
    sink: Sink
    states: RecordStates
    crew: Crew
    clock: Clock
    entropy: Entropy


class _Run:
    """One invocation: carries out the machine's commands. Its facts come back through one queue."""

    def __init__(self, machine: Machine, batch: _Batch, tools: _Tools) -> None:
        self._machine = machine
        self._batch = batch
        self._sink = tools.sink
        self._states = tools.states
        self._crew = tools.crew
        self._clock = tools.clock
        self._entropy = tools.entropy
        self._log = InvocationLog()
        self._facts: Results[Fact] = tools.crew.results()
        self._under_way = 0

    def to_the_end(self) -> int | None:
        """Return the lowest record that is not done. Whatever happens, nothing is under way any more by then."""
        fact: Fact = Tick()
        try:
            while True:
                wake_ms: int | None = None
                for command in self._machine.step(fact, self._clock.monotonic_ms(), self._entropy.unit()):
                    if isinstance(command, Done):
                        return command.lowest
                    if isinstance(command, WaitUntil):
                        wake_ms = command.at_ms
                    else:
                        self._start(command)
                fact = self._next(wake_ms)
        finally:
            while self._under_way:
                self._next(None)

    def report(self, lowest: int | None) -> None:
        """Log what the invocation came to; a warning when records are left to be delivered again."""
        tally = self._machine.tally()
        level = logging.DEBUG if lowest is None else logging.WARNING
        _log.log(
            level,
            "%s of %s: %d accepted, %d parked%s",
            counted(sum(tally.values()), "event"),
            counted(len(self._batch.selected), "record"),
            tally[State.ACCEPTED],
            tally[State.PARKED],
            "" if lowest is None else f"; delivered again from {self._batch.selected[lowest].sequence_number} on",
        )
        if self._machine.unsettled:
            left = counted(self._machine.unsettled, "published record")
            _log.warning("%s could not be settled in time; left pending", left)
        for accepted in (False, True):
            self._log.faults(self._machine.faults(accepted=accepted), accepted=accepted)
        self._log.finish()

    def _next(self, wake_ms: int | None) -> Fact:
        fact = self._facts.get(None if wake_ms is None else wake_ms - self._clock.monotonic_ms())
        if fact is None:
            return Tick()
        self._under_way -= 1
        if isinstance(fact, PublishDone) and isinstance(fact.outcome, RequestFailed):
            self._log.request_failed(fact.outcome.fault)
        return fact

    def _start(self, command: Command) -> None:
        if isinstance(command, Publish):
            self._submit(self._publish, command, PublishDone(command.batch, _LOST))
        elif isinstance(command, Park):
            self._submit(self._park, command, ParkDone(command.entry, parked=False, lost=True))
        elif isinstance(command, Settle):
            self._submit(self._settle, command, SettleDone(command.records))

    def _submit(self, work: Callable[[Any], Fact], command: Command, otherwise: Fact) -> None:
        """Have the crew do `work`. It gives exactly one fact: `otherwise` when it raises, whatever it raises."""

        def carried_out() -> None:
            fact = otherwise
            try:
                fact = work(command)
            except Exception as error:  # noqa: BLE001 -- a sink is anybody's code; `otherwise` claims nothing
                self._log.raised(type(command).__name__, error)
            finally:
                self._facts.put(fact)

        self._under_way += 1
        try:
            self._crew.start(carried_out)
        except BaseException:
            self._under_way -= 1
            raise

    def _publish(self, command: Publish) -> Fact:
        outcome = self._sink.publish(self._batch.to_send(command.entries))
        if not isinstance(outcome, (Answered, RequestFailed)):
            raise TypeError(f"the sink returned {type(outcome).__name__}")
        return PublishDone(command.batch, outcome)

    def _park(self, command: Park) -> Fact:
        one = self._batch.selected[command.record]
        fault = command.fault
        parking = Parking(fault.code, fault.reason, self._clock.now_ms(), self._batch.positions(command))
        parked = self._states.park(self._batch.table, one.image, parking)
        if self._batch.entries[command.entry].fault is None:  # the bus's words, which may quote the event
            fault = replace(fault, reason="")
        if parked.failure is not None:
            _log.error("record %s could not be parked (%s) for: %s", one.sequence_number, parked.failure, fault)
        elif parked.new:
            _log.error("an event of record %s was parked: %s", one.sequence_number, fault)
        else:
            _log.info("record %s has been parked or settled before: %s", one.sequence_number, fault)
        return ParkDone(command.entry, parked=parked.failure is None, new=parked.new, lost=parked.lost)

    def _settle(self, command: Settle) -> Fact:
        images = [self._batch.selected[record].image for record in command.records]
        settled = self._states.settle(self._batch.table, images, self._clock.now_ms())
        self._log.not_settled(settled.failed)
        return SettleDone(command.records, tuple(command.records[position] for position in settled.again))


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


_LOST = RequestFailed(Fault(Kind.UNKNOWN, "PublishRaised", "the sink raised an error; the log has it"))


def _remaining_ms(context: Any) -> int:
    """Return what the context says is left; a context that says nothing of use counts as none."""
    ask = getattr(context, "get_remaining_time_in_millis", None)
    left = ask() if callable(ask) else None
    if isinstance(left, bool) or not isinstance(left, (int, float)) or not math.isfinite(left):
        return _UNLIMITED_MS
    return max(0, int(left))


def _report_elsewhere(selection: Selection) -> None:
    """Log the records left to another Region's relay. Where one of the two is no Region, nobody may relay them."""
    for (written_in, here), count in selection.elsewhere.items():
        known = is_region(written_in) and is_region(here)
        _log.log(
            logging.INFO if known else logging.WARNING,
            "%s written in Region %r and not relayed from this stream, whose Region is %r",
            f"{counted(count, 'record')} {'was' if count == 1 else 'were'}",
            written_in,
            here,
        )


def _warn_of_time_outs(sink: Sink, table_ms: int, remaining_ms: int) -> None:
    request_ms = sink.request_ms + table_ms
    seconds = max(2 * request_ms, 4 * table_ms) // 1000 + 1  # time-outs are whole seconds, and some time has passed
    give = f"the function a time-out of at least {seconds} s, or " if seconds <= _MOST_FUNCTION_S else ""
    _log.warning(
        "a request to %r and one to the table can take %d ms, the table's alone %d ms. The relay keeps half of a "
        "function's time for both and a quarter for the table's, which is too little of the %d ms here: a request that "
        "hangs could outlive the function. Give %sthe clients shorter time-outs (one attempt, as the relay retries)",
        sink,
        request_ms,
        table_ms,
        remaining_ms,
        give,
    )


def _check_parts(sink: Any, layout: Any) -> None:
    parts = (getattr(sink, name, None) for name in ("prepare", "publish"))
    if (
        isinstance(sink, type)
        or not all(map(callable, parts))
        or not isinstance(getattr(sink, "limits", None), SinkLimits)
    ):
        bus = repr(sink) if isinstance(sink, str) else "'orders'"
        raise ConfigurationError(
            f"Relay takes a sink, as in Relay(EventBridge({bus})), and was given {shown(sink)}. "
            "EventBridge is in dynamodb_outbox.sinks."
        )
    if layout is not None and not isinstance(layout, Layout):
        raise ConfigurationError(f"Relay(layout={shown(layout)}): a Layout is needed.")


def _refusal(what: str) -> Callable[[str], ConfigurationError]:
    return lambda reason: ConfigurationError(f"Relay: {what} {reason}")
