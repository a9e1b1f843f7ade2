"""Coroutines of consumers' functions, run to their end by whoever is not asynchronous.

Each thread has one event loop for this, which stays: a client that a function opened on it still works at the next
event, and at the next invocation of a warm Lambda. It is closed when its thread has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["EventLoops"]


class EventLoops(threading.local):
    """The event loop of each thread that runs coroutines here, made when the thread first comes by."""

    def __init__(self) -> None:
        self._own = _Loop()

    def run(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run a coroutine to its end and return what it returned; an interruption leaves nothing of it running.

        Raises what the coroutine raises; ConfigurationError in a thread whose own loop is running.
        """
        if _is_running():
            coroutine.close()
            raise ConfigurationError(
                "an async function of a consumer was to be run inside of a running event loop, which would stand "
                "still until the commit. Call from a thread: await asyncio.to_thread(inbox.apply, event)."
            )
        loop = self._own.loop
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            raise


class _Loop:
    """An event loop that is closed with whoever has it: here, a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
