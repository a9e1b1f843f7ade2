"""From what a source delivered to the events inside of it.

Sources wrap, and wrap what others have wrapped: an EventBridge rule sends its own JSON object to an SNS topic, which
puts it as text into an object of its own and sends that to a queue. What stands in a wrapper is told by what it looks
like, and never by how it came, so that each way of setting them up is read alike, raw delivery and input paths too:

    specversion                    a CloudEvent: what the relay publishes
    detail-type, detail            EventBridge; a CloudEvent is in `detail`
    Type, TopicArn, Message        SNS, without raw delivery; `Message` is text
    eventSource "aws:dynamodb"     a change of a table, from a stream, a pipe, or by way of Kinesis; an outbox record
                                   gives its events, anything else none
    anything else                  an event of another maker, by the rule that the user gave (ForeignEvents)

A CloudEvent is not looked into any further: what its data looks like is its writer's business.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import moment_of, rfc3339
from dynamodb_outbox.core.codec.received import parse_cloudevent
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.relay.select import select
from dynamodb_outbox.errors import InvalidMessage, InvalidRecord

if TYPE_CHECKING:
    from dynamodb_outbox.core.consuming.foreign import ForeignEvents
    from dynamodb_outbox.core.consuming.sources import Delivery, Source
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout

__all__ = ["Reader"]

_WRAPPERS = 3
"""SNS around EventBridge in a queue is two; nobody has more."""
_SPEC_VERSION = "1.0"
_NO_RULE = (
    "it is no CloudEvent, and nothing says how events of other makers are told apart. For this library's own, point a "
    "rule, topic or stream here without an input transformer; for others, give the inbox foreign=ForeignEvents(id=...)."
)


@dataclass(frozen=True)
class Reader:
    """Reads deliveries as events.

    layout   that of outbox records which come straight from a table's stream
    foreign  how events of other makers are told apart; None: they are refused
    """

    layout: Layout
    foreign: ForeignEvents | None = None

    def events(self, delivery: Delivery, source: Source) -> tuple[Event, ...]:
        """Return the events of a delivery, in order; a change of a table that is no outbox record has none.

        Raises InvalidMessage, and what `core.relay.select` and `core.record.decode` raise of a stream's record.
        """
        try:
            content = _text(delivery.content, delivery.where) if source.encoded else delivery.content
            return self._unwrapped(content, delivery.where, delivery.origin, _arrival(delivery.record))
        except (ValueError, RecursionError) as error:
            raise InvalidMessage(delivery.where, f"it is not JSON ({type(error).__name__}: {error}).") from error

    def _unwrapped(self, content: Any, where: str, origin: str, arrived: datetime | None) -> tuple[Event, ...]:
        for _ in range(_WRAPPERS):
            message = _read(content, where)
            if _is_change(message):
                return self._changed(message, where)
            if _is_notification(message):
                content = message["Message"]
                origin = message["TopicArn"]
                arrived = moment_of(message.get("Timestamp")) or arrived
                continue
            inner = message.get("detail") if "detail-type" in message else message
            if isinstance(inner, Mapping) and "specversion" in inner:
                return (_cloudevent(inner, where, arrived),)
            if self.foreign is None:
                raise InvalidMessage(where, _NO_RULE)
            return (self.foreign.event(message, where, origin=origin, arrived=arrived),)
        raise InvalidMessage(where, "it is wrapped in SNS's own form more often than anything delivers it.")

    def _changed(self, change: Mapping[str, Any], where: str) -> tuple[Event, ...]:
        """Return the events of an outbox record that was inserted."""
        record = dict(change)
        # In Kinesis the number is the stream's, and not of the change; nothing goes by it here.
        record["dynamodb"] = {"SequenceNumber": "0", **change["dynamodb"]}
        found = select([record], self.layout)
        if found.misfits:
            raise InvalidRecord(
                where, "an outbox record by another Layout than the consumer's. Give the inbox records=Layout(...)."
            )
        table = str(change.get("tableName") or "")  # as a change in Kinesis names it
        return tuple(
            event for one in found.records for event in decode(one.image, self.layout, source=one.table or table).events
        )


def _read(content: Any, where: str) -> Mapping[str, Any]:
    if isinstance(content, str):
        content = json.loads(content, parse_float=Decimal, parse_constant=_refuse_constant)
    if not isinstance(content, Mapping):
        raise InvalidMessage(where, f"a JSON object is expected, not {type(content).__name__}.")
    return content


def _text(content: Any, where: str) -> str:
    try:
        return base64.b64decode(content, validate=True).decode("utf-8")
    except (binascii.Error, TypeError, UnicodeDecodeError):
        raise InvalidMessage(where, "its data is not the base64 of UTF-8 (a producer's aggregate, perhaps?).") from None


def _is_change(message: Mapping[str, Any]) -> bool:
    return message.get("eventSource") == "aws:dynamodb" and isinstance(message.get("dynamodb"), Mapping)


def _is_notification(message: Mapping[str, Any]) -> bool:
    return message.get("Type") == "Notification" and all(
        isinstance(message.get(name), str) for name in ("Message", "TopicArn")
    )


def _cloudevent(message: Mapping[str, Any], where: str, arrived: datetime | None) -> Event:
    if message["specversion"] != _SPEC_VERSION:
        raise InvalidMessage(
            where, f"a CloudEvent of version {message['specversion']!r:.40}; this library reads {_SPEC_VERSION}."
        )
    if message.get("time") is None and arrived is not None:  # CloudEvents lets it be left out
        message = {**message, "time": rfc3339(arrived)}
    return parse_cloudevent(message, where)


def _arrival(record: Any) -> datetime | None:
    """Return when the source took a message, where its record says so."""
    if not isinstance(record, Mapping):
        return None
    attributes, kinesis = record.get("attributes"), record.get("kinesis", record)
    try:
        if isinstance(attributes, Mapping) and "SentTimestamp" in attributes:
            return datetime.fromtimestamp(int(attributes["SentTimestamp"]) / 1000, timezone.utc)
        if isinstance(kinesis, Mapping) and "approximateArrivalTimestamp" in kinesis:
            return datetime.fromtimestamp(float(kinesis["approximateArrivalTimestamp"]), timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
