"""The event that users hold: what a writer emits and what a consumer is given.

Its data travels as JSON text (`payload`), fixed at the moment of `emit`, so that a later change of the caller's dict
cannot change what is published, and so that no digit is lost on the way: JSON numbers with a fraction or an exponent
come back as `Decimal`, whole ones as `int`.

The data of a claim check is elsewhere: in an object, which the event refers to (`DataRef`). Who consumes through the
inbox is given events whose data has been fetched and verified; who publishes sees the reference alone.

An event is a value throughout: equal, hashed, copied and pickled by what it says. So its attributes are a mapping that
nobody can change, not even through the dict that they came from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.arguments import mapping, shown
from dynamodb_outbox.errors import InvalidEvent, PayloadNotLoaded

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator

__all__ = ["NO_ATTRIBUTES", "DataRef", "Event"]


class _Attributes(Mapping[str, str]):
    """Attributes as a value: a copy that cannot be changed; a MappingProxyType has neither hash nor pickle."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str]) -> None:
        self._items = dict(items)

    def __getitem__(self, name: str) -> str:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> ItemsView[str, str]:
        """Return the pairs: the dict's own view, since publishing goes over it for each event."""
        return self._items.items()

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[_Attributes], tuple[dict[str, str]]]:
        return _Attributes, (dict(self._items),)


NO_ATTRIBUTES: Mapping[str, str] = _Attributes({})
"""The attributes of an event that has none."""


@dataclass(frozen=True)
class DataRef:
    """Where the data of an event is kept: `uri` is `s3://bucket/key`, `sha256` the hash (hex) of the bytes there."""

    uri: str
    sha256: str


@dataclass(frozen=True, init=False)
class Event:
    """One domain event.

    `id` is the same on every publication. `payload` is the JSON text of `data`. `key` is the ordering key (CloudEvents
    `partitionkey`); it is None on what `emit` returns until the commit resolves it. `time` is when it happened, an
    aware datetime in UTC. `attributes` are CloudEvents extension attributes: lower-case names, text values; they are
    copied, and cannot be changed afterwards. `dataref` is set for an event whose data is kept in an object: it is
    published with the reference, and `payload` is empty until the data has been fetched. Events are equal, and have one
    hash, when all of these are equal.

    Raises InvalidEvent for a time without a time zone, since nobody could say which moment it is, and for attributes
    that are no mapping.
    """

    id: str
    type: str
    source: str
    payload: str
    time: datetime
    key: str | None = None
    subject: str | None = None
    sequence: str | None = None
    attributes: Mapping[str, str] = NO_ATTRIBUTES
    dataref: DataRef | None = None

    def __init__(  # noqa: PLR0917 -- the fields, in their order
        self,
        id: str,  # noqa: A002 -- the field's name
        type: str,  # noqa: A002 -- as above
        source: str,
        payload: str,
        time: datetime,
        key: str | None = None,
        subject: str | None = None,
        sequence: str | None = None,
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
        dataref: DataRef | None = None,
    ) -> None:
        if not isinstance(time, datetime) or (time.tzinfo is not timezone.utc and time.utcoffset() is None):
            raise InvalidEvent("time", f"is {shown(time)}; a datetime with a time zone is needed.")
        if not isinstance(attributes, _Attributes):
            given = mapping(attributes, partial(InvalidEvent, "attributes"))
            attributes = _Attributes(given) if given else NO_ATTRIBUTES
        # All at once: the relay makes one of each record, and a frozen dataclass's own way takes twice as long.
        self.__dict__.update(
            id=id,
            type=type,
            source=source,
            payload=payload,
            time=time,
            key=key,
            subject=subject,
            sequence=sequence,
            attributes=attributes,
            dataref=dataref,
        )

    @cached_property
    def data(self) -> Any:
        """The event's data: `payload` read as JSON, with `Decimal` for numbers that are not whole.

        It is read once, and may be changed in place: that changes this event's data and neither its payload nor
        another event's, a copy by `dataclasses.replace` included. Each run of a consumer's function is given a copy.

        Raises PayloadNotLoaded when the data is in an object and has not been fetched; ValueError when the payload is
        not JSON, which no event from this library's own writer is.
        """
        if self.dataref is not None and not self.payload:
            raise PayloadNotLoaded(self.dataref.uri)
        return json.loads(self.payload, parse_float=Decimal)
