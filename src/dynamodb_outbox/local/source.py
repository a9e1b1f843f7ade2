r"""The local event source: what Lambda does between a DynamoDB stream and a function, on this machine.

The decisions are those of `core.eventsource`; here are the effects, and their order: the checkpoint moves only after
the function answered. Dying between the two delivers records again, and never skips one. One invocation at a time,
shards in the order of their lineage. The list of shards is looked at again whenever one ended, often while the children
of one that ended are missing from it, or the parent of one that is new, and now and then in any case: shards appear
while others are being read. SIGTERM lets the invocation in progress end, keeps the checkpoint and leaves. An endpoint
that hangs delays that by 7 s at most: the clients wait 2 s for a connection and 5 s for an answer, and repeat nothing.
Lanes of a shard (`parallelization_factor`) take turns, one invocation at a time.

    python -m dynamodb_outbox.local.source --endpoint http://127.0.0.1:4566 --account 000000000000 --table shop \
        --handler shop_relay:handler --timeout-ms 15000 --checkpoint relay.json

The log (`--log`) has one JSON object a line, each with `event` and `at_ms`: started, invoking, answered, checkpoint,
discarded, expired, gap, replaced, unavailable, alive (every 10 s), stopped. Without a log, warnings on standard error
say what went wrong: why an invocation failed, each reason once.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox.adapters.streams import DynamoDbStream, Page, ShardReader, stream_arn
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.arguments import whole
from dynamodb_outbox.core.eventsource.answers import Outcome
from dynamodb_outbox.core.eventsource.commands import Checkpoint, Command, Discard, Invoke, WaitUntil
from dynamodb_outbox.core.eventsource.config import MappingConfig
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.core.eventsource.lineage import LateParents, StartingPosition, childless, from_latest, readable
from dynamodb_outbox.core.eventsource.machine import ShardMachine
from dynamodb_outbox.core.eventsource.records import stream_record
from dynamodb_outbox.errors import ConfigurationError, StreamMissing, StreamRefused, StreamUnavailable
from dynamodb_outbox.local.alone import alone_with
from dynamodb_outbox.local.checkpoint import CheckpointFile, Position
from dynamodb_outbox.local.client import local_client
from dynamodb_outbox.local.command_line import check_loads, common_arguments, function_process, run_until_stopped
from dynamodb_outbox.local.complaints import Complaints
from dynamodb_outbox.local.on_failure import FailureDirectory, mapped
from dynamodb_outbox.local.ttl import ExpiredItems, ttl_attribute
from dynamodb_outbox.process.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.eventsource.records import StreamRecord
    from dynamodb_outbox.local.function import Function
    from dynamodb_outbox.local.on_failure import OnFailure
    from dynamodb_outbox.ports import Clock, Entropy
    from dynamodb_outbox.process.stop import StopFlag

__all__ = ["PATIENCE", "EventSource", "main"]

_log = logging.getLogger(__name__)

DEFAULT_POLL_INTERVAL_MS = 100  # ours: Lambda polls 4 times a second [DDG], locally somebody is waiting
_LONGEST_POLL_INTERVAL_MS = 60_000  # far below the life of an iterator
_UNAVAILABLE_PAUSE_MS = 500
_ALIVE_EVERY_MS = 10_000
PATIENCE = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
"""One call, and how long: this tries again by itself, and is asked to stop in between."""

# Between two looks at the list of shards. DescribeStream may be called 10 times a second [BC], and a list has pages.
_LIST_AT_MOST_EVERY_MS = 100
_LIST_EVERY_MS_WHILE_MISSED = 500  # a shard is expected that is not there yet
_LIST_EVERY_MS = 5_000


@dataclass
class _Shard:
    """One shard that is being read."""

    shard_id: str
    reader: ShardReader
    machine: ShardMachine
    exhausted: bool = False  # no more records will come
    wake_at_ms: int | None = None


@dataclass
class EventSource:
    """Drives `function` from `stream`, as `config` says, until `stop` is set.

    `start` counts when there is no checkpoint yet: not even one of another stream, since a table that was made again is
    read from its beginning. `on_failure` keeps what is given up; `ttl` does what the engine leaves undone about it.

    `current_arn` asks for the ARN of the stream that the table has now; with it, a table that was made again while this
    runs is noticed, and said, and so is a stream that was switched off and on. It raises StreamMissing or StreamRefused
    when there is none, StreamUnavailable.

    `last_record_ms` is when a record was last seen (epoch milliseconds, None: never): a source that is alive and sees
    nothing, though records are written, is a source that has lost its place.
    """

    stream: DynamoDbStream
    function: Function
    checkpoint: CheckpointFile
    stop: StopFlag
    config: MappingConfig = field(default_factory=MappingConfig)
    start: StartingPosition = StartingPosition.TRIM_HORIZON
    on_failure: OnFailure | None = None
    ttl: ExpiredItems | None = None
    poll_interval_ms: int = DEFAULT_POLL_INTERVAL_MS
    current_arn: Callable[[], str] | None = None
    journal: Journal = field(default_factory=lambda: Journal(None))
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    last_record_ms: int | None = None
    _shards: dict[str, _Shard] = field(default_factory=dict)
    _outage: bool = False
    _trouble: StreamUnavailable | None = None
    _sign_ms: int = 0
    _listed_ms: int | None = None
    _list_every_ms: int = _LIST_EVERY_MS_WHILE_MISSED
    _complaints: Complaints = field(default_factory=Complaints)
    _instead: str = ""  # what the table has in place of this stream, as it was said last
    _late: LateParents = field(init=False)
    _lineage: dict[str, str | None] = field(default_factory=dict)  # of all shards that this run has seen

    def __post_init__(self) -> None:
        whole(self.poll_interval_ms, _refused_interval, least=1, most=_LONGEST_POLL_INTERVAL_MS)
        self._late = LateParents(self.checkpoint.known())

    def run(self) -> None:
        """Poll and invoke until stopped.

        A stream that cannot be reached is tried again for ever. Raises StreamMissing and StreamRefused, and what the
        function's `invoke` raises.
        """
        self._say("started", pid=os.getpid(), stream=self.stream.arn, checkpoint_discarded=self.checkpoint.discarded)
        while not self.stop.is_set():
            try:
                busy = self.step()
            except StreamUnavailable as error:
                self._unavailable(error)
                continue
            self._outage = False
            self._alive()
            if not busy:
                self.stop.wait(self._pause_ms() / 1000)
        self._say("stopped", last_record_ms=self.last_record_ms)

    def step(self) -> bool:
        """Look at every readable shard once; return whether there was anything to do.

        Raises StreamUnavailable when a shard could not be read: after the others were, and after what is in hand was
        tried.
        """
        self._trouble = None
        if self.ttl is not None:
            self._expire(self.ttl)
        if not self._shards:
            self._discover_when_due()
        busy = False
        for shard in list(self._shards.values()):
            if not self.stop.is_set():
                busy = self._visit(shard) or busy
        if not self.stop.is_set():
            # Last, so that shards that are open are read though the shards cannot be listed.
            self._discover_when_due()
        if self._trouble is not None:
            raise self._trouble
        return busy

    def _expire(self, ttl: ExpiredItems) -> None:
        began_ms = self.clock.monotonic_ms()
        if count := ttl.sweep(self.clock.now_ms(), began_ms):
            self._say("expired", items=count)
        ttl.rest(began_ms, self.clock.monotonic_ms())

    def _discover_when_due(self) -> None:
        if self._listed_ms is None or self.clock.monotonic_ms() - self._listed_ms >= self._list_every_ms:
            self._discover()

    def _discover(self) -> None:
        """Look at the list of shards, open those that can be read, and settle when to look again."""
        self._notice_another_stream()
        shards = self.stream.shards(lambda: self.clock.sleep_ms(_LIST_AT_MOST_EVERY_MS))
        listed = {shard.shard_id: shard.parent_id for shard in shards}
        if self.stream.disabled and not self._instead:
            self._has_instead("none (the stream is disabled)")
        if self.checkpoint.fresh and self.start is StartingPosition.LATEST:
            latest = from_latest(listed)
            self.checkpoint.begin(
                {shard_id: Position(finished=True) for shard_id in latest.passed_over}
                | {shard_id: Position(latest=True) for shard_id in latest.from_end}
            )
        elif self._listed_ms is None:
            self._report_lost_starts()
        for parent in self._late.look(listed, self.clock.monotonic_ms()):
            self._gap(parent, None)
        self._lineage |= listed
        under_way = self._shards.keys() | self._late.awaited
        for shard_id in readable(listed, self.checkpoint.finished(), under_way, self._lineage):
            if shard_id not in self._shards:
                self._shards[shard_id] = self._open(shard_id)
        for shard_id, lost in self.checkpoint.forget_all_but({*listed, *self._shards}).items():
            self._gap(shard_id, lost.after)
        missed = not self._shards or childless(listed, self.checkpoint.finished()) or self._late.awaited
        self._list_every_ms = _LIST_EVERY_MS_WHILE_MISSED if missed else _LIST_EVERY_MS
        self._listed_ms = self.clock.monotonic_ms()

    def _notice_another_stream(self) -> None:
        if self.current_arn is None or self._listed_ms is None:
            return
        try:
            there = self.current_arn()
        except (StreamMissing, StreamRefused) as error:
            there = f"none ({error})"
        if there != self.stream.arn:
            self._has_instead(there)

    def _has_instead(self, there: str) -> None:
        """Say, once, what the table has in place of this stream."""
        if there == self._instead:
            return
        self._instead = there
        _log.warning(
            "this reads the stream %s, which gets no more records, and what the table has now is: %s. Restart the "
            "source to read another stream, once this one is read: what is left in it is lost then",
            *(self.stream.arn, there),
        )
        self._say("replaced", stream=self.stream.arn, now=there)

    def _open(self, shard_id: str) -> _Shard:
        at = self.checkpoint.position(shard_id)
        reader = self.stream.open(shard_id, after=at.after, at=at.first, latest=at.latest)
        return _Shard(shard_id, reader, ShardMachine(self.config, checkpoint=at.after, tried=at.tried))

    def _report_lost_starts(self) -> None:
        """Say which shards an earlier run began at LATEST, and saw no record of: their ends are looked for anew."""
        for shard_id in self.checkpoint.unseen():
            self._gap(shard_id, None)

    def _visit(self, shard: _Shard) -> bool:
        now_ms = self.clock.now_ms()
        page = self._read(shard)
        if page.gap is not None:
            self._gap(shard.shard_id, page.gap.after)
        commands = shard.machine.read(self._taken(shard, page, now_ms), now_ms)
        if page.closed:
            shard.exhausted = True
            commands += shard.machine.close(now_ms)
        invoked = self._carry_out(shard, commands)
        if shard.exhausted and shard.machine.drained:
            self._finish(shard)
            return True
        return bool(page.records) or invoked

    def _read(self, shard: _Shard) -> Page:
        if shard.exhausted or not shard.machine.wants_records:
            return Page()
        try:
            return shard.reader.read()
        except StreamUnavailable as error:
            self._trouble = error
            return Page()

    def _taken(self, shard: _Shard, page: Page, now_ms: int) -> list[StreamRecord]:
        """Return the records of a page as the machine reads them."""
        records = [
            stream_record(body if self.ttl is None else self.ttl.mark(body, shard.shard_id)) for body in page.records
        ]
        if records:
            self.last_record_ms = now_ms
            if self.checkpoint.position(shard.shard_id).latest:
                # From here on there is a position, though nothing is done.
                self.checkpoint.keep(shard.shard_id, Position(first=records[0].sequence_number))
        return records

    def _carry_out(self, shard: _Shard, commands: Sequence[Command]) -> bool:
        """Do what the machine says, and what it says to the answers; return whether the function was invoked."""
        todo = list(commands)
        invoked = False
        shard.wake_at_ms = None
        while todo:
            command = todo.pop(0)
            if isinstance(command, Checkpoint):
                self._reached(shard, command)
            elif isinstance(command, Discard):
                self._discarded(shard, command)
            elif isinstance(command, WaitUntil):
                shard.wake_at_ms = command.at_ms
            elif not self.stop.is_set():
                invoked = True
                # What was given up, and how far it is, comes before the next invocation of another lane.
                todo = sorted(todo + self._invoke(shard, command), key=lambda one: isinstance(one, Invoke))
        return invoked

    def _reached(self, shard: _Shard, command: Checkpoint) -> None:
        self.checkpoint.keep(shard.shard_id, Position(command.sequence_number, tried=shard.machine.tried))
        if self.ttl is not None:
            self.ttl.forget(shard.shard_id, command.sequence_number, self.clock.now_ms())
        self._say("checkpoint", shard=shard.shard_id, sequence_number=command.sequence_number)

    def _invoke(self, shard: _Shard, command: Invoke) -> list[Command]:
        started_ms = self.clock.now_ms()
        batch = {
            "shard": shard.shard_id,
            "lane": command.lane,
            "attempt": command.attempt,
            "records": len(command.records),
            "start": command.records[0].sequence_number,
            "end": command.records[-1].sequence_number,
            "iterator_age_ms": max(0, started_ms - command.records[-1].arrived_ms),
        }
        self._say("invoking", **batch)
        answer = self.function.invoke({"Records": [record.body for record in command.records]})
        now_ms = self.clock.now_ms()
        commands = shard.machine.answered(answer, now_ms, self.entropy.unit(), command.lane)
        if not any(isinstance(one, Checkpoint) for one in commands):
            position = self.checkpoint.position(shard.shard_id)
            if position.tried != shard.machine.tried:
                self.checkpoint.keep(shard.shard_id, replace(position, tried=shard.machine.tried))
        verdict = shard.machine.last_verdict
        if verdict is not None:
            if verdict.outcome is Outcome.FAILED:
                self._complaints.failed(verdict.reason)
            elif verdict.outcome is Outcome.SUCCEEDED and verdict.reason:
                self._complaints.doubtful(verdict.reason)
            self._say(
                "answered", **batch, took_ms=now_ms - started_ms, outcome=verdict.outcome.value, reason=verdict.reason
            )
        return commands

    def _discarded(self, shard: _Shard, command: Discard) -> None:
        _log.warning(
            "shard %s: %d records from %s to %s discarded after %d invocations: %s",
            *(shard.shard_id, len(command.records), command.start, command.end),
            *(command.invocations, command.condition.value),
        )
        kept = None
        if self.on_failure is not None:
            kept = self.on_failure.keep(shard.shard_id, command, self.clock.now_ms(), self.entropy)
        self._say(
            "discarded",
            shard=shard.shard_id,
            condition=command.condition.value,
            start=command.start,
            end=command.end,
            records=len(command.records),
            invocations=command.invocations,
            kept=None if kept is None else str(kept),
        )

    def _finish(self, shard: _Shard) -> None:
        """Leave a shard that is done; its children are looked for at once."""
        self.checkpoint.keep(shard.shard_id, Position(shard.machine.checkpoint, finished=True))
        del self._shards[shard.shard_id]
        self._list_every_ms = _LIST_AT_MOST_EVERY_MS

    def _pause_ms(self) -> int:
        """Until the next poll, or the first point in time that a shard waits for."""
        now_ms = self.clock.now_ms()
        waits = [shard.wake_at_ms - now_ms for shard in self._shards.values() if shard.wake_at_ms is not None]
        return max(1, min([self.poll_interval_ms, *waits]))

    def _gap(self, shard_id: str, after: str | None) -> None:
        _log.warning("shard %s: records after %s may have been missed", shard_id, after or "LATEST, or the oldest,")
        self._say("gap", shard=shard_id, after=after)

    def _unavailable(self, error: StreamUnavailable) -> None:
        if not self._outage:
            _log.warning("%s; trying again until it can", error)
            self._say("unavailable", reason=error.reason)
        self._outage = True
        self.stop.wait(_UNAVAILABLE_PAUSE_MS / 1000)

    def _alive(self) -> None:
        """Leave a sign of life in the log now and then, with the time of the last record."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._sign_ms >= _ALIVE_EVERY_MS:
            self._sign_ms = now_ms
            self._say("alive", last_record_ms=self.last_record_ms)

    def _say(self, event: str, **facts: Any) -> None:
        self.journal.write(event=event, at_ms=self.clock.now_ms(), **facts)


