"""The plan of a commit: actions and events become one request, fixed to the byte for all of its retries.

The members of the request are the caller's actions in their order, then one record for each ordering key, then the
guard of the command. Each record and the guard are put where nothing is yet, under a key that no other transaction has
or, for a guard, that only the same command has. So they are evidence too: whether they are in the table tells whether
the transaction was committed. `Evidence` names the item to look at, and for how long it can be relied on to be there.

Data that is kept outside of the table belongs to the plan too (`claims`): it is fixed with the request, and whoever
sends the request stores it first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.core.commit.actions import Action, own_put
from dynamodb_outbox.core.commit.claiming import check_event_size, claimed, lightened
from dynamodb_outbox.core.commit.events import gather, settled
from dynamodb_outbox.core.commit.fingerprint import custom_fingerprint, fingerprint_of, token_of
from dynamodb_outbox.core.commit.receipt import Receipt
from dynamodb_outbox.core.commit.targets import own_target
from dynamodb_outbox.core.commit.tracing import traced
from dynamodb_outbox.core.limits import TRANSACTION_ACTIONS, TRANSACTION_BYTES
from dynamodb_outbox.core.record.encode import Origin, encode_record
from dynamodb_outbox.core.record.guards import encode_guard
from dynamodb_outbox.core.record.place import guard_keys
from dynamodb_outbox.core.record.states import WAYS
from dynamodb_outbox.errors import DuplicateAction, EmptyTransaction, ItemTooLarge, TransactionTooLarge
from dynamodb_outbox.event import NO_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.codec.claim import Claim, ClaimRule
    from dynamodb_outbox.core.codec.compression import Encoding
    from dynamodb_outbox.core.commit.conditions import Requirement
    from dynamodb_outbox.core.commit.targets import Tables, Target
    from dynamodb_outbox.core.record.encode import RecordDraft
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout

__all__ = ["CommitPlan", "Draft", "Evidence", "Guard", "Place", "check_limits", "ids_needed", "record_puts"]


@dataclass(frozen=True)
class Guard:
    """The guard that a transaction is to have.

    `partition` is its partition key, `said` what the caller called the command, `fingerprint` the caller's own text
    (None: computed), `keep` how long it is remembered, `alone` whether it may be all that the transaction writes.
    """

    partition: str
    said: str
    fingerprint: str | None
    keep: timedelta
    alone: bool = False


@dataclass(frozen=True)
class Evidence:
    """The item whose presence shows that the transaction was committed; after `lasts_ms` it may have been removed."""

    kind: Literal["record", "guard"]
    table: str
    key: WireItem
    lasts_ms: int


@dataclass(frozen=True)
class Place:
    """Where records and guards go: into which of the `tables`, and the AWS `region`.

    And in which form: `claims` says which events keep their data elsewhere, `compression` how records are compressed.
    """

    tables: Tables
    region: str | None
    claims: ClaimRule | None = None
    compression: Encoding | None = None

    @property
    def layout(self) -> Layout:
        """The layout of the records' table."""
        return self.tables.layout


@dataclass(frozen=True)
class CommitPlan:
    """One request and all that is needed to judge its answers.

    `request` holds the keyword arguments of `transact_write_items`; `labels` name its members, in order, of which those
    from `own_from` on are the library's, and `requirements` are theirs, in which `version` is the attribute that
    counts; `receipt` is what a plain success gives. `claims` are stored before the request is sent.
    """

    request: Mapping[str, Any]
    token: str
    tx: str
    at_ms: int
    labels: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    version: str | None
    own_from: int
    evidence: Evidence | None
    receipt: Receipt
    fingerprint: str | None = None
    command: str = ""
    claims: tuple[Claim, ...] = ()


