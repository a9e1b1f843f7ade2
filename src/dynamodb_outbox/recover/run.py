"""One sweep: does what the machine says, one thing after the other, and hands back what came of it, until it is over.

Keys are read side by side, by the crew; everything else is done where the sweep was called. A sweep that is ended from
outside (a signal, an error that nobody foresaw) leaves its lease on its way out, if the table still answers.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.core.sweeping.commands import (
    Done,
    Failed,
    KeyFound,
    KeysFound,
    List,
    Publish,
    ReadKeys,
    ReadLease,
    Tick,
    WaitUntil,
    WriteLease,
)
from dynamodb_outbox.core.sweeping.leases import Now
from dynamodb_outbox.errors import TableUnavailable
from dynamodb_outbox.relay.margins import Deadlines
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.record.pending import Entry
    from dynamodb_outbox.core.sweeping.commands import Command, Fact, SweepReport
    from dynamodb_outbox.core.sweeping.machine import Sweep
    from dynamodb_outbox.ports import Clock, Crew, Entropy, Leases, PendingIndex, Results
    from dynamodb_outbox.recover.publishing import Publishing

__all__ = ["Means", "Run"]

_log = logging.getLogger("dynamodb_outbox.sweep")


@dataclass(frozen=True)
class Means:
    """What a sweep works with."""

    table: str
    index: PendingIndex
    leases: Leases
    publishing: Publishing
    crew: Crew
    clock: Clock
    entropy: Entropy


class Run:
    """Carries out the commands of `machine`.

    The last publish of a round may begin `publish_kept_ms` before the time that the machine says, the last call to the
    table `table_kept_ms` before.
    """

    def __init__(self, machine: Sweep, means: Means, publish_kept_ms: int, table_kept_ms: int) -> None:
        self._machine = machine
        self._means = means
        self._publish_kept_ms = publish_kept_ms
        self._table_kept_ms = table_kept_ms
        self._failures: Counter[str] = Counter()

    def to_the_end(self) -> SweepReport:
        """Return what the sweep came to. Raises TableUnavailable where it cannot be done as things are set up."""
        fact: Fact = Tick()
        try:
            while True:
                command = self._machine.step(fact, self._now(), self._means.entropy.unit())
                if isinstance(command, Done):
                    break
                fact = self._carried_out(command)
        except BaseException:
            self._leave()
            raise
        self._report(command.report)
        if command.fault is not None:
            raise TableUnavailable(self._means.table, command.fault, retryable=False)
        return command.report

    def _now(self) -> Now:
        return Now(self._means.clock.now_ms(), self._means.clock.monotonic_ms())

    def _carried_out(self, command: Command) -> Fact:
        """Do a command; return what came of it."""
        fact: Fact = Tick()
        means = self._means
        if isinstance(command, List):
            fact = means.index.list(means.table, command)
        elif isinstance(command, ReadLease):
            fact = means.leases.read(means.table, command.shard)
        elif isinstance(command, WriteLease):
            fact = means.leases.write(means.table, command)
        elif isinstance(command, ReadKeys):
            fact = self._read(command)
        elif isinstance(command, Publish):
            kept = Deadlines(command.until_ms - self._publish_kept_ms, command.until_ms - self._table_kept_ms)
            fact = means.publishing.publish(command.records, kept)
        elif isinstance(command, WaitUntil):
            means.clock.sleep_ms(command.at_ms - means.clock.monotonic_ms())
        if isinstance(fact, Failed):
            self._failures[fact.reason] += 1
        return fact

    def _read(self, command: ReadKeys) -> KeysFound:
        """Read keys side by side."""
        found: dict[int, KeyFound] = {}
        results: Results[tuple[int, KeyFound]] = self._means.crew.results()
        for place, entries in enumerate(command.keys):

            def read(place: int = place, entries: Sequence[Entry] = entries) -> None:
                results.put((place, self._key(entries)))

            try:
                self._means.crew.start(read)
            except RuntimeError:  # a crew without a thread
                read()
        while len(found) < len(command.keys):
            if (result := results.get(None)) is not None:
                found[result[0]] = result[1]
        self._failures.update(one.failure.reason for one in found.values() if one.failure is not None)
        return KeysFound(tuple(found[place] for place in range(len(command.keys))))

    def _key(self, entries: Sequence[Entry]) -> KeyFound:
        try:
            return self._means.index.read(self._means.table, entries)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the others wait for the answer
            _log.exception("a key could not be read")
            return KeyFound(
                failure=Failed(f"reading a key raised {type(error).__name__}; the log has it", passing=True)
            )

    def _leave(self) -> None:
        """Leave the lease that is held, as far as that can be done now."""
        command = self._machine.abandoned(self._now())
        if command is not None:
            with contextlib.suppress(Exception):  # the reason why the sweep ends is told, and the lease ends by itself
                self._means.leases.write(self._means.table, command)

    def _report(self, report: SweepReport) -> None:
        for reason, count in self._failures.items():
            _log.warning("a request to the table failed %s: %s", counted(count, "time"), reason)
        needs_a_look = report.left or report.unread or report.stopped
        _log.log(
            logging.WARNING if needs_a_look else logging.INFO if report.due else logging.DEBUG,
            "%s of the index swept (%d with nothing to do, %d another sweep's, %d unread): %s due, %d done, %d left, "
            "%d too young; %d accepted and %d parked%s",
            counted(report.partitions, "partition"),
            report.idle,
            report.taken,
            report.unread,
            counted(report.due, "record"),
            report.done,
            report.left,
            report.young,
            report.accepted,
            report.parked,
            f"; stopped: {report.stopped}" if report.stopped else "",
        )
