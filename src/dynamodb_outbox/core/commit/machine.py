"""The commit as a pure machine: answers and times go in, one command at a time comes out.

The shell obeys. `Send` and hand the answer to `answered`; `Wait` and call `waited`; `Read` and hand the item to `read`;
`Done` and `Fail` end this call of commit(). The request is the same to the byte each time, its token too.

        begin                 Held, conflict, Lost              time is up
    NEW ------> SENT ------------------------------> WAITING -------------+
                 |  ^-------------- waited ------------'                  |
                 |                                          doubt: READING, else STOPPED
                 +-- Committed ------------------------> CLOSED, Done
                 +-- condition, permanent, Refused ----> CLOSED, Fail     or READING first
    READING: our record or guard is there -> Done; absent -> Fail, or CommitUnknown; unreadable -> again

*Doubt* begins when an answer is lost, also inside the SDK, and never ends: any later answer but success may be the echo
of an attempt that was committed. Three things dispel it, in this order of strength.

1. The token. Within its life DynamoDB answers a repeated request with success if an earlier one was committed. So a
   cancellation that arrives within that life says that none was. We count 9 minutes from the first send, of 10.
2. The evidence. A record or a guard that is in the table was committed with the rest. Because it is put under a
   condition, a request that has one may be sent again after the token's life: a second commit cannot pass.
3. Absence of the evidence, but only while nothing can have removed it, and only after a cancellation: a request that
   was merely refused (rights, for one) says nothing about an earlier one that may still be under way.

What is left is CommitUnknown: never a guess. From it, and from CommitConflict, CommitThrottled and CommitUnreached,
`begin` goes on.

Two things are taken for granted. `now_ms` never goes back and does not lag behind real time, or a token would outlive
its life (`core.commit.steady`). And a request that is sent is at work within a minute, or never: hence 9 minutes.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from dynamodb_outbox.core.commit.answers import (
    Answer,
    Committed,
    Held,
    Lost,
    ReadAnswer,
    ReadFailed,
    Refused,
)
from dynamodb_outbox.core.commit.commands import Command, Done, Fail, Read, Send, Wait
from dynamodb_outbox.core.commit.receipt import Receipt
from dynamodb_outbox.core.commit.verdicts import cancellation, guard_verdict, held, own_item_stood, retryable
from dynamodb_outbox.core.limits import TOKEN_LIFE_MS
from dynamodb_outbox.core.timing import full_jitter_ms
from dynamodb_outbox.errors import CommitFailed, CommitUnknown, ConditionFailed, OutboxError

if TYPE_CHECKING:
    from dynamodb_outbox.core.commit.plan import CommitPlan
    from dynamodb_outbox.core.values import WireItem

__all__ = ["CommitMachine", "State"]

_TOKEN_TRUSTED_MS = TOKEN_LIFE_MS - 60_000
_CLOCK_SKEW_MS = 5 * 60_000
"""How far this machine's clock may be from the one by which TTL removes things."""
_FIRST_PAUSE_MS = 25
_LONGEST_PAUSE_MS = 1_000
_NO_ANSWER = "an item of the transaction's own was in its way"


class State(Enum):
    """What the machine waits for."""

    NEW = "begin"
    SENT = "answered"
    WAITING = "waited"
    READING = "read"
    STOPPED = "begin again"
    CLOSED = "nothing"


