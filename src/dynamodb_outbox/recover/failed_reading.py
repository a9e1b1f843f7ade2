"""The records of a batch that was given up: from the document, from the stream, or from the table; and what to do.

A document in a bucket carries its records. One in a queue says where they are in the stream, which keeps them for 24
hours: they are read again from the first sequence number to the last one. Between these there may be records that the
mapping's filter, or another lane of the same shard, had kept out of the batch: what they came to is told by their
states, as it is of the batch's own, for others may have published them since.

A stream record without an image, as a stream of keys alone has them, is completed by the item in the table. That is the
record as it is now, so it says itself whether it still waits.

What a record in the table says of a record of the stream:

    the same, pending                   to be published
    the same, in a later state          settled since, by a sweep or an operator
    parked apart, or beside another     settled since, or left to whoever decides about what is parked: what stands for
                                        it lies under keys of its own (`core.record.apart`)
    another record under its keys       to be published: the one of the stream exists nowhere else
    nothing                             published before it was removed, where that is what removes it: settled by
                                        deleting, or for longer than published ones are kept. Else to be published:
                                        somebody deleted it, and its event was committed all the same
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.adapters.streams import DynamoDbStream, json_item
from dynamodb_outbox.core.limits import BATCH_GET_KEYS
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.apart import apart_keys, copy_key, stands_for
from dynamodb_outbox.core.record.by_hand import written_ms
from dynamodb_outbox.core.record.moves import keep_s
from dynamodb_outbox.core.record.other_keys import is_key, keys_said
from dynamodb_outbox.core.record.place import carried_id, key_fault, place_of
from dynamodb_outbox.core.record.same import is_same
from dynamodb_outbox.core.record.states import PENDING, state_of, way_of
from dynamodb_outbox.errors import ConfigurationError, InvalidRecord, StreamUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dynamodb_outbox.adapters.streams import Page, ShardReader, StreamsClient
    from dynamodb_outbox.core.eventsource.failures import FailedBatch
    from dynamodb_outbox.core.record.place import Place
    from dynamodb_outbox.core.relay.select import Selected
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock
    from dynamodb_outbox.recover.parked_reading import Reading

__all__ = ["Fetched", "Fetching"]

_ATTEMPTS = 4
_PAUSE_MS = 500
_EMPTY_PAGES = 100
"""Of a shard that is still written to there may be pages without a record between two records."""

Judgement = Literal["waits", "settled", "gone"]


@dataclass(frozen=True)
class Fetched:
    """Records in Lambda's form; `lost` says why some are missing."""

    records: tuple[Mapping[str, Any], ...]
    lost: str | None = None


class Fetching:
    """Fetches records of batches of one table, and tells what has come of them. `client` is of "dynamodbstreams"."""

    def __init__(self, reading: Reading, client: Callable[[], StreamsClient], clock: Clock) -> None:
        self._reading = reading
        self._client = client
        self._clock = clock

    def fetch(self, batch: FailedBatch) -> Fetched:
        """Return the records of a batch, as far as they can be had.

        Raises StreamUnavailable, StreamRefused, InvalidRecord for what no stream has told, and ConfigurationError for
        what the table of the layout cannot have written.
        """
        if batch.records is not None:
            _check(batch.records, self._reading.layout)
            fetched = Fetched(batch.records, batch.lacks)
        else:
            reader = DynamoDbStream(self._client(), batch.stream_arn).open(batch.shard_id, at=batch.start)
            fetched = self._read(reader, batch)
        _check_layout(fetched.records, self._reading.layout)
        return self._completed(fetched)

    def judge(self, records: Sequence[Selected], layout: Layout) -> list[Judgement]:
        """Return what has come of records since the stream told of them. Raises TableUnavailable."""
        images = [one.image for one in records]
        items = self._items(images)
        judged = [self._judged(image, items.get(place_of(image, layout)), layout) for image in images]
        open_ones = [image for image, judgement in zip(images, judged, strict=True) if judgement != "settled"]
        apart = self._items([key for image in open_ones for key in _elsewhere(image, layout)])
        return [
            "settled" if judgement != "settled" and _is_settled_apart(image, apart, layout) else judgement
            for image, judgement in zip(images, judged, strict=True)
        ]

    def _items(self, keys: Sequence[WireItem]) -> dict[Place, WireItem]:
        """Return the items that there are under any number of keys."""
        items: dict[Place, WireItem] = {}
        for begin in range(0, len(keys), BATCH_GET_KEYS):
            items |= self._reading.items(keys[begin : begin + BATCH_GET_KEYS])
        return items

    def _judged(self, image: WireItem, item: WireItem | None, layout: Layout) -> Judgement:
        if item is not None:
            waits = not is_same(item, image, layout) or state_of(item, layout) == PENDING
            return "waits" if waits else "settled"
        way = way_of(image, layout)
        if not way.stays:
            return "gone"
        written = _written_ms(image, layout)
        if written is None or not (way.writes and way.expires):
            return "waits"
        return "gone" if written + 1000 * keep_s(image, layout) < self._clock.now_ms() else "waits"

    def _read(self, reader: ShardReader, batch: FailedBatch) -> Fetched:
        found: list[Mapping[str, Any]] = []
        lost, empty, last = None, 0, int(batch.end)
        while True:
            page = self._page(reader)
            if page.gap is not None:
                lost = "the stream has trimmed records of it"
            for record in page.records:
                number = int(record["dynamodb"]["SequenceNumber"])
                if number <= last:
                    found.append(record)
                if number >= last:
                    return Fetched(tuple(found), lost if number == last else lost or "its last record is not there")
            if page.closed:
                return Fetched(tuple(found), lost or "the shard ends before its last record")
            empty = 0 if page.records else empty + 1
            if empty > _EMPTY_PAGES and lost is not None:  # nothing has been written since: it is not there any more
                return Fetched(tuple(found), lost)
            if empty > _EMPTY_PAGES:
                raise StreamUnavailable(f"shard {batch.shard_id} gives no record up to {batch.end}")

    def _page(self, reader: ShardReader) -> Page:
        for attempt in range(1, _ATTEMPTS):
            with contextlib.suppress(StreamUnavailable):
                return reader.read()
            self._clock.sleep_ms(_PAUSE_MS << attempt)
        return reader.read()

    def _completed(self, fetched: Fetched) -> Fetched:
        """Give inserted records without an image the item that is in the table; those of deleted ones are lost."""
        layout = self._reading.layout
        bare = [record["dynamodb"]["Keys"] for record in fetched.records if _is_bare(record, layout)]
        items = self._items(bare)
        whole = [self._whole(record, items) for record in fetched.records]
        missing = sum(record is None for record in whole)
        why = f"{missing} of its records have no image in the stream, and no item in the table" if missing else None
        return Fetched(tuple(record for record in whole if record is not None), fetched.lost or why)

    def _whole(self, record: Mapping[str, Any], items: Mapping[Place, WireItem]) -> Mapping[str, Any] | None:
        layout = self._reading.layout
        if not _is_bare(record, layout):
            return record
        item = items.get(place_of(record["dynamodb"]["Keys"], layout))
        if item is None:
            return None
        return {**record, "dynamodb": {**record["dynamodb"], "NewImage": json_item(item)}}


