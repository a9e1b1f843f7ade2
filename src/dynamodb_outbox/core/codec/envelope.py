"""The published form of an event: what a consumer finds in the bus's message.

`cloudevent` is the structured JSON form of CloudEvents 1.0.2: the context attributes and `data` in one object. `data`
is the event's payload text, spliced in as it is: nothing is parsed and written again, so no digit changes on the way,
and publishing costs a string concatenation. That is safe only for text known to be ONE JSON value: the writer makes
such text, and payloads of other origin are read strictly when their record is decoded (`core.codec.strict`), so that a
payload cannot close the object early and forge an envelope field. For the same reason an extension attribute may not
bear the name of a context attribute.

An event whose data is kept in an object is published with `dataref`, CloudEvents' own extension for that, and without
`data`. `datasha256` beside it is the hash of the object's bytes, an extension of ours, since CloudEvents names none.

`raw` publishes the payload alone, for consumers that know no envelope; id, key, subject and sequence are not on the
wire then, beyond what the bus's own message form has room for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from json.encoder import encode_basestring as _quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import has_utf8_form, shown
from dynamodb_outbox.core.limits import EVENT_SOURCE_LENGTH
from dynamodb_outbox.errors import InvalidEvent

if TYPE_CHECKING:
    from dynamodb_outbox.event import Event

__all__ = [
    "ENVELOPES",
    "RESERVED_ATTRIBUTES",
    "Envelope",
    "attribute_fault",
    "cloudevent",
    "moment_of",
    "parse_rfc3339",
    "raw",
    "rfc3339",
    "source_fault",
]

Envelope = Callable[["Event"], str]
"""Turns an event into the text that is published. It must return the same text whenever it is given the same event."""

RESERVED_ATTRIBUTES = frozenset(
    (
        "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema",
        "partitionkey", "sequence",  # extensions filled from the event itself
        "data", "dataref", "datasha256",  # the JSON form's member; the claim check's extensions
    )
)  # fmt: skip
"""Names that an extension attribute (`emit(..., attributes=)`) cannot have."""

_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_USUAL_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z")


def cloudevent(event: Event) -> str:
    """Return the event as a CloudEvents 1.0.2 JSON object, compact, `data` (or what stands for it) last.

    The same event gives the same text. Raises InvalidEvent when the time has no zone or an attribute is not allowed.
    """
    told = (
        f'{{"specversion":"1.0","id":{_quote(event.id)},"source":{_quote(event.source)},"type":{_quote(event.type)}'
        f',"time":"{rfc3339(event.time)}"'
    )
    if event.subject is not None:
        told += f',"subject":{_quote(event.subject)}'
    if event.key is not None:
        told += f',"partitionkey":{_quote(event.key)}'
    if event.sequence is not None:
        told += f',"sequence":{_quote(event.sequence)}'
    for name, value in event.attributes.items():
        if (fault := attribute_fault(name, value)) is not None:
            raise InvalidEvent("attributes", fault)
        told += f',"{name}":{_quote(value)}'
    if event.dataref is None:
        data = f'"data":{event.payload}'
    else:
        data = f'"dataref":{_quote(event.dataref.uri)},"datasha256":{_quote(event.dataref.sha256)}'
    return f'{told},"datacontenttype":"application/json",{data}}}'


def raw(event: Event) -> str:
    """Return the event's payload alone, as it is. Raises InvalidEvent for an event whose data is kept in an object."""
    if event.dataref is not None:
        raise InvalidEvent("dataref", "the envelope 'raw' has no place for it; claim checks need 'cloudevents'.")
    return event.payload


ENVELOPES: Mapping[str, Envelope] = MappingProxyType({"cloudevents": cloudevent, "raw": raw})
"""The envelopes that a sink knows by name."""


def attribute_fault(name: object, value: object) -> str | None:
    """Say what is wrong with an extension attribute, None when nothing is.

    Names are lower-case ASCII letters and digits and not reserved; values are text.
    """
    if not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name):
        return f"has the name {shown(name)}; CloudEvents takes lower-case letters and digits only."
    if name in RESERVED_ATTRIBUTES:
        return f"has the name {shown(name)}, which belongs to the envelope itself."
    if not isinstance(value, str):
        return f"has {_kind(value)} as the value of {shown(name)}; text is needed."
    return None


def source_fault(source: object) -> str | None:
    """Say what is wrong with an event's source, None when nothing is: EventBridge has its own rule for `Source`."""
    if not isinstance(source, str) or not 1 <= len(source) <= EVENT_SOURCE_LENGTH or source.startswith("aws."):
        return f"1 to {EVENT_SOURCE_LENGTH} characters, not starting with 'aws.', which EventBridge keeps for itself."
    return None if has_utf8_form(source) else "it has a lone surrogate and so no form in UTF-8."


def rfc3339(time: datetime) -> str:
    """Return an aware datetime as RFC 3339 text in UTC, ending in Z. Raises InvalidEvent when it has no zone."""
    if time.tzinfo is not timezone.utc:
        if time.utcoffset() is None:
            raise InvalidEvent("time", "has no time zone; use datetime.now(timezone.utc).")
        time = time.astimezone(timezone.utc)
    return time.isoformat()[:-6] + "Z"


def moment_of(value: object) -> datetime | None:
    """Return what is RFC 3339 text as an aware datetime in UTC, None for anything else."""
    try:
        return parse_rfc3339(value) if isinstance(value, str) else None
    except ValueError:
        return None


def parse_rfc3339(text: str) -> datetime:
    """Return RFC 3339 text as an aware datetime in UTC; digits beyond the microsecond are dropped.

    Raises ValueError when the text is not of that form or names a moment that does not exist.
    """
    # Not datetime.fromisoformat alone: what it takes beyond RFC 3339, and short of it, differs between Pythons.
    if _USUAL_TIME.fullmatch(text):  # the writer's own form, in UTC; a third less time
        return datetime.fromisoformat(text[:-1] + "+00:00")
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"not RFC 3339: {text!r}")
    date, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in "Zz" else zone
    moment = datetime.fromisoformat(f"{date}T{clock}.{fraction or '0':0<6.6}{offset}")
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"out of range: {text!r}") from None


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
