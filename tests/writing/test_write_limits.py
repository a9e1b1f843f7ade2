"""Every limit of the writing side, to the byte: what is at it passes here and at AWS, one more is refused here.

For AWS stands the engine where DynamoDB has the limit, and the sink where the bus has it. `-s` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from botocore.config import Config
from write_world import TABLE, create_table, get_item, sends, some_event

from dynamodb_outbox import Outbox
from dynamodb_outbox.core.codec.envelope import cloudevent
from dynamodb_outbox.core.codec.payload import dump_payload
from dynamodb_outbox.core.codec.size import entry_bytes, item_bytes
from dynamodb_outbox.core.limits import EVENTBRIDGE, ITEM_BYTES, ITEM_HEADROOM_BYTES
from dynamodb_outbox.core.relay.outcome import Prepared
from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.sinks import EventBridge

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Account
    from dynamodb_outbox import Event, Transaction

KEY = {"pk": "K", "sk": "S"}
MB4 = 4 * 1024 * 1024
EVENT_LIMIT = 10_000


@dataclass(frozen=True)
class Limit:
    """One limit: what we take at most (`ours`) and what AWS takes (`theirs`), in `unit`.

    `write` puts something of that size into a transaction; `by_hand` gives the same as a request that nobody checked,
    for the engine; or `event` gives an event of that size, for the sink. `step` leads beyond the limit. The engine
    `differs` where it counts something else.
    """

    what: str
    unit: str
    ours: int
    theirs: int
    write: Callable[[Transaction, int], object]
    by_hand: Callable[[int], list[dict[str, Any]]] | None = None
    event: Callable[[int], Event] | None = None
    step: int = 1
    differs: bool = False


def put(item: dict[str, Any]) -> dict[str, Any]:
    """Return a put of an item in wire form."""
    return {"Put": {"TableName": TABLE, "Item": item}}


def put_all(tx: Transaction, items: list[dict[str, Any]]) -> None:
    """Put them into a transaction."""
    for item in items:
        tx.put(item, overwrite=True)


def wire(size: int, pk: str = "K", sk: str = "S") -> dict[str, Any]:
    """Return an item of exactly that size in bytes."""
    item: dict[str, Any] = {"pk": {"S": pk}, "sk": {"S": sk}, "blob": {"B": b""}}
    item["blob"] = {"B": b"x" * (size - item_bytes(item))}
    return item


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """Return such an item in Python values."""
    return {name: next(iter(value.values())) for name, value in item.items()}


def shares(total: int) -> list[int]:
    """Return sizes of items that make up the total."""
    count = total // 390_000
    return [390_000] * count + [total - 390_000 * count]


def nested(levels: int) -> Any:
    """Return a value of that many levels, the scalar inside of it counted."""
    value: Any = "x"
    for _ in range(levels - 1):
        value = [value]
    return value


def nested_wire(levels: int) -> dict[str, Any]:
    """Return the same in wire form."""
    value: dict[str, Any] = {"S": "x"}
    for _ in range(levels - 1):
        value = {"L": [value]}
    return value


def entry_event(size: int) -> Event:
    """Return an event whose entry has that many bytes."""
    bare = some_event(payload='""', key="K")
    entry = {"Source": bare.source, "DetailType": bare.type, "Detail": cloudevent(bare)}
    return some_event(payload=dump_payload("x" * (size - entry_bytes(entry, EVENTBRIDGE))), key="K")


def emit_entry(tx: Transaction, size: int) -> object:
    """Emit an event whose entry has that many bytes."""
    bare = entry_event(size)
    return tx.emit(bare.type, bare.data, key="K", time=bare.time)


LIMITS = [
    Limit(
        "actions of a transaction",
        "actions",
        100,
        100,
        lambda tx, n: put_all(tx, [{"pk": "K", "sk": str(i)} for i in range(n)]),
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": str(i)}}) for i in range(n)],
    ),
    Limit(
        "keys with events in a transaction",
        "records",
        100,
        100,
        lambda tx, n: [tx.emit("t", None, key=str(i)) for i in range(n)],
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": str(i)}}) for i in range(n)],
    ),
    Limit(
        "bytes of a transaction",
        "bytes",
        MB4,
        MB4,
        lambda tx, n: put_all(tx, [plain(wire(s, sk=str(i))) for i, s in enumerate(shares(n))]),
        lambda n: [put(wire(s, sk=str(i))) for i, s in enumerate(shares(n))],
        differs=True,  # it counts the request's JSON text, in which binary is a third longer
    ),
    Limit(
        "an item, 2 KB kept free",
        "bytes",
        ITEM_BYTES - ITEM_HEADROOM_BYTES,
        ITEM_BYTES,
        lambda tx, n: tx.put(plain(wire(n)), overwrite=True),
        lambda n: [put(wire(n))],
    ),
    Limit(
        "partition key",
        "bytes",
        2048,
        2048,
        lambda tx, n: tx.put({"pk": "é" * (n // 2) + "x" * (n % 2), "sk": "S"}, overwrite=True),
        lambda n: [put({"pk": {"S": "x" * n}, "sk": {"S": "S"}})],
    ),
    Limit(
        "sort key",
        "bytes",
        1024,
        1024,
        lambda tx, n: tx.put({"pk": "K", "sk": "é" * (n // 2) + "x" * (n % 2)}, overwrite=True),
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": "x" * n}})],
    ),
    Limit(
        "key of an event",
        "bytes",
        2048,
        2048,
        lambda tx, n: tx.emit("t", None, key="x" * n),
        lambda n: [put({"pk": {"S": "x" * n}, "sk": {"S": "S"}})],
    ),
    Limit(
        "nesting of an item",
        "levels",
        32,
        32,
        lambda tx, n: tx.put({**KEY, "a": nested(n)}, overwrite=True),
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": "S"}, "a": nested_wire(n)})],
    ),
    Limit(
        "digits of a number",
        "digits",
        38,
        38,
        lambda tx, n: tx.put({**KEY, "a": int("7" * n)}, overwrite=True),
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": "S"}, "a": {"N": "7" * n}})],
    ),
    Limit(
        "exponent of the largest number",
        "",
        125,
        125,
        lambda tx, n: tx.put({**KEY, "a": Decimal(f"9.9E+{n}")}, overwrite=True),
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": "S"}, "a": {"N": f"9.9E+{n}"}})],
    ),
    Limit(
        "exponent of the smallest number",
        "",
        -130,
        -130,
        lambda tx, n: tx.put({**KEY, "a": Decimal(f"1E{n}")}, overwrite=True),
        lambda n: [put({"pk": {"S": "K"}, "sk": {"S": "S"}, "a": {"N": f"1E{n}"}})],
        step=-1,
    ),
    Limit(
        "an event, as an entry of the bus",
        "bytes",
        EVENT_LIMIT,
        EVENTBRIDGE.entry_bytes,
        emit_entry,
        event=entry_event,
    ),
    Limit(
        "type of an event",
        "characters",
        128,
        128,
        lambda tx, n: tx.emit("é" * n, None, key="K"),
        event=lambda n: some_event(type="é" * n, key="K"),
    ),
    Limit(
        "source of events",
        "characters",
        256,
        256,
        lambda _, n: Outbox(TABLE, source="x" * n),
        event=lambda n: some_event(source="x" * n, key="K"),
    ),
    Limit(
        "largest integer of an event",
        "",
        2**63 - 1,
        2**63 - 1,
        lambda tx, n: tx.emit("t", {"n": n}, key="K"),
        event=lambda n: some_event(payload=f'{{"n":{n}}}', key="K"),
    ),
    Limit(
        "smallest integer of an event",
        "",
        -(2**63),
        -(2**63),
        lambda tx, n: tx.emit("t", {"n": n}, key="K"),
        event=lambda n: some_event(payload=f'{{"n":{n}}}', key="K"),
        step=-1,
    ),
    Limit(
        "nesting of an event's data",
        "levels",
        200,
        999,  # one level of the 1,000 is the envelope
        lambda tx, n: tx.emit("t", nested(n + 1), key="K"),
        event=lambda n: some_event(payload="[" * n + "]" * n, key="K"),
    ),
]


def passes_here(client: Any, limit: Limit, size: int) -> dict[str, Any] | None:
    """Return the request for something of that size, None when this library refuses it."""
    outbox = Outbox(TABLE, source="shop.orders", client=client, max_event_bytes=EVENT_LIMIT)
    tx = outbox.transaction()
    try:
        written = limit.write(tx, size)
        if isinstance(written, Outbox):
            return {}
        return tx.request()
    except OutboxError:
        return None


def passes_there(client: Any, limit: Limit, size: int) -> bool:
    """Whether the engine takes something of that size that nobody checked, or the sink such an event."""
    if limit.event is not None:
        return isinstance(EventBridge("bus").prepare(limit.event(size)), Prepared)
    return limit.by_hand is None or sends(client, {"TransactItems": limit.by_hand(size)})


@pytest.fixture
def client(engine: Account) -> Any:
    """Return a client of an account with the table."""
    made = engine.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
    create_table(made)
    return made


def test_every_limit_to_the_byte(client: Any) -> None:
    """At our limit: passes here, and what was built is accepted. One more: refused here, before anything is sent.

    The same for the limit of AWS itself, with requests that nobody checked: ours never lies above it.
    """
    rows = [("", "we take", "at it", "one more", "AWS takes", "at it", "one more", "judged by")]
    for limit in LIMITS:
        request = passes_here(client, limit, limit.ours)
        assert request is not None, limit.what
        verdicts = (
            not request or sends(client, request),
            passes_here(client, limit, limit.ours + limit.step) is not None,
            passes_there(client, limit, limit.theirs),
            passes_there(client, limit, limit.theirs + limit.step),
        )
        assert verdicts == ((False, False, False, False) if limit.differs else (True, False, True, False)), limit.what
        at_ours, over_ours, at_theirs, over_theirs = ("accepted" if each else "refused" for each in verdicts)
        judge = "the bus's sink" if limit.event else f"the engine{' (counts JSON text)' if limit.differs else ''}"
        numbers = [f"{number:,} {limit.unit}" for number in (limit.ours, limit.theirs)]
        rows.append((limit.what, numbers[0], at_ours, over_ours, numbers[1], at_theirs, over_theirs, judge))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()  # noqa: T201 -- the table is what a reader wants to see
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())  # noqa: T201


def test_four_megabytes_are_counted_as_items(client: Any) -> None:
    """What the engine's own way of counting lets pass is written, and the request is all of the transaction."""
    tx = Outbox(TABLE, source="s", client=client).transaction()
    for number, size in enumerate(shares(MB4 - 2_000)):
        tx.put({"pk": "K", "sk": str(number), "text": "x" * (size - 200)}, overwrite=True)
    tx.commit()
    assert get_item(client, "K", "0") is not None
