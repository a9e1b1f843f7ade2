"""Events that nobody could ever send, in the ways in which they get into a table.

The library's writer refuses what a bus would not take. But a table has other writers too: an older one, or one in
another language, that puts an integer of more than 64 bits into a record as ours has it; and people, who put rows into
an outbox by hand, at which nobody looks before a relay does.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from dynamodb_outbox.core.limits import EVENT_TYPE_LENGTH, INT64_MAX
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.by_hand import id_of
from dynamodb_outbox.event import Event

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["BY_HAND", "NARROW", "Amiss", "events_by_hand", "row", "widened"]

Amiss = Literal["refused", "wide", "long type", "no time", "no JSON", "taken column"]
"""What is wrong with an event. "refused": its bus alone knows why it does not take it."""

BY_HAND: tuple[Amiss, ...] = ("long type", "no time", "no JSON", "taken column")
"""What may be wrong with a row written by hand; a "taken column" has another use for one that parking needs."""

NARROW = {"total": 0}
"""What the data have besides of an event that is too wide, before `widened`."""

_TYPE = "order.changed"
_CHANGE = "change"
_TOTAL = '"total":'
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def widened(item: WireItem) -> WireItem:
    """Return an item as one writes it who does not look at the integers in records."""
    written = dict(item)
    for name in item.keys() & {schema.EVENTS, schema.PAYLOAD}:
        written[name] = {"S": item[name]["S"].replace(f"{_TOTAL}0", f"{_TOTAL}{INT64_MAX + 1}")}
    return written


def row(layout: Layout, partition: str, change: str, amiss: Amiss) -> WireItem:
    """Return a row that cannot be read, or not be sent, as its writer puts it beside what it tells of."""
    item: dict[str, Any] = {
        layout.pk: {"S": partition},
        str(layout.sk): {"S": f"{layout.prefix}{change}"},
        schema.TYPE: {"S": _TYPE},
        schema.PAYLOAD: {"S": json.dumps({_CHANGE: change, "n": 0})},
        _CHANGE: {"S": change},
    }
    if amiss in ("long type", "no JSON"):
        item[schema.TS] = {"N": "1769860800"}
    if amiss == "long type":
        item[schema.TYPE] = {"S": _TYPE.ljust(EVENT_TYPE_LENGTH + 1, "!")}
    elif amiss == "no JSON":
        item[schema.PAYLOAD] = {"S": "{'change': None}"}
    elif amiss == "taken column":
        item[schema.AT] = {"S": "the counter"}
    return item


def events_by_hand(item: WireItem, layout: Layout) -> tuple[Event, ...]:
    """Return what its writer knows of the event of such a row, with the data that every event of a run has."""
    data = json.dumps({_CHANGE: item[_CHANGE]["S"], "n": 0})
    return (Event(id_of(item, layout), item[schema.TYPE]["S"], "", data, _EPOCH, key=item[layout.pk]["S"]),)
