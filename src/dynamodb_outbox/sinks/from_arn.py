"""A sink from an ARN: what a function that is configured by text alone goes by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import refusal, shown, text
from dynamodb_outbox.sinks.arns import arn_of
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.sinks.sns import Sns
from dynamodb_outbox.sinks.sqs import Sqs, queue_arn

if TYPE_CHECKING:
    from dynamodb_outbox.core.codec.envelope import Envelope

__all__ = ["sink_from_arn"]

_SHORT = re.compile("(bus|topic|queue):")
_KNOWN = "the ARN of an EventBridge event bus (events, event-bus/<name>), an SNS topic (sns) or an SQS queue (sqs)"


def sink_from_arn(arn: str, *, client: Any = None, envelope: str | Envelope = "cloudevents") -> EventBridge | Sns | Sqs:
    """Return the sink for the event bus, topic or queue with this ARN; a name ending in `.fifo` makes it FIFO.

    `client` is a boto3 client of the ARN's service. Raises ConfigurationError for an ARN of anything else, which says
    what is known, and for what the sink's own constructor refuses.
    """
    refuse = refusal("sink_from_arn", "arn")
    found = arn_of(text(arn, refuse))
    if found is None and (queue := queue_arn(arn)) is not None:
        raise refuse(f": {shown(arn)}: the URL of a queue. It takes its ARN: {queue}.")
    if found is None:
        short = " (`bus:orders` is a word of `outbox infra` alone)" if _SHORT.match(arn) else ""
        raise refuse(f": {shown(arn)}: no ARN{short}. It takes {_KNOWN}.")
    if found.service == "events" and found.resource.startswith("event-bus/"):
        return EventBridge(arn, client=client, envelope=envelope)
    if found.service == "sns":
        return Sns(arn, client=client, envelope=envelope)
    if found.service == "sqs":
        return Sqs(arn, client=client, envelope=envelope)
    if found.service == "events":
        raise refuse(f": {shown(arn)}: no event bus. It takes {_KNOWN}.")
    raise refuse(f": {shown(arn)}: no sink for {found.service!r} here. It takes {_KNOWN}.")