class CommitMachine:
    """Brings one plan to its end. `budget_ms` is the time for one call of commit(), from `begin` on."""

    def __init__(self, plan: CommitPlan, budget_ms: int) -> None:
        self._plan = plan
        self._budget_ms = budget_ms
        self.state = State.NEW
        self._deadline_ms = 0
        self._first_sent_ms: int | None = None
        self._pauses = 0
        self._doubt: str | None = None
        """Why the outcome of an attempt is unknown; None while it is known of each one."""
        self._pending: CommitFailed | None = None
        """The error that the absence of the evidence would confirm; None: it would confirm nothing."""
        self._token_spoke = False
        """Whether `pending` came within the token's life."""
        self._looking = False

    def begin(self, now_ms: int) -> Command:
        """Start, or go on after an error that is retryable or after the shell was interrupted."""
        if self.state is State.CLOSED:
            raise RuntimeError("this commit has ended")
        if self.state is State.SENT:
            self._doubt = "the call was interrupted before its answer came"
        self._deadline_ms = now_ms + self._budget_ms
        self._pauses = 0
        return self._send(now_ms)

    def answered(self, answer: Answer, now_ms: int, unit: float) -> Command:
        """Take the answer to `Send`; `unit` is a random number from 0 (included) to 1 (excluded), for jitter."""
        self._expect(State.SENT)
        if isinstance(answer, Committed):
            receipt = self._plan.receipt  # that of a plain answer
            return self._done(receipt if self._doubt is None else replace(receipt, resolved_by="token"))
        if isinstance(answer, Lost):
            self._doubt = answer.detail
            return self._pause(None, now_ms, unit)
        if answer.repeated and self._doubt is None:
            self._doubt = "the client repeated the request by itself"
        if isinstance(answer, Held):
            return self._pause(held(answer), now_ms, unit)
        if isinstance(answer, Refused):
            return self._judge(CommitFailed((), detail=answer.detail), now_ms, cancelled=False, own_stood=False)
        error = cancellation(answer, self._plan)
        if retryable(answer):
            return self._pause(error, now_ms, unit)
        return self._judge(error, now_ms, cancelled=True, own_stood=own_item_stood(answer, self._plan))

    def waited(self, now_ms: int) -> Command:
        """Go on after `Wait`."""
        self._expect(State.WAITING)
        return self._look(self._pending) if self._looking else self._send(now_ms)

    def read(self, answer: ReadAnswer, now_ms: int, unit: float) -> Command:
        """Take the answer to `Read`."""
        self._expect(State.READING)
        if isinstance(answer, ReadFailed):
            return self._unread(answer, now_ms, unit)
        if answer.item is None:
            return self._absent(now_ms)
        return self._found(answer.item)

    # --- what comes next ----------------------------------------------------------------------------------------------

    def _send(self, now_ms: int) -> Command:
        if self._first_sent_ms is None:
            self._first_sent_ms = now_ms
        elif self._doubt is not None and not self._token_lives(now_ms) and not self._evidence_lasts(now_ms):
            return self._look(None)
        self._looking = False
        self.state = State.SENT
        return Send(self._plan.request)

    def _pause(self, error: CommitFailed | None, now_ms: int, unit: float) -> Command:
        """Wait and send again; when the time is up, raise `error` (None: there is none, the outcome is unknown)."""
        wait = self._wait(now_ms, unit)
        if wait is not None:
            return wait
        return self._look(None) if error is None or self._doubt is not None else self._fail(error)

    def _wait(self, now_ms: int, unit: float) -> Wait | None:
        """Return a pause with full jitter, None when it would not end within the time."""
        pause_ms = full_jitter_ms(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, self._pauses, unit)
        self._pauses += 1
        if now_ms + pause_ms >= self._deadline_ms:
            return None
        self.state = State.WAITING
        return Wait(pause_ms)

    def _judge(self, error: CommitFailed, now_ms: int, *, cancelled: bool, own_stood: bool) -> Command:
        """Raise an error that a repetition cannot cure, unless something hints at a commit: then look first."""
        self._token_spoke = cancelled and self._token_lives(now_ms)
        evidence = self._plan.evidence
        replayable = evidence is not None and evidence.kind == "guard" and isinstance(error, ConditionFailed)
        if evidence is not None and (self._doubt is not None or own_stood or replayable):
            return self._look(error if cancelled and not own_stood else None)
        if self._doubt is not None and not self._token_spoke:
            # Without the advice: that nothing was written is known of this attempt alone.
            return self._unknown(f"{self._doubt}; then {str(error).removesuffix(f'. {error.advice}')}")
        return self._fail(error)

    def _look(self, pending: CommitFailed | None) -> Command:
        self._pending = pending
        evidence = self._plan.evidence
        if evidence is None:
            return self._unknown(self._doubt or _NO_ANSWER)
        self._looking = True
        self.state = State.READING
        return Read(evidence.table, evidence.key)

    # --- what the evidence says ---------------------------------------------------------------------------------------

    def _found(self, item: WireItem) -> Command:
        if self._plan.fingerprint is None:
            return self._done(replace(self._plan.receipt, resolved_by="record"))
        evidence = self._plan.evidence
        verdict = guard_verdict(item, self._plan, "" if evidence is None else evidence.table)
        return self._done(verdict) if isinstance(verdict, Receipt) else self._fail(verdict)

    def _absent(self, now_ms: int) -> Command:
        certain = self._doubt is None or self._token_spoke or self._evidence_lasts(now_ms)
        if self._pending is not None and certain:
            return self._fail(self._pending)
        return self._unknown(f"{self._doubt or _NO_ANSWER}, and the transaction's own item is not in the table")

    def _unread(self, answer: ReadFailed, now_ms: int, unit: float) -> Command:
        wait = self._wait(now_ms, unit) if answer.retryable else None
        return wait or self._unknown(f"{self._doubt or _NO_ANSWER}, and looking for it failed: {answer.detail}")

    def _token_lives(self, now_ms: int) -> bool:
        return self._first_sent_ms is not None and now_ms - self._first_sent_ms < _TOKEN_TRUSTED_MS

    def _evidence_lasts(self, now_ms: int) -> bool:
        evidence = self._plan.evidence
        return evidence is not None and now_ms < self._plan.at_ms + evidence.lasts_ms - _CLOCK_SKEW_MS

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _done(self, receipt: Receipt) -> Command:
        self.state = State.CLOSED
        return Done(receipt)

    def _unknown(self, reason: str) -> Command:
        return self._fail(CommitUnknown(self._plan.token, reason))

    def _fail(self, error: OutboxError) -> Command:
        self.state = State.STOPPED if error.retryable else State.CLOSED
        return Fail(error)

    def _expect(self, state: State) -> None:
        if self.state is not state:
            raise RuntimeError(f"the machine waits for {self.state.value}")
