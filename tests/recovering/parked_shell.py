"""What tests of parked records share: who looks after them in a shop, and rows that are parked in each way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.adapters.records import DynamoRecordStates
from dynamodb_outbox.core.codec.size import item_bytes
from dynamodb_outbox.core.limits import ITEM_BYTES
from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.recover import ParkedRecords, ParkedReport

if TYPE_CHECKING:
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.layout import Layout
    from sweep_shell import Shop

PARKING = Parking("Bad", "never", 1_700_000_000_000)


def parked_of(shop: Shop, **options: Any) -> ParkedRecords:
    """Return what looks after the parked records of a shop."""
    return ParkedRecords("shop", layout=shop.layout, client=shop.client, **options)


def became(report: ParkedReport) -> list[tuple[str, str]]:
    """Return what each record became, by its id."""
    return [(one.record.id, one.became) for one in report.records]


def row(number: int = 1, **more: Any) -> dict[str, Any]:
    """Return a hand-written row."""
    return {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": f"OUTBOX#{number}"},
        "type": {"S": "order.placed"},
        "payload": {"S": '{"n":1}'},
        "ts": {"N": "1700000000"},
        **more,
    }


def ours(layout: Layout, number: int = 1, **more: Any) -> dict[str, Any]:
    """Return a record of a layout."""
    record_id = f"019c0000-0000-7000-8000-{number:012d}"
    keys: dict[str, Any] = {"pk": {"S": f"OUTBOX#{record_id}"}}
    if layout.sk is not None:
        keys = {"pk": {layout.pk_type: "OUTBOX#7" if layout.own_partition else "7"}, "sk": {"S": f"OUTBOX#{record_id}"}}
    plain = {
        "ob_v": {"N": "1"}, "id": {"S": record_id}, "key": {"S": "7"}, "at": {"N": str(1000 + number)},
        "type": {"S": "order.placed"}, "payload": {"S": json.dumps({"n": number})}, "source": {"S": "shop"},
        "time": {"S": "2026-01-31T12:00:00Z"}, "state": {"S": "pending"}, "ob_pending": {"S": "00"},
    }  # fmt: skip
    if layout.columns_digest is not None:
        keys["ob_columns"] = {"S": layout.columns_digest}
    return {**keys, **{layout.column(name): value for name, value in {**plain, **more}.items()}}


def full(item: WireItem, *, room: int) -> dict[str, Any]:
    """Return an item with so many bytes of room, too few for the marks of a parked record."""
    return {**item, "filler": {"S": "x" * (ITEM_BYTES - item_bytes(item) - len("filler") - room)}}


def park(shop: Shop, image: WireItem) -> None:
    """Park a record as a relay does."""
    parked = DynamoRecordStates(shop.layout, client=shop.client).park("shop", image, PARKING)
    assert parked.new, parked.failure
