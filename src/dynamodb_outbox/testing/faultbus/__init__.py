"""A fault-injecting event bus: an HTTP stand-in, in front of any AWS-compatible endpoint, that misbehaves on a plan.

It stands in for EventBridge (PutEvents), SNS (PublishBatch) and SQS (SendMessageBatch). The real ones refuse single
entries inside an HTTP 200, go away for a while, take an event and lose the answer, deliver twice. Local engines do none
of that, so code that is only tested on them has never met what it must survive. This bus does it on purpose, the same
way each time, and writes down what was accepted: the evidence from which a test can say what was lost, published twice
or out of order.

`FaultBus` runs in threads of the test's process; `python -m dynamodb_outbox.testing.faultbus` is a process of its own,
told what to do over HTTP (`FaultBusControl`). What goes wrong is a `FaultPlan`: rules, as data, as JSON.
"""

from __future__ import annotations

from dynamodb_outbox.testing.faultbus.bus import FaultBus
from dynamodb_outbox.testing.faultbus.client import FaultBusControl
from dynamodb_outbox.testing.faultbus.control import BusState
from dynamodb_outbox.testing.faultbus.errors import (
    EvidenceUnusable,
    FaultBusError,
    FaultBusRefused,
    FaultPlanInvalid,
    NothingHeld,
    UpstreamAddressInvalid,
)
from dynamodb_outbox.testing.faultbus.evidence import ACCEPTED_FILE, FAULTS_FILE, Acceptance, Fault
from dynamodb_outbox.testing.faultbus.held import Held
from dynamodb_outbox.testing.faultbus.plan import FaultPlan
from dynamodb_outbox.testing.faultbus.rules import (
    Delay,
    Duplicate,
    Hold,
    Lost,
    Missing,
    Outage,
    Rejection,
    RequestError,
    Reset,
    Unacceptable,
)

__all__ = [
    "ACCEPTED_FILE",
    "FAULTS_FILE",
    "Acceptance",
    "BusState",
    "Delay",
    "Duplicate",
    "EvidenceUnusable",
    "Fault",
    "FaultBus",
    "FaultBusControl",
    "FaultBusError",
    "FaultBusRefused",
    "FaultPlan",
    "FaultPlanInvalid",
    "Held",
    "Hold",
    "Lost",
    "Missing",
    "NothingHeld",
    "Outage",
    "Rejection",
    "RequestError",
    "Reset",
    "Unacceptable",
    "UpstreamAddressInvalid",
]
