"""Parked records, for whoever has to decide about them: to look at, to publish again, to discard.

A shell over what `core.record` says of parked records, and over the publishing side of a sweep. docs/recovery.md tells
what to do when.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.parked_keys import DynamoParkedKeys
from dynamodb_outbox.adapters.parked_records import DynamoParkedRecords
from dynamodb_outbox.adapters.pending_index import DynamoPendingIndex
from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.adapters.system import SystemClock, SystemEntropy
from dynamodb_outbox.adapters.threads import ThreadCrew
from dynamodb_outbox.arguments import flag, refusal, text
from dynamodb_outbox.core.record.schema import PENDING_INDEX
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.recover.parked_reading import Choice, Reading
from dynamodb_outbox.recover.parked_states import ParkedStates, PassedKeys
from dynamodb_outbox.recover.publishing import Publishing, Ways
from dynamodb_outbox.recover.redriving import Keys, Redriving, Sending, missing_of, windows
from dynamodb_outbox.recover.reports import ParkedReport, Treated
from dynamodb_outbox.relay.invocation import Tools
from dynamodb_outbox.relay.setup import TABLE_CALLS, layout_of, routes_of, settings_of, source_of, table_of
from dynamodb_outbox.sdk.clients import TableClient, table_config
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dynamodb_outbox.core.record.parked import Held, ParkedRecord
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Crew, Entropy, Routes, Sink

__all__ = ["ParkedRecords"]

_TIMEOUT_S = 5.0
"""Of one attempt of our own client, of two."""
_MARK_BYTES = 8


class ParkedRecords:
    """The parked records of `table`, given by name or ARN, of the writer's and the relay's `layout`.

    source     as for `Relay`: that of events whose record names none
    client     a boto3 client of "dynamodb"; made on first use when none is given

    Records are chosen by `ids` (of records, or of their events), by ordering `key`, by the `type` of one of their
    events: by all of these that are given.

    `clock`, `entropy` and `crew` are ports (`dynamodb_outbox.ports`), for tests: the system's own when not given.

    Permissions on the table and its index: Query and BatchGetItem; to discard UpdateItem; to redrive the relay's, too;
    DeleteItem for keys that on_poison="park_key" has parked.

    Raises ConfigurationError for arguments that cannot work; its methods besides, TableUnavailable when the table or
    its index cannot be read.
    """

    def __init__(
        self,
        table: str,
        *,
        layout: Layout | None = None,
        source: str | None = None,
        client: Any = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.table = table_of("ParkedRecords", table)
        self.layout = layout_of("ParkedRecords", layout)
        self._source = self.table if source is None else source_of("ParkedRecords", source)
        self._client = TableClient(table_config(_TIMEOUT_S), client)
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._entropy: Entropy = entropy if entropy is not None else SystemEntropy()
        self._crew = crew

    def list(
        self,
        *,
        ids: Iterable[str] = (),
        key: str | None = None,
        type: str | None = None,  # noqa: A002 -- the event's
    ) -> tuple[ParkedRecord, ...]:
        """Return the parked records that are chosen, all where nothing is said, the oldest first; never their data."""
        return tuple(one.record for one in self._reading.chosen(_choice("list", ids, key, type, everything=True)))

    def show(self, id: str) -> tuple[tuple[ParkedRecord, tuple[Event, ...]], ...]:  # noqa: A002 -- the record's
        """Return the parked records of that id, or with an event of it, and their events, data and all.

        There is more than one only where hand-written rows have the same id, or one was written again.
        """
        return tuple((one.record, one.events) for one in self._reading.chosen(_choice("show", [id], None, None)))

    def redrive(
        self,
        sink: Sink | Routes,
        *,
        ids: Iterable[str] = (),
        key: str | None = None,
        type: str | None = None,  # noqa: A002 -- the event's
        all: bool = False,  # noqa: A002 -- as the command has it
        max_in_flight: int = 8,
        rate_limit_per_instance: int | None = None,
        breaker_after: int | None = 5,
        dry_run: bool = False,
    ) -> ParkedReport:
        """Publish parked records again, to the relay's `sink`; `all` where no others are chosen.

        Events keep their ids. Those of a key are published in order, after whatever was published of it since they were
        parked. FIFO queues and topics are given deduplication ids that they have not had before.

        It may be run again at any time: what was published and not marked as that is published twice then.
        """
        choice = _choice("redrive", ids, key, type, everything=all)
        flag(dry_run, refusal("ParkedRecords.redrive", "dry_run"))
        routes = routes_of("ParkedRecords.redrive", sink)
        settings = settings_of(
            "ParkedRecords.redrive",
            self.layout,
            on_poison="park",
            max_in_flight=max_in_flight,
            rate_limit_per_instance=rate_limit_per_instance,
            breaker_after=breaker_after,
        )
        client = self._client.get()
        states = ParkedStates(DynamoRecordStates(self.layout, client=client), self._store)
        passed = PassedKeys(states, self._parked_keys)
        ways = Ways(routes, again=self._entropy.bytes(_MARK_BYTES).hex())
        crew = self._crew if self._crew is not None else ThreadCrew(max_in_flight + TABLE_CALLS, "outbox-redrive")
        tools = Tools(ways.sinks, states, passed, crew, self._clock, self._entropy, settings)
        of_parked_keys = replace(tools, settings=replace(settings, on_poison="park_key"))
        sending = Sending(
            Publishing(ways, tools, self.table, self.layout, self._source),
            Publishing(ways, of_parked_keys, self.table, self.layout, self._source),
            states,
            passed,
            client.meta.region_name,
            self._clock,
        )
        return Redriving(choice, self._reading, self._keys(), sending).run(dry_run=dry_run)

    def discard(
        self,
        reason: str,
        *,
        ids: Iterable[str] = (),
        key: str | None = None,
        type: str | None = None,  # noqa: A002 -- the event's
        all: bool = False,  # noqa: A002 -- as the command has it
        others: bool = False,
        dry_run: bool = False,
    ) -> ParkedReport:
        """Decide that parked records are never published; `reason` (the first 256 characters) is kept in them.

        They leave the index and stay in the table, with what had refused them and without a TTL: until their owner
        deletes them they are the only trace of events that no consumer has had.

        A record of several events may be parked for some of them alone. Whoever parked it may have died before the
        others were sent, so it is left, and the report says so: a redrive publishes them. So is one that was chosen by
        the `type` of an event and has others of another type. `others` discards them too.
        """
        choice = _choice("discard", ids, key, type, everything=all)
        text(reason, refusal("ParkedRecords.discard", "reason"))
        flag(others, refusal("ParkedRecords.discard", "others"))
        flag(dry_run, refusal("ParkedRecords.discard", "dry_run"))
        treated: list[Treated] = []
        keys = self._keys()
        for window in windows(self._reading.chosen(choice), self._reading):
            for one in window:
                if (kept := None if others else _others_in(one.record, type)) is not None:
                    treated.append(Treated(one.record, "left", f"{kept}: redrive it first, or discard others, too"))
                else:
                    treated.append(Treated(one.record, "discarded") if dry_run else self._discarded(one, reason))
            keys.marked(one.record.key for one in window)
        if not dry_run:
            keys.marked(choice.keys)
        for key_parked in [] if dry_run else keys.parked():
            if not self._reading.of_key(key_parked):
                keys.release(key_parked)
        return ParkedReport(
            tuple(treated),
            missing_of(choice, treated),
            released=tuple(keys.released),
            unreleased=keys.unreleased,
            dry_run=dry_run,
        )

    def _discarded(self, one: Held, reason: str) -> Treated:
        now_ms = self._clock.now_ms()
        if one.stands_apart and PENDING_INDEX in one.image:  # else each sweep would find it, and try it once more
            self._reading.tried(lambda: self._store.unlist(self.table, one.image))
        done = self._reading.tried(lambda: self._store.discard(self.table, one.item, reason, now_ms))
        if isinstance(done, str):
            why = f"it has no room for the marks of a discarded one ({done}): give a shorter reason, or delete it"
            return Treated(one.record, "left", why)
        return Treated(one.record, "discarded") if done else Treated(one.record, "gone", "it is parked no more")

    @cached_property
    def _store(self) -> DynamoParkedRecords:
        return DynamoParkedRecords(self.layout, client=self._client.get())

    @cached_property
    def _parked_keys(self) -> DynamoParkedKeys:
        client = self._client.get()
        return DynamoParkedKeys(
            self.layout, lambda marking: DynamoRecordStates(self.layout, client=marking), client=client
        )

    @cached_property
    def _reading(self) -> Reading:
        index = DynamoPendingIndex(self.layout, client=self._client.get())
        return Reading(
            self.table,
            self.layout,
            source=self._source,
            index=index,
            parked=self._store,
            clock=self._clock,
            entropy=self._entropy,
        )

    def _keys(self) -> Keys:
        return Keys(self._parked_keys, self._reading)


def _others_in(record: ParkedRecord, event_type: str | None) -> str | None:
    """Return what there is in a record besides what is to be discarded; None: nothing."""
    if record.unrefused:
        return f"{counted(record.unrefused, 'event')} of it was not refused, and may not have been published"
    others = 0 if event_type is None else sum(event.type != event_type for event in record.events)
    return f"{counted(others, 'event')} of it has another type" if others else None


def _choice(
    method: str, ids: Iterable[str], key: str | None, event_type: str | None, *, everything: bool = False
) -> Choice:
    """Return what is chosen. Raises ConfigurationError where nothing is, and `everything` neither; or both are."""
    if isinstance(ids, str):
        raise ConfigurationError(f"ParkedRecords.{method}: ids is a text; a list of ids is needed.")
    named = frozenset(text(each, refusal(f"ParkedRecords.{method}", "an id")) for each in ids)
    for what, given in (("key", key), ("type", event_type)):
        if given is not None:
            text(given, refusal(f"ParkedRecords.{method}", what))
    flag(everything, refusal(f"ParkedRecords.{method}", "all"))
    chooses = bool(named) or key is not None or event_type is not None
    if not chooses and not everything:
        raise ConfigurationError(f"ParkedRecords.{method}: which records? Say ids=, key= or type=, or all=True.")
    if chooses and everything and method != "list":
        raise ConfigurationError(f"ParkedRecords.{method}: all=True, and others are chosen too; say one of them.")
    return Choice(named, key, event_type)
