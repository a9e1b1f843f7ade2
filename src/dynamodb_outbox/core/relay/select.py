"""Which records of a stream are relayed, decided from the stream record alone.

Relayed is the INSERT of an outbox record, from the image that the stream carries. Everything else counts as done:
items that are no records, changes of a record (the relay's own settling is one of them) and removals (by TTL or by
hand), records written again as parked or published, and records whose writer worked in another Region than this stream
(the replica of a global table; its own Region's relay publishes it). The last are counted, because a stream whose
`awsRegion` is no Region, as an emulator may write it, would make foreigners of all. The event source mapping's filter
says the same, but a filter can be missing or wrong.

In a record without `ob_v` neither `state` nor `region` is looked at: both are names that its writer may use.

A record of another service is an error and not one more thing to pass over: to whoever delivered it, an empty answer
says that it was processed, and a queue would delete it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.states import PENDING, state_of
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Selected", "Selection", "select", "table_of"]

_SOURCE = "aws:dynamodb"
_CHANGES = ("INSERT", "MODIFY", "REMOVE")


@dataclass(frozen=True)
class Selected:
    """An outbox record of a stream: the sequence number as the stream spells it, the item, the table it comes from."""

    sequence_number: str
    image: WireItem
    table: str | None


@dataclass(frozen=True)
class Selection:
    """The `records` to relay, in the order of the stream, and how many were left to another Region.

    `elsewhere` counts those by (the Region that the record names, the Region that the stream names).
    """

    records: tuple[Selected, ...]
    elsewhere: Mapping[tuple[str, str], int]


def select(records: Sequence[Any], layout: Layout) -> Selection:
    """Return the outbox records to relay of one invocation, in the order of their sequence numbers.

    `records` are Lambda's (`event["Records"]`). Sequence numbers are decimal text of varying length and are compared as
    numbers. Raises ImageMissing when the stream's view type leaves out the item, ConfigurationError when the records
    come from another service or the table's key attributes are not the layout's, InvalidRecord for a stream record
    without its parts: each of them concerns the whole invocation.
    """
    chosen: list[tuple[int, Selected]] = []
    elsewhere: Counter[tuple[str, str]] = Counter()
    arn, table = None, None
    for position, record in enumerate(records):
        if _change_kind(record, position) != "INSERT":
            continue
        change = record.get("dynamodb")
        number = change.get("SequenceNumber") if isinstance(change, dict) else None
        if not isinstance(change, dict) or not isinstance(number, str) or not _is_number(number):
            raise InvalidRecord(f"Records[{position}]", "is not a record of a DynamoDB stream.")
        if not _sort_key(change.get("Keys") or {}, layout).startswith(layout.prefix):
            continue
        image = _image(change, position)
        if state_of(image) != PENDING:
            continue
        if (regions := _foreign(image, record)) is not None:
            elsewhere[regions] += 1
            continue
        if record.get("eventSourceARN") != arn:
            arn = record.get("eventSourceARN")
            table = table_of(arn)
        chosen.append((int(number), Selected(number, image, table)))
    chosen.sort(key=_by_number)
    return Selection(tuple(selected for _, selected in chosen), elsewhere)


def table_of(stream_arn: str | None) -> str | None:
    """Return the table's name from a stream's ARN (`arn:...:table/NAME/stream/...`), None when it has none."""
    if not isinstance(stream_arn, str):
        return None
    before, found, rest = stream_arn.partition(":table/")
    return (rest.partition("/")[0] or None) if before and found else None


def _change_kind(record: Any, position: int) -> str:
    """Return INSERT, MODIFY or REMOVE. Raises ConfigurationError for anything but a record of a DynamoDB stream."""
    facts = record if isinstance(record, dict) else {}
    source = facts.get("eventSource") or facts.get("EventSource")  # SNS has the capital
    name = facts.get("eventName")
    if source not in {None, _SOURCE} or name not in _CHANGES:
        raise ConfigurationError(
            f"Records[{position}] comes from {source or 'nobody'} (eventName {name!r}) and not from a DynamoDB stream: "
            "map the function to the stream of the table alone."
        )
    return str(name)


def _image(change: Mapping[str, Any], position: int) -> WireItem:
    image = change.get("NewImage")
    if not image:
        raise ImageMissing(change.get("StreamViewType", "not NEW_IMAGE"))
    if not isinstance(image, dict) or not all(isinstance(v, dict) and len(v) == 1 for v in image.values()):
        raise InvalidRecord(f"Records[{position}]", "has a NewImage that is no item in DynamoDB's form.")
    return image


def _by_number(chosen: tuple[int, Selected]) -> int:
    return chosen[0]


def _is_number(number: str) -> bool:
    return number.isascii() and number.isdigit()


def _sort_key(keys: Mapping[str, Any], layout: Layout) -> str:
    try:
        partition, sort_key = keys[layout.pk]["S"], keys[layout.sk]["S"]
    except (KeyError, TypeError):
        partition, sort_key = None, None
    if not isinstance(partition, str) or not isinstance(sort_key, str):
        raise ConfigurationError(
            f"the stream's table has the key attributes {sorted(map(str, keys))}, the layout says {layout.pk!r} and "
            f"{layout.sk!r}, both text. Give the relay the writer's Layout(pk=..., sk=...)."
        )
    return sort_key


def _foreign(image: WireItem, record: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the Region that a record was written in, and the stream's, when they differ."""
    if schema.SCHEMA not in image:
        return None
    written_in = image.get(schema.REGION, {}).get("S")
    here = record.get("awsRegion")
    return (str(written_in), str(here)) if written_in and here and written_in != here else None
