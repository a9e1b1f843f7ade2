"""What brings back events that the stream did not: the sweep of pending records, and the status of an outbox."""

from __future__ import annotations

from dynamodb_outbox.core.sweeping.commands import SweepReport
from dynamodb_outbox.recover.status import OutboxStatus, status_of
from dynamodb_outbox.recover.sweeper import Sweeper

__all__ = ["OutboxStatus", "SweepReport", "Sweeper", "status_of"]
