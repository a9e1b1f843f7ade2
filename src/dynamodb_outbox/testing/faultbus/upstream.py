"""Connections to the endpoint behind the bus.

A connection is reused only when that is safe. A server may close an idle connection at any moment; a request sent
into that moment may or may not have been acted on, and sending it again would be a duplicate that nobody planned.
So: a connection is looked at before it is used (anything readable on an idle one means that it is over), one that
idled for longer than a second is not used at all, and a request of which anything was sent is never sent again.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dynamodb_outbox.testing.faultbus.errors import FaultBusError, UpstreamAddressInvalid
from dynamodb_outbox.testing.faultbus.exchange import Answer, end_to_end

if TYPE_CHECKING:
    from dynamodb_outbox.ports import Clock
    from dynamodb_outbox.testing.faultbus.exchange import Request

__all__ = ["Upstream", "UpstreamFailed"]

_IDLE_MS = 1_000
_BODILESS = frozenset(("GET", "HEAD", "DELETE", "OPTIONS"))


class UpstreamFailed(FaultBusError):
    """The upstream gave no answer: `sent` says whether the request may have reached it, `reason` what happened."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        self.reason = reason
        self.sent = sent
        super().__init__(f"the upstream gave no answer: {reason}")


class Upstream:
    """A pool of connections to one endpoint. Safe to use from several threads; each call has a connection alone.

    `timeout_s` bounds the wait for each piece of an answer. Raises `UpstreamAddressInvalid`.
    """

    def __init__(self, url: str, *, timeout_s: float, clock: Clock) -> None:
        self._secure, self._host, self._port = _address(url)
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def send(self, request: Request) -> Answer:
        """Send the request once and return the answer. Raises `UpstreamFailed`."""
        connection = self._take()
        keep = False
        try:
            answer, keep = _exchange(connection, request)
        except (OSError, http.client.HTTPException) as error:
            raise UpstreamFailed(f"{type(error).__name__}: {error}", sent=True) from error
        finally:
            self._give_back(connection, keep=keep)
        return answer

    def close(self) -> None:
        """Close all connections; calls that wait for an answer end at once with `UpstreamFailed`."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for connection in self._busy:
                if connection.sock is not None:
                    with contextlib.suppress(OSError):  # not connected any more: what was wanted
                        connection.sock.shutdown(socket.SHUT_RDWR)
        for _, connection in idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        connection = self._reusable()
        if connection is not None:
            return connection
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.connect()  # sets TCP_NODELAY
        except OSError as error:
            connection.close()
            raise UpstreamFailed(f"cannot connect to {self._host}:{self._port}: {error}", sent=False) from error
        with self._lock:
            if not self._closed:
                self._busy.add(connection)
                return connection
        connection.close()
        raise UpstreamFailed("the bus is closing", sent=False)

    def _reusable(self) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since_ms, connection = self._idle.pop()
                self._busy.add(connection)
            if self._clock.monotonic_ms() - since_ms <= _IDLE_MS and not _readable(connection):
                return connection
            self._give_back(connection, keep=False)

    def _give_back(self, connection: http.client.HTTPConnection, *, keep: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if keep and not self._closed:
                self._idle.append((self._clock.monotonic_ms(), connection))
                return
        connection.close()


def _address(url: str) -> tuple[bool, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UpstreamAddressInvalid(url) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
        raise UpstreamAddressInvalid(url)
    secure = parts.scheme == "https"
    return secure, parts.hostname, port or (443 if secure else 80)


def _readable(connection: http.client.HTTPConnection) -> bool:
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _exchange(connection: http.client.HTTPConnection, request: Request) -> tuple[Answer, bool]:
    # Written by hand and in one piece: the library would send head and body apart, and lines it dislikes not at all.
    lines = [f"{request.method} {request.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in end_to_end(request.headers)]
    if request.body or request.method not in _BODILESS:
        lines.append(f"Content-Length: {len(request.body)}")
    connection.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.body)
    with http.client.HTTPResponse(connection.sock, method=request.method) as response:
        response.begin()
        body = response.read()
        headers = end_to_end(tuple(response.getheaders()))
        length = response.getheader("Content-Length") if request.method == "HEAD" else None
        return Answer(response.status, headers, body, response.reason, length), not response.will_close
