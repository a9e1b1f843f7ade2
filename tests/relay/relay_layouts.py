"""Layouts of every kind, keys that they can hold, an event, and stream images as Lambda hands them over."""

from __future__ import annotations

import base64
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from dynamodb_outbox.event import Event
from dynamodb_outbox.layout import Layout
from other_names import OTHER_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEMENTS: tuple[Literal["item", "table"], ...] = ("item", "table")
NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, timezone.utc)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw a layout by which records can be written."""
    own = draw(st.booleans())
    placement: Literal["item", "table"] = "item" if own else draw(st.sampled_from(_PLACEMENTS))
    columns = draw(
        st.sampled_from(({}, OTHER_NAMES, {"type": "payload", "payload": "type"}, {"id": "uid", "at": "sent"}))
    )
    without = draw(st.booleans()) if own or placement == "table" else False
    return Layout(
        placement=placement,
        own_partition=own,
        pk=draw(st.sampled_from(("pk", "id"))) if columns in (OTHER_NAMES, {"id": "uid", "at": "sent"}) else "pk",
        sk=None if without else "sk",
        pk_type="S" if own or without else draw(st.sampled_from(("S", "N", "B"))),
        prefix=draw(st.sampled_from(("OUTBOX#", "E"))),
        columns=columns,
        payload_format=draw(st.sampled_from(("json", "map"))),
        select=draw(st.sampled_from((None, {}, {"entity": "RECORD"}))),
    )


def a_key(layout: Layout) -> str:
    """Return an ordering key that the layout's partition key can hold."""
    return {"S": "ORDER#1", "N": "-12.5", "B": "AAH/"}[layout.pk_type]


def event(event_id: str = "0197-id", **changes: Any) -> Event:
    """Return an event with all its fields."""
    fields: dict[str, Any] = {
        "type": "order.placed",
        "source": "shop.orders",
        "payload": '{"n":1.10}',
        "time": NOON,
        "key": "ORDER#1",
        "subject": "1",
        "sequence": "0001",
        "attributes": {"traceparent": "00-ab"},
    }
    return Event(event_id, **{**fields, **changes})


def as_lambda(value: Any) -> Any:
    """Return an item, or a value of one, with its binaries as base64 text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_lambda(member) for name, member in value.items()}
    return [as_lambda(member) for member in value] if isinstance(value, list) else value


def stream_record(image: Mapping[str, Any], layout: Layout, *, table: str = "shop", number: int = 1) -> dict[str, Any]:
    """Return the stream record of an item's insertion."""
    image = as_lambda(image)
    return {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "eventSourceARN": f"arn:aws:dynamodb:eu-west-1:123456789012:table/{table}/stream/2026-01-31T12:00:00.000",
        "dynamodb": {
            "Keys": {name: image[name] for name in layout.keys.types},
            "NewImage": image,
            "SequenceNumber": str(number),
            "StreamViewType": "NEW_IMAGE",
        },
    }