@dataclass
class Draft:
    """A transaction while it is being built: its actions and events so far."""

    guard: Guard | None = None
    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _touched: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def refuse_second(self, target: Target) -> None:
        """Raise DuplicateAction when the item is touched by an action already."""
        first = self._touched.get(target.place)
        if first is not None:
            raise DuplicateAction(target.label, first)

    def add(self, action: Action) -> None:
        """Add an action. Raises DuplicateAction."""
        self.refuse_second(action.target)
        self._touched[action.target.place] = action.target.label
        self.actions.append(action)

    def plan(
        self,
        place: Place,
        *,
        at_ms: int,
        ids: Sequence[str],
        max_event_bytes: int,
        trace: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> CommitPlan:
        """Return the plan, for a first send at `at_ms`; `ids` are unused UUIDs, as many as `ids_needed` says.

        `trace` is the trace context of the events that have none.

        Raises EmptyTransaction, AmbiguousKey, MissingKey, EventTooLarge, ItemTooLarge, TransactionTooLarge,
        InvalidEvent for a partition written that cannot be a key, InvalidAction for a version without an event under
        dense_versions.
        """
        if not self.actions and not self.events and (self.guard is None or not self.guard.alone):
            raise EmptyTransaction
        events = settled([traced(event, trace) for event in self.events], self.actions, place.tables)
        versions = {a.target.place: a.version for a in self.actions if a.version is not None}
        receipt = Receipt(tuple(event.id for event in events), versions)
        origin = Origin(ids[0], at_ms, place.region)
        own, claims = record_puts(events, place, origin, ids[1:], max_event_bytes)
        evidence = _record_evidence(own, place.layout)
        fingerprint = None
        if self.guard is not None:
            custom = self.guard.fingerprint
            fingerprint = fingerprint_of(self.actions, events) if custom is None else custom_fingerprint(custom)
            guard = _guard(self.guard, fingerprint, receipt, place, origin)
            own.append(guard)
            evidence = _evidence("guard", guard, self.guard.keep)
        members = [*self.actions, *own]
        check_limits(members)
        items = [{member.kind: member.body} for member in members]
        token = origin.tx if self.guard is None else token_of(self.guard.partition, items)
        return CommitPlan(
            request={"TransactItems": items, "ClientRequestToken": token},
            token=token,
            tx=origin.tx,
            at_ms=origin.at_ms,
            labels=tuple(member.target.label for member in members),
            requirements=tuple(member.requirement for member in members),
            version=place.layout.version,
            own_from=len(self.actions),
            evidence=evidence,
            receipt=receipt,
            fingerprint=fingerprint,
            claims=claims,
            command="" if self.guard is None else self.guard.said,
        )


def ids_needed(events: Sequence[Event]) -> int:
    """Return how many UUIDs the plan of these events takes: the transaction's, and one for each record of several."""
    return 1 if len(events) <= 1 else 1 + len(events) // 2


def record_puts(
    events: Sequence[Event], place: Place, origin: Origin, ids: Sequence[str], max_event_bytes: int
) -> tuple[list[Action], tuple[Claim, ...]]:
    """Return one put a key for events that have their keys, and the data to keep elsewhere before they are sent.

    Raises EventTooLarge, ItemTooLarge. Events whose payload was not checked (`core.commit.events.check_storable`) may
    raise InvalidEvent or InvalidValue too, where payloads are stored as maps.
    """
    puts = []
    claims: tuple[Claim, ...] = ()
    if place.claims is not None:
        events, claims = claimed(events, place.claims)
    for event in events:
        check_event_size(event, max_event_bytes)
    for record in gather(events, ids):
        put, more = _record_put(record, place, origin)
        puts.append(put)
        claims += more
    return puts, claims


def _record_put(
    record: RecordDraft, place: Place, origin: Origin, claims: tuple[Claim, ...] = (), least: int = 1
) -> tuple[Action, tuple[Claim, ...]]:
    """Return the put of one record, and the data to keep elsewhere so that it fits: that of its largest events.

    An event may be small enough for the bus, and several of one key too large for an item together. `claims` are those
    made for it so far; `least` is how many are made next, if it still does not fit. Raises ItemTooLarge.
    """
    label = f"outbox record of key {record.key!r} ({', '.join(event.type for event in record.events)})"
    try:
        item = encode_record(record, origin, place.layout, place.compression)
        return own_put(own_target(place.tables, item, label), item, place.layout), claims
    except ItemTooLarge as error:
        if place.claims is None:
            raise
        # What an event saves is not known of compressed data. Each round takes twice as many, so that a few do.
        events, more = lightened(record.events, place.claims, error.size - error.limit, least=least)
        if not more:
            raise
    return _record_put(replace(record, events=events), place, origin, (*claims, *more), 2 * least)


def _guard(guard: Guard, fingerprint: str, receipt: Receipt, place: Place, origin: Origin) -> Action:
    item = encode_guard(
        guard_keys(place.layout, guard.partition),
        fingerprint=fingerprint,
        event_ids=receipt.event_ids,
        versions=receipt.versions,
        origin=origin,
        layout=place.layout,
        keep_s=int(guard.keep.total_seconds()),
    )
    return own_put(own_target(place.tables, item, f"guard of command {guard.said!r}"), item, place.layout)


def _record_evidence(records: Sequence[Action], layout: Layout) -> Evidence | None:
    """Return the first record as evidence: published, it stays for `published_for`, where it is not deleted then."""
    kept = layout.published_for if WAYS[layout.settle].stays else timedelta(0)
    return _evidence("record", records[0], kept) if records else None


def _evidence(kind: Literal["record", "guard"], put: Action, keep: timedelta) -> Evidence:
    return Evidence(kind, put.target.table, put.target.key, keep // timedelta(milliseconds=1))


def check_limits(members: Sequence[Action]) -> None:
    """Raise TransactionTooLarge for more actions, or more bytes, than DynamoDB takes in one transaction."""
    if len(members) > TRANSACTION_ACTIONS:
        advice = "Each ordering key with events and an idempotency key take one of them. Split the transaction."
        raise TransactionTooLarge("transaction", len(members), TRANSACTION_ACTIONS, "actions", advice)
    size = sum(member.size for member in members)
    if size > TRANSACTION_BYTES:
        largest = max(members, key=lambda member: member.size)
        advice = f"The largest action is {largest.target.label} with {largest.size:,} bytes."
        raise TransactionTooLarge("transaction", size, TRANSACTION_BYTES, "bytes", advice)
