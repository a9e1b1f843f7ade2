"""Which records of a stream are relayed, decided from the stream record alone.

Relayed is the INSERT of an outbox record, from the image that the stream carries. Everything else counts as done:
items that are no records, changes of a record (the relay's own settling is one of them) and removals (by TTL or by
hand), records written again as parked or published, and records whose writer worked in another Region than this stream
(the replica of a global table; its own Region's relay publishes it). The last are counted, because a stream whose
`awsRegion` is no Region, as an emulator may write it, would make foreigners of all. The event source mapping's filter
says the same, but a filter can be missing or wrong.

What a record is, is told by its keys, or by whatever else the layout's `select` asks for. Guards are none, whatever
says that they are.

In a record without `ob_v` neither `state` nor `region` is looked at: both are names that its writer may use.

A record that another layout wrote is a misfit, neither relayed nor passed over: it is a record of somebody's all the
same. It has other columns, or is no record by this layout, or its key tells another id than it has, as under a prefix
that begins with this layout's. The relay asks the table whether such a record still waits. If it does the stream is
held there, and what comes before it is relayed, so that a change of layouts leads to one place in the stream and not to
a batch that nobody can relay. One that waits no longer (`core.record.waiting`), or that was written in another Region,
is nobody's concern.

A record of another service is an error and not one more thing to pass over: to whoever delivered it, an empty answer
says that it was processed, and a queue would delete it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dynamodb_outbox.core.limits import SEQUENCE_NUMBER_DIGITS
from dynamodb_outbox.core.record import schema
from dynamodb_outbox.core.record.place import carried_id, is_record, key_text
from dynamodb_outbox.core.record.states import PENDING, state_of
from dynamodb_outbox.core.record.waiting import is_region, waits
from dynamodb_outbox.errors import ConfigurationError, ImageMissing, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.keys import KeyType
    from dynamodb_outbox.layout import Layout

__all__ = ["Misfit", "Selected", "Selection", "select", "table_of"]

T = TypeVar("T")

_SOURCES = ("aws:dynamodb", None)
_CHANGES = ("INSERT", "MODIFY", "REMOVE")
_HELD = (
    "Nothing from there on is, until it is published: let a relay with the Layout of the writer do that, and this one "
    "goes on by itself"
)
_OTHER_LAYOUT = (
    f"an outbox record in the stream is none by this relay's Layout, and would never be published. {_HELD}. Or give "
    "this relay's event source mapping a filter that lets its own records through: "
    "dynamodb_outbox.core.record.place.stream_filter(layout)."
)
_OTHER_ID = (
    "an outbox record in the stream has another id than its key tells by Layout(prefix=) of this relay, and would be "
    f"published under that one: most likely the writer's prefix begins with this relay's. {_HELD}. No filter tells two "
    "such prefixes apart: where outboxes share a table, none of their prefixes may begin with another."
)
_OTHER_COLUMNS = (
    "an outbox record in the stream has other column names than Layout(columns=) of this relay, and would be published "
    f"as another event. {_HELD}. Or give this relay's event source mapping a filter on `ob_columns`: the README has it."
)


class Selected(NamedTuple):
    """An outbox record of a stream: the sequence number as the stream spells it, the item, where it comes from.

    `stream` is the stream's ARN and `table` the table that it names; None where the record does not say it.
    """

    sequence_number: str
    image: WireItem
    table: str | None
    stream: str | None = None


@dataclass(frozen=True)
class Misfit:
    """A record that another layout wrote, and `reason`: why this relay can do nothing but hold the stream there."""

    sequence_number: str
    image: WireItem
    table: str | None
    reason: str


@dataclass(frozen=True)
class Selection:
    """The `records` to relay, in the order of the stream, and what else was found.

    `misfits` are the records of other layouts, in the order of the stream: at the first of them that still waits the
    stream is held. `elsewhere` counts the records left to another Region, by (the Region that the record names, the
    Region that the stream names). `strangers` counts the items, in a table that holds nothing but records, that were
    not told to be any.
    """

    records: tuple[Selected, ...]
    elsewhere: Mapping[tuple[str, str], int]
    misfits: tuple[Misfit, ...] = ()
    strangers: int = 0

    def before(self, misfit: Misfit) -> tuple[Selected, ...]:
        """Return the records that come before a misfit in the stream."""
        end = int(misfit.sequence_number)
        return tuple(one for one in self.records if int(one.sequence_number) < end)


def select(records: Sequence[Any], layout: Layout) -> Selection:
    """Return the outbox records to relay of one invocation, in the order of their sequence numbers.

    `records` are Lambda's (`event["Records"]`). Sequence numbers are decimal text of varying length and are compared as
    numbers. Raises ImageMissing when the stream's view type leaves out the item, ConfigurationError when the records
    come from another service or the table's key attributes are not the layout's, InvalidRecord for a stream record
    without its parts: each of them concerns the whole invocation.
    """
    found = _Found(layout)
    types = layout.keys.types
    for position, record in enumerate(records):
        if not _is_insert(record, position):
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
        self.region = layout.column(schema.REGION)
        self.id = layout.column(schema.ID)
        self.chosen: list[tuple[int, Selected]] = []
        self.misfits: list[tuple[int, Misfit]] = []
        self.elsewhere: Counter[tuple[str, str]] = Counter()
        self.strangers = 0
        self.arn: Any = None
        self.table: str | None = None
        self.stream: str | None = None

    def add(self, record: Mapping[str, Any], change: Mapping[str, Any], number: str, position: int) -> None:
        layout = self.layout
        carried = carried_id(change["Keys"], layout)
        if carried is None and not self.by_all:
            image = change.get("NewImage")  # which nothing needs here, and a stream of keys alone does not have
            self.pass_over(record, change["Keys"], image if isinstance(image, dict) else {}, number)
            return
        image = _image(change, position)
        if schema.GUARD in image or (self.by_all and not is_record(image, layout)):
            self.pass_over(record, change["Keys"], image, number)
        elif schema.SCHEMA in image and image.get(schema.COLUMNS) != self.columns:
            if waits(image):
                self.misfit(record, image, number, _OTHER_COLUMNS)
        elif state_of(image, layout) == PENDING:
            self.pending(record, image, number, carried)

    def pending(self, record: Mapping[str, Any], image: WireItem, number: str, carried: str | None) -> None:
        """Choose a pending record, unless it is left to another Region, or its key tells another id than it says."""
        if schema.SCHEMA in image:
            written_in = image.get(self.region, schema.ABSENT).get("S")
            here = record.get("awsRegion")
            if written_in and here and written_in != here:
                self.elsewhere[str(written_in), str(here)] += 1
                return
            said = image.get(self.id, schema.ABSENT).get("S")
            if said is not None and carried is not None and carried != said:
                self.misfit(record, image, number, _OTHER_ID)
                return
        self.chosen.append((int(number), Selected(number, image, self.table_of(record), self.stream)))

    def pass_over(self, record: Mapping[str, Any], keys: WireItem, image: WireItem, number: str) -> None:
        """Leave out an item that is no record by this layout, unless it is certainly one by another."""
        if waits(image):
            self.misfit(record, {**image, **keys}, number, _OTHER_LAYOUT)
        elif self.layout.placement == "table" and image and not {schema.SCHEMA, schema.GUARD} & image.keys():
            self.strangers += 1

    def misfit(self, record: Mapping[str, Any], image: WireItem, number: str, reason: str) -> None:
        """Add a record of another layout, unless it is left to another Region."""
        if (regions := _foreign_misfit(image, record, self.layout)) is not None:
            self.elsewhere[regions] += 1
        else:
            self.misfits.append((int(number), Misfit(number, image, self.table_of(record), reason)))

    def table_of(self, record: Mapping[str, Any]) -> str | None:
        """Return the table's name; nearly all records of a batch have the same ARN."""
        if (arn := record.get("eventSourceARN")) != self.arn:
            self.arn = arn
            self.table = table_of(arn)
            self.stream = arn if isinstance(arn, str) else None
        return self.table

    def selection(self) -> Selection:
        """Return it in the order of the stream."""
        return Selection(_in_order(self.chosen), self.elsewhere, _in_order(self.misfits), self.strangers)


