"""What can be called as Lambda calls a function: with the event and the context."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["handler_fault"]


def handler_fault(function: Any) -> str | None:
    """Return why an object cannot be called with (event, context); None where it can, and where nobody can tell."""
    if not callable(function):
        return "is not callable"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are written in C do not tell
        return None
    try:
        signature.bind(None, None)
    except TypeError as error:
        return f"is called with (event, context), and takes {signature}: {error}"
    return None
