"""What a demo tells while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Lane

__all__ = ["Observer", "Progress"]


@dataclass(frozen=True)
class Progress:
    """Where a demo stands. `happened` holds the lines that are new since the last time; counts are for watching only.

    submitted   orders submitted so far, by lane, of `orders`
    accepted    entries that the lane's bus has accepted so far
    out         whether the bus is out
    """

    stage: str
    seconds: float
    orders: int
    submitted: Mapping[Lane, int]
    accepted: Mapping[Lane, int]
    kills: int = 0
    out: bool = False
    happened: tuple[str, ...] = ()


Observer = Callable[[Progress], None]
"""Is given the progress several times a second, from the thread that runs the demo."""
