"""Stream records that a mapping's filter is tried on: ones that have to pass it, and ones that should not.

The records are made by the writer's own code, for the layout at hand and the Region of the stream. A filter may name
that Region, as global tables have it. Where a template does not tell it, what counts is one in which the filter lets
through what it should.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.ttl import ttl_delete
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.place import is_record, is_wanted
from dynamodb_outbox.core.record.states import PUBLISHED
from dynamodb_outbox.doctor.inventory import ANY_REGION, Seen, Unseen, segments
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.filters import Filters
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["RECORDS", "Samples", "samples_of", "stream_samples"]

RECORDS = ("one event", "several events", "an event of another key, type and source")
"""What each of `Samples.records` is a record with."""

_AT_MS = 1_700_000_000_000
_AT = datetime.fromtimestamp(_AT_MS // 1000, timezone.utc)
_TX = "018bcfe5-6800-7000-8000-00000000000{}"
_KEYS = {"S": ("ORDER#1", "b7/x"), "N": ("1", "-20.5"), "B": ("MQ==", "/w==")}
_KINDS = (("order.placed", "doctor"), ("Refund", "urn:elsewhere"))
"""Types and sources; what they have in common with each other a filter may ask for."""
_OTHER = {"S": {"S": "ORDER#1"}, "N": {"N": "1"}, "B": {"B": "MQ=="}}

_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-\d")
_REGIONS = ("eu-west-1", "us-east-1", "ap-southeast-2", "ca-central-1", "sa-east-1", "cn-north-1")
"""Where a filter names none: those that begin in another way."""

Body = dict[str, Any]


@dataclass(frozen=True)
class Samples:
    """Stream records by what they are.

    `records`: inserted outbox records, as `RECORDS` tells them. `settled`: what becomes of them. `expired`: deleted by
    TTL. `others`: items of the user's, where the table has such.
    """

    records: tuple[Body, ...]
    settled: tuple[Body, ...]
    expired: tuple[Body, ...]
    others: tuple[Body, ...]


def samples_of(layout: Layout, stream: Seen[str], patterns: tuple[str, ...], filters: Filters) -> Samples:
    """Return samples for a layout that are tried on `filters`, which are made of `patterns`, of a stream's mapping."""
    region = ANY_REGION if isinstance(stream, Unseen) else (segments(stream)[3:4] or [ANY_REGION])[0]
    if region != ANY_REGION:
        return stream_samples(layout, region)
    named = _REGION.findall(" ".join(patterns))
    found: list[Samples] = []
    for each in dict.fromkeys((*named, *_REGIONS)):
        found.append(stream_samples(layout, each))
        if all(map(filters.match, found[-1].records)):
            return found[-1]
    return max(found, key=lambda each: sum(map(filters.match, each.records)))


def stream_samples(layout: Layout, region: str = _REGIONS[0]) -> Samples:
    """Return samples for a layout, of a stream in a Region."""
    images = [_record(layout, region, 1), _record(layout, region, 2), _record(layout, region, 1, 1)]
    after = [_published(image, layout) for image in images]
    other = {
        **{name: _OTHER[kind] for name, kind in layout.keys.types.items()},
        "cents": {"N": "500"},
    }
    body = partial(_body, layout, region)
    inserted = [body("INSERT", new=other), body("MODIFY", new=other, old=other)]
    return Samples(
        records=tuple(body("INSERT", new=image) for image in images),
        settled=tuple(body("MODIFY", new=new, old=old) for new, old in zip(after, images, strict=True)),
        expired=tuple(ttl_delete(body("REMOVE", old=image)) for image in after),
        others=() if layout.placement == "table" or is_record(other, layout) else tuple(inserted),
    )


def _record(layout: Layout, region: str, count: int, other: int = 0) -> WireItem:
    """Return a record with so many events, of one key or the other one."""
    key, (type_, source) = _KEYS[layout.pk_type][other], _KINDS[other]
    events = tuple(
        Event(
            id=_TX.format(place),
            source=source,
            type=type_,
            time=_AT,
            key=key,
            payload="{}",
        )
        for place in range(count)
    )
    draft = RecordDraft(_TX.format(9), key, events, 0, 1)
    return _told(encode_record(draft, Origin(_TX.format(8), _AT_MS, region), layout), layout)


def _told(image: WireItem, layout: Layout) -> WireItem:
    """Return a record with what `select` tells it by, which another program may be the one to write."""
    found = dict(image)
    for name, wanted in (layout.select or {}).items():
        if not is_wanted(found.get(name), wanted):
            found[name] = {"S": wanted if isinstance(wanted, str) else f"{wanted['prefix']}1"}
    return found


def _published(image: WireItem, layout: Layout) -> WireItem:
    left = {name: value for name, value in image.items() if name != schema.PENDING_INDEX}
    return {**left, layout.column(schema.STATE): {"S": PUBLISHED}, layout.ttl: {"N": str(_AT_MS // 1000)}}


def _body(layout: Layout, region: str, name: str, *, new: WireItem | None = None, old: WireItem | None = None) -> Body:
    """Return a stream record in the form that Lambda hands on."""
    image = new if new is not None else old or {}
    change: Body = {
        "ApproximateCreationDateTime": _AT_MS // 1000,
        "Keys": {each: image[each] for each in layout.keys.types if each in image},
        "SequenceNumber": "100000000000000000001",
        "SizeBytes": 100,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    change |= ({} if new is None else {"NewImage": new}) | ({} if old is None else {"OldImage": old})
    return {
        "eventID": "1",
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": region,
        "dynamodb": change,
    }
