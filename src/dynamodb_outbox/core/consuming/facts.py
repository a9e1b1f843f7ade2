"""What happens to events in a consumer, as values: an observer (`ports.Observer`) is told of each.

They carry the event, and so its data: what an observer passes on is its own business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = ["Applied", "Duplicate", "Fact", "Failed", "Gap", "Late", "OrderUnknown", "Rejected", "Skipped"]


@dataclass(frozen=True)
class Applied:
    """The event was applied, now and for the first time."""

    event: Event


@dataclass(frozen=True)
class Duplicate:
    """The event had been applied before, and nothing was written."""

    event: Event


@dataclass(frozen=True)
class Skipped:
    """The function raised Skip, for this reason."""

    event: Event
    reason: str


@dataclass(frozen=True)
class Rejected:
    """The function raised Reject, for this reason; the event was published to the sink for such events."""

    event: Event
    reason: str


@dataclass(frozen=True)
class Failed:
    """A message goes back to its source. `event` is None where it could not be read as one; `where` names it."""

    where: str
    error: Exception
    event: Event | None = None


@dataclass(frozen=True)
class Late:
    """The event was applied after one of its subject with a higher sequence, `highest`."""

    event: Event
    highest: str


@dataclass(frozen=True)
class Gap:
    """Between `before`, the highest sequence of its subject so far, and that of the event, one or more are missing."""

    event: Event
    before: str


@dataclass(frozen=True)
class OrderUnknown:
    """The event is done, and where it stands in its subject's order could not be written down, for this reason.

    A gap may be reported for the next one of its subject, which is none.
    """

    event: Event
    reason: str


Fact = Applied | Duplicate | Skipped | Rejected | Failed | Late | Gap | OrderUnknown