def _refused_interval(said: str) -> ConfigurationError:
    return ConfigurationError(f"poll_interval_ms {said}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a program; return its exit status: 0 when it was asked to stop."""
    options = _parser().parse_args(argv)
    return run_until_stopped(options, lambda stop: _run(options, stop))


def _run(options: argparse.Namespace, stop: StopFlag) -> None:
    config = MappingConfig(
        batch_size=options.batch_size,
        batching_window_ms=options.batching_window_ms,
        filters=compile_filters(*options.filter),
        maximum_retry_attempts=options.maximum_retry_attempts,
        maximum_record_age_s=options.maximum_record_age_s,
        bisect_on_error=options.bisect,
        report_batch_item_failures=not options.ignore_batch_item_failures,
        parallelization_factor=options.parallelization_factor,
        retry_base_ms=options.retry_base_ms,
        retry_cap_ms=options.retry_cap_ms,
    )
    tables, streams = (
        local_client(service, options.endpoint, account=options.account, region=options.region, config=PATIENCE)
        for service in ("dynamodb", "dynamodbstreams")
    )
    arn = stream_arn(tables, options.table)
    print(f"reading {arn} until stopped; --log FILE tells what happens", file=sys.stderr)  # noqa: T201 -- a program's word
    with alone_with(options.checkpoint), function_process(options) as function, Journal(options.log) as journal:
        source = EventSource(
            stream=DynamoDbStream(streams, arn),
            function=function,
            checkpoint=CheckpointFile(options.checkpoint, arn),
            stop=stop,
            config=config,
            start=StartingPosition(options.starting_position),
            on_failure=_failure_directory(options, arn),
            ttl=_expired_items(options, tables, arn),
            poll_interval_ms=options.poll_interval_ms,
            current_arn=lambda: stream_arn(tables, options.table),
            journal=journal,
        )
        check_loads(function)
        source.run()


def _failure_directory(options: argparse.Namespace, arn: str) -> FailureDirectory | None:
    if options.on_failure is None:
        return None
    return FailureDirectory(
        options.on_failure, mapped(arn, options.function_name, account=options.account, region=options.region)
    )


def _expired_items(options: argparse.Namespace, tables: Any, arn: str) -> ExpiredItems | None:
    if options.ttl is None:
        return None
    attribute = options.ttl or ttl_attribute(tables, options.table)
    path = Path(os.path.realpath(options.checkpoint) + ".ttl")
    return ExpiredItems(tables, options.table, attribute, path, stream=arn)


def _parser() -> argparse.ArgumentParser:
    parser = common_arguments(
        "dynamodb_outbox.local.source", "Run a function on a table's DynamoDB stream, as Lambda does."
    )
    parser.add_argument("--table", required=True)
    parser.add_argument("--checkpoint", required=True, type=Path, metavar="FILE", help="how far it got")
    parser.add_argument(
        "--starting-position",
        choices=[position.value for position in StartingPosition],
        default=StartingPosition.TRIM_HORIZON.value,
        help="without a checkpoint: the oldest record, or what is written from now on, with a gap (%(default)s)",
    )
    parser.add_argument("--on-failure", type=Path, metavar="DIR", help="keep what is given up there, as S3 would")
    parser.add_argument(
        "--ttl",
        nargs="?",
        const="",
        metavar="ATTRIBUTE",
        help="delete expired items, as TTL would; without a name, by the table's own TTL attribute",
    )
    parser.add_argument("--filter", action="append", default=[], metavar="JSON", help="a filter pattern, repeatable")
    parser.add_argument("--bisect", action="store_true", help="split a batch that failed")
    parser.add_argument(
        "--ignore-batch-item-failures", action="store_true", help="as without ReportBatchItemFailures on the mapping"
    )
    defaults = MappingConfig()
    for name, default, meaning in (
        ("batch-size", defaults.batch_size, "records of one invocation"),
        ("batching-window-ms", defaults.batching_window_ms, "how long to gather a batch"),
        ("parallelization-factor", defaults.parallelization_factor, "lanes of a shard, which take turns"),
        ("maximum-retry-attempts", defaults.maximum_retry_attempts, "-1: for ever"),
        ("maximum-record-age-s", defaults.maximum_record_age_s, "-1: any age"),
        ("retry-base-ms", defaults.retry_base_ms, "pause after the first failure"),
        ("retry-cap-ms", defaults.retry_cap_ms, "the longest pause"),
        ("poll-interval-ms", DEFAULT_POLL_INTERVAL_MS, "when nothing is new"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{meaning} ({default})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
