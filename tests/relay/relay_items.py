"""Items of records, as they are parked and settled in tests: hand-written rows, and records of an Outbox."""

from __future__ import annotations

from typing import Any

from dynamodb_outbox.core.record.moves import Parking
from dynamodb_outbox.layout import Layout

LAYOUT = Layout()


NOW_MS = 1_769_860_800_000


WHY = Parking("MalformedDetail", "not JSON", at_ms=NOW_MS)


AGAIN = Parking("MalformedDetail", "not JSON", at_ms=NOW_MS + 1)


def row(number: int, **changes: Any) -> dict[str, Any]:
    """Return a hand-written row."""
    return {
        "pk": {"S": "ORDER#1"},
        "sk": {"S": f"OUTBOX#{number}"},
        "type": {"S": "order.placed"},
        "payload": {"S": f'{{"n":{number}}}'},
        "ts": {"N": "1769860800"},
        **changes,
    }


def pending(number: int) -> dict[str, Any]:
    """Return a record as this library's writer stores it."""
    return row(
        number,
        ob_v={"N": "1"},
        id={"S": str(number)},
        key={"S": "ORDER#1"},
        source={"S": "shop"},
        time={"S": "2026-01-31T12:00:00.000000Z"},
        at={"N": str(NOW_MS)},
        state={"S": "pending"},
        ob_pending={"S": "03"},
    )
