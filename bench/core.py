"""The relay's own work on an event, with no service behind it: selection, decoding, the machine.

    records of ours      as `Outbox` writes them
    hand-written rows    of a writer that knows nothing of this library, told by Layout(select=): their payload is
                         parsed, for nobody promised that it is JSON

The rival does what every hand-written relay does to the same records, and nothing else: boto3's TypeDeserializer on the
image, the payload read as JSON, and an envelope with it written as JSON. The first figure of each is without the text
that is published, the second with it (`prepare` of EventBridge).

Whether the work grows with the batch alone is the third: microseconds an event of 100,000 records as a multiple of
those of 10,000. The batch itself is frozen for that. Python's collector goes over a heap so large each time that it has
grown by a quarter, whoever made it grow; that adds a quarter at 100,000 records and would hide what is asked for.
"""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer

from bench.clients import answered
from bench.relay import stream_record
from bench.rounds import compare
from dynamodb_outbox import Layout, Outbox
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.relay.commands import (
    Done,
    Entry,
    Publish,
    PublishDone,
    Settings,
    Settle,
    SettleDone,
    Tick,
    Verify,
    VerifyDone,
    WaitUntil,
)
from dynamodb_outbox.core.relay.machine import Machine
from dynamodb_outbox.core.relay.outcome import Answered, Prepared, Presence, Verified
from dynamodb_outbox.core.relay.select import select
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.rounds import Comparison
    from dynamodb_outbox.core.relay.commands import Command, Fact
    from dynamodb_outbox.event import Event

__all__ = ["measure"]

_FEW, _MANY = 10_000, 100_000
_SIZE = 600  # bytes of an entry that is not prepared

_deserialize = TypeDeserializer().deserialize


@dataclass(frozen=True)
class _Kind:
    """A kind of records: its name, the layout of the relay, and how the record with a number is made."""

    name: str
    layout: Layout
    make: Callable[[int], dict[str, Any]]


def measure(pairs: int) -> Iterator[Comparison]:
    """Compare records of ours, and hand-written rows, of as many keys as there are records."""
    for kind in _kinds():
        records = [kind.make(number) for number in range(_FEW)]
        for said, size_of in (("", _unsent), (" and prepare", _prepared)):
            yield compare(
                f"core{said}, {kind.name}",
                "TypeDeserializer and JSON",
                "event",
                ours=partial(_relayed, records, kind.layout, size_of),
                theirs=partial(_by_hand, records),
                pairs=pairs,
            )
        many = records + [kind.make(number) for number in range(_FEW, _MANY)]
        gc.freeze()
        yield compare(
            f"core, {kind.name}, {_MANY:,}",
            f"itself with {_FEW:,}",
            "event",
            ours=partial(_relayed, many, kind.layout, _unsent),
            theirs=partial(_relayed, records, kind.layout, _unsent),
            pairs=max(3, pairs // 2),
        )
        gc.unfreeze()


# --- ours -------------------------------------------------------------------------------------------------------------


def _relayed(records: Sequence[dict[str, Any]], layout: Layout, size_of: Callable[[Event], int]) -> int:
    entries = []
    for number, one in enumerate(select(records, layout).records):
        record = decode(one.image, layout, source="shop")
        entries += [Entry(number, record.key, size_of(event)) for event in record.events]
    machine = Machine(entries, [_SINK.limits], Settings(), publish_until_ms=60_000, table_until_ms=60_000)
    waiting: list[Fact] = [Tick()]
    while True:
        for command in machine.step(waiting.pop(), 0, 0.5):
            if isinstance(command, Done):
                if command.lowest is not None or len(machine.settled) != len(records):
                    raise RuntimeError("not everything was published and settled")
                return len(entries)
            if not isinstance(command, WaitUntil):
                waiting.append(_answered(command))


def _answered(command: Command) -> Fact:
    if isinstance(command, Publish):
        return PublishDone(command.batch, Answered((None,) * len(command.entries)))
    if isinstance(command, Settle):
        return SettleDone(command.records, settled=command.records)
    if isinstance(command, Verify):
        return VerifyDone(command.destination, Verified(Presence.OK))
    raise RuntimeError(f"nobody expected {command}")


_SINK = EventBridge("orders", client=answered("events", "PutEvents", lambda _: {}))


def _unsent(_: Event) -> int:
    return _SIZE


def _prepared(event: Event) -> int:
    prepared = _SINK.prepare(event)
    if not isinstance(prepared, Prepared):
        raise TypeError(f"an event that cannot be sent: {prepared}")
    return prepared.size


# --- the rival --------------------------------------------------------------------------------------------------------


def _by_hand(records: Sequence[dict[str, Any]]) -> int:
    for record in records:
        if record["eventName"] == "INSERT":
            item = {name: _deserialize(value) for name, value in record["dynamodb"]["NewImage"].items()}
            json.dumps({"id": item["sk"], "type": item["type"], "data": json.loads(item["payload"])})
    return len(records)


# --- what both of them get --------------------------------------------------------------------------------------------


def _kinds() -> tuple[_Kind, _Kind]:
    writer = Outbox("shop", source="shop.orders", client=answered("dynamodb", "TransactWriteItems", lambda _: {}))
    sample = json.dumps(stream_record(writer, 0))
    by_hand = Layout(select={"entity": "OUTBOX"})
    return _Kind("ours", Layout(), partial(_ours, sample)), _Kind("hand-written", by_hand, _row)


def _ours(sample: str, number: int) -> dict[str, Any]:
    """Return a record as the writer makes it, with a key and an id of its own; read anew, as Lambda does, from JSON."""
    record: dict[str, Any] = json.loads(sample)
    image = record["dynamodb"]["NewImage"]
    event_id = f"{image['id']['S'][:24]}{number:012x}"
    return _numbered(record, number, {"sk": f"OUTBOX#{event_id}", "id": event_id, "key": f"ORDER#{number}"})


def _row(number: int) -> dict[str, Any]:
    row = {
        "sk": f"EVENT#{number:08d}",
        "entity": "OUTBOX",
        "type": "order.placed",
        "payload": json.dumps({"order_id": str(number), "cents": 1500, "note": "x" * 300}),
    }
    record = {
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {"NewImage": {"ts": {"N": "1767225600"}}},
    }
    return _numbered(record, number, row)


def _numbered(record: dict[str, Any], number: int, texts: dict[str, str]) -> dict[str, Any]:
    change = record["dynamodb"]
    change["NewImage"] |= {name: {"S": text} for name, text in {"pk": f"ORDER#{number}", **texts}.items()}
    change["Keys"] = {name: dict(change["NewImage"][name]) for name in ("pk", "sk")}
    change["SequenceNumber"] = str(number + 1)
    return record
