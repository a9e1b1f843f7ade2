"""How long to wait for something that may never come: pure, the time is an argument."""

from __future__ import annotations

__all__ = ["Patience"]

_STILL_S = 0.4
_QUIET_S = 8.0


class Patience:
    """Tells when a wait that began at `now` (seconds) is over.

    It is over when what is waited for has been so for `still_s` seconds; when nothing has moved for `quiet_s` seconds,
    so that nothing more can be expected; and after `within_s` seconds in any case.
    """

    def __init__(self, now: float, *, within_s: float, still_s: float = _STILL_S, quiet_s: float = _QUIET_S) -> None:
        self._end = now + within_s
        self._still_s = still_s
        self._quiet_s = quiet_s
        self._done_since: float | None = None
        self._moved = now
        self._picture: object = None

    def over(self, now: float, *, done: bool, picture: object) -> bool:
        """Look once; `picture` is equal to that of the last look when nothing has moved."""
        if picture != self._picture:
            self._picture, self._moved = picture, now
        if not done:
            self._done_since = None
        elif self._done_since is None:
            self._done_since = now
        settled = self._done_since is not None and now - self._done_since >= self._still_s
        return settled or now - self._moved >= self._quiet_s or now >= self._end
