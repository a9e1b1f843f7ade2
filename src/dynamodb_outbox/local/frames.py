"""The wire format between `FunctionProcess` and its child: frames, each a length (4 bytes, network order) and so many.

Parent to child: two frames an invocation, what the context needs (with the `request_id`) and the event. Child to
parent: one frame when the function is loaded, one an invocation. All are JSON; each reply is an object with the
`request_id` of what it replies to (null: the loading), and with `ready`, `answer` or `error`. There is no end mark: who
is done closes the connection.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

__all__ = ["receive_frame", "send_frame"]

_HEADER = struct.Struct("!I")
_PART_BYTES = 1 << 20


def send_frame(connection: socket.socket, content: bytes, *, deadline: float | None = None) -> None:
    """Send one frame, until the time `deadline` of `time.monotonic` (None: for as long as it takes).

    Raises TimeoutError at the deadline, and ConnectionError when the other side is gone.
    """
    connection.settimeout(_remaining(deadline))
    connection.sendall(_HEADER.pack(len(content)) + content)


def receive_frame(connection: socket.socket, *, deadline: float | None = None) -> bytes:
    """Return the next frame. Raises TimeoutError, and ConnectionError when the other side is gone or has closed."""
    return _receive(connection, _HEADER.unpack(_receive(connection, _HEADER.size, deadline))[0], deadline)


def _receive(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        connection.settimeout(_remaining(deadline))
        part = connection.recv(min(size - len(parts), _PART_BYTES))
        if not part:
            raise ConnectionResetError("the other side has closed the connection")
        parts += part
    return bytes(parts)


def _remaining(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
