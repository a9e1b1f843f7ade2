"""The faults of a simulated world: all kinds by name, a plan of single ones, and what is left of it in a run.

A plan is an explicit list, so that each fault can be left out by itself. A fault is armed at a time and strikes the
next chances it has (calls, entries, invocations, whatever its kind is about), `times` of them; one that lasts is in
force for a while instead and strikes all of them. Nothing strikes at or after the plan's `until_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dynamodb_outbox.testing.simulation.facts import Faulted

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView, Mapping

    from dynamodb_outbox.testing.simulation.facts import Ledger
    from dynamodb_outbox.testing.simulation.kernel import Kernel

__all__ = [
    "CONSUMED",
    "FAULTS",
    "FOREIGN",
    "LASTING",
    "PARTS",
    "RECOVERY",
    "SILENT",
    "UNSEEN",
    "USUAL",
    "FaultPlan",
    "Faults",
    "Met",
    "PlannedFault",
]

PARTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "bus": {
            "entry_throttled": "The bus answers 200 and says ThrottlingException of an entry.",
            "entry_internal": "The bus answers 200 and says InternalFailure, or the like, of an entry.",
            "entry_denied": "The bus answers 200 and says AccessDeniedException, or the like, of an entry.",
            "entry_unknown_code": "The bus answers 200 and refuses an entry with a code that nobody knows.",
            "entry_no_result": "The bus answers 200, and an entry's result has neither an EventId nor an ErrorCode.",
            "entry_miscounted": "The bus answers 200 with a FailedEntryCount that its results contradict: one is lost.",
            "entry_malformed_answer": "The bus accepts a request and answers with one result too few.",
            "content_refused": "For a while the bus refuses every entry for what it says, wrongly.",
            "request_rejected": "An invalid entry makes the bus refuse the whole request (ValidationException).",
            "throttled_request": "The bus refuses a whole request with ThrottlingException.",
            "reset_before": "A request does not reach the bus: a reset, or silence when the fault has an amount.",
            "reset_after": "The answer of the bus is lost: a reset, or silence when the fault has an amount.",
            "missing_target": "For a while a target that says so is missing (ResourceNotFoundException each time).",
            "access_denied": "For a while the bus refuses the caller (AccessDeniedException for each request).",
        },
        "target": {
            "target_vanishes": "For a while there is no such bus: EventBridge answers 200, and the events are gone.",
        },
        "network": {
            "slow": "A call takes `amount_ms` longer; a bus or the table may act on it after its caller has given up.",
            "outage": "A bus, a table, or all of them cannot be reached for a while: refused, or a time-out.",
        },
        "table": {
            "settle_throttled": "The table throttles a settle, or one statement of it.",
            "settle_lost_before": "A settle does not reach the table.",
            "settle_lost_after": "The answer to a settle is lost.",
            "park_throttled": "The table throttles a call of a park.",
            "park_lost_before": "A call of a park does not reach the table.",
            "park_lost_after": "The answer to a call of a park is lost.",
        },
        "function": {
            "crash": "A process of a function dies at the `nth` boundary of an effect in an invocation.",
            "function_timeout": "A function hangs at the `nth` boundary of an effect until its time-out ends it.",
            "invoke_throttled": "A function is not run, for want of concurrency.",
            "cold_start": "A warm instance of a function is replaced by a new one.",
        },
        "source": {
            "source_restart": "The event source dies between an answer and its checkpoint, and starts again from that.",
            "source_killed": "The event source dies, whatever is under way, and starts again from its checkpoint.",
            "redelivered": "The event source hands a batch over again that was done.",
            "iterator_expired": "An iterator of the event source expires.",
        },
        "stream": {
            "shard_split": "A shard is closed and has two children.",
            "late_visibility": "Records become visible in the stream `amount_ms` later.",
            "trim": "The oldest records go out of the stream.",
        },
        "writer": {
            "commit_lost_before": "A transaction does not reach the table.",
            "commit_lost_after": "The answer to a transaction is lost.",
            "commit_conflict": "A transaction meets another one at work on an item.",
            "commit_throttled": "The table throttles a transaction.",
            "writer_crash": "A writer dies at the `nth` boundary of an effect.",
        },
        "consumer": {
            "consumer_crash": "A process of the consumer dies at the `nth` boundary of an effect in a delivery.",
            "consumer_frozen": "A process of the consumer stands still for a while, after an effect, and goes on.",
            "message_late": "A message comes to the consumer `amount_ms` later.",
            "message_again": "A message comes again that was acknowledged, soon or `amount_ms` later.",
            "apply_lost_before": "A call of the consumer does not reach its table.",
            "apply_lost_after": "The answer of the consumer's table is lost.",
            "apply_conflict": "A transaction of the consumer meets another one at work on an item.",
            "apply_throttled": "The consumer's table throttles a call.",
        },
        "clock": {
            "clock_skew": "A process starts with a wall clock that is off by `amount_ms`.",
            "clock_jump": "The wall clock of a process jumps by `amount_ms`.",
        },
        "recovery": {
            "recovery_throttled": "The table throttles a call of a sweeper or an operator.",
            "recovery_lost_before": "A read of a sweeper or an operator, or a write of it, does not reach the table.",
            "recovery_lost_after": "The answer to a read or a write of a sweeper or an operator is lost.",
            "recovery_crash": "The process of a sweeper or an operator dies at the `nth` boundary of an effect.",
            "recovery_frozen": "Their process stands still after an effect, for `amount_ms`, and goes on.",
        },
        "items": {
            "ttl_delete": "TTL deletes a record.",
            "operator_delete": "Somebody deletes a record.",
            "replicated": "A record comes in from another Region of a global table; its own Region publishes it.",
        },
    }
)
"""All kinds of faults by the part of the world that they are about, with a sentence each."""

FAULTS: Mapping[str, str] = MappingProxyType({kind: words for part in PARTS.values() for kind, words in part.items()})
"""All kinds of faults, with a sentence each."""

LASTING = frozenset(("outage", "missing_target", "access_denied", "content_refused", "target_vanishes"))
"""Kinds that are in force from `at_ms` for `amount_ms` and strike every time."""

SILENT = frozenset(kind for kind in FAULTS if kind.endswith(("_before", "_after")))
"""Kinds that break a connection: with a reset, or in silence when the fault has an amount."""

UNSEEN = frozenset(PARTS["target"])
"""Kinds of which no answer tells, so that a relay finds them out beforehand or not at all; off unless asked for."""

FOREIGN = frozenset(("replicated",))
"""Kinds that are the doing of somebody who is no writer of the run."""

CONSUMED = frozenset(PARTS["consumer"])
"""Kinds that strike where there is a consumer."""

RECOVERY = frozenset(PARTS["recovery"])
"""Kinds that strike who publishes what the stream has left behind: only where there is somebody."""

USUAL = frozenset(FAULTS) - UNSEEN
"""All kinds but those that are unseen."""


@dataclass(frozen=True)
class PlannedFault:
    """One fault of a plan.

    kind        a name of FAULTS
    at_ms       when it is armed, virtual milliseconds
    where       what it is about: a destination, a table ("table"), a function, a shard, a writer; "": whatever is next
    amount_ms   how long it lasts, how late something gets, by how much a clock is off: its kind says which
    nth         at which boundary of an effect it strikes, from 0
    times       how often it strikes
    """

    kind: str
    at_ms: int
    where: str = ""
    amount_ms: int = 0
    nth: int = 0
    times: int = 1


@dataclass(frozen=True)
class FaultPlan:
    """The faults of a run; none of them strikes at or after `until_ms`. Raises ValueError for an unknown kind."""

    faults: tuple[PlannedFault, ...] = ()
    until_ms: int = 0

    def __post_init__(self) -> None:
        if unknown := {fault.kind for fault in self.faults} - FAULTS.keys():
            raise ValueError(f"no kinds of faults: {sorted(unknown)}")

    def of(self, *kinds: str) -> tuple[PlannedFault, ...]:
        """Return the faults of these kinds that are armed before the end, in order of time."""
        chosen = [fault for fault in self.faults if fault.kind in kinds and fault.at_ms < self.until_ms]
        return tuple(sorted(chosen, key=lambda fault: fault.at_ms))


class Met(NamedTuple):
    """What a fault meets, as far as that is known; see `Faulted`."""

    call: int = 0
    process: str = ""
    shard: str = ""


NOTHING = Met()


class Faults:
    """What is left of a plan in a run, and a note in the ledger of each fault that strikes.

    `left` are the kinds of which there is something left: of all others `take` finds nothing.
    """

    def __init__(self, plan: FaultPlan, kernel: Kernel, ledger: Ledger) -> None:
        self._until_ms = plan.until_ms
        self._kernel = kernel
        self._ledger = ledger
        self._left: dict[str, list[list[int]]] = {}  # kind -> [number of the fault, strikes left]
        self._planned = plan.of(*FAULTS)
        for number, fault in enumerate(self._planned):
            self._left.setdefault(fault.kind, []).append([number, fault.times])
        self.left: KeysView[str] = self._left.keys()

    def take(
        self, kind: str, where: str = "", *, invocation: int = 0, boundary: int | None = None, met: Met = NOTHING
    ) -> PlannedFault | None:
        """Return the fault of a kind that strikes here and now, noted with what it `met`, or None.

        With `boundary`, from its nth on.
        """
        left = self._left.get(kind)
        if left is None:
            return None
        now_ms = self._kernel.now_ms
        if now_ms >= self._until_ms:
            return None
        for one in left:
            fault = self._planned[one[0]]
            if fault.at_ms > now_ms:
                return None  # in order of time
            if (fault.where and fault.where != where) or (boundary is not None and boundary < fault.nth):
                continue
            if kind in LASTING:
                if now_ms >= fault.at_ms + fault.amount_ms:
                    continue
            else:
                one[1] -= 1
                if not one[1]:
                    left.remove(one)
                if not left:
                    del self._left[kind]
            self.note(kind, where, invocation=invocation, met=met)
            return fault
        return None

    def first(self, kinds: Iterable[str], where: str = "", *, invocation: int = 0) -> PlannedFault | None:
        """Return the fault of the first of these kinds that strikes here and now, noted, or None."""
        for kind in kinds:
            if kind in self.left and (fault := self.take(kind, where, invocation=invocation)) is not None:
                return fault
        return None

    def note(self, kind: str, where: str = "", *, invocation: int = 0, met: Met = NOTHING) -> None:
        """Note a fault that was made at its time, without `take`."""
        self._ledger.note(Faulted(self._kernel.now_ms, kind, where, invocation, *met))
