"""The HTTP shell: HTTP/1.1 with keep-alive on 127.0.0.1, one thread a connection, nothing of the bus's own in it.

A request is read whole before anything is done with it, so a client that dies half-way has asked for nothing. An
answer leaves in one piece. To drop a connection means to reset it: the client must see a lost connection, not a tidy
end. Clients that go away are part of the job and make no noise.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import struct
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dynamodb_outbox.testing.faultbus.exchange import Answer, Request, end_to_end

__all__ = ["HOST", "Serve", "Server"]

HOST = "127.0.0.1"
_EMPTY_LINE = frozenset((b"\r\n", b"\n"))
_NO_BODY = frozenset((204, 304))
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Serve = Callable[[Request, Callable[[], bool]], Answer | None]


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1 and hands each request to `serve(request, client_gone)`; None resets the connection.

    `port` 0 means any free one. Raises `OSError` when the port cannot be had. What `serve` raises goes to `on_error`.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, serve: Serve, on_error: Callable[[BaseException], None]) -> None:
        self.serve = serve
        self.on_error = on_error
        self._open: set[socket.socket] = set()
        self._serving: set[threading.Thread] = set()
        self._lock = threading.Lock()
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking any name server for this machine's name."""
        super(ThreadingHTTPServer, self).server_bind()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def close(self, timeout_s: float) -> None:
        """Stop listening, end all connections, and wait for their threads for up to `timeout_s` seconds each."""
        self.server_close()
        with self._lock:
            threads = list(self._serving)
            for connection in self._open:
                with contextlib.suppress(OSError):  # not connected any more: what was wanted
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(timeout_s)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a new connection its thread."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="faultbus-connection", daemon=True
        )
        with self._lock:
            self._open.add(request)
            self._serving.add(thread)
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._serving.discard(threading.current_thread())

    def shutdown_request(self, request: Any) -> None:
        """End one connection; one that is to be reset is closed without the farewell that would hide the reset."""
        with self._lock:
            self._open.discard(request)
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_RESET_ON_CLOSE)) == _RESET_ON_CLOSE:
            request.close()
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's signature
        """Report what went wrong with a connection, unless it is only that the client went away."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.on_error(error)


class _Reader(io.BufferedReader):
    """Remembers the last line that was read."""

    last_line = b""

    def readline(self, size: int | None = -1, /) -> bytes:
        self.last_line = super().readline(size)
        return self.last_line


class _Handler(BaseHTTPRequestHandler):
    server: Server
    rfile: _Reader
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Read through a `_Reader`."""
        super().setup()
        self.rfile.close()
        self.rfile = _Reader(self.connection.makefile("rb", buffering=0))

    def parse_request(self) -> bool:
        """Read the head; one that was cut short is no request (the library would take what is there for all of it)."""
        if super().parse_request() and self.rfile.last_line in _EMPTY_LINE:
            return True
        self.close_connection = True
        return False

    def _serve(self) -> None:
        body = self._read_body()
        if body is None:
            self._drop()
            return
        # The target as it stood on the wire: the library tidies leading slashes.
        target = self.requestline.split(" ")[1]
        request = Request(self.command, target, tuple(self.headers.items()), body)
        try:
            answer = self.server.serve(request, self._client_gone)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and this client gets no answer
            self.server.on_error(error)
            answer = None
        if answer is None:
            self._drop()
        else:
            self._send(answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = _serve  # noqa: N815 - the library looks for these

    def _read_body(self) -> bytes | None:
        """Return the body, None when the client did not send it whole."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._read_chunks()
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal():
            return None
        body = self.rfile.read(int(length))
        return body if len(body) == int(length) else None

    def _read_chunks(self) -> bytes | None:
        chunks: list[bytes] = []
        while True:
            try:
                size = int(self.rfile.readline().partition(b";")[0], 16)
            except ValueError:
                return None
            if size == 0:
                while self.rfile.readline() not in {*_EMPTY_LINE, b""}:
                    pass  # trailers
                return b"".join(chunks) if self.rfile.last_line in _EMPTY_LINE else None
            chunk = self.rfile.read(size)
            if len(chunk) < size or self.rfile.readline() not in _EMPTY_LINE:
                return None
            chunks.append(chunk)

    def _send(self, answer: Answer) -> None:
        reason = answer.reason or http.client.responses.get(answer.status, "")
        lines = [f"HTTP/1.1 {answer.status} {reason}"]
        lines += [f"{name}: {value}" for name, value in end_to_end(answer.headers)]
        if self.command == "HEAD":
            lines += [f"Content-Length: {answer.length}"] if answer.length is not None else []
        elif answer.status not in _NO_BODY:
            lines.append(f"Content-Length: {len(answer.body)}")
        if self.close_connection:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        self.wfile.write(head + (b"" if self.command == "HEAD" else answer.body))

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def _client_gone(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own name
        """Say nothing: what matters is in the evidence."""
