"""What brings back events that the stream did not: pending, parked, and given up by an event source mapping."""

from __future__ import annotations

from dynamodb_outbox.core.record.parked import ParkedEvent, ParkedRecord
from dynamodb_outbox.core.sweeping.commands import SweepReport
from dynamodb_outbox.recover.failed_batches import FailedBatches
from dynamodb_outbox.recover.parked import ParkedRecords
from dynamodb_outbox.recover.reports import FailureReport, Kept, ParkedReport, Treated
from dynamodb_outbox.recover.status import OutboxStatus, status_of
from dynamodb_outbox.recover.sweeper import Sweeper

__all__ = [
    "FailedBatches",
    "FailureReport",
    "Kept",
    "OutboxStatus",
    "ParkedEvent",
    "ParkedRecord",
    "ParkedRecords",
    "ParkedReport",
    "SweepReport",
    "Sweeper",
    "Treated",
    "status_of",
]
