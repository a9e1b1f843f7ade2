"""The consuming side: messages of a source in, effects applied once."""

from __future__ import annotations

from dynamodb_outbox.core.consuming.facts import (
    Applied,
    Duplicate,
    Fact,
    Failed,
    Gap,
    Late,
    OrderUnknown,
    Rejected,
    Skipped,
)
from dynamodb_outbox.core.consuming.foreign import ForeignEvents

__all__ = [
    "Applied",
    "Duplicate",
    "Fact",
    "Failed",
    "ForeignEvents",
    "Gap",
    "Late",
    "OrderUnknown",
    "Rejected",
    "Skipped",
]
