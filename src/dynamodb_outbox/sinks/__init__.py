"""Sinks: one file a bus, independent of each other. A sink sends what it is given and classifies what comes back.

Whoever writes a sink of their own finds here what its methods return, and in `dynamodb_outbox.testing.sink_contract`
what the relay relies on, as checks.
"""

from __future__ import annotations

from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.relay.outcome import (
    Answered,
    Fault,
    Kind,
    Outcome,
    Prepared,
    Presence,
    RequestFailed,
    Verified,
)
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.sinks.from_arn import sink_from_arn
from dynamodb_outbox.sinks.router import Router
from dynamodb_outbox.sinks.sns import Sns
from dynamodb_outbox.sinks.sqs import Sqs

__all__ = [
    "Answered",
    "EventBridge",
    "Fault",
    "Kind",
    "Outcome",
    "Prepared",
    "Presence",
    "RequestFailed",
    "Router",
    "SinkLimits",
    "Sns",
    "Sqs",
    "Verified",
    "cloudevent",
    "sink_from_arn",
]
