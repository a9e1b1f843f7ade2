"""A parked record as somebody meets it in the table, and the record that it was before.

Three kinds of items are parked (`core.record.states`, `core.record.apart`):

    in place    the record itself, with the marks of parking
    apart       a small item that stands for a record to which nothing could be added; that lies under its own keys, as
                it was written, and may be gone by now
    beside      a whole record, under a key of its own, because another one is under its keys by now

What is published is the record under the keys that it had: by them its id is told, and for hand-written ones its
ordering key. What is moved to another state is the item in which the state is kept. `Held` has both.

The order of parked records of a key is that of `core.record.order`, as for any that the stream does not tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.decode import decode, ordering_key, record_id
from dynamodb_outbox.core.record.order import Dated, in_order, versions_of
from dynamodb_outbox.core.record.place import is_of, key_text, native, place_of
from dynamodb_outbox.core.record.states import (
    PARKED,
    PARKED_AT,
    PARKED_ATTEMPTS,
    PARKED_CODE,
    PARKED_EVENTS,
    PARKED_REASON,
    mark_name,
    state_of,
)
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import AttributeValue, WireItem
    from dynamodb_outbox.event import Event
    from dynamodb_outbox.layout import Layout

__all__ = ["Held", "ParkedEvent", "ParkedRecord", "held", "home_of", "in_key_order", "is_parked_here"]

_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True)
class ParkedEvent:
    """An event of a parked record: what the log names it by. `refused`: it is one of those for which it was parked."""

    id: str
    type: str
    refused: bool


@dataclass(frozen=True)
class ParkedRecord:
    """A parked record, without its data; times are epoch milliseconds.

    id           the record's; of a record of one event of an `Outbox` that event's id, too
    key          the ordering key
    events       in order; empty where the record cannot be read, and then `unreadable` says why
    code         what refused the event: the bus's code, or this library's
    reason       the words that came with it
    attempts     how often it was refused
    parked_ms    when it was, the last time; None where no mark says it
    written_ms   when the record was written
    kind         "in place", "apart" or "beside": `core.record.parked` has what these are
    item         the key attributes, as text, of the item that says so
    gone         of a record that is parked apart: it has been deleted, and cannot be published any more
    """

    id: str
    key: str
    events: tuple[ParkedEvent, ...]
    code: str
    reason: str
    attempts: int
    parked_ms: int | None
    written_ms: int | None
    kind: Literal["in place", "apart", "beside"]
    item: Mapping[str, str]
    unreadable: str | None = None
    gone: bool = False

    @property
    def unrefused(self) -> int:
        """How many of its events it is not parked for; of a record that is gone, or cannot be read, nobody knows: 0."""
        return sum(not event.refused for event in self.events)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it, by the names of its members."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Held:
    """A parked record with what is done to it: `item` is moved from state to state, `image` is published.

    `image` is empty where the record is gone. `events` are those that could be read.
    """

    record: ParkedRecord
    item: WireItem
    image: WireItem
    events: tuple[Event, ...]

    @property
    def stands_apart(self) -> bool:
        """Whether the item is another one than the record."""
        return self.record.kind == "apart"


def home_of(item: WireItem, layout: Layout) -> WireItem | None:
    """Return the keys of the record that a parked item stands for; None where the record is the item itself."""
    if schema.SCHEMA not in item:
        return None
    partition = schema.value(item, layout, schema.PARKED_PK)
    sort_key = schema.value(item, layout, schema.PARKED_SK)
    return _keys(item, partition, sort_key, layout) if partition or sort_key else None


def is_parked_here(item: WireItem, home: WireItem | None, record: WireItem, layout: Layout) -> bool:
    """Whether an item is parked, and its record one of this layout.

    `home` and `record` are what `home_of` says, and what is there, empty when nothing is.
    """
    if state_of(item, layout) != PARKED or item.get(schema.PENDING_INDEX) != {"S": schema.PARKED}:
        return False
    if home is None:
        return is_of(_restored(item, layout), layout)
    return item.get(schema.COLUMNS) == schema.columns_mark(layout) and (not record or is_of(record, layout))


def held(item: WireItem, home: WireItem | None, record: WireItem, layout: Layout, *, source: str) -> Held:
    """Return a parked record; the arguments are those of `is_parked_here`. `source` is that of `decode`."""
    image = record if home is not None else _restored(item, layout)
    unreadable: str | None = None
    events: tuple[Event, ...] = ()
    if image:
        try:
            events = decode(image, layout, source=source).events
        except (InvalidRecord, ConfigurationError) as error:
            unreadable = error.reason if isinstance(error, InvalidRecord) else str(error)
    code, reason = (_text(item, layout, name) for name in (PARKED_CODE, PARKED_REASON))
    return Held(
        ParkedRecord(
            id=_id(item, image, layout),
            key=ordering_key(image, layout) if image else _text_of(item, layout, schema.KEY),
            events=_events(item, events, layout),
            code=code,
            reason=reason,
            attempts=_number(item, layout, PARKED_ATTEMPTS) or 1,
            parked_ms=_number(item, layout, PARKED_AT),
            written_ms=_whole(schema.value(item, layout, schema.AT)),
            kind="apart" if home is not None else "in place" if image is item else "beside",
            item={name: key_text(item[name]) for name in layout.keys.types},
            unreadable=unreadable,
            gone=not image,
        ),
        item,
        image,
        events,
    )


def in_key_order(records: Sequence[Held], layout: Layout) -> list[Held]:
    """Return parked records with those of a key in their order, and the keys by their first ones."""
    of_key: defaultdict[str, list[Held]] = defaultdict(list)
    for one in records:
        of_key[one.record.key].append(one)
    ordered: list[Held] = []
    for of_one in of_key.values():
        dated = [
            Dated(
                one.record.written_ms or 0,
                "/".join(place_of(one.image or one.item, layout)),
                versions_of(one.image, layout) if one.image and len(of_one) > 1 else {},
            )
            for one in of_one
        ]
        ordered += [of_one[place] for place in in_order(dated)]
    return ordered


def _restored(item: WireItem, layout: Layout) -> WireItem:
    """Return a record that was parked beside another one under the keys that it had; any other one as it is."""
    partition, sort_key = item.get(schema.COPY_PK), item.get(schema.COPY_SK)
    if partition is None and sort_key is None:
        return item
    keys = _keys(item, partition or {}, sort_key or {}, layout)
    kept = {name: value for name, value in item.items() if name not in (schema.COPY_PK, schema.COPY_SK)}
    return {**kept, **keys}


def _keys(item: WireItem, partition: AttributeValue, sort_key: AttributeValue, layout: Layout) -> WireItem:
    keys: WireItem = {layout.pk: native(partition or item[layout.pk])}
    return keys if layout.sk is None else {**keys, layout.sk: native(sort_key or item[layout.sk])}


def _id(item: WireItem, image: WireItem, layout: Layout) -> str:
    """Return the id that the record has, or else the one that it was parked by."""
    return (record_id(image, layout) if image else None) or _text_of(item, layout, schema.ID)


def _events(item: WireItem, events: Sequence[Event], layout: Layout) -> tuple[ParkedEvent, ...]:
    named = schema.value(item, layout, mark_name(item, PARKED_EVENTS)).get("NS")
    refused = None if not named else {str(Decimal(position)) for position in named}
    return tuple(
        ParkedEvent(event.id, event.type, refused is None or str(position) in refused)
        for position, event in enumerate(events)
    )


def _text(item: WireItem, layout: Layout, mark: str) -> str:
    return _text_of(item, layout, mark_name(item, mark))


def _text_of(item: WireItem, layout: Layout, name: str) -> str:
    found = schema.value(item, layout, name).get("S")
    return found if isinstance(found, str) else ""


def _number(item: WireItem, layout: Layout, mark: str) -> int | None:
    return _whole(schema.value(item, layout, mark_name(item, mark)))


def _whole(found: AttributeValue) -> int | None:
    """Return a number as DynamoDB gives it, cut to a whole one; None for what is none of up to 18 digits."""
    text = str(found.get("N", "")).partition(".")[0]
    return int(text) if _WHOLE.fullmatch(text) else None
