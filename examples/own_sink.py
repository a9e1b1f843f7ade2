"""A sink of one's own: events are POSTed to a web address as a JSON array of CloudEvents.

The service answers {"results": [{"id": ..., "status": "accepted"}, {"id": ..., "status": "refused", "reason": ...}]}.
What the relay asks of a sink is checked by `dynamodb_outbox.testing.sink_contract`; docs/sinks.md shows how.
"""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dynamodb_outbox.sinks import (
    Answered,
    Fault,
    Kind,
    Outcome,
    Prepared,
    Presence,
    RequestFailed,
    SinkLimits,
    Verified,
    cloudevent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamodb_outbox import Event

LIMITS = SinkLimits(entries=20, request_bytes=512 * 1024, entry_bytes=64 * 1024)
"""What the service takes in one request: 20 events, 512 KiB together, 64 KiB each."""


class Webhook:
    """Publishes to the service at `url`; connecting may take `timeout_s`, and so may the answer."""

    def __init__(self, url: str, *, timeout_s: float = 1.0, limits: SinkLimits = LIMITS) -> None:
        self._url = urlsplit(url)
        self._timeout_s = timeout_s
        self.name = url
        self.limits = limits

    @property
    def request_ms(self) -> int:
        """The longest time that one request may take, in milliseconds."""
        return round(2000 * self._timeout_s)

    def prepare(self, event: Event) -> Prepared | Fault:
        """Turn an event into its text."""
        try:
            entry = cloudevent(event)
            size = len(entry.encode("utf-8"))
        except Exception as error:  # noqa: BLE001 -- whatever is wrong is wrong with this event
            return Fault(Kind.CONTENT, "CannotBeWritten", type(error).__name__)
        if size > self.limits.entry_bytes:
            return Fault(Kind.CONTENT, "TooLarge", f"{size:,} bytes, of which {self.limits.entry_bytes:,} are taken")
        return Prepared(entry, size)

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Send entries in one request."""
        found = self._ask("POST", f"[{','.join(entries)}]")
        if isinstance(found, Fault):
            return RequestFailed(found)
        try:
            said = {result["id"]: result for result in json.loads(found)["results"]}
            ids = [json.loads(entry)["id"] for entry in entries]
        except (LookupError, TypeError, ValueError):
            return RequestFailed(Fault(Kind.UNKNOWN, "NotUnderstood", "the answer has another form"))
        return Answered(tuple(_result(said.get(each)) for each in ids))

    def verify(self) -> Verified:
        """Ask whether the address is there."""
        found = self._ask("GET")
        if not isinstance(found, Fault):
            if found == b"ready":
                return Verified(Presence.OK)
            return Verified(Presence.UNSURE, "another kind of answer", passing=True)  # as none: ask again
        if found.code == "404":
            return Verified(Presence.MISSING, str(found))
        return Verified(Presence.UNSURE, str(found), passing=found.kind is not Kind.TARGET)  # may not ask, or no answer

    def _ask(self, method: str, body: str | None = None) -> bytes | Fault:
        connection = http.client.HTTPConnection(self._url.netloc, timeout=self._timeout_s)
        try:
            connection.connect()
        except OSError as error:
            return Fault(Kind.TRANSIENT, "NotConnected", str(error))  # nothing was sent
        try:
            connection.request(method, self._url.path or "/", body and body.encode("utf-8"))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            return Fault(Kind.UNKNOWN, type(error).__name__, str(error))  # it may have been accepted
        finally:
            connection.close()
        return content if answer.status == http.HTTPStatus.OK else _refused(answer.status)


def _refused(status: int) -> Fault:
    if status == http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return Fault(Kind.CONTENT, str(status), "too large")
    slower = status == http.HTTPStatus.TOO_MANY_REQUESTS
    if slower or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return Fault(Kind.TRANSIENT, str(status), "not now", throttled=slower)
    return Fault(Kind.TARGET, str(status), "the address or the permission is wrong")


def _result(said: Any) -> Fault | None:
    if not isinstance(said, dict):
        return Fault(Kind.UNKNOWN, "NoResult", "the answer does not speak of the event")
    if said.get("status") == "accepted":
        return None
    return Fault(Kind.TRANSIENT, "Refused", str(said.get("reason", "")))
