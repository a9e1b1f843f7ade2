"""Control of a bus that runs in another process."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dynamodb_outbox.testing.faultbus.control import PREFIX, BusState, state_from_json
from dynamodb_outbox.testing.faultbus.errors import FaultBusRefused, NothingHeld

if TYPE_CHECKING:
    from dynamodb_outbox.testing.faultbus.held import Held
    from dynamodb_outbox.testing.faultbus.rules import OutageMode

__all__ = ["FaultBusControl"]

_OK = 200
_LOOK_S = 0.01


class FaultBusControl:
    """The same control that `FaultBus` has, over HTTP. `url` is the bus's endpoint.

    Every call raises `FaultBusRefused` when the bus does not answer within `timeout_s`, or says no.
    """

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        self.url = url
        self._address = urlsplit(url).netloc
        self._timeout_s = timeout_s

    def state(self) -> BusState:
        """Return counts, and what is held or out at this moment."""
        return self._call("GET", "", None)

    def begin_outage(self, mode: OutageMode = "503", *, destination: str = "") -> BusState:
        """Serve no publish request from now on, to this destination or (empty) to any."""
        return self._call("POST", "outage", {"on": True, "mode": mode, "destination": destination})

    def end_outage(self) -> BusState:
        """End all that `begin_outage` began."""
        return self._call("POST", "outage", {"on": False})

    def hold_next(self, count: int = 1) -> BusState:
        """Withhold the answers to the next `count` requests that are accepted."""
        return self._call("POST", "hold", {"count": count})

    def release(self, request: int | None = None) -> BusState:
        """Answer the held request of that number, or all of them (None)."""
        return self._call("POST", "release", {} if request is None else {"request": request})

    def wait_held(self, timeout_s: float = 10.0) -> Held:
        """Return the oldest held request, as soon as there is one. Raises `NothingHeld` after `timeout_s`."""
        end = time.monotonic() + timeout_s
        while True:
            held = self.state().held
            if held:
                return held[0]
            if time.monotonic() >= end:
                raise NothingHeld(timeout_s)
            time.sleep(_LOOK_S)

    def _call(self, method: str, name: str, body: object) -> BusState:
        connection = http.client.HTTPConnection(self._address, timeout=self._timeout_s)
        try:
            connection.request(method, PREFIX + name, None if body is None else json.dumps(body))
            response = connection.getresponse()
            status, document = response.status, _document(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise FaultBusRefused(self.url, 0, f"no answer: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if status != _OK:
            raise FaultBusRefused(self.url, status, str(document.get("error", "not a fault bus")))
        try:
            return state_from_json(document)
        except (KeyError, TypeError) as error:
            raise FaultBusRefused(self.url, status, "not a fault bus") from error


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
