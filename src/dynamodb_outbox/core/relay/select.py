"""Which records of a stream are relayed, decided from the stream record alone.

Relayed is the INSERT of an outbox record, from the image that the stream carries. Everything else counts as done:
items that are no records, changes of a record (the relay's own settling is one of them) and removals (by TTL or by
hand), records written again as parked or published, and records whose writer worked in another Region than this stream
(the replica of a global table; its own Region's relay publishes it). The last are counted, because a stream whose
`awsRegion` is no Region, as an emulator may write it, would make foreigners of all. The event source mapping's filter
says the same, but a filter can be missing or wrong.

What a record is, is told by its keys, or by whatever else the layout's `select` asks for; guards are none.

In a record without `ob_v` neither `state` nor `region` is looked at: both are names that its writer may use.

A record that another layout wrote is an error, never passed over: it is a record of somebody's all the same. Whoever
gave this relay its layout is told; what comes before it in the stream is relayed, so that a change of layouts leads to
one place in the stream and not to a batch that nobody can relay.

A record of another service is an error and not one more thing to pass over: to whoever delivered it, an empty answer
says that it was processed, and a queue would delete it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import is_anothers, is_record, key_text
from dynamodb_outbox.core.record.states import PARKED, PENDING, state_of
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout

__all__ = ["Held", "Selected", "Selection", "select", "table_of"]

_SOURCE = "aws:dynamodb"
_CHANGES = ("INSERT", "MODIFY", "REMOVE")
_OTHER_LAYOUT = (
    "an outbox record in the stream is none by this relay's Layout, and would never be published: nothing from there "
    "on is. Give the relay the Layout of the writer. Where two outboxes share a table, give each relay's event source "
    "mapping a filter that lets its own records through: dynamodb_outbox.core.record.place.stream_filter(layout)."
)
_OTHER_COLUMNS = (
    "an outbox record in the stream has other column names than Layout(columns=) of this relay, and would be published "
    "as another event: nothing from there on is. Give writers and relay the same Layout; before columns change, let "
    "the relay with the old ones publish what is pending."
)


@dataclass(frozen=True)
class Selected:
    """An outbox record of a stream: the sequence number as the stream spells it, the item, where it comes from.

    `stream` is the stream's ARN and `table` the table that it names; None where the record does not say it.
    """

    sequence_number: str
    image: WireItem
    table: str | None
    stream: str | None = None


@dataclass(frozen=True)
class Held:
    """The first record of a batch that this layout does not fit: from its sequence number on the stream is held."""

    sequence_number: str
    error: ConfigurationError


@dataclass(frozen=True)
class Selection:
    """The `records` to relay, in the order of the stream, and what else was found.

    `elsewhere` counts the records left to another Region, by (the Region that the record names, the Region that the
    stream names). Where the batch is `held`, `records` are those before that. `strangers` counts the items, in a table
    that holds nothing but records, that were not told to be any.
    """

    records: tuple[Selected, ...]
    elsewhere: Mapping[tuple[str, str], int]
    held: Held | None = None
    strangers: int = 0


def select(records: Sequence[Any], layout: Layout) -> Selection:
    """Return the outbox records to relay of one invocation, in the order of their sequence numbers.

    `records` are Lambda's (`event["Records"]`). Sequence numbers are decimal text of varying length and are compared as
    numbers. Raises ImageMissing when the stream's view type leaves out the item, ConfigurationError when the records
    come from another service, the table's key attributes are not the layout's, or the first record was written by
    another layout, InvalidRecord for a stream record without its parts: each of them concerns the whole invocation.
    """
    found = _Found(layout)
    types = tuple(layout.keys.types.items())
    for position, record in enumerate(records):
        if _change_kind(record, position) != "INSERT":
            continue
        change = record.get("dynamodb")
        number = change.get("SequenceNumber") if isinstance(change, dict) else None
        if not isinstance(change, dict) or not isinstance(number, str) or not _is_number(number):
            raise InvalidRecord(f"Records[{position}]", "is not a record of a DynamoDB stream.")
        keys = change.get("Keys") or {}
        if not _are_keys(keys, types):
            raise _other_keys(keys, layout)
        found.add(record, change, number, position)
    return found.selection()


class _Found:
    """What has been found of a batch so far."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.by_all = layout.select is not None  # then the keys alone do not tell what is a record
        self.columns = schema.columns_mark(layout)
        self.chosen: list[tuple[int, Selected]] = []
        self.held: list[tuple[int, Held]] = []
        self.elsewhere: Counter[tuple[str, str]] = Counter()
        self.strangers = 0
        self.arn: Any = None
        self.table: str | None = None
        self.stream: str | None = None

    def add(self, record: Mapping[str, Any], change: Mapping[str, Any], number: str, position: int) -> None:
        layout = self.layout
        if not self.by_all and not is_record(change["Keys"], layout):
            image = change.get("NewImage")  # which nothing needs here, and a stream of keys alone does not have
            self.pass_over(image if isinstance(image, dict) else {}, number)
            return
        image = _image(change, position)
        if self.by_all and not is_record(image, layout):
            self.pass_over(image, number)
        elif schema.SCHEMA in image and image.get(schema.COLUMNS) != self.columns:
            if image.get(schema.PENDING_INDEX) != {"S": PARKED}:  # that name is the same in all layouts
                self.hold(number, _OTHER_COLUMNS)
        elif state_of(image, layout) == PENDING:
            if (regions := _foreign(image, record, layout)) is not None:
                self.elsewhere[regions] += 1
                return
            if record.get("eventSourceARN") != self.arn:
                self.arn = record.get("eventSourceARN")
                self.table = table_of(self.arn)
                self.stream = self.arn if isinstance(self.arn, str) else None
            self.chosen.append((int(number), Selected(number, image, self.table, self.stream)))

    def pass_over(self, image: WireItem, number: str) -> None:
        """Leave out an item that is no record by this layout, unless it is certainly one by another."""
        if is_anothers(image, self.layout):
            self.hold(number, _OTHER_LAYOUT)
        elif self.layout.placement == "table" and image and schema.SCHEMA not in image:
            self.strangers += 1

    def hold(self, number: str, reason: str) -> None:
        self.held.append((int(number), Held(number, ConfigurationError(reason))))

    def selection(self) -> Selection:
        """Return what to relay: with a record that this layout does not fit, what comes before it."""
        self.chosen.sort(key=_by_number)
        if not self.held:
            return Selection(tuple(selected for _, selected in self.chosen), self.elsewhere, None, self.strangers)
        end, held = min(self.held, key=_by_number)
        before = tuple(selected for number, selected in self.chosen if number < end)
        if not before:
            raise held.error
        return Selection(before, self.elsewhere, held, self.strangers)


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
    if not isinstance(image, dict) or not _is_item(image):
        raise InvalidRecord(f"Records[{position}]", "has a NewImage that is no item in DynamoDB's form.")
    if not change["Keys"].items() <= image.items():
        raise InvalidRecord(f"Records[{position}]", "has a NewImage with other key attributes than its Keys.")
    return image


