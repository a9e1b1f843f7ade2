"""What a simulated world refuses: to guess at what is not built, and to let anything real happen.

A run that met such a thing is worth nothing, so it ends at once, and `simulate` with it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from dynamodb_outbox.errors import OutboxError

if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["NotSimulated", "Outside", "called_from", "place_of", "raised_at"]


class NotSimulated(OutboxError):
    """Something was asked of the simulated world that is not in it; the text says what to do instead.

    A service, an operation, an argument or an expression that is not simulated; a real boto3 client that was about to
    send; a thread of the handler's own that calls its world; a handler that does not come back for a minute of real
    time; clients that were kept from another run or instance.
    """


class Outside(SystemExit):
    """Ends a thread that is not the world's own, without a word: `NotSimulated` is raised where the run was started."""


_PATHS = sysconfig.get_paths()
_FOLDERS = [str(Path(__file__).parent), *(_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
_OF_OTHERS = ("<frozen", *(folder + os.sep for folder in _FOLDERS))
"""Where code is that its user did not write."""


def place_of(frame: FrameType | None) -> str:
    """Return where a frame is in code of the user: `relay.py:25`; "" when there is none of it."""
    while frame is not None:
        if _is_users(frame):
            return _place(frame, frame.f_lineno)
        frame = frame.f_back
    return ""


def called_from() -> str:
    """Return the place in code of the user that leads here, as words to be added to a message."""
    place = place_of(sys._getframe(1))  # noqa: SLF001 -- inspect.currentframe is the same, and may be None
    return f" ({place})" if place else ""


def raised_at(error: BaseException) -> str:
    """Return where an error was raised, or passed on last, in code of the user; where it was raised without such."""
    last, found = "", ""
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        last = _place(traceback.tb_frame, traceback.tb_lineno)
        if _is_users(traceback.tb_frame):
            found = last
        traceback = traceback.tb_next
    return found or last


def _is_users(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(_OF_OTHERS)


def _place(frame: FrameType, line: int) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{line}"
