"""The stop flag: what programs heed."""

from __future__ import annotations

import os
import select
import signal
import threading
import time

from dynamodb_outbox.process.stop import StopFlag, stop_on_signals


def test_a_stop_wakes_whoever_waits() -> None:
    """Setting the flag ends a wait at once, and later waits do not begin."""
    flag = StopFlag()
    try:
        assert not flag.wait(0.01)
        timer = threading.Timer(0.05, flag.set)
        timer.start()
        started = time.monotonic()
        assert flag.wait(30)
        timer.join()
        flag.set()
        assert flag.wait(30)
        assert time.monotonic() - started < 10
    finally:
        flag.close()


def test_a_signal_asks_to_stop_and_the_old_handler_returns() -> None:
    """Inside the block the signal sets the flag, even while it is waited for; afterwards all is as before."""
    before = signal.getsignal(signal.SIGUSR1)
    with stop_on_signals(signal.SIGUSR1) as stop:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert stop.wait(30)
        timer.join()
        assert stop.is_set()
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_wait_without_end_ends_with_the_stop() -> None:
    """Whoever waits for ever is woken, too."""
    flag = StopFlag()
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    assert flag.wait()
    timer.join()
    flag.close()


def test_a_flag_that_was_released_may_be_set() -> None:
    """A thread that is late sets it for nothing: it does not write to a descriptor that is somebody else's by now."""
    flag = StopFlag()
    flag.close()
    pipes = [os.pipe() for _ in range(2)]  # these take the numbers that became free
    try:
        flag.set()
        readable, _, _ = select.select([reader for reader, _ in pipes], [], [], 0)
        assert readable == []
    finally:
        for pair in pipes:
            os.close(pair[0])
            os.close(pair[1])
