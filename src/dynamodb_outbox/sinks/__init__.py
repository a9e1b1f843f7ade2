"""Sinks: one file a bus, independent of each other. A sink sends what it is given and classifies what comes back."""

from __future__ import annotations

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.sinks.from_arn import sink_from_arn
from dynamodb_outbox.sinks.router import Router
from dynamodb_outbox.sinks.sns import Sns
from dynamodb_outbox.sinks.sqs import Sqs

__all__ = ["EventBridge", "Router", "SinkLimits", "Sns", "Sqs", "sink_from_arn"]
