"""Words that a user chooses from, each set once: for annotations, and by `typing.get_args` for what checks them.

What each of them means is told where it is chosen: `Layout` has `Settle`, `Relay` ordering and poison, and a sink's ARN
tells its kind.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["OnPoison", "Ordering", "Settle", "SinkKind"]

Settle = Literal["expire", "mark", "delete", "none"]
"""What becomes of a record whose events were all accepted."""

Ordering = Literal["key", "none"]
"""What order a relay keeps."""

OnPoison = Literal["park", "park_key", "block"]
"""What becomes of an event that its sink can never accept."""

SinkKind = Literal["bus", "topic", "topic.fifo", "queue", "queue.fifo"]
"""Where events go; with ".fifo" the two that have an order."""
