"""Requests whose answer is withheld, where whoever drives the test can see them and let them go."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dynamodb_outbox.testing.faultbus.errors import NothingHeld

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Held", "HeldRequests"]

_LOOK_S = 0.01
"""How often a held request looks whether its client is still there."""


@dataclass(frozen=True)
class Held:
    """A request that was accepted and not answered: its number, when it was held (epoch ms), the accepted ids.

    An id is the CloudEvent id, or a hash of the Detail that is not a CloudEvent.
    """

    request: int
    since_ms: int
    operation: str
    ids: tuple[str, ...]


class HeldRequests:
    """The held requests of one bus. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: dict[int, Held] = {}
        self._closed = False

    def now(self) -> tuple[Held, ...]:
        """Return the requests that are held at this moment, the oldest first."""
        with self._changed:
            return tuple(self._held.values())

    def hold(self, held: Held, client_gone: Callable[[], bool]) -> Literal["released", "client_gone"]:
        """Wait until the request is released, its client is gone, or the bus closes (as if the client were gone)."""
        with self._changed:
            self._held[held.request] = held
            self._changed.notify_all()
            while True:
                if held.request not in self._held:
                    return "released"
                if self._closed or client_gone():
                    del self._held[held.request]
                    return "client_gone"
                self._changed.wait(_LOOK_S)

    def release(self, request: int | None = None) -> int:
        """Let go of one request, or of all (None); return how many were let go."""
        with self._changed:
            going = list(self._held) if request is None else [number for number in self._held if number == request]
            for number in going:
                del self._held[number]
            self._changed.notify_all()
            return len(going)

    def wait(self, timeout_s: float) -> Held:
        """Return the oldest held request, as soon as there is one. Raises `NothingHeld` after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._held), timeout_s)
            for held in self._held.values():
                return held
        raise NothingHeld(timeout_s)

    def close(self) -> None:
        """End all holds, and those to come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
