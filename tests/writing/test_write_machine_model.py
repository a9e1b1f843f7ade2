"""The commit machine against a server that knows the truth.

The server behaves as DynamoDB does towards tokens, conditions and conflicts, and is as hostile as it may be beyond
that: it loses requests and answers, refuses, throttles, takes its time, and lets TTL remove what TTL may remove.
Whatever it does, the machine's verdict must not contradict what really happened, and nothing may be committed twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st
from write_world import START_MS, other_guard, some_guard, some_plan

from dynamodb_outbox.core.commit.answers import (
    Answer,
    Cancelled,
    Committed,
    Held,
    ItemRead,
    Lost,
    ReadAnswer,
    ReadFailed,
    Reason,
    Refused,
)
from dynamodb_outbox.core.commit.commands import Done, Fail, Read, Send, Wait
from dynamodb_outbox.core.commit.machine import CommitMachine
from dynamodb_outbox.errors import CommitFailed, CommitUnknown, IdempotencyMismatch
from dynamodb_outbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamodb_outbox.core.commit.plan import CommitPlan
    from dynamodb_outbox.core.values import WireItem

MINUTE = 60_000
TOKEN_LIFE = 10 * MINUTE
LAYOUT = Layout(published_for=timedelta(minutes=30))
PLANS: dict[str, Callable[[], CommitPlan]] = {
    "bare": lambda: some_plan(events=0),
    "record": lambda: some_plan(layout=LAYOUT),
    "guard": lambda: some_plan(events=0, guard=some_guard(keep=timedelta(minutes=30))),
    "both": lambda: some_plan(guard=some_guard(keep=timedelta(minutes=30)), layout=LAYOUT),
}
FAILED, NONE, CONFLICT = Reason("ConditionalCheckFailed"), Reason("None"), Reason("TransactionConflict")


HELD: dict[str, Answer] = {
    "throttle": Held("throttle", "ThrottlingException"),
    "unreached": Held("unreached", "EndpointConnectionError"),
}


@dataclass
class Server:
    """One table, one caller under test, and everybody else."""

    plan: CommitPlan
    draw: Callable[..., Any]
    now_ms: int = START_MS
    commits: int = 0
    committed_ms: int = 0
    own_there: bool = False
    foreign_guard: WireItem | None = None
    condition_holds: bool = True
    sent: list[Any] = field(default_factory=list)

    def take(self, request: Any) -> Answer:
        """Handle a request, or do not, and answer, or do not."""
        self.sent.append(request)
        self._meanwhile(longest_ms=50_000)
        if self.draw(st.sampled_from([False] * 4 + [True]), label="request lost"):
            return Lost("request lost")
        answer = self._decide()
        self._meanwhile()
        if self.draw(st.sampled_from([False] * 2 + [True]), label="answer lost"):
            return Lost("answer lost")
        return answer

    def look(self) -> ReadAnswer:
        """Read the evidence."""
        self._meanwhile()
        fate = self.draw(st.sampled_from(["ok"] * 4 + ["throttled", "denied"]), label="read")
        if fate != "ok":
            return ReadFailed(fate, retryable=fate == "throttled")
        if self.foreign_guard is not None:
            return ItemRead(self.foreign_guard)
        own: WireItem = self.plan.request["TransactItems"][-1]["Put"]["Item"]
        return ItemRead(own if self.own_there else None)

    def _decide(self) -> Answer:
        fate = self.draw(st.sampled_from(["ok"] * 6 + ["conflict", "denied", *HELD]), label="server")
        members = len(self.plan.labels)
        if fate == "denied":
            return Refused("AccessDeniedException")
        if fate in HELD:
            return HELD[fate]
        if fate == "conflict":
            return Cancelled((CONFLICT, *[NONE] * (members - 1)))
        if self.commits and self.now_ms < self.committed_ms + TOKEN_LIFE:
            return Committed()
        own_in_the_way = self.own_there or self.foreign_guard is not None
        if not self.condition_holds or own_in_the_way:
            mine = [FAILED if own_in_the_way else NONE] * (members - self.plan.own_from)
            return Cancelled((NONE if self.condition_holds else FAILED, *mine))
        self.commits += 1
        self.committed_ms = self.now_ms
        self.own_there = self.plan.evidence is not None
        # The caller's own condition (the item is absent) may fail from now on, or hold again when somebody deletes it.
        self.condition_holds = self.draw(st.booleans(), label="deleted at once by somebody")
        return Committed()

    def _meanwhile(self, longest_ms: int = 9 * MINUTE) -> None:
        """Let time pass, and let others and TTL do what they may. A request travels for less than a minute."""
        spans = [span for span in (1, 1, 1, 50, 5_000, 50_000, 9 * MINUTE) if span <= longest_ms]
        self.now_ms += self.draw(st.sampled_from(spans), label="time")
        if self.draw(st.sampled_from([False] * 5 + [True]), label="others write"):
            self.condition_holds = not self.condition_holds
        evidence = self.plan.evidence
        if evidence is not None and self.own_there and self.now_ms >= self.plan.at_ms + evidence.lasts_ms:
            self.own_there = not self.draw(st.booleans(), label="removed by TTL")


def run(server: Server, machine: CommitMachine, draw: Callable[..., Any]) -> Done | Fail:
    """Drive the machine through one call of commit()."""
    command = machine.begin(server.now_ms)
    for _ in range(10_000):
        if isinstance(command, (Done, Fail)):
            return command
        if isinstance(command, Wait):
            server.now_ms += max(1, command.duration_ms)
            command = machine.waited(server.now_ms)
        elif isinstance(command, Send):
            if draw(st.sampled_from([False] * 15 + [True]), label="interrupted"):
                server.take(command.request)
                command = machine.begin(server.now_ms)
                continue
            answer = server.take(command.request)
            command = machine.answered(answer, server.now_ms, draw(st.sampled_from([0.0, 0.5, 0.99])))
        else:
            assert isinstance(command, Read)
            command = machine.read(server.look(), server.now_ms, 0.5)
    raise AssertionError("the machine does not come to an end")


def check(command: Done | Fail, server: Server) -> None:
    """Hold a verdict against the truth."""
    assert server.commits <= 1, "committed twice"
    if isinstance(command, Done):
        note(f"done by {command.receipt.resolved_by}{', replayed' if command.receipt.replayed else ''}")
        assert server.commits == (0 if command.receipt.replayed else 1), "a receipt for what was not committed"
    elif isinstance(command.error, CommitUnknown):
        note("unknown")
    else:
        note(type(command.error).__name__)
        assert isinstance(command.error, (CommitFailed, IdempotencyMismatch))
        assert server.commits == 0, "a committed change reported as failed"


@pytest.mark.parametrize("kind", PLANS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_verdict_contradicts_the_truth(kind: str, data: st.DataObject) -> None:
    """Over up to four commit() calls every verdict is true, nothing is committed twice, all requests are the same."""
    plan = PLANS[kind]()
    server = Server(plan, data.draw)
    machine = CommitMachine(plan, data.draw(st.sampled_from([100, 2_000]), label="budget"))
    for _ in range(4):
        command = run(server, machine, data.draw)
        check(command, server)
        if isinstance(command, Done) or not command.error.retryable:
            break
        server.now_ms += data.draw(
            st.sampled_from([1, MINUTE, 10 * MINUTE, 40 * MINUTE]), label="until the next commit()"
        )
    assert all(request is plan.request for request in server.sent)


@pytest.mark.parametrize("same", [True, False])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_command_that_ran_before_is_never_run_again(same: bool, data: st.DataObject) -> None:
    """With the guard of an earlier run in the table nothing is committed: the first receipt, or a mismatch."""
    plan = PLANS["both"]()
    item: dict[str, Any] = plan.request["TransactItems"][-1]["Put"]["Item"]
    other = {"tx": {"S": "other"}} | ({} if same else {"fingerprint": {"S": "other"}})
    server = Server(plan, data.draw, foreign_guard=other_guard(item, **other))
    command = run(server, CommitMachine(plan, 2_000), data.draw)
    assert server.commits == 0
    if isinstance(command, Done):
        assert same
        assert command.receipt.replayed
    elif isinstance(command.error, IdempotencyMismatch):
        assert not same


def test_a_friendly_server_leaves_nothing_unknown() -> None:
    """Where an answer follows on the loss, no verdict is CommitUnknown: the machine does not take the easy way."""
    verdicts: Counter[str] = Counter()
    for make in PLANS.values():
        for lost_before in (True, False):
            plan = make()
            machine = CommitMachine(plan, 10_000)
            now = START_MS
            committed = not lost_before
            command = machine.begin(now)
            assert isinstance(command, Send)
            command = machine.answered(Lost("gone"), now + 1, 0.5)
            assert isinstance(command, Wait)
            command = machine.waited(now + 20)
            assert isinstance(command, Send)
            if committed:
                command = machine.answered(Committed(), now + 30, 0.5)
            else:
                command = machine.answered(Cancelled((FAILED, *[NONE] * (len(plan.labels) - 1))), now + 30, 0.5)
                if isinstance(command, Read):
                    command = machine.read(ItemRead(None), now + 40, 0.5)
            verdicts[type(command.error).__name__ if isinstance(command, Fail) else type(command).__name__] += 1
    assert verdicts == {"Done": 4, "ConditionFailed": 4}
