"""Sinks: one file a bus, independent of each other. A sink sends what it is given and classifies what comes back."""

from __future__ import annotations

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.sinks.eventbridge import EventBridge

__all__ = ["EventBridge", "SinkLimits"]
