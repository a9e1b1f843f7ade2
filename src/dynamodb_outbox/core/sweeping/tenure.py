"""The lease of one partition in the hands of one sweep: seen, taken, kept, left. The rules are those of `leases`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.core.sweeping.leases import MAY_TAKE, Held, left_by, standing, wanted
from dynamodb_outbox.core.timing import UNBOUNDED_MS

if TYPE_CHECKING:
    from dynamodb_outbox.core.record.leases import Lease
    from dynamodb_outbox.core.sweeping.leases import Now

__all__ = ["Tenure"]


class Tenure:
    """What `owner` knows of a lease that lasts `lease_ms`; None: none is needed.

    `seen` is what was stored when it was last read or written, None before that, and where nothing was.
    """

    def __init__(self, owner: str, lease_ms: int | None) -> None:
        self.seen: Lease | None = None
        self._owner = owner
        self._lease_ms = lease_ms
        self._held: Held | None = None
        self._writing: Held | None = None

    @property
    def is_missing(self) -> bool:
        """Whether a lease is needed, and not held."""
        return self._lease_ms is not None and self._held is None

    @property
    def is_held(self) -> bool:
        """Whether a lease is held; it may have ended."""
        return self._held is not None

    def may_be_taken(self, found: Lease | None, now: Now) -> bool:
        """Take in what is stored; return whether it may be taken."""
        self.seen, self._held = found, None
        return MAY_TAKE[standing(found, self._owner, now.wall_ms)]

    def next(self, now: Now) -> Lease:
        """Return the lease to write, to have it or to keep it; it counts from now."""
        self._writing = Held(wanted(self._owner, self.seen, now.wall_ms, self._lease_ms or 0), now)
        return self._writing.lease

    def written(self) -> None:
        """Take in that the lease is stored that was last to be."""
        if self._writing is not None:
            self.seen, self._held = self._writing.lease, self._writing

    def lost(self) -> None:
        """Take in that it is not held, or that nobody knows."""
        self._held = None

    def last(self, now: Now) -> Lease | None:
        """Return the lease to write, to leave it; None when it is not held."""
        return None if self._held is None else left_by(self._held.lease, now.wall_ms)

    def left_ms(self, now: Now) -> int:
        """Return for how long something may be published yet, as far as the lease goes."""
        if self._lease_ms is None:
            return UNBOUNDED_MS
        return 0 if self._held is None else self._held.left_ms(now, self._lease_ms)
