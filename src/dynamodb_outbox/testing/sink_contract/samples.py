"""Events for the checks: ordinary ones, and such as a table can hold and nobody thought of."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from dynamodb_outbox.core.relay.outcome import Prepared
from dynamodb_outbox.event import DataRef, Event
from dynamodb_outbox.testing.sink_contract.stand_in import ContractBroken

__all__ = ["entries_of", "event", "padded", "prepared", "strange"]

_NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def event(number: int, payload: str = '{"n":1}', **changes: Any) -> Event:
    """Return an ordinary event; each number has its own id and key."""
    fields: dict[str, Any] = {
        "id": f"019c0000-0000-7000-8000-{number:012d}",
        "type": "order.placed",
        "source": "shop.orders",
        "time": _NOON,
        "key": f"ORDER#{number}",
    }
    return Event(payload=payload, **{**fields, **changes})


def padded(number: int, length: int) -> Event:
    """Return an event whose data is a text of `length` characters, of one byte each."""
    return event(number, f'{{"pad":"{"x" * length}"}}')


def strange(most_bytes: int) -> tuple[Event, ...]:
    """Return strange events, one of them with more than `most_bytes` of data.

    Some of them can be published and some not; what is asked is that a sink says which.
    """
    return (*_STRANGE, padded(90, most_bytes + 1))


_STRANGE: tuple[Event, ...] = (
    event(1, "", dataref=DataRef("s3://bucket/key", "0" * 64)),
    event(2, key=None),
    event(3, key="", subject=""),
    event(4, key="k" * 2048, subject="s" * 1024),
    event(5, key="\u00e9\u4e16\U0001f600 two words", subject="line\nand\ttab"),
    event(6, '{"t":"\ufffe\uffff\x7f\x85\u2028\U0001f600"}'),
    event(7, "[1, 2]"),
    event(8, '"text"'),
    event(9, "null"),
    event(10, '{"n":9223372036854775808,"m":1e999,"o":-0.000}'),
    event(11, '{"n":' + "[" * 5000 + "]" * 5000 + "}"),
    event(12, '{"t":"\ud800"}'),
    event(13, id="\ud800", key="\udfff"),
    event(14, type="t" * 2000, source="s" * 2000),
    event(15, type="", source=""),
    event(16, source="aws.orders"),
    event(17, id="row 7", sequence="00001", attributes={"traceparent": "00-0-0-00", "tenant": "\x00"}),
    event(18, attributes={"id": "forged"}),
    event(19, attributes={f"a{number}": "x" for number in range(50)}),
    event(20, time=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))),
    event(21, time=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-12)))),
    event(22, "{not json"),
)


def prepared(sink: Any, one: Event, check: str) -> Prepared:
    """Return an ordinary event, prepared. Raises ContractBroken when the sink refuses it."""
    found = sink.prepare(one)
    if not isinstance(found, Prepared):
        raise ContractBroken(check, f"an ordinary event was refused: {found!r}")
    return found


def entries_of(sink: Any, events: list[Event], check: str) -> list[Any]:
    """Return the entries of ordinary events."""
    return [prepared(sink, one, check).entry for one in events]
