"""Words that a user chooses from, each set once: for annotations, and by `typing.get_args` for what checks them.

What each of them means is told where it is chosen: `Layout` has `Settle`, `Relay` the other two.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["OnPoison", "Ordering", "Settle"]

Settle = Literal["expire", "mark", "delete", "none"]
"""What becomes of a record whose events were all accepted."""

Ordering = Literal["key", "none"]
"""What order a relay keeps."""

OnPoison = Literal["park", "park_key", "block"]
"""What becomes of an event that its sink can never accept."""
