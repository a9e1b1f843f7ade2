"""A stored record, back into events: the reading side of `core.record.schema`.

The image is the item in wire form as a stream record carries it. It is taken as it was when it was inserted and is
never read again from the table, so each delivery of it gives the same events with the same ids.

Hand-written records (no `ob_v`) carry `type`, `payload` and `ts` beside their keys. Their id is what follows the prefix
in the sort key, their key is the partition key, their time is `ts`, their source is the reader's setting. Their payload
is examined strictly. A record that says `ob_v` was made by a writer that promises one JSON value, and is only held to
that much, which is what the splicing of an envelope rests on; a name twice in its data would be the writer's own
business.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.codec.envelope import attribute_fault, parse_rfc3339
from dynamodb_outbox.core.codec.strict import JsonFault, elements, examine, is_json
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.errors import InvalidRecord
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Record", "decode", "ordering_key"]


@dataclass(frozen=True)
class Record:
    """One record and its events.

    `keys` are its key attributes in wire form, `image` the whole item; `id` is the record's own (not an event's, when
    there are several), `key` the ordering key that all its events share, `at_ms` when it was first sent to the table.
    """

    keys: WireItem
    image: WireItem
    id: str
    key: str
    events: tuple[Event, ...]
    at_ms: int
    hand_written: bool
    region: str | None = None


def decode(image: WireItem, layout: Layout, *, source: str) -> Record:
    """Return the record that an image holds; `source` is the source of events whose record names none.

    Raises InvalidRecord, with the record's key, for anything that the schema does not allow. Such a record can never
    be published as it is.
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
        hand_written = schema.SCHEMA not in image
        if hand_written:
            key = self.text(layout.pk)
            at_ms = self.seconds_as_ms()
            events: tuple[Event, ...] = (self.by_hand(record_id, key, at_ms),)
        else:
            if image[schema.SCHEMA] != {"N": str(schema.SCHEMA_VERSION)}:
                raise self.invalid(
                    f"its schema ({schema.SCHEMA}) is not {schema.SCHEMA_VERSION}: a newer relay is needed."
                )
            key = self.text(schema.KEY)
            at_ms = self.whole_number(schema.AT)
            events = self.several(key) if schema.EVENTS in image else (self.plain(record_id, key),)
        return Record(
            keys={layout.pk: image[layout.pk], layout.sk: image[layout.sk]},
            image=image,
            id=record_id,
            key=key,
            events=events,
            at_ms=at_ms,
            hand_written=hand_written,
            region=self.optional(schema.REGION),
        )

    # --- the three forms ---

    def by_hand(self, record_id: str, key: str, at_ms: int) -> Event:
        payload = self.text(schema.PAYLOAD)
        try:
            examine(payload)
        except JsonFault as fault:
            raise self.invalid(f"its payload is not JSON that can be published: {fault}.") from None
        try:
            time = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
        except (ValueError, OverflowError, OSError):
            raise self.invalid(f"{schema.TS} is not a time in epoch seconds.") from None
        return Event(id=record_id, type=self.text(schema.TYPE), source=self.source, payload=payload, time=time, key=key)

    def plain(self, record_id: str, key: str) -> Event:
        payload = self.text(schema.PAYLOAD)
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
        )

    def several(self, key: str) -> tuple[Event, ...]:
        try:
            events = tuple(self.element(fields, key) for fields in elements(self.text(schema.EVENTS)))
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

        if "data" not in fields:
            raise self.invalid("one of its events has no data.")
        attributes = fields["attributes"][0] if "attributes" in fields else {}
        if not isinstance(attributes, dict):
            raise self.invalid("attributes of one of its events is not an object.")
        return Event(
            id=required("id"),
            type=required("type"),
            source=required("source"),
            payload=fields["data"][1],
            time=self.time(required("time")),
            key=key,
            subject=text("subject"),
            sequence=text("sequence"),
            attributes=self.checked(attributes),
        )

    # --- attributes of the item ---

    def text(self, name: str) -> str:
        value = self.image.get(name, _NOTHING).get("S")
        if not value or not isinstance(value, str):
            raise self.invalid(f"attribute {name!r} is missing, empty or not of type S.")
        return value

    def optional(self, name: str) -> str | None:
        return self.text(name) if name in self.image else None

    def whole_number(self, name: str) -> int:
        digits = self.image.get(name, _NOTHING).get("N")
        if isinstance(digits, str) and len(digits) <= _USUAL_DIGITS and digits.isascii() and digits.isdigit():
            return int(digits)
        number = self.number(name)
        if number != number.to_integral_value():
            raise self.invalid(f"attribute {name!r} is not a whole number.")
        return int(number)

    def seconds_as_ms(self) -> int:
        return int(self.number(schema.TS) * 1000)

    def number(self, name: str) -> Decimal:
        try:
            number = Decimal(self.image.get(name, {}).get("N", ""))
        except (InvalidOperation, TypeError):
            number = Decimal("NaN")
        if not number.is_finite() or abs(number) > _LARGEST_TIME:
            raise self.invalid(f"attribute {name!r} is missing, not of type N, or no time.")
        return number

    def time(self, text: str) -> datetime:
        try:
            # The writer's own form, without the general pattern.
            if len(text) == _USUAL_LENGTH and text[-1] == "Z":
                return datetime.fromisoformat(text[:-1] + "+00:00")
            return parse_rfc3339(text)
        except ValueError:
            raise self.invalid(f"time {text!r} is not RFC 3339.") from None

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
_USUAL_DIGITS = 15
_USUAL_LENGTH = len("2026-01-31T12:00:00.000000Z")
_LARGEST_TIME = Decimal(10) ** 15
