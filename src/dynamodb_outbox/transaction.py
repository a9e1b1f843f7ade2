"""One unit of work: it collects actions and events, and obeys the commit machine (`core.commit.machine`).

Decisions are made there and in the other pure modules of `core.commit`. Actions and events take their final form the
moment they are given, so that a mistake is raised at the line that made it and nothing given can change afterwards.

Transactions of one outbox do not nest. A `with` inside another's `with` reads like one unit of work, and would be two:
the inner one stays committed when the outer one fails. DynamoDB has nothing in between, so it is refused, in one thread
and one asyncio task; other threads and tasks, also those started inside of the block, are free. Two units that are
meant to be two are written one after the other, or the inner one without `with`.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.conditions import attr_expression
from dynamodb_outbox.arguments import flag, text
from dynamodb_outbox.core.commit import actions
from dynamodb_outbox.core.commit.commands import Command, Done, Fail, Read, Wait
from dynamodb_outbox.core.commit.conditions import requirement_of
from dynamodb_outbox.core.commit.events import new_event
from dynamodb_outbox.core.commit.expressions import Expression, check_placeholders, part, placeholders_of
from dynamodb_outbox.core.commit.machine import CommitMachine, State
from dynamodb_outbox.core.commit.plan import Draft, Place, ids_needed
from dynamodb_outbox.core.commit.steady import SteadyTime
from dynamodb_outbox.core.commit.targets import target_of
from dynamodb_outbox.core.commit.tracing import traced
from dynamodb_outbox.core.commit.updates import Path, changes_of, update_of
from dynamodb_outbox.errors import InvalidAction, NestedTransaction, NotCommitted, TransactionClosed
from dynamodb_outbox.event import NO_ATTRIBUTES
from dynamodb_outbox.ids import ENTROPY_BYTES, uuid7

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from dynamodb_outbox.arguments import Refusal
    from dynamodb_outbox.core.codec.claim import Claim
    from dynamodb_outbox.core.codec.compression import Encoding
    from dynamodb_outbox.core.commit.plan import CommitPlan, Guard
    from dynamodb_outbox.core.commit.receipt import Receipt
    from dynamodb_outbox.core.commit.targets import Tables, Target
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Entropy, PayloadStore, Store
    from dynamodb_outbox.tracing import Follower

__all__ = ["Setting", "Transaction"]

_Strand = tuple[int, object]

_blocks: ContextVar[tuple[tuple[Transaction, _Strand], ...]] = ContextVar("dynamodb_outbox.blocks", default=())
"""Transactions in whose `with` this context is, or is a copy of one that was: each with where it was entered."""


def _strand() -> _Strand:
    """Return the thread and the asyncio task, if any, that runs this; a context is copied into others, this is not."""
    asyncio = sys.modules.get("asyncio")  # not imported for this: without it there are no tasks
    task = None
    if asyncio is not None:
        with contextlib.suppress(RuntimeError):  # no running loop
            task = asyncio.current_task()
    return threading.get_ident(), task


@dataclass(frozen=True)
class Setting:
    """What an outbox gives each of its transactions."""

    tables: Tables
    source: str
    max_event_bytes: int
    commit_within_ms: int
    store: Store
    clock: Clock
    entropy: Entropy
    payloads: PayloadStore | None = None
    compression: Encoding | None = None
    follower: Follower | None = None

    @property
    def layout(self) -> Layout:
        """The layout of the table that holds the records."""
        return self.tables.layout

    @property
    def place(self) -> Place:
        """Where records go. Raises ConfigurationError when a client has to be made and no Region is configured."""
        claims = None if self.payloads is None else self.payloads.rule
        return Place(self.tables, self.store.region, claims, self.compression)

    def keep(self, claims: Sequence[Claim]) -> None:
        """Store the data of claims, of which there are none without a payload store. Raises UploadFailed."""
        if self.payloads is not None:
            for claim in claims:
                self.payloads.store(claim)

    def new_id(self, now_ms: int) -> str:
        """Return a UUIDv7 made at `now_ms`."""
        return uuid7(now_ms, self.entropy.bytes(ENTROPY_BYTES))

    def new_event(self, type: str, data: Any, time: datetime | None, **fields: Any) -> Event:  # noqa: A002 -- as below
        """Return a new event of this source; `time` is now unless given. Raises what `core.commit.events` raises."""
        now_ms = self.clock.now_ms()
        return new_event(
            type,
            data,
            id=self.new_id(now_ms),
            source=self.source,
            time=datetime.fromtimestamp(now_ms / 1000, timezone.utc) if time is None else time,
            layout=self.layout,
            **fields,
        )


class Transaction:
    """One atomic write: actions on items, and the events that they mean. For one thread.

    As a context manager it commits on a clean exit and writes nothing when the block raises. Inside of the block no
    other transaction of the same outbox may be entered, in this thread and task: NestedTransaction. Values are Python
    values as boto3's resources take them, but nothing is converted silently: `core.codec.values` has the rule.

    What every action takes:

    if_absent     the item must not be there; with Layout(version=...) it gets the first version (`version_start`)
    if_exists     the item must be there
    if_version    the item must have this version; a put or an update writes the next one
    condition     a boto3 condition (`Attr("status").eq("OPEN")`), or text with `names=` and `values=`
    table         another table; its keys are the layout's, or those that Outbox(tables=...) names. Needed where the
                  outbox's table holds nothing but records: Layout(placement="table") with no other `outbox_table`

    Several of them must all hold. A condition that does not hold makes the commit raise ConditionFailed, with the item
    as it was.

    All actions raise InvalidAction for arguments that cannot work (DuplicateAction for a second action on one item,
    ReservedName for keys of the library's own items) and for an item that `Layout(select=...)` would take for a record,
    InvalidValue for values that cannot be stored, LimitExceeded for what is too large, and TransactionClosed after the
    end.
    """

    def __init__(self, setting: Setting, guard: Guard | None) -> None:
        self._setting = setting
        self._draft = Draft(guard)
        self._plan: CommitPlan | None = None
        self._trace: Mapping[str, str] = NO_ATTRIBUTES
        """The trace context of the plan's events."""
        self._machine: CommitMachine | None = None
        self._steady: SteadyTime | None = None
        self._receipt: Receipt | None = None
        self._kept = False
        """Whether the data of claimed events is stored."""
        self._entered = False
        self._abandoned = False

    # --- actions ------------------------------------------------------------------------------------------------------

    def put(
        self,
        item: Mapping[str, Any],
        *,
        if_absent: bool = False,
        if_exists: bool = False,
        if_version: int | None = None,
        condition: Any = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        table: str | None = None,
    ) -> None:
        """Store an item, in place of the one there if a condition allows that or `overwrite` says so.

        With Layout(version=...) the version attribute is filled in under `if_absent` and `if_version`, and otherwise
        stored as the item has it: `overwrite=True` of an item without it loses the version, and `if_version` fails from
        then on. An item that has no version yet is given one by `update(key, set={"version": 1}, if_exists=True,
        condition="attribute_not_exists(version)")`; `if_version=0` is an item whose version is the number 0. Raises
        UnconditionalPut without a condition or `overwrite`; ItemTooLarge.
        """
        target = self._target("put", item, table, whole_item=True)
        flag(overwrite, _about("overwrite", target.label))
        demand = _condition(target.label, condition, names, values)
        requirement = requirement_of(target.label, if_absent, if_exists, if_version, demand)
        layout, first = self._setting.layout, self._first_version()
        self._draft.add(actions.put(target, item, requirement, layout, overwrite=overwrite, first=first))

    def update(
        self,
        key: Mapping[str, Any],
        *,
        set: Mapping[Path, Any] | None = None,  # noqa: A002 -- DynamoDB's own word
        remove: Sequence[Path] = (),
        add: Mapping[Path, Any] | None = None,
        delete: Mapping[Path, Any] | None = None,
        expression: str | None = None,
        if_absent: bool = False,
        if_exists: bool = False,
        if_version: int | None = None,
        condition: Any = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        table: str | None = None,
    ) -> None:
        """Change attributes of an item; without a condition the item is created when it is not there, as in DynamoDB.

        `set` and `add` map names to values (`add` takes numbers and sets), `delete` maps names to the members to take
        out of a set, `remove` is a list of names. A name is a top-level attribute, taken literally; a tuple is a path:
        `set={("lines", 0, "price"): 5}`. Functions and arithmetic go into `expression=` with `names=` and `values=`,
        in place of the four: `expression="SET n = if_not_exists(n, :zero) + :one"`.

        An update without `if_absent` and `if_version` leaves the version attribute alone.
        """
        target = self._target("update", key, table)
        layout = self._setting.layout
        counted = layout.version if if_absent or if_version is not None else None
        changes = changes_of({"set": set, "add": add, "delete": delete}, remove, target.label)
        built = update_of(changes, (*target.keys.types, counted), target.label)
        demand = _condition(target.label, condition, names, values, expression)
        if expression is not None:
            if built is not None:
                raise InvalidAction(target.label, "expression= stands in place of set=, remove=, add= and delete=.")
            built = part(expression, placeholders_of(names, values, target.label), "expression", target.label)
        requirement = requirement_of(target.label, if_absent, if_exists, if_version, demand)
        self._draft.add(actions.update(target, built, requirement, layout, first=self._first_version()))

    def delete(
        self,
        key: Mapping[str, Any],
        *,
        if_absent: bool = False,
        if_exists: bool = False,
        if_version: int | None = None,
        condition: Any = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        table: str | None = None,
    ) -> None:
        """Delete an item; without a condition it is no failure when there is none.

        `if_absent` is refused, with advice: of what must not be there nothing can be deleted.
        """
        target = self._target("delete", key, table)
        demand = _condition(target.label, condition, names, values)
        requirement = requirement_of(target.label, if_absent, if_exists, if_version, demand)
        self._draft.add(actions.delete(target, requirement, self._setting.layout))

    def check(
        self,
        key: Mapping[str, Any],
        *,
        if_absent: bool = False,
        if_exists: bool = False,
        if_version: int | None = None,
        condition: Any = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        table: str | None = None,
    ) -> None:
        """Require something of an item and change nothing. It needs a condition, and gives no event its key."""
        target = self._target("check", key, table)
        demand = _condition(target.label, condition, names, values)
        requirement = requirement_of(target.label, if_absent, if_exists, if_version, demand)
        self._draft.add(actions.check(target, requirement, self._setting.layout))

    def emit(
        self,
        type: str,  # noqa: A002 -- CloudEvents' own word
        data: Any,
        *,
        key: str | None = None,
        subject: str | None = None,
        time: datetime | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Event:
        """Add an event, published if and only if the transaction is committed.

        `type` has 1 to 128 characters; `data` is any JSON value, with Decimal, aware datetimes, UUIDs and Enums by the
        rule of `core.codec.payload`, and with Layout(payload_format="map") an object that DynamoDB can hold; `key` is
        the ordering key, the partition written unless given (as text: a number in plain digits, bytes in base64; with
        Layout(pk_type="B") every text that is valid base64 is taken for that, "customer" too: encode keys yourself);
        `time` is when it happened, now unless given; `attributes` are CloudEvents extension attributes, text by lower-
        case names.

        With Layout(version=...) an event whose key is the partition of the one item there that counts its version gets
        a `sequence` (`core.commit.numbering`); a `subject` of your own must then name that item.

        Returns the event; its `key` is None unless given, and its `sequence` None, because they are settled at the
        commit: emit may come before the put. So is its trace context, with Outbox(tracing=...). Raises InvalidEvent,
        InvalidValue with the path in `data`, TransactionClosed. The commit raises AmbiguousKey, MissingKey and
        EventTooLarge.
        """
        self._refuse_late("emit")
        event = self._setting.new_event(type, data, time, key=key, subject=subject, attributes=attributes)
        self._draft.events.append(event)
        return event

    # --- the end ------------------------------------------------------------------------------------------------------

    def request(self) -> dict[str, Any]:
        """Return exactly the keyword arguments of `client.transact_write_items`, token included; write no item.

        The transaction is fixed by that: commit() would send the same request, and nothing can be added. Data of
        claimed events is stored, as commit() would store it, because whoever has the request may send it. A client is
        made for it when none was given, because the records name its Region. Raises what commit() raises before it
        sends.
        """
        self._refuse_ended("request")
        follower = self._setting.follower
        plan = self._planned(NO_ATTRIBUTES if follower is None else follower.context())
        self._keep(plan)
        return copy.deepcopy(dict(plan.request))

    def commit(self) -> Receipt:
        """Write everything, or nothing, and return the receipt.

        Raises ConditionFailed when a condition did not hold, IdempotencyMismatch, CommitFailed for what DynamoDB
        refuses: nothing was written. Raises CommitConflict, CommitThrottled and CommitUnreached when the time was up:
        nothing was written, and commit() may be called again. Raises CommitUnknown when nobody knows, and commit()
        called again goes on with the same request. Before anything is sent: EmptyTransaction, AmbiguousKey, MissingKey,
        EventTooLarge, ItemTooLarge (of the record that the events make), TransactionTooLarge, InvalidEvent (for a
        partition that cannot be the key of a record), InvalidAction (for a version without an event, under
        dense_versions), and ConfigurationError when no client was given and no AWS Region is configured. With a claim
        check UploadFailed, when the data of an event could not be stored: nothing was sent, and commit() may be called
        again. Uploads are not counted in `commit_within`.
        """
        self._refuse_ended("commit")
        follower, events = self._setting.follower, self._draft.events
        if follower is None or not events:
            return self._committed(NO_ATTRIBUTES)
        with follower.committing(self._setting.tables.records, [traced(each, self._trace) for each in events]) as work:
            receipt = self._committed(work.context)
            work.outcome = "replayed" if receipt.replayed else "committed"
        return receipt

    def _committed(self, trace: Mapping[str, str]) -> Receipt:
        plan = self._planned(trace)
        self._keep(plan)
        setting = self._setting
        if self._machine is None or self._steady is None:
            self._machine = CommitMachine(plan, setting.commit_within_ms)
            self._steady = SteadyTime(plan.at_ms, setting.clock.monotonic_ms())
        self._receipt = _drive(self._machine, self._steady, setting)
        return self._receipt

    @property
    def receipt(self) -> Receipt:
        """The receipt of the commit. Raises NotCommitted before there is one."""
        if self._receipt is None:
            raise NotCommitted(self._state())
        return self._receipt

    def __enter__(self) -> Transaction:
        here = _strand()
        around = tuple(entry for entry in _blocks.get() if entry[0].is_open and entry[1] == here)
        if self._entered or any(other.is_of(self._setting) for other, _ in around):
            raise NestedTransaction
        self._refuse_late("with")
        self._entered = True
        _blocks.set((*around, (self, here)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _blocks.set(tuple(entry for entry in _blocks.get() if entry[0] is not self))
        if kind is None:
            if not self._has_ended():
                self.commit()
        elif self._machine is None:
            self._abandoned = True

    def is_of(self, setting: Setting) -> bool:
        """Whether this is a transaction of the outbox with that setting."""
        return self._setting is setting

    @property
    def is_open(self) -> bool:
        """Whether this has not ended yet."""
        return not self._abandoned and not self._has_ended()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _target(self, verb: str, key: Mapping[str, Any], table: str | None, *, whole_item: bool = False) -> Target:
        self._refuse_late(verb)
        named = None if table is None else text(table, lambda said: InvalidAction(verb, f"table= {said}"))
        target = target_of(verb, named, key, self._setting.tables, exactly=not whole_item)
        self._draft.refuse_second(target)
        return target

    def _first_version(self) -> int:
        setting = self._setting
        return setting.clock.now_ms() if setting.layout.version_start == "clock" else setting.layout.version_start

    def _planned(self, trace: Mapping[str, str]) -> CommitPlan:
        if self._plan is None:
            setting = self._setting
            now_ms = setting.clock.now_ms()
            ids = [setting.new_id(now_ms) for _ in range(ids_needed(self._draft.events))]
            self._plan = self._draft.plan(
                setting.place, at_ms=now_ms, ids=ids, max_event_bytes=setting.max_event_bytes, trace=trace
            )
            self._trace = trace
        return self._plan

    def _keep(self, plan: CommitPlan) -> None:
        """Store the data of claimed events, once: before anything is sent that refers to it."""
        if not self._kept:
            self._setting.keep(plan.claims)
            self._kept = True

    def _has_ended(self) -> bool:
        return self._machine is not None and self._machine.state is State.CLOSED

    def _state(self) -> str:
        if self._receipt is not None:
            return "committed"
        if self._abandoned:
            return "abandoned, since its block raised"
        if self._has_ended():
            return "failed"
        return "open" if self._plan is None else "fixed by request() or commit()"

    def _refuse_ended(self, operation: str) -> None:
        if self._abandoned or self._has_ended():
            raise TransactionClosed(operation, self._state())

    def _refuse_late(self, operation: str) -> None:
        if self._abandoned or self._plan is not None:
            raise TransactionClosed(operation, self._state())


def _drive(machine: CommitMachine, steady: SteadyTime, setting: Setting) -> Receipt:
    """Obey the machine until it is done."""
    clock, store, entropy = setting.clock, setting.store, setting.entropy

    def now_ms() -> int:
        return steady.now_ms(clock.now_ms(), clock.monotonic_ms())

    command: Command = machine.begin(now_ms())
    while not isinstance(command, Done):
        if isinstance(command, Fail):
            raise command.error
        if isinstance(command, Wait):
            clock.sleep_ms(command.duration_ms)
            command = machine.waited(now_ms())
        elif isinstance(command, Read):
            command = machine.read(store.read(command.table, command.key), now_ms(), entropy.unit())
        else:
            command = machine.answered(store.transact(command.request), now_ms(), entropy.unit())
    return command.receipt


def _condition(
    action: str, condition: object, names: object, values: object, expression: object = None
) -> Expression | None:
    """Return `condition=` as an expression; a caller's texts must use exactly the placeholders given."""
    if condition is None and expression is None and names is None and values is None:
        return None
    given = placeholders_of(names, values, action)
    check_placeholders([each for each in (expression, condition) if isinstance(each, str)], given, action)
    if condition is None:
        return None
    return (
        part(condition, given, "condition", action)
        if isinstance(condition, str)
        else attr_expression(condition, action)
    )


def _about(argument: str, action: str) -> Refusal:
    return lambda said: InvalidAction(action, f"{argument}= {said}")
