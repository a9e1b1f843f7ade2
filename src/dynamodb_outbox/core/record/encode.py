"""Records in wire form, by the schema of `core.record.schema`.

An event's data is not written anew: its payload text, fixed when it was emitted, goes into the record as it is, or
compressed where that takes fewer bytes. Of an event whose data is kept in an object the reference goes in its place.
A layout may ask for the payload of a single event as a map instead.

Items are made with the schema's names, and get those of the layout's columns at the very end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING

from dynamodb_outbox.core.codec.compression import compress
from dynamodb_outbox.core.codec.envelope import rfc3339
from dynamodb_outbox.core.codec.maps import to_map
from dynamodb_outbox.core.codec.size import text_bytes
from dynamodb_outbox.core.limits import DECODED_BYTES
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import record_keys
from dynamodb_outbox.core.record.states import WAYS
from dynamodb_outbox.errors import ItemTooLarge
from dynamodb_outbox.layout import PUBLISHED_FOR

if TYPE_CHECKING:
    from dynamodb_outbox.core.codec.compression import Encoding
    from dynamodb_outbox.core.values import AttributeValue
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout

__all__ = ["Origin", "RecordDraft", "encode_record"]

_LEAST_COMPRESSED_BYTES = 256
"""Less is stored as it is: what could be saved is below the unit by which writes are counted."""


@dataclass(frozen=True)
class Origin:
    """What all items of one transaction share: its id `tx`, `at_ms` (epoch ms of the first send), the AWS Region."""

    tx: str
    at_ms: int
    region: str | None


@dataclass(frozen=True)
class RecordDraft:
    """One record to write: its `id`, the ordering `key`, its events in order, and its place among `count` records."""

    id: str
    key: str
    events: tuple[Event, ...]
    index: int
    count: int


def encode_record(
    record: RecordDraft, origin: Origin, layout: Layout, compression: Encoding | None = None
) -> dict[str, AttributeValue]:
    """Return the record as an item: the plain form for one event, the form with `events` for several.

    `compression` is tried on what carries the data, and kept where the item gets smaller. Raises ItemTooLarge for more
    than a reader decompresses; for a payload that a map cannot hold, where the layout asks for one, InvalidEvent or
    InvalidValue; ValueError for a key that the type of the table's partition key cannot hold.
    """
    item: dict[str, AttributeValue] = {
        schema.SCHEMA: {"N": str(schema.SCHEMA_VERSION)},
        schema.ID: {"S": record.id},
        schema.KEY: {"S": record.key},
        schema.TS: {"N": str(origin.at_ms // 1000)},
        schema.AT: {"N": str(origin.at_ms)},
        schema.TX: {
            "M": {"id": {"S": origin.tx}, "index": {"N": str(record.index)}, "count": {"N": str(record.count)}}
        },
        schema.STATE: {"S": schema.PENDING},
    }
    item |= _settling(record, layout)
    if origin.region is not None:
        item[schema.REGION] = {"S": origin.region}
    if (mark := schema.columns_mark(layout)) is not None:
        item[schema.COLUMNS] = mark
    if len(record.events) == 1:
        item |= _plain(record.events[0], as_map=layout.payload_format == "map")
    else:
        item[schema.EVENTS] = {"S": f"[{','.join(map(_element, record.events))}]"}
    if compression is not None:
        item = _compressed(item, compression)
    keys = record_keys(layout, record.key, record.id) | _expiry(origin, layout)
    marks: dict[str, AttributeValue] = {name: {"S": text} for name, text in layout.marks.items()}
    return {**marks, **keys, **schema.renamed(item, layout)}


def _settling(record: RecordDraft, layout: Layout) -> dict[str, AttributeValue]:
    """Return what tells a relay how the record is settled; and its part of the index, where one does that."""
    said: dict[str, AttributeValue] = {}
    way = WAYS[layout.settle]
    if layout.settle != "expire":
        said[schema.SETTLE] = {"S": layout.settle}
    if way.expires and layout.published_for != PUBLISHED_FOR:
        said[schema.KEEP] = {"N": str(_keep_s(layout))}
    if way.writes:
        said[schema.PENDING_INDEX] = {"S": schema.index_shard(record.key, layout.index_shards)}
    return said


def _expiry(origin: Origin, layout: Layout) -> dict[str, AttributeValue]:
    """Return the TTL of a record that nothing settles; no other has one before it is published."""
    if WAYS[layout.settle].writes:
        return {}
    return {layout.ttl: {"N": str(origin.at_ms // 1000 + _keep_s(layout))}}


def _keep_s(layout: Layout) -> int:
    return math.ceil(layout.published_for.total_seconds())


def _compressed(item: dict[str, AttributeValue], encoding: Encoding) -> dict[str, AttributeValue]:
    name = schema.EVENTS if schema.EVENTS in item else schema.PAYLOAD
    text = item.get(name, {}).get("S", "")
    size = text_bytes(text)
    if size < _LEAST_COMPRESSED_BYTES:
        return item
    if size > DECODED_BYTES:
        advice = "Emit less in one transaction: compression saves storage and raises no limit."
        raise ItemTooLarge(f"{name} of an outbox record", size, DECODED_BYTES, "bytes before compression", advice)
    content = compress(text, encoding)
    if len(content) + len(schema.ENCODING) + len(encoding) >= size:
        return item
    return item | {name: {"B": content}, schema.ENCODING: {"S": encoding}}


def _plain(event: Event, *, as_map: bool) -> dict[str, AttributeValue]:
    item: dict[str, AttributeValue] = {
        schema.TYPE: {"S": event.type},
        schema.SOURCE: {"S": event.source},
        schema.TIME: {"S": rfc3339(event.time)},
    }
    if event.dataref is None:
        item[schema.PAYLOAD] = to_map(event.payload) if as_map else {"S": event.payload}
    else:
        item |= {schema.DATAREF: {"S": event.dataref.uri}, schema.DATASHA256: {"S": event.dataref.sha256}}
    if event.subject is not None:
        item[schema.SUBJECT] = {"S": event.subject}
    if event.sequence is not None:
        item[schema.SEQUENCE] = {"S": event.sequence}
    if event.attributes:
        item[schema.ATTRIBUTES] = {"M": {name: {"S": value} for name, value in event.attributes.items()}}
    return item


def _element(event: Event) -> str:
    fields = {"id": event.id, "type": event.type, "source": event.source}
    if event.subject is not None:
        fields["subject"] = event.subject
    if event.sequence is not None:
        fields["sequence"] = event.sequence
    fields["time"] = rfc3339(event.time)
    if event.dataref is not None:
        fields |= {schema.DATAREF: event.dataref.uri, schema.DATASHA256: event.dataref.sha256}
    written = ",".join(f'"{name}":{_quote(value)}' for name, value in fields.items())
    if event.attributes:
        attributes = ",".join(f"{_quote(name)}:{_quote(value)}" for name, value in event.attributes.items())
        written += f',"attributes":{{{attributes}}}'
    return f'{{{written},"data":{event.payload}}}' if event.dataref is None else f"{{{written}}}"
