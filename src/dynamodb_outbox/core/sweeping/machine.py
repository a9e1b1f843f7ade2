"""A sweep's decisions: facts and times go in, one command at a time comes out.

The shell reads and writes, and publishes by the relay's own machine. This one owns what is looked at, in which order,
and when it ends; it has no clock, does no input or output, and draws no random number (`u`, from 0 to 1, comes with
each fact). `phases` has its way as a table, `ages`, `choice` and `leases` the rules it goes by.

What always holds, whatever the facts:

1. Of a partition of which the index names nothing that is due, nothing but the index is read, and nothing is written.
2. Nothing is published that was not read from the table, consistently, since the lease was last written; and where
   there are leases, nothing without one, or beyond its end.
3. Of a key nothing is published before what is older of it, or behind what is too young (`choice`).
4. After a fault that concerns all destinations, or the set-up, nothing is published any more.
5. A lease that is held is left, unless another sweep has it by then, or the process ends.
6. No record is published twice in a sweep, and a key that is stuck keeps no other waiting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dynamodb_outbox.core.sweeping.ages import AHEAD_MS, NO_LAG, Ages, Lag
from dynamodb_outbox.core.sweeping.commands import (
    Command,
    Done,
    Fact,
    Failed,
    KeysFound,
    LeaseFound,
    LeaseWritten,
    List,
    Listed,
    Publish,
    Published,
    ReadKeys,
    ReadLease,
    Settings,
    SweepReport,
    Tick,
    WaitUntil,
    WriteLease,
)
from dynamodb_outbox.core.sweeping.keys import Keys
from dynamodb_outbox.core.sweeping.phases import TRANSITIONS, Cause, Phase
from dynamodb_outbox.core.sweeping.rounds import Round
from dynamodb_outbox.core.sweeping.tenure import Tenure
from dynamodb_outbox.core.timing import full_jitter_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox.core.sweeping.leases import Now
    from dynamodb_outbox.layout import Layout

__all__ = ["NO_TIME", "Sweep"]

NO_TIME = "there was no time left"

_RECENT_MS = 10_000
"""What another sweep settled so shortly before is no sign of the relay: the index may still name it."""


class Sweep:
    """One sweep of the partitions `shards`, in that order, until `until_ms` at the latest (the clock that is steady).

    `here` is the AWS Region of the table, `owner` a text that no other sweep has, `lag` what the sweep before knew.
    `lag` and `report` are what is known by now.
    """

    def __init__(
        self,
        shards: Sequence[str],
        layout: Layout,
        here: str | None,
        settings: Settings,
        *,
        owner: str,
        until_ms: int,
        lag: Lag = NO_LAG,
    ) -> None:
        self.phase = Phase.BETWEEN
        self.report = SweepReport(dry_run=settings.dry_run)
        self.lag = lag
        self._shards = list(reversed(shards))
        self._layout = layout
        self._here = here
        self._settings = settings
        self._owner = owner
        self._until_ms = until_ms
        self._stopped: str | None = None
        self._fault: str | None = None
        self._command: Command = WaitUntil(0)  # the last one, to be made again where that may help
        self._attempts = 0  # at that one
        self._enter("")

    def _enter(self, shard: str) -> None:
        """Begin with a partition of the index."""
        self._shard = shard
        self._tenure = Tenure(self._owner, None if self._settings.dry_run else self._settings.lease_ms)
        self._meets_relay = True
        self._untold = 0
        self._was_due = False
        self._keys = Keys(self._layout)
        self._round = Round((), self._layout)
        self._page: List | None = List(shard, self._settings.page)

    def step(self, fact: Fact, now: Now, u: float) -> Command:
        """Take in what came of the last command, and return the next one; `Done` is the last."""
        if isinstance(fact, Failed):
            return self._failed(fact, now, u)
        if isinstance(fact, Tick) and self.phase is not Phase.BETWEEN:
            return self._command  # the pause before it is over
        self._command = self._next(fact, now)
        failures = max((key.failures for key in self._round.keys), default=0)
        if failures and isinstance(self._command, ReadKeys):
            return WaitUntil(now.steady_ms + self._pause_ms(failures, u))
        self._attempts = 0
        return self._command

    def _next(self, fact: Fact, now: Now) -> Command:
        if isinstance(fact, Listed):
            return self._listed(fact, now)
        if isinstance(fact, LeaseFound):
            return self._asked(fact, now)
        if isinstance(fact, LeaseWritten):
            return self._written(fact, now)
        if isinstance(fact, KeysFound):
            return self._read(fact, now)
        if isinstance(fact, Published):
            return self._published(fact, now)
        return self._between(now)

    def _on(self, cause: Cause, command: Command) -> Command:
        """Enter the next phase with a command. Raises KeyError for a move that the table does not have."""
        self.phase = TRANSITIONS[self.phase, cause]
        return command

    def _count(self, **more: int) -> None:
        self.report = replace(self.report, **{name: getattr(self.report, name) + more[name] for name in more})

    def _ages(self, now: Now) -> Ages:
        return Ages.of(now.wall_ms, self._settings.min_age_ms, self.lag.at(now.steady_ms))

    # --- partitions of the index ---

    def _between(self, now: Now) -> Command:
        """Begin with the next partition, or end."""
        if self._stopped is None and self._shards and not self._has_time(now):
            self._stopped = NO_TIME
        if self._stopped is not None or not self._shards:
            self.report = replace(self.report, lag_ms=self.lag.at(now.steady_ms), stopped=self._stopped)
            return self._on(Cause.NO_MORE, Done(self.report, self._fault))
        self._count(partitions=1)
        self._enter(self._shards.pop())
        return self._on(Cause.NEXT, List(self._shard, self._settings.page))

    def _has_time(self, now: Now) -> bool:
        return self._until_ms - now.steady_ms > self._settings.least_ms

    def _listed(self, fact: Listed, now: Now) -> Command:
        ages = self._ages(now)
        due = self._keys.add(fact.entries, ages)
        self._was_due = self._was_due or due > 0
        if self._keys and self._tenure.is_missing:
            return self._on(Cause.DUE, ReadLease(self._shard))
        self._count(due=due)
        if fact.entries:
            age_ms = ages.now_ms - max(0, min(entry.at_ms for entry in fact.entries))  # any number may be in a row
            self.report = replace(self.report, oldest_ms=max(self.report.oldest_ms, age_ms))
        self._page = self._following(fact, ages)
        return self._go_on(now)

    def _following(self, fact: Listed, ages: Ages) -> List | None:
        """Return the page to read after this one: behind what is too young there may be what is dated ahead."""
        if fact.after is None or self._page is None:
            return None
        if self._page.later_than_ms is None and fact.entries and not ages.is_due(fact.entries[-1].at_ms):
            return replace(self._page, after=None, later_than_ms=ages.now_ms + AHEAD_MS)
        return replace(self._page, after=fact.after)

    def _go_on(self, now: Now) -> Command:
        """Return what comes next in this partition, or that there is no more."""
        if self._stopped is None and self._keys and not self._has_time(now):
            self._stopped = NO_TIME
        if self._stopped is not None:
            return self._leave(now)
        if self._keys and self.phase is Phase.LISTING:
            return self._on(Cause.OURS, self._read_keys())
        if self._keys and self._tenure.is_held and (self.phase is Phase.PUBLISHING or not self._is_leased(now)):
            return self._on(Cause.RENEW, WriteLease(self._shard, self._tenure.next(now), self._tenure.seen))
        if self._keys:
            return self._on(Cause.KEYS, self._read_keys())
        if self._page is not None:
            return self._on(Cause.ON if self.phase is Phase.LISTING else Cause.PAGE, self._page)
        return self._leave(now)

    def _leave(self, now: Now) -> Command:
        """End with this partition, and leave the lease of it where it is held."""
        self._count(left=self._keys.records(), idle=int(not self._was_due and self._stopped is None))
        last = self._tenure.last(now)
        if last is not None:
            return self._on(Cause.END, WriteLease(self._shard, last, self._tenure.seen))
        return self._to_next(Cause.NOTHING, now)

    def _to_next(self, cause: Cause, now: Now) -> Command:
        self.phase = TRANSITIONS[self.phase, cause]
        return self._between(now)

    # --- the lease ---

    def _asked(self, fact: LeaseFound, now: Now) -> Command:
        if not self._tenure.may_be_taken(fact.lease, now):
            self._count(taken=1)
            return self._to_next(Cause.TAKEN, now)
        swept_ms = None if fact.lease is None else fact.lease.swept_ms
        self._meets_relay = swept_ms is None or now.wall_ms - swept_ms > _RECENT_MS
        return self._on(Cause.FREE, WriteLease(self._shard, self._tenure.next(now), fact.lease))

    def _written(self, fact: LeaseWritten, now: Now) -> Command:
        if self.phase is Phase.LEAVING:
            return self._to_next(Cause.NEXT, now)
        if not fact.written:
            self._tenure.lost()
            self._count(taken=1, left=self._keys.records() if self.phase is Phase.KEEPING else 0)
            return self._to_next(Cause.REFUSED, now)
        self._tenure.written()
        if self.phase is Phase.KEEPING:
            return self._on(Cause.WRITTEN, self._read_keys())
        self._keys.clear()
        self._page = List(self._shard, self._settings.page)
        return self._on(Cause.WRITTEN, self._page)

    def _is_leased(self, now: Now) -> bool:
        """Whether there is a lease that lasts for a round, or none is needed."""
        return self._tenure.left_ms(now) > self._settings.least_ms

    def abandoned(self, now: Now) -> WriteLease | None:
        """Return what leaves the lease that is held, for whoever ends the sweep early; None when none is."""
        last = self._tenure.last(now)
        return None if last is None else WriteLease(self._shard, last, self._tenure.seen)

    # --- keys ---

    def _read_keys(self) -> Command:
        self._round = Round(self._keys.take(self._settings.round_keys), self._layout)
        return ReadKeys(tuple(tuple(key.entries) for key in self._round.keys))

    def _read(self, fact: KeysFound, now: Now) -> Command:
        one = self._round
        if not self._is_leased(now):
            self._keys.first(list(one.keys))  # to be read again when it is
            return self._go_on(now)
        if self._meets_relay and (met_ms := one.met_ms(fact.keys, self._ages(now))):
            self.lag = self.lag.met(met_ms, now.steady_ms)
        one.read(fact.keys, self._here, self._ages(now), self._settings.round_records)
        self._count(young=one.young, elsewhere=one.elsewhere, others=one.others, keys=len(one.keys) - len(one.unfit))
        self._keys.first(one.unfit)
        self._unread()
        if self._settings.dry_run:
            self._count(done=len(one.records))
            one.records = ()
        elif one.records and self._stopped is None and not self._has_time(now):
            self._stopped = NO_TIME
        if one.records and self._stopped is None:
            until_ms = min(self._until_ms, now.steady_ms + self._tenure.left_ms(now))
            return self._on(Cause.CHOSEN, Publish(one.records, until_ms))
        self._count(left=len(one.records))
        return self._go_on(now)

    def _unread(self) -> None:
        """Let keys that could not be read have another turn, or be left."""
        for key, failure in self._round.unread:
            key.failures += 1
            if not failure.passing:
                self._fault = self._stopped = failure.reason
            if failure.passing and key.failures < self._settings.attempts:
                self._keys.last([key])
            else:
                self._count(left=len(key.entries))

    def _published(self, fact: Published, now: Now) -> Command:
        ended = self._round.ended(fact)
        self._count(done=len(fact.done), left=ended.left, accepted=fact.accepted, parked=fact.parked)
        self._keys.first(ended.first)
        self._keys.last(ended.last)
        self._stopped = fact.stop
        return self._go_on(now)

    # --- what fails ---

    def _failed(self, fact: Failed, now: Now, u: float) -> Command:
        self._attempts += 1
        if fact.untold and self.phase in (Phase.TAKING, Phase.KEEPING) and self._untold < self._settings.attempts:
            self._untold += 1
            self._tenure.lost()
            self._command = ReadLease(self._shard)
            return self._on(Cause.UNTOLD, self._command)
        if fact.passing and self._attempts < self._settings.attempts:
            return WaitUntil(now.steady_ms + self._pause_ms(self._attempts, u))
        if not fact.passing:
            self._fault = self._stopped = fact.reason
        self._command = self._given_up(now)
        self._attempts = 0
        return self._command

    def _given_up(self, now: Now) -> Command:
        """Go on with the next partition after a failure in this one."""
        if self.phase is Phase.LEAVING:
            return self._to_next(Cause.NEXT, now)
        self._count(unread=1)
        if self.phase is Phase.LISTING and self._tenure.is_held:
            self._was_due = True
            return self._leave(now)
        return self._to_next(Cause.FAILED, now)

    def _pause_ms(self, attempt: int, u: float) -> int:
        return full_jitter_ms(self._settings.backoff_base_ms, self._settings.backoff_cap_ms, attempt, u)
