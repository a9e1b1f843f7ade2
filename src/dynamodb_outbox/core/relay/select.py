"""Which records of a stream are relayed, decided from the stream record alone.

Relayed is the INSERT of an outbox record, from the image that the stream carries. Everything else counts as done:
items that are no records, changes of a record (the relay's own settling is one of them) and removals (by TTL or by
hand), records written again as parked or published, and records whose writer worked in another Region than this stream
(the replica of a global table; its own Region's relay publishes it). The event source mapping's filter says the same,
but a filter can be missing or wrong.

A record of another service is an error and not one more thing to pass over: to whoever delivered it, an empty answer
says that it was processed, and a queue would delete it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.states import FINAL_STATES
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Selected", "select", "table_of"]

_SOURCE = "aws:dynamodb"
_CHANGES = ("INSERT", "MODIFY", "REMOVE")


@dataclass(frozen=True)
class Selected:
    """An outbox record of a stream: the sequence number as the stream spells it, the item, the table it comes from."""

    sequence_number: str
    image: WireItem
    table: str | None


def select(records: Sequence[Mapping[str, Any]], layout: Layout) -> tuple[Selected, ...]:
    """Return the outbox records to relay of one invocation, in the order of their sequence numbers.

    `records` are Lambda's (`event["Records"]`). Sequence numbers are decimal text of varying length and are compared as
    numbers. Raises ImageMissing when the stream's view type leaves out the item, ConfigurationError when the records
    come from another service or the table's key attributes are not the layout's, InvalidRecord for a stream record
    without its parts: each of them concerns the whole invocation.
    """
    chosen: list[tuple[int, Selected]] = []
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
        image = change.get("NewImage")
        if not image:
            raise ImageMissing(change.get("StreamViewType", "not NEW_IMAGE"))
        if image.get(schema.STATE) in FINAL_STATES or _is_foreign(image, record):
            continue
        if record.get("eventSourceARN") != arn:
            arn = record.get("eventSourceARN")
            table = table_of(arn)
        chosen.append((int(number), Selected(number, image, table)))
    chosen.sort(key=_by_number)
    return tuple(selected for _, selected in chosen)


def table_of(stream_arn: str | None) -> str | None:
    """Return the table's name from a stream's ARN (`arn:...:table/NAME/stream/...`), None when it has none."""
    before, found, rest = (stream_arn or "").partition(":table/")
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


def _by_number(chosen: tuple[int, Selected]) -> int:
    return chosen[0]


def _is_number(number: str) -> bool:
    return number.isascii() and number.isdigit()


def _sort_key(keys: Mapping[str, Any], layout: Layout) -> str:
    try:
        partition, sort_key = keys[layout.pk]["S"], keys[layout.sk]["S"]
    except KeyError:
        partition, sort_key = None, None
    if not isinstance(partition, str) or not isinstance(sort_key, str):
        raise ConfigurationError(
            f"the stream's table has the key attributes {sorted(keys)}, the layout says {layout.pk!r} and "
            f"{layout.sk!r}, both text. Give the relay the writer's Layout(pk=..., sk=...)."
        )
    return sort_key


def _is_foreign(image: WireItem, record: Mapping[str, Any]) -> bool:
    written_in = image.get(schema.REGION, {}).get("S")
    here = record.get("awsRegion")
    return schema.SCHEMA in image and bool(written_in) and bool(here) and written_in != here
