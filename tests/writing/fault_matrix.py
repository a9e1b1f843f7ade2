"""The fault matrix of a commit: its dimensions, and what a verdict must be, whoever plays the server.

A combination is what happens to one transaction: the fate of each of its first four attempts, and what happens between
two of them, in the pause after attempt `gap`. From the fifth attempt on all is well. A commit that ends with an error
that may be tried again is tried again, as its caller would.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import CommitUnknown, ConditionFailed, IdempotencyMismatch, OutboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamodb_outbox import Receipt

ATTEMPTS = 4
CALLS = 8
"""Calls of commit() in one combination, at most: a call has one attempt at least, so that the last of them go well."""
MINUTE_MS = 60_000
FATES = ("ok", "before", "after", "conflict", "throttle")
"""Answered; lost before the server acted; lost after it acted; turned away by a conflict; by throttling."""
LOST = frozenset({"before", "after"})
TOKENS = ("alive", "expired")
OWN_ITEMS = {
    "bare": ("none",),
    "record": ("there", "settled", "deleted"),
    "guard": ("there", "settled", "deleted", "forgotten"),
}
"""The record in the gap: untouched, settled, or deleted. `guard` has a guard too, and `forgotten` deletes that."""
SETTLES = ("expire", "mark", "delete", "none")
"""What settling makes of the record: published, deleted, or what it was."""
FOREIGN = {
    "bare": ("none", "takes", "frees"),
    "record": ("none", "takes", "frees"),
    "guard": ("none", "takes", "frees", "twin"),
}
"""Another's commit in the gap: it makes the condition fail, or hold again, or it is the same command run elsewhere."""


@dataclass(frozen=True)
class Combination:
    """One case."""

    kind: str
    fates: tuple[str, ...]
    token: str
    own: str
    foreign: str
    gap: int
    settle: str = "expire"

    @property
    def quiet(self) -> bool:
        """Whether nothing happens in the gap."""
        return (self.token, self.foreign) == ("alive", "none") and self.own in ("none", "there")

    @property
    def pause_ms(self) -> int:
        """How long the gap is. What TTL deletes is deleted a minute after the commit or later."""
        if self.token == "expired":
            return 12 * MINUTE_MS
        return 2 * MINUTE_MS if self.evidence_short else 0

    @property
    def evidence_short(self) -> bool:
        """Whether the item by which a commit is recognised may be gone: it is kept for a minute only."""
        return self.own == "forgotten" or (self.own == "deleted" and self.kind == "record")

    @property
    def may_stay_unknown(self) -> bool:
        """Whether CommitUnknown may be the last word: an attempt was lost, the token has died, nothing else tells."""
        lost = not LOST.isdisjoint(self.fates)
        deleted = self.kind == "record" and self.settle == "delete"
        return lost and self.token == "expired" and (self.kind == "bare" or self.evidence_short or deleted)


def combinations(
    kind: str, gaps: tuple[int, ...], *, attempts: int = ATTEMPTS, settle: str = "expire"
) -> Iterator[Combination]:
    """Yield the product of all dimensions but `settle`; where nothing happens in the gap, one gap stands for all."""
    for fates in itertools.product(FATES, repeat=attempts):
        for token, own, foreign in itertools.product(TOKENS, OWN_ITEMS[kind], FOREIGN[kind]):
            case = Combination(kind, fates, token, own, foreign, gaps[0], settle)
            yield from [case] if case.quiet else (replace(case, gap=gap) for gap in gaps)


def check(verdict: Receipt | OutboxError, case: Combination, commits: int) -> None:
    """Hold one verdict against the truth: `commits` is how often the transaction was committed by now."""
    assert commits <= 1, f"committed twice: {case}"
    if isinstance(verdict, CommitUnknown):
        assert not LOST.isdisjoint(case.fates), f"unknown, though nothing was lost: {case}"
        assert case.pause_ms > 0, f"unknown, though the token was alive all the time: {case}"
    elif isinstance(verdict, OutboxError):
        assert commits == 0, f"committed, and reported as {verdict!r}: {case}"
        assert not isinstance(verdict, IdempotencyMismatch), f"the same command taken for another: {case}"
        assert not isinstance(verdict, ConditionFailed) or case.foreign != "none", f"nothing was in the way: {case}"
    elif verdict.replayed:
        assert case.foreign == "twin", f"a first receipt that nobody wrote: {case}"
        assert commits == 0, f"committed again after the same command: {case}"
    else:
        assert commits == 1, f"a receipt for what was not committed: {case}"


def check_last(verdict: Receipt | OutboxError, case: Combination) -> None:
    """Hold the last verdict to being one: what can be known must be known in the end."""
    if isinstance(verdict, OutboxError) and verdict.retryable:
        assert isinstance(verdict, CommitUnknown), f"no end within {CALLS} calls: {case}: {verdict!r}"
        assert case.may_stay_unknown, f"unknown, though it could be known: {case}"
