"""From one source's message to the event inside it.

Sources wrap: a rule of EventBridge delivers to an SQS queue its own JSON object, whose `detail` is what the relay
published. Each source has one function here, from its record to an `Event`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.errors import InvalidMessage

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = ["event_of_sqs_record"]


def event_of_sqs_record(record: Mapping[str, Any]) -> Event:
    """Return the event in an SQS record whose body is what an EventBridge rule delivered.

    Raises InvalidMessage when the body is not that, or carries no CloudEvent.
    """
    where = f"{record.get('messageId')!r} of {record.get('eventSourceARN', 'an SQS queue')}"
    try:
        body = json.loads(record["body"], parse_float=Decimal, parse_constant=_refuse_constant)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(where, f"the body is not JSON ({error}).") from error
    if not isinstance(body, Mapping) or "detail" not in body or "detail-type" not in body:
        raise InvalidMessage(
            where,
            "the body is not an EventBridge event (no detail and detail-type). Point an EventBridge rule at the queue, "
            "without an input transformer.",
        )
    return parse_cloudevent(body["detail"], where)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