def _check(records: Sequence[Mapping[str, Any]], layout: Layout) -> None:
    """Raise InvalidRecord for key attributes that no item has: what a document says was written by anybody."""
    for position, record in enumerate(records):
        change = record.get("dynamodb")
        fault = key_fault(change.get("Keys"), layout) if isinstance(change, dict) else None
        if fault is not None:
            raise InvalidRecord(f"Records[{position}]", f"{fault}.")


def _check_layout(records: Sequence[Mapping[str, Any]], layout: Layout) -> None:
    """Raise ConfigurationError for key attributes of other names: by this layout no record would be one.

    Raises InvalidRecord for what is no key of any table.
    """
    for position, record in enumerate(records):
        change = record.get("dynamodb")
        keys = change.get("Keys") if isinstance(change, dict) else None
        if isinstance(keys, dict) and keys.keys() != layout.keys.types.keys():
            if not is_key(keys):
                raise InvalidRecord(f"Records[{position}]", "has Keys that no item has.")
            image = change.get("NewImage") if isinstance(change, dict) else None
            raise ConfigurationError(keys_said(keys, layout, ours=isinstance(image, dict) and schema.SCHEMA in image))


def _elsewhere(image: WireItem, layout: Layout) -> list[WireItem]:
    """Return the keys of what may stand for a record that is parked apart, or beside another one."""
    copy = copy_key(image, layout)
    return [*apart_keys(image, layout), *([] if copy is None else [copy])]


def _is_settled_apart(image: WireItem, items: Mapping[Place, WireItem], layout: Layout) -> bool:
    """Whether what stands for a record, among these items, is in a later state: parked, published or discarded."""
    copy = copy_key(image, layout)
    for key in _elsewhere(image, layout):
        found = items.get(place_of(key, layout))
        if found is not None and (key == copy or stands_for(found, image, layout)):
            return state_of(found, layout) != PENDING
    return False


def _is_bare(record: Mapping[str, Any], layout: Layout) -> bool:
    """Whether a stream record tells of an outbox record by its keys alone, or may do so."""
    change = record.get("dynamodb")
    if record.get("eventName") != "INSERT" or not isinstance(change, dict) or change.get("NewImage"):
        return False
    keys = change.get("Keys")
    return isinstance(keys, dict) and (layout.select is not None or carried_id(keys, layout) is not None)


def _written_ms(image: WireItem, layout: Layout) -> int | None:
    """Return when a record was written, None where it does not say."""
    if schema.SCHEMA not in image:
        return written_ms(image, layout)
    at = str(schema.value(image, layout, schema.AT).get("N", ""))
    return int(at) if at.isascii() and at.isdigit() else None
