"""The other direction: a CloudEvent that was delivered, back into an `Event`.

The message has been read as JSON already, with `Decimal` for numbers that are not whole. Its data is written as JSON
text again, so that a received event and an emitted one are the same kind of value; no digit changes on the way. An
event with a `dataref` and no data is returned with its reference alone; where both are there, they are the same by
CloudEvents' rule, and the data is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import RESERVED_ATTRIBUTES, parse_rfc3339
from dynamodb_outbox.core.codec.payload import rewrite_json
from dynamodb_outbox.errors import InvalidMessage
from dynamodb_outbox.event import DataRef, Event

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["parse_cloudevent"]

_SPEC_VERSION = "1.0"


def parse_cloudevent(message: object, where: str) -> Event:
    """Return the event that a CloudEvents 1.0 JSON object carries; `where` names the message in errors.

    Raises InvalidMessage when a required attribute is missing or malformed. There is no fallback for a missing id: an
    id made up here would differ at each delivery, and nothing could be applied once.
    """
    if not isinstance(message, Mapping):
        raise InvalidMessage(where, f"a CloudEvents object is expected, not {type(message).__name__}.")
    if message.get("specversion") != _SPEC_VERSION:
        raise InvalidMessage(where, f"not a CloudEvent of version {_SPEC_VERSION}: specversion is missing or another.")
    dataref = None if "data" in message else _reference(message, where)
    return Event(
        id=_required(message, "id", where),
        type=_required(message, "type", where),
        source=_required(message, "source", where),
        payload=rewrite_json(message["data"]) if dataref is None else "",
        time=_time(_required(message, "time", where), where),
        key=_optional(message, "partitionkey", where),
        subject=_optional(message, "subject", where),
        sequence=_optional(message, "sequence", where),
        attributes=_extensions(message),
        dataref=dataref,
    )


def _reference(message: Mapping[str, Any], where: str) -> DataRef:
    if "dataref" not in message:
        raise InvalidMessage(where, "the CloudEvent has no data.")
    uri = _required(message, "dataref", where)
    sha256 = _optional(message, "datasha256", where)
    if not sha256:
        raise InvalidMessage(where, "the CloudEvent has a dataref without datasha256, so its data cannot be verified.")
    return DataRef(uri, sha256)


def _required(message: Mapping[str, Any], name: str, where: str) -> str:
    value = _optional(message, name, where)
    if not value:
        raise InvalidMessage(where, f"the CloudEvent has no {name}.")
    return value


def _optional(message: Mapping[str, Any], name: str, where: str) -> str | None:
    value = message.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidMessage(where, f"the CloudEvent's {name} is not text.")
    return value


def _extensions(message: Mapping[str, Any]) -> Mapping[str, str]:
    return {
        name: value for name, value in message.items() if name not in RESERVED_ATTRIBUTES and isinstance(value, str)
    }


def _time(text: str, where: str) -> datetime:
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        raise InvalidMessage(where, f"the CloudEvent's time cannot be read: {error}.") from None
