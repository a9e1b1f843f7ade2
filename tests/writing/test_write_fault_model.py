"""The fault matrix, all of it, against a server that knows the truth and takes no time."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fault_matrix import ATTEMPTS, CALLS, MINUTE_MS, SETTLES, Combination, check, check_last, combinations
from write_world import START_MS, other_guard, some_guard, some_plan

from dynamodb_outbox.core.commit.answers import Answer, Cancelled, Committed, Held, ItemRead, Lost, Reason
from dynamodb_outbox.core.commit.commands import Command, Done, Fail, Read, Send, Wait
from dynamodb_outbox.core.commit.machine import CommitMachine
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from dynamodb_outbox.core.commit.plan import CommitPlan
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.errors import OutboxError

pytestmark = pytest.mark.usefixtures("uncovered")

TOKEN_LIFE_MS = 10 * MINUTE_MS
BUDGET_MS = 20_000
FAILED, NONE, CONFLICT = Reason("ConditionalCheckFailed"), Reason("None"), Reason("TransactionConflict")


@functools.cache
def plan_of(kind: str, settle: Any, *, short: bool) -> CommitPlan:
    """Return the plan of one conditional put; `short`: its record and its guard are kept for a minute."""
    kept = timedelta(minutes=1 if short else 7 * 24 * 60)
    guard = some_guard(keep=kept) if kind == "guard" else None
    layout = Layout(published_for=kept, settle=settle)
    return some_plan(events=0 if kind == "bare" else 1, guard=guard, layout=layout)


@dataclass
class Server:
    """One table, the caller's attempts on it, and what the combination says happens in the gap."""

    case: Combination
    plan: CommitPlan
    now_ms: int = START_MS
    attempts: int = 0
    commits: int = 0
    committed_ms: int = 0
    condition_holds: bool = True
    record_there: bool = False
    guard: WireItem | None = None
    disturbed: bool = False

    def take(self, request: Any) -> Answer:
        """Do to the next attempt what its fate says."""
        assert request is self.plan.request
        self.attempts += 1
        fate = self.case.fates[self.attempts - 1] if self.attempts <= ATTEMPTS else "ok"
        if fate == "before":
            return Lost("on its way")
        if fate == "throttle":
            return Held("throttle", "ThrottlingException")
        if fate == "conflict":
            return Cancelled((CONFLICT, *[NONE] * (len(self.plan.labels) - 1)))
        answer = self._act()
        return Lost("on its way back") if fate == "after" else answer

    def look(self) -> ItemRead:
        """Read the evidence."""
        evidence = self.plan.evidence
        assert evidence is not None
        if evidence.kind == "guard":
            return ItemRead(self.guard)
        return ItemRead(self._own[-1] if self.record_there else None)

    def pass_gap(self) -> None:
        """Let happen what happens after attempt `gap`, once."""
        if self.disturbed or self.attempts < self.case.gap:
            return
        self.disturbed = True
        self.now_ms += self.case.pause_ms
        if self.case.own == "deleted" or (self.case.own == "settled" and self.case.settle == "delete"):
            self.record_there = False
        elif self.case.own == "forgotten":
            self.guard = None
        if self.case.foreign == "takes":
            self.condition_holds = False
        elif self.case.foreign == "frees":
            self.condition_holds = True
        elif self.case.foreign == "twin" and self.guard is None and self.condition_holds:
            self.guard = other_guard(self._own[-1], tx={"S": "another's"})
            self.condition_holds = False

    def _act(self) -> Answer:
        if self.commits and self.now_ms < self.committed_ms + TOKEN_LIFE_MS:
            return Committed()
        mine = [FAILED if there else NONE for there in self._own_there()]
        if not self.condition_holds or FAILED in mine:
            return Cancelled((NONE if self.condition_holds else FAILED, *mine))
        self.commits += 1
        self.committed_ms = self.now_ms
        self.condition_holds = False  # its own item is there now
        self.record_there = self.case.kind != "bare"
        self.guard = self._own[-1] if self.case.kind == "guard" else None
        return Committed()

    def _own_there(self) -> list[bool]:
        there = {"bare": [], "record": [self.record_there], "guard": [self.record_there, self.guard is not None]}
        return there[self.case.kind]

    @property
    def _own(self) -> list[WireItem]:
        return [member["Put"]["Item"] for member in self.plan.request["TransactItems"][self.plan.own_from :]]


def one_call(machine: CommitMachine, server: Server) -> Done | Fail:
    """Drive the machine through one call of commit()."""
    command: Command = machine.begin(server.now_ms)
    while not isinstance(command, (Done, Fail)):
        if isinstance(command, Send):
            command = machine.answered(server.take(command.request), server.now_ms, 0.5)
            server.pass_gap()
        elif isinstance(command, Wait):
            server.now_ms += max(1, command.duration_ms)
            command = machine.waited(server.now_ms)
        else:
            assert isinstance(command, Read)
            command = machine.read(server.look(), server.now_ms, 0.5)
    return command


def run(case: Combination) -> Counter[str]:
    """Run one combination to its end, checking each verdict; count how it ended."""
    plan = plan_of(case.kind, case.settle, short=case.evidence_short)
    server = Server(case, plan)
    machine = CommitMachine(plan, BUDGET_MS)
    error: OutboxError | None = None
    for _ in range(CALLS):
        ended = one_call(machine, server)
        error = ended.error if isinstance(ended, Fail) else None
        check(ended.receipt if isinstance(ended, Done) else ended.error, case, server.commits)
        if error is None or not error.retryable:
            break
    if error is not None:
        check_last(error, case)
    how = type(error).__name__ if error is not None else "committed"
    return Counter({"combinations": 1, "disturbed": int(server.disturbed), how: 1})


@pytest.mark.parametrize(
    ("kind", "settle"),
    [
        ("bare", "expire"),
        ("record", "expire"),
        pytest.param("guard", "expire", marks=pytest.mark.slow),
        pytest.param("guard", "delete", marks=pytest.mark.slow),
        *(pytest.param("record", settle, marks=pytest.mark.slow) for settle in SETTLES[1:]),
    ],
)
def test_the_whole_matrix(
    kind: str, settle: str, record_testsuite_property: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each fate at each of four attempts, each gap, token, own item and foreign commit: one commit, true verdicts.

    For each way of settling that could make a difference: without a record there is nothing to settle, and with a guard
    what matters is whether the record is deleted.
    """
    total: Counter[str] = Counter()
    for case in combinations(kind, tuple(range(1, ATTEMPTS + 1)), settle=settle):
        total += run(case)
    record_testsuite_property(f"fault_matrix_model_{kind}_{settle}", total["combinations"])
    with capsys.disabled():
        print(f"\nfault matrix, model server, {kind}, {settle}: {dict(total)}")  # noqa: T201 -- the count is what is to be shown
    assert total["combinations"] == {"bare": 13_125, "record": 43_125, "guard": 78_125}[kind]
