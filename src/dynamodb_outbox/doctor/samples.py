"""Stream records that a mapping's filter is tried on: ones that have to pass it, and ones that should not.

The records are made by the writer's own code, for the layout at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.eventsource.ttl import ttl_delete
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.encode import Origin, RecordDraft, encode_record
from dynamodb_outbox.core.record.place import is_record, is_wanted
from dynamodb_outbox.core.record.states import PUBLISHED
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Samples", "stream_samples"]

_AT_MS = 1_700_000_000_000
_AT = datetime.fromtimestamp(_AT_MS // 1000, timezone.utc)
_TX = "018bcfe5-6800-7000-8000-00000000000{}"
_KEYS = {"S": "ORDER#1", "N": "1", "B": "MQ=="}
_OTHER = {"S": {"S": "ORDER#1"}, "N": {"N": "1"}, "B": {"B": "MQ=="}}

Body = dict[str, Any]


@dataclass(frozen=True)
class Samples:
    """Stream records by what they are.

    `records`: inserted outbox records. `settled`: what becomes of them. `expired`: deleted by TTL. `others`: items of
    the user's, where the table has such.
    """

    records: tuple[Body, ...]
    settled: tuple[Body, ...]
    expired: tuple[Body, ...]
    others: tuple[Body, ...]


def stream_samples(layout: Layout) -> Samples:
    """Return samples for a layout."""
    images = [_record(layout, 1), _record(layout, 2)]
    after = [_published(image, layout) for image in images]
    other = {
        **{name: _OTHER[kind] for name, kind in layout.keys.types.items()},
        "cents": {"N": "500"},
    }
    inserted = [_body("INSERT", layout, new=other), _body("MODIFY", layout, new=other, old=other)]
    return Samples(
        records=tuple(_body("INSERT", layout, new=image) for image in images),
        settled=tuple(_body("MODIFY", layout, new=new, old=old) for new, old in zip(after, images, strict=True)),
        expired=tuple(ttl_delete(_body("REMOVE", layout, old=image)) for image in after),
        others=() if layout.placement == "table" or is_record(other, layout) else tuple(inserted),
    )


def _record(layout: Layout, count: int) -> WireItem:
    """Return a record with so many events."""
    key = _KEYS[layout.pk_type]
    events = tuple(
        Event(
            id=_TX.format(place),
            source="doctor",
            type="order.placed",
            time=_AT,
            key=key,
            payload="{}",
        )
        for place in range(count)
    )
    draft = RecordDraft(_TX.format(9), key, events, 0, 1)
    return _told(encode_record(draft, Origin(_TX.format(8), _AT_MS, "eu-west-1"), layout), layout)


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


def _body(name: str, layout: Layout, *, new: WireItem | None = None, old: WireItem | None = None) -> Body:
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
        "awsRegion": "eu-west-1",
        "dynamodb": change,
    }
