"""The sweeper: publishes what is pending for longer than the stream needs, which the stream has not brought, then.

A shell over `core.sweeping`, which decides what is looked at, and over the relay's invocation, which publishes what was
found (`publishing`). It runs beside the relay, on a schedule, and costs one empty query for each partition of the index
while there is nothing to do. docs/sweeper.md has its rules, and what they leave of the order of events.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.leases import DynamoLeases
from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.pending_index import DynamoPendingIndex
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.arguments import duration, flag, refusal
from dynamodb_outbox.core.record.leases import LEASE_MS, can_lease
from dynamodb_outbox.core.record.pending import shards_of
from dynamodb_outbox.core.sweeping.ages import NO_LAG
from dynamodb_outbox.core.sweeping.commands import Settings, Swept
from dynamodb_outbox.core.sweeping.machine import Sweep
from dynamodb_outbox.core.timing import UNBOUNDED_MS
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.recover.publishing import Publishing, Ways
from dynamodb_outbox.recover.run import Means, Run
from dynamodb_outbox.relay.invocation import Tools
from dynamodb_outbox.relay.margins import Margins, remaining_ms
from dynamodb_outbox.relay.setup import (
    TABLE_CALLS,
    layout_of,
    routes_of,
    settings_of,
    source_of,
    table_of,
)
from dynamodb_outbox.relay.watch import onlooker_of
from dynamodb_outbox.sdk.clients import TableClient, table_config

if TYPE_CHECKING:
    from dynamodb_outbox.choices import OnPoison
    from dynamodb_outbox.core.relay.facts import Relayed
    from dynamodb_outbox.core.sweeping.commands import SweepReport
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Crew, Entropy, Observer, Routes, Sink

__all__ = ["MIN_AGE", "Sweeper"]

MIN_AGE = timedelta(minutes=5)
"""How old a record is before it is swept, when nothing else is said."""

_TIMEOUT_S = 1.5
"""Of one attempt of our own client, of two."""
_OWNER_BYTES = 8
_UNLIMITED_MS = 60_000
"""The time that a function without a context takes at most."""
_LEAST_PUBLISHING_MS = 1_000
"""A round of publishing is not begun for less than that."""


class Sweeper:
    """Publishes pending records of `table` to `sink`, or to the sinks of a `Router`: the relay's own sinks and layout.

    table          the table's name, or its ARN
    layout, source, client, max_in_flight, rate_limit_per_instance, breaker_after    as for `Relay`
    min_age        records that are younger are left to the relay; longer than that is on its way, in ordinary times.
                   Where the sweep meets a relay that is further behind, it waits for twice as long
    observer       is told what each sweep came to (`Swept`), and each round of publishing in it (`Relayed`)
    on_poison      the relay's: what becomes of an event that its sink can never accept

    `clock`, `entropy` and `crew` are ports (`dynamodb_outbox.ports`), for tests: the system's own when not given.

    Any number of sweepers may run at a time, and beside relays: a lease for each partition of the index keeps them from
    doing the same work. Where the table's keys are no text there is no place for leases, and one sweeper is to run at a
    time: two would publish the same events twice.

    Its permissions are listed in docs/infrastructure.md, beside the relay's.

    Raises ConfigurationError for arguments that cannot work, such as a client of another service.
    """

    def __init__(
        self,
        sink: Sink | Routes,
        *,
        table: str,
        layout: Layout | None = None,
        source: str | None = None,
        client: Any = None,
        min_age: timedelta = MIN_AGE,
        on_poison: OnPoison = "park",
        max_in_flight: int = 8,
        rate_limit_per_instance: int | None = None,
        breaker_after: int | None = 5,
        observer: Observer[Relayed | Swept] | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._ways = Ways(routes_of("Sweeper", sink))
        self.sink = sink
        self.table = table_of("Sweeper", table)
        self.layout = layout_of("Sweeper", layout)
        self.min_age = duration(min_age, refusal("Sweeper", "min_age"), least=timedelta(0))
        self._settings = settings_of(
            "Sweeper",
            self.layout,
            on_poison=on_poison,
            max_in_flight=max_in_flight,
            rate_limit_per_instance=rate_limit_per_instance,
            breaker_after=breaker_after,
        )
        self._source = self.table if source is None else source_of("Sweeper", source)
        self._client = TableClient(table_config(_TIMEOUT_S), client)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._entropy: Entropy = entropy if entropy is not None else SystemEntropy()
        self._crew: Crew = crew if crew is not None else ThreadCrew(max_in_flight + TABLE_CALLS, "outbox-sweep")
        self._onlooker = onlooker_of("Sweeper", observer)
        self._margins = Margins(self._ways.sinks)
        self._lag = NO_LAG

    def sweep(self, *, dry_run: bool = False, within: timedelta | None = None) -> SweepReport:
        """Sweep all partitions of the index once, and say what came of it.

        `within`: the time it may take; what is not reached is left to the next sweep, which begins elsewhere. A
        `dry_run` reads, and neither writes nor publishes.

        Raises TableUnavailable when the index cannot be read as things are set up, ConfigurationError when no client
        can be made. A destination that cannot be used raises nothing: the report says that the sweep was `stopped`.
        """
        flag(dry_run, refusal("Sweeper", "dry_run"))
        within_ms = UNBOUNDED_MS
        if within is not None:
            within_ms = int(duration(within, refusal("Sweeper", "within"), least=timedelta(0)).total_seconds() * 1000)
        return self._sweep(within_ms, dry_run=dry_run)

    def lambda_handler(self, event: Any, context: Any) -> dict[str, Any]:
        """Sweep once; the function to name in Lambda, behind a schedule.

        `context` is Lambda's; without one a sweep takes a minute at most. Returns the report as JSON. Raises as `sweep`
        does, and ConfigurationError for records of an event source: what is answered without an error is deleted there.
        """
        if isinstance(event, dict) and "Records" in event:
            raise ConfigurationError(
                "the event has Records: a sweeper reads the table itself. Call it on a schedule, and map the relay to "
                "the stream."
            )
        return self._sweep(remaining_ms(context, without=_UNLIMITED_MS), dry_run=False).to_json()

    # --- one sweep ---

    @cached_property
    def _means(self) -> Means:
        """What a sweep works with, over one client, which is made when the first sweep begins."""
        client = self._client.get()
        states = partial(DynamoRecordStates, self.layout, creates=False)
        tools = Tools(
            self._ways.sinks,
            states(client=client),
            DynamoParkedKeys(self.layout, lambda marking: states(client=marking), client=client),
            self._crew,
            self._clock,
            self._entropy,
            self._settings,
            self._onlooker,
        )
        return Means(
            self.table,
            DynamoPendingIndex(self.layout, client=client),
            DynamoLeases(self.layout, client=client),
            Publishing(self._ways, tools, self.table, self.layout, self._source),
            self._crew,
            self._clock,
            self._entropy,
        )

    def _sweep(self, within_ms: int, *, dry_run: bool) -> SweepReport:
        began_ms = self._clock.monotonic_ms()
        means = self._means
        kept_ms = self._margins.kept_ms(within_ms, self._client.call_ms)
        least_ms = kept_ms[0] + min(_LEAST_PUBLISHING_MS, within_ms // 4)
        machine = Sweep(
            self._shards(),
            self.layout,
            means.index.region,
            Settings(
                least_ms=least_ms,
                min_age_ms=int(self.min_age.total_seconds() * 1000),
                lease_ms=max(LEASE_MS, 3 * least_ms) if can_lease(self.layout) else None,
                dry_run=dry_run,
            ),
            owner=self._entropy.bytes(_OWNER_BYTES).hex(),
            until_ms=began_ms + within_ms,
            lag=self._lag,
        )
        self._ways.release()
        try:
            report = Run(machine, means, *kept_ms).to_the_end()
        finally:
            self._lag = machine.lag
        if self._onlooker is not None:
            self._onlooker.tell(Swept(self.table, report))
        return report

    def _shards(self) -> tuple[str, ...]:
        """Return the partitions of the index, from one that chance chooses: no sweep begins where all begin."""
        shards = shards_of(self.layout)
        first = int(self._entropy.unit() * len(shards))
        return shards[first:] + shards[:first]
