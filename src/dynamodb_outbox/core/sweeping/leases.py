"""Who may sweep a partition of the index: rules of its lease, none of which takes a clock at its word.

Two sweeps of one partition at once lose nothing and reorder nothing, for each publishes the events of a key in order,
from the first that is pending. They publish what both have read twice. The lease keeps that from happening in ordinary
times; in others (a clock that is wrong, a process that was frozen) it ends the sweep that has lost it.

*Taking it.* What is stored says until when it lasts, by the clock of who has it, and for how long it was taken, which
is another time for sweepers with other time-outs. `Standing` says what that means by the clock of who asks. One that
was set back sees leases that last for longer than they were taken for; a clock that was ahead leaves such a lease
behind. It is taken then, for else it would keep everybody out until that clock is right.

*Keeping it.* Every write demands the owner and the version that the writer has seen last. Who finds another version has
lost the lease and publishes nothing more. It is written anew before each round of publishing, so the next round after
another has taken it is the last that is not begun. Nobody publishes beyond the end of the own lease, which is counted
from before the request that wrote it: by a clock that never goes back, or by the wall clock, whichever says more. The
one may stand still in a process that is frozen, the other may be set back.

*An answer that was lost* is read: who finds the own name there has the lease, as it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dynamodb_outbox.core.record.leases import Lease

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAY_TAKE", "SKEW_MS", "Held", "Now", "Standing", "left_by", "standing", "wanted"]

SKEW_MS = 10 * 1000
"""How far the clocks of two sweepers are taken to be apart."""


class Now(NamedTuple):
    """The time by two clocks: epoch milliseconds, which may jump, and one that never goes back."""

    wall_ms: int
    steady_ms: int


class Standing(Enum):
    """What a stored lease is to who asks for it."""

    NONE = "nobody has ever had it"
    LEFT = "who had it has left it"
    OWN = "the asking sweep has it"
    OVER = "it has ended, by more than clocks differ"
    ABSURD = "it lasts for longer than it was taken for, by more than clocks differ"
    LASTS = "another sweep has it"


MAY_TAKE: Mapping[Standing, bool] = MappingProxyType({each: each is not Standing.LASTS for each in Standing})
"""Whether a lease of that standing may be taken."""


def standing(lease: Lease | None, owner: str, now_ms: int) -> Standing:
    """Return what a stored lease (None: there is none) is to `owner`, at `now_ms` of wall-clock time."""
    if lease is None:
        return Standing.NONE
    if not lease.owner:
        return Standing.LEFT
    if lease.owner == owner:
        return Standing.OWN
    if lease.until_ms + SKEW_MS <= now_ms:
        return Standing.OVER
    if lease.until_ms > now_ms + lease.lasts_ms + SKEW_MS:
        return Standing.ABSURD
    return Standing.LASTS


def wanted(owner: str, seen: Lease | None, now_ms: int, lease_ms: int) -> Lease:
    """Return the lease to write in place of the one that was seen."""
    version, swept_ms = (0, None) if seen is None else (seen.version, seen.swept_ms)
    return Lease(owner, version + 1, now_ms + lease_ms, swept_ms, lease_ms)


def left_by(seen: Lease, now_ms: int) -> Lease:
    """Return the lease to write by who leaves it: the sweep of the partition has ended now."""
    return Lease("", seen.version + 1, 0, now_ms)


@dataclass(frozen=True)
class Held:
    """A lease that this sweep has, and when the request began that wrote it."""

    lease: Lease
    began: Now

    def left_ms(self, now: Now, lease_ms: int) -> int:
        """Return for how long it lasts yet; 0 when it has ended."""
        passed_ms = max(now.steady_ms - self.began.steady_ms, now.wall_ms - self.began.wall_ms)
        return max(0, lease_ms - passed_ms)