def _is_item(image: Mapping[str, Any]) -> bool:
    """Whether all values are dicts of one member; every record comes by here, so no loop of Python's."""
    return set(map(type, image.values())) == {dict} and set(map(len, image.values())) == {1}


def _by_number(numbered: tuple[int, Any]) -> int:
    return numbered[0]


def _is_number(number: str) -> bool:
    return number.isascii() and number.isdigit()


def _are_keys(keys: Any, types: Sequence[tuple[str, str]]) -> bool:
    """Whether these are key attributes of those names and types."""
    if not isinstance(keys, dict) or len(keys) != len(types):
        return False
    for name, kind in types:
        value = keys.get(name)
        content = value.get(kind) if isinstance(value, dict) else None
        if content is None or not (isinstance(content, str) if kind == "S" else _has_text(value)):
            return False
    return True


def _has_text(value: Any) -> bool:
    try:
        return bool(key_text(value))
    except (TypeError, ValueError):
        return False


def _other_keys(keys: Any, layout: Layout) -> ConfigurationError:
    return ConfigurationError(
        f"the stream's table has the key attributes {_described(keys)}, the layout says {_described(layout.keys.types)}"
        ". Give the relay the writer's Layout(pk=..., sk=..., pk_type=..., sk_type=...)."
    )


def _described(keys: Any) -> str:
    """Return names and types of key attributes, never values."""
    kinds = {
        str(name): "/".join(map(str, kind)) if isinstance(kind, (str, dict)) else "?"
        for name, kind in (keys.items() if isinstance(keys, dict) else ())
    }
    return ", ".join(f"{name!r} ({kind})" for name, kind in sorted(kinds.items())) or "none"


def _foreign(image: WireItem, record: Mapping[str, Any], layout: Layout) -> tuple[str, str] | None:
    """Return the Region that a record was written in, and the stream's, when they differ."""
    if schema.SCHEMA not in image:
        return None
    written_in = schema.value(image, layout, schema.REGION).get("S")
    here = record.get("awsRegion")
    return (str(written_in), str(here)) if written_in and here and written_in != here else None