def table_of(stream_arn: str | None) -> str | None:
    """Return the table's name from a stream's ARN (`arn:...:table/NAME/stream/...`), None when it has none."""
    if not isinstance(stream_arn, str):
        return None
    before, found, rest = stream_arn.partition(":table/")
    return (rest.partition("/")[0] or None) if before and found else None


def _is_insert(record: Any, position: int) -> bool:
    """Whether a record tells of an inserted item. Raises ConfigurationError for what no DynamoDB stream tells."""
    facts = record if isinstance(record, dict) else {}
    source = facts.get("eventSource") or facts.get("EventSource")  # SNS has the capital
    name = facts.get("eventName")
    if source not in _SOURCES or name not in _CHANGES:
        raise ConfigurationError(
            f"Records[{position}] comes from {source or 'nobody'} (eventName {name!r}) and not from a DynamoDB stream: "
            "map the function to the stream of the table alone."
        )
    return bool(name == "INSERT")


def _image(change: Mapping[str, Any], position: int) -> WireItem:
    image = change.get("NewImage")
    if not image:
        raise ImageMissing(change.get("StreamViewType", "not NEW_IMAGE"))
    if not isinstance(image, dict) or not _is_item(image):
        raise InvalidRecord(f"Records[{position}]", "has a NewImage that is no item in DynamoDB's form.")
    for name, value in change["Keys"].items():
        if image.get(name) != value:
            raise InvalidRecord(f"Records[{position}]", "has a NewImage with other key attributes than its Keys.")
    return image


def _is_item(image: Mapping[str, Any]) -> bool:
    """Whether all values are dicts of one member."""
    for value in image.values():  # noqa: SIM110 -- each record comes by here, and `all` takes twice the time
        if type(value) is not dict or len(value) != 1:
            return False
    return True


def _in_order(numbered: list[tuple[int, T]]) -> tuple[T, ...]:
    numbered.sort(key=itemgetter(0))
    return tuple(one for _, one in numbered)


def _is_number(number: str) -> bool:
    return len(number) <= SEQUENCE_NUMBER_DIGITS and number.isascii() and number.isdigit()


def _are_keys(keys: Any, types: Mapping[str, KeyType]) -> bool:
    """Whether these are key attributes of those names and types."""
    try:
        for name, kind in types.items():
            value = keys[name]
            if not (isinstance(value["S"], str) if kind == "S" else kind in value and _has_text(value)):
                return False
    except (KeyError, TypeError):
        return False
    return len(keys) == len(types)


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


def _foreign_misfit(image: WireItem, record: Mapping[str, Any], layout: Layout) -> tuple[str, str] | None:
    """Return the Region that a record of another layout was written in, and the stream's, when they differ.

    Its layout may call the Region as this one does, or as the schema does. Either name may be that of something else
    there: only Regions count, and none that is this stream's.
    """
    here = record.get("awsRegion")
    values = [image.get(name) for name in (layout.column(schema.REGION), schema.REGION)]
    told = [value.get("S") for value in values if isinstance(value, dict)]
    regions = [name for name in told if isinstance(name, str) and is_region(name)]
    if not regions or here in regions or not isinstance(here, str) or not is_region(here):
        return None
    return regions[0], here
