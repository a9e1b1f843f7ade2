"""A stored record, back into events: the reading side of `core.record.schema`.

The image is the item in wire form as a stream record carries it. It is taken as it was when it was inserted and is
never read again from the table, so each delivery of it gives the same events with the same ids.

A layout may give the attributes other names: they are read under the schema's (`schema.canonical`), the key attributes
under their own.

Hand-written records (no `ob_v`) carry `type`, `payload` and `ts` beside their keys; `core.record.by_hand` tells their
id, key and time, and their source is the reader's setting where no column has it. Their payload is examined strictly.
A record that says `ob_v` was made by a writer that promises one JSON value, and is only held to that much, which is
what the splicing of an envelope rests on; a name twice in its data would be the writer's own business. A payload that
is a map is written as JSON here.

Compressed attributes are decompressed within a bound. An encoding that this library does not know makes the record
unreadable for this version, and so parked; one that it knows and whose library is not installed is the relay's
configuration, and no fault of the record.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamodb_outbox.core.codec.claim import is_sha256
from dynamodb_outbox.core.codec.compression import CompressionFault, decompress
from dynamodb_outbox.core.codec.envelope import attribute_fault, parse_rfc3339
from dynamodb_outbox.core.codec.maps import MapFault, from_map
from dynamodb_outbox.core.codec.strict import JsonFault, check, elements, is_json
from dynamodb_outbox.core.limits import DECODED_BYTES
from dynamodb_outbox.core.record import by_hand, schema
from dynamodb_outbox.core.record.place import carried_id, key_text
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.event import NO_ATTRIBUTES, DataRef, Event

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Record", "decode", "ordering_key", "record_id"]

_VERSION = {"N": str(schema.SCHEMA_VERSION)}


class Record(NamedTuple):
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
    """Return the key that orders a record, even of one that cannot be decoded.

    It is what `decode` would say: `key` where it can be read, else what the keys of the item tell.
    """
    if schema.SCHEMA in image:
        key = schema.value(image, layout, schema.KEY).get("S")
        return key if key and isinstance(key, str) else by_hand.key_by_place(image, layout)
    try:
        return by_hand.key_of(image, layout)
    except ValueError:
        return by_hand.key_by_place(image, layout)


def record_id(image: WireItem, layout: Layout) -> str | None:
    """Return the id of a record, even of one that cannot be decoded; None where it has none."""
    if schema.SCHEMA not in image:
        try:
            return by_hand.id_of(image, layout)
        except ValueError:
            return None
    return _id_of_ours(image, layout)


def _id_of_ours(image: WireItem, layout: Layout) -> str | None:
    if (carried := carried_id(image, layout)) is not None:
        return carried or None
    given = schema.value(image, layout, schema.ID).get("S")
    return given if given and isinstance(given, str) else None


class _Reader:
    __slots__ = ("image", "layout", "raw", "source")

    def __init__(self, image: WireItem, layout: Layout, source: str) -> None:
        self.raw = image
        self.image = schema.canonical(image, layout)
        self.layout = layout
        self.source = source

    def read(self) -> Record:
        image = self.image
        if schema.SCHEMA not in image:
            return self.by_hand()
        if image[schema.SCHEMA] != _VERSION:
            raise self.invalid(f"its schema ({schema.SCHEMA}) is not {schema.SCHEMA_VERSION}: a newer relay is needed.")
        key = self.text(schema.KEY)
        found = _id_of_ours(self.raw, self.layout)
        if found is None:
            raise self.invalid(f"its key has no id after {self.layout.prefix!r}.")
        return Record(key, self.several(key) if schema.EVENTS in image else (self.plain(found, key),))

    # --- the three forms ---

    def by_hand(self) -> Record:
        raw, layout = self.raw, self.layout
        try:
            event_id, key = by_hand.id_of(raw, layout), by_hand.key_of(raw, layout)
            payload = self.payload_by_hand()
            time = by_hand.time_of(raw, layout)
        except ValueError as fault:
            raise self.invalid(f"{fault}.") from None
        source = self.given(schema.SOURCE)
        unnamed = by_hand.named(raw, layout, schema.ATTRIBUTES) is None
        event = Event(
            id=event_id,
            type=self.text(schema.TYPE),
            source=self.source if source is None else source,
            payload=payload,
            time=time,
            key=key,
            subject=self.given(schema.SUBJECT),
            sequence=self.given(schema.SEQUENCE),
            attributes=NO_ATTRIBUTES if unnamed else self.attributes(),
        )
        return Record(key, (event,))

    def payload_by_hand(self) -> str:
        stored = self.image.get(schema.PAYLOAD, schema.ABSENT)
        if "M" in stored:
            return self.mapped()
        if stored and "S" not in stored and "NULL" not in stored:
            column = self.layout.column(schema.PAYLOAD)
            raise self.invalid(f"attribute {column!r} is of type {next(iter(stored))}; S (JSON text) or M is needed.")
        payload = self.text(schema.PAYLOAD)
        try:
            check(payload)
        except JsonFault as fault:
            raise self.invalid(f"its payload is not JSON that can be published: {fault}.") from None
        return payload

    def mapped(self) -> str:
        try:
            return from_map(self.image[schema.PAYLOAD])
        except MapFault as fault:
            raise self.invalid(f"its payload is a map that has no form in JSON: {fault}.") from None

    def plain(self, event_id: str, key: str) -> Event:
        image, text = self.image, self.text
        dataref = None
        payload = ""
        if schema.DATAREF in image and schema.PAYLOAD not in image:
            dataref = self.reference(text(schema.DATAREF), text(schema.DATASHA256))
        elif schema.ENCODING not in image and "M" in image.get(schema.PAYLOAD, schema.ABSENT):
            payload = self.mapped()
        else:
            payload = self.content(schema.PAYLOAD)
            if not is_json(payload):
                raise self.invalid("its payload is not one JSON value.")
        return Event(
            id=event_id,
            type=text(schema.TYPE),
            source=text(schema.SOURCE),
            payload=payload,
            time=self.time(text(schema.TIME)),
            key=key,
            subject=text(schema.SUBJECT) if schema.SUBJECT in image else None,
            sequence=text(schema.SEQUENCE) if schema.SEQUENCE in image else None,
            attributes=self.attributes() if schema.ATTRIBUTES in image else NO_ATTRIBUTES,
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
        column = self.layout.column(name)
        stored = self.image.get(name, schema.ABSENT).get("B")
        try:
            # In what Lambda hands to a function, and nowhere else, binary values are base64 text.
            content = base64.b64decode(stored, validate=True) if isinstance(stored, str) else stored
            if not isinstance(content, bytes):
                raise self.invalid(f"attribute {column!r} is missing or not of type B, and {schema.ENCODING} is there.")
            return decompress(content, encoding, DECODED_BYTES)
        except CompressionFault as fault:
            raise self.invalid(f"attribute {column!r} {fault}.") from None
        except binascii.Error:
            raise self.invalid(f"attribute {column!r} is not base64.") from None

    def reference(self, uri: str, sha256: str) -> DataRef:
        if not is_sha256(sha256):
            raise self.invalid(f"{schema.DATASHA256} is not a SHA-256 in hex.")
        return DataRef(uri, sha256)

    def text(self, name: str) -> str:
        try:
            value = self.image[name]["S"]
        except KeyError:
            value = None
        if not value or not isinstance(value, str):
            raise self.invalid(f"attribute {self.layout.column(name)!r} is missing, empty, NULL or not of type S.")
        return value

    def given(self, name: str) -> str | None:
        """Return what a hand-written row says in a column that the layout names."""
        return None if by_hand.named(self.raw, self.layout, name) is None else self.text(name)

    def time(self, text: str) -> datetime:
        try:
            return parse_rfc3339(text)
        except ValueError:
            raise self.invalid("its time, or that of one of its events, is not RFC 3339.") from None

    def attributes(self) -> Mapping[str, str]:
        members = self.image[schema.ATTRIBUTES].get("M")
        if not isinstance(members, dict):
            raise self.invalid(f"attribute {self.layout.column(schema.ATTRIBUTES)!r} is not of type M.")
        return self.checked({name: value.get("S") for name, value in members.items()})

    def checked(self, attributes: Mapping[str, Any]) -> Mapping[str, str]:
        for name, value in attributes.items():
            if (fault := attribute_fault(name, value)) is not None:
                raise self.invalid(f"{schema.ATTRIBUTES} {fault}")
        return attributes

    def invalid(self, reason: str) -> InvalidRecord:
        return InvalidRecord("/".join(key_text(self.raw[name]) for name in self.layout.keys.types), reason)
