"""A stored record, back into events: the reading side of `core.record.schema`.

The image is the item in wire form as a stream record carries it. It is taken as it was when it was inserted and is
never read again from the table, so each delivery of it gives the same events with the same ids.

Hand-written records (no `ob_v`) carry `type`, `payload` and `ts` beside their keys. Their id comes from the sort key,
with the partition key where it is no UUID; their key is the partition key, their time is `ts`, their source is the
reader's setting. Their payload is examined strictly. A record that says `ob_v` was made by a writer that promises one
JSON value, and is only held to that much, which is what the splicing of an envelope rests on; a name twice in its data
would be the writer's own business.

Compressed attributes are decompressed within a bound. An encoding that this library does not know makes the record
unreadable for this version, and so parked; one that it knows and whose library is not installed is the relay's
configuration, and no fault of the record.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.claim import is_sha256
from dynamodb_outbox.core.codec.compression import CompressionFault, decompress
from dynamodb_outbox.core.codec.envelope import attribute_fault, parse_rfc3339
from dynamodb_outbox.core.codec.strict import JsonFault, elements, examine, is_json
from dynamodb_outbox.core.limits import DECODED_BYTES
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.event import DataRef, Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Record", "decode", "ordering_key"]


@dataclass(frozen=True)
class Record:
    """What is published of one record: its events, in order, and the ordering `key` that all of them share."""

    key: str
    events: tuple[Event, ...]


def decode(image: WireItem, layout: Layout, *, source: str) -> Record:
    """Return the record that an image holds; `source` is the source of events whose record names none.

    Raises InvalidRecord, with the record's key, when what the events are made of is not as the schema says. Such a
    record can never be published as it is. What concerns the table alone (`at`, the index) is not looked at. Raises
    ConfigurationError for a record compressed in a way whose library is not installed.
    """
    return _Reader(image, layout, source).read()


def ordering_key(image: WireItem, layout: Layout) -> str:
    """Return the key that orders a record, even of one that cannot be decoded: `key` where it is text, else the pk."""
    if schema.SCHEMA in image and isinstance(key := image.get(schema.KEY, {}).get("S"), str):
        return key
    return str(image[layout.pk]["S"])


class _Reader:
    def __init__(self, image: WireItem, layout: Layout, source: str) -> None:
        self.image = image
        self.layout = layout
        self.source = source

    def read(self) -> Record:
        image, layout = self.image, self.layout
        record_id = self.text(layout.sk)[len(layout.prefix) :]
        if not record_id:
            raise self.invalid(f"the sort key has no id after {layout.prefix!r}.")
        if schema.SCHEMA not in image:
            key = self.text(layout.pk)
            return Record(key, (self.by_hand(schema.id_by_hand(key, record_id), key),))
        if image[schema.SCHEMA] != {"N": str(schema.SCHEMA_VERSION)}:
            raise self.invalid(f"its schema ({schema.SCHEMA}) is not {schema.SCHEMA_VERSION}: a newer relay is needed.")
        key = self.text(schema.KEY)
        return Record(key, self.several(key) if schema.EVENTS in image else (self.plain(record_id, key),))

    # --- the three forms ---

    def by_hand(self, record_id: str, key: str) -> Event:
        payload = self.text(schema.PAYLOAD)
        try:
            examine(payload)
        except JsonFault as fault:
            raise self.invalid(f"its payload is not JSON that can be published: {fault}.") from None
        return Event(
            id=record_id, type=self.text(schema.TYPE), source=self.source, payload=payload, time=self.written(), key=key
        )

    def plain(self, record_id: str, key: str) -> Event:
        dataref = None
        payload = ""
        if schema.DATAREF in self.image and schema.PAYLOAD not in self.image:
            dataref = self.reference(self.text(schema.DATAREF), self.text(schema.DATASHA256))
        else:
            payload = self.content(schema.PAYLOAD)
            if not is_json(payload):
                raise self.invalid("its payload is not one JSON value.")
        return Event(
            id=record_id,
            type=self.text(schema.TYPE),
            source=self.text(schema.SOURCE),
            payload=payload,
            time=self.time(self.text(schema.TIME)),
            key=key,
            subject=self.optional(schema.SUBJECT),
            sequence=self.optional(schema.SEQUENCE),
            attributes=self.attributes(),
            dataref=dataref,
        )

    def several(self, key: str) -> tuple[Event, ...]:
        try:
            events = tuple(self.element(fields, key) for fields in elements(self.content(schema.EVENTS)))
        except JsonFault as fault:
            raise self.invalid(f"{schema.EVENTS} is not an array of events: {fault}.") from None
        if not events:
            raise self.invalid(f"{schema.EVENTS} is empty.")
        if len({event.id for event in events}) != len(events):
            raise self.invalid("two of its events have the same id.")
        return events

    def element(self, fields: Mapping[str, tuple[Any, str]], key: str) -> Event:
        def text(name: str) -> str | None:
            value = fields[name][0] if name in fields else None
            if value is not None and not isinstance(value, str):
                raise self.invalid(f"{name} of one of its events is not text.")
            return value

        def required(name: str) -> str:
            if not (value := text(name)):
                raise self.invalid(f"one of its events has no {name}.")
            return value

        dataref = None
        if "data" not in fields:
            if schema.DATAREF not in fields:
                raise self.invalid("one of its events has no data.")
            dataref = self.reference(required(schema.DATAREF), required(schema.DATASHA256))
        attributes = fields["attributes"][0] if "attributes" in fields else {}
        if not isinstance(attributes, dict):
            raise self.invalid("attributes of one of its events is not an object.")
        return Event(
            id=required("id"),
            type=required("type"),
            source=required("source"),
            payload=fields["data"][1] if dataref is None else "",
            time=self.time(required("time")),
            key=key,
            subject=text("subject"),
            sequence=text("sequence"),
            attributes=self.checked(attributes),
            dataref=dataref,
        )

    # --- attributes of the item ---

    def content(self, name: str) -> str:
        """Return what carries the data: text, or compressed text."""
        if schema.ENCODING not in self.image:
            return self.text(name)
        encoding = self.text(schema.ENCODING)
        stored = self.image.get(name, _NOTHING).get("B")
        try:
            # In what Lambda hands to a function, and nowhere else, binary values are base64 text.
            content = base64.b64decode(stored, validate=True) if isinstance(stored, str) else stored
            if not isinstance(content, bytes):
                raise self.invalid(f"attribute {name!r} is missing or not of type B, and {schema.ENCODING} is there.")
            return decompress(content, encoding, DECODED_BYTES)
        except CompressionFault as fault:
            raise self.invalid(f"attribute {name!r} {fault}.") from None
        except binascii.Error:
            raise self.invalid(f"attribute {name!r} is not base64.") from None

    def reference(self, uri: str, sha256: str) -> DataRef:
        if not is_sha256(sha256):
            raise self.invalid(f"{schema.DATASHA256} is not a SHA-256 in hex.")
        return DataRef(uri, sha256)

    def text(self, name: str) -> str:
        value = self.image.get(name, _NOTHING).get("S")
        if not value or not isinstance(value, str):
            raise self.invalid(f"attribute {name!r} is missing, empty or not of type S.")
        return value

    def optional(self, name: str) -> str | None:
        return self.text(name) if name in self.image else None

    def written(self) -> datetime:
        """Return the time of a hand-written record: `ts`, in epoch seconds."""
        try:
            seconds = Decimal(self.image.get(schema.TS, _NOTHING).get("N", ""))
            return datetime.fromtimestamp(int(seconds * 1000) / 1000, timezone.utc)
        except (ArithmeticError, TypeError, ValueError, OSError):
            raise self.invalid(
                f"attribute {schema.TS!r} is missing, not of type N, or not a time in epoch seconds."
            ) from None

    def time(self, text: str) -> datetime:
        try:
            return parse_rfc3339(text)
        except ValueError:
            raise self.invalid("its time, or that of one of its events, is not RFC 3339.") from None

    def attributes(self) -> Mapping[str, str]:
        if schema.ATTRIBUTES not in self.image:
            return {}
        members = self.image[schema.ATTRIBUTES].get("M")
        if not isinstance(members, dict):
            raise self.invalid(f"attribute {schema.ATTRIBUTES!r} is not of type M.")
        return self.checked({name: value.get("S") for name, value in members.items()})

    def checked(self, attributes: Mapping[str, Any]) -> Mapping[str, str]:
        for name, value in attributes.items():
            if (fault := attribute_fault(name, value)) is not None:
                raise self.invalid(f"{schema.ATTRIBUTES} {fault}")
        return attributes

    def invalid(self, reason: str) -> InvalidRecord:
        where = [self.image.get(name, {}).get("S", "?") for name in (self.layout.pk, self.layout.sk)]
        return InvalidRecord("/".join(map(str, where)), reason)


_NOTHING: Mapping[str, Any] = {}
