"""Modules of the user's that are named, and imported by name."""

from __future__ import annotations

__all__ = ["is_missing"]


def is_missing(error: Exception, module: str) -> bool:
    """Whether an error says that `module`, or a package that it is in, is not there; not that one it imports is not."""
    return isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
