"""The wire format between a function's process and its parent."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamodb_outbox.local.frames import receive_frame, send_frame

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the two ends of a connection."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_frames_come_out_as_they_went_in(contents: list[bytes]) -> None:
    """Any bytes, none of them included, and one frame does not run into the next."""
    one, other = socket.socketpair()
    with one, other:
        for content in contents:
            send_frame(one, content)
        assert [receive_frame(other) for _ in contents] == contents


def test_a_frame_larger_than_any_buffer_passes(ends: tuple[socket.socket, socket.socket]) -> None:
    """It is sent and received in as many parts as it takes."""
    content = bytes(range(256)) * 20_000
    sender = threading.Thread(target=send_frame, args=(ends[0], content))
    sender.start()
    assert receive_frame(ends[1]) == content
    sender.join()


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x05ab"])
def test_an_end_before_the_frames_own_is_a_lost_connection(
    ends: tuple[socket.socket, socket.socket], sent: bytes
) -> None:
    """Half a frame is never taken for a whole one."""
    ends[0].sendall(sent)
    ends[0].close()
    with pytest.raises(ConnectionError):
        receive_frame(ends[1])


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x05ab"])
def test_receiving_ends_at_the_deadline(ends: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    """Wherever the frame stands still; a deadline that has passed is no wait without end."""
    ends[0].sendall(sent)
    for deadline in (time.monotonic() + 0.05, time.monotonic() - 1):
        with pytest.raises(TimeoutError):
            receive_frame(ends[1], deadline=deadline)


def test_sending_ends_at_the_deadline_and_with_the_other_side(ends: tuple[socket.socket, socket.socket]) -> None:
    """A reader that does not read, and one that is gone."""
    with pytest.raises(TimeoutError):
        send_frame(ends[0], bytes(50_000_000), deadline=time.monotonic() + 0.05)
    ends[1].close()
    with pytest.raises(ConnectionError):
        send_frame(ends[0], b"x")


def test_a_connection_that_had_a_deadline_may_wait_for_ever_again(ends: tuple[socket.socket, socket.socket]) -> None:
    """The time-out of one call does not outlive it."""
    send_frame(ends[0], b"a", deadline=time.monotonic() + 0.01)
    send_frame(ends[1], b"b")
    assert receive_frame(ends[0]) == b"b"
    assert ends[0].gettimeout() is None
