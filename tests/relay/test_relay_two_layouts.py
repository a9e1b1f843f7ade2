"""Two outboxes of different layouts in one table, each with its relay: without filters, and while a layout changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from relay_layouts import as_lambda, stream_record
from relay_shell import Bus, Context, failures

from dynamodb_outbox import Outbox, Relay
from dynamodb_outbox.core.eventsource.filters import compile_filters
from dynamodb_outbox.errors import ConfigurationError
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import create_table

if TYPE_CHECKING:
    from conftest import Account

PAIRS = {
    "other columns": (Layout(), Layout(columns={"type": "kind", "id": "uid"})),
    "columns on both sides": (Layout(columns={"type": "kind"}), Layout(columns={"type": "sort"})),
    "another prefix": (Layout(), Layout(prefix="EVENT#")),
    "a prefix that begins with the other": (Layout(prefix="OUTBOX#B#"), Layout()),
    "deleted once it is published": (Layout(settle="delete"), Layout(columns={"type": "kind"})),
    "told by another attribute": (Layout(select={"entity": "ONE"}), Layout(select={"entity": "TWO"})),
}


class Reader:
    """A relay and its place in the stream, as the event source mapping keeps it."""

    def __init__(self, client: Any, layout: Layout) -> None:
        self.bus = Bus()
        self.relay = Relay(self.bus, layout=layout, client=client)
        self.done = 0

    def read(self, records: list[dict[str, Any]]) -> None:
        """Deliver what is left of the stream, once."""
        try:
            failed = failures(self.relay.lambda_handler({"Records": records[self.done :]}, Context()))
        except ConfigurationError:
            return
        self.done = int(failed[0]) - 1 if failed else len(records)


class Shop:
    """A table, a stream of what was inserted, and an outbox and a relay for each of two layouts."""

    def __init__(self, engine: Account, *layouts: Layout) -> None:
        self.client = engine.client("dynamodb")
        create_table(self.client, "shop", layout=layouts[0])
        self.layouts = layouts
        self.outboxes = [Outbox("shop", source="s", layout=layout, client=self.client) for layout in layouts]
        self.readers = [Reader(self.client, layout) for layout in layouts]
        self.stream: list[dict[str, Any]] = []

    def write(self, which: int) -> str:
        """Write an event; return its id."""
        with self.outboxes[which].transaction() as tx:
            tx.emit("t", {}, key="A")
        (item,) = [item for item in self.items() if item["sk"]["S"].endswith(tx.receipt.event_ids[0])]
        number = len(self.stream) + 1
        self.stream.append(
            stream_record(as_lambda(item), self.layouts[which], number=number) | {"awsRegion": "us-east-1"}
        )
        return tx.receipt.event_ids[0]

    def items(self) -> list[dict[str, Any]]:
        """Return all items."""
        found: list[dict[str, Any]] = self.client.scan(TableName="shop", ConsistentRead=True)["Items"]
        return found


@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_each_relay_waits_for_the_other_and_both_get_through(engine: Account, pair: tuple[Layout, Layout]) -> None:
    """Each event is published once, by the relay of its layout, under its own id; in the end nothing is pending."""
    shop = Shop(engine, *pair)
    ids: tuple[list[str], list[str]] = ([], [])
    for which in (0, 0, 1, 0, 1, 1, 0):
        ids[which].append(shop.write(which))
    turns = 0
    while any(reader.done < len(shop.stream) for reader in shop.readers):
        turns += 1
        assert turns < 10
        for reader in shop.readers:
            reader.read(shop.stream)
    for reader, own in zip(shop.readers, ids, strict=True):
        assert [event.id for event in reader.bus.accepted] == own
    assert not any("ob_pending" in item for item in shop.items())


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_a_relay_from_the_start_of_the_stream_passes_what_was_published_before(
    engine: Account, pair: tuple[Layout, Layout], gone: bool
) -> None:
    """The records of the layout before hold nothing, whether their TTL has removed them by now or not."""
    shop = Shop(engine, *pair)
    shop.write(0)
    shop.readers[0].read(shop.stream)
    for item in shop.items() if gone else ():
        shop.client.delete_item(TableName="shop", Key={name: item[name] for name in ("pk", "sk")})
    new = shop.write(1)
    shop.readers[1].read(shop.stream)
    assert shop.readers[1].done == 2
    assert [event.id for event in shop.readers[1].bus.accepted] == [new]


@pytest.mark.parametrize("gone", [False, True])
def test_a_relay_holds_at_what_nothing_settles(engine: Account, gone: bool) -> None:
    """Nobody can tell whether it was published: it is never changed, and its TTL may have been first."""
    shop = Shop(engine, Layout(settle="none"), Layout(columns={"type": "kind"}))
    shop.write(0)
    shop.readers[0].read(shop.stream)
    assert shop.readers[0].done == 1
    for item in shop.items() if gone else ():
        shop.client.delete_item(TableName="shop", Key={name: item[name] for name in ("pk", "sk")})
    shop.readers[1].read(shop.stream)
    assert shop.readers[1].done == 0


def test_copies_of_what_was_published_hold_nothing(engine: Account) -> None:
    """A table that was restored, or copied, inserts them anew."""
    shop = Shop(engine, *PAIRS["other columns"])
    for which in (0, 1):
        shop.write(which)
    for _ in range(2):
        for reader in shop.readers:
            reader.read(shop.stream)
    copies = [
        stream_record(as_lambda(item), Layout(), number=number) | {"awsRegion": "us-east-1"}
        for number, item in enumerate(shop.items(), 1)
    ]
    for reader in shop.readers:
        accepted = list(reader.bus.accepted)
        assert failures(reader.relay.lambda_handler({"Records": copies}, Context())) == []
        assert reader.bus.accepted == accepted


def test_filters_on_the_mark_of_columns_tell_two_layouts_apart(engine: Account) -> None:
    """Each lets one layout's records through, and then neither relay waits."""
    plain, named = PAIRS["other columns"]
    shop = Shop(engine, plain, named)
    for which in (0, 1):
        shop.write(which)
    marks = ([{"exists": False}], [named.columns_digest])
    for which, mark in enumerate(marks):
        pattern = {"eventName": ["INSERT"], "dynamodb": {"NewImage": {"ob_columns": {"S": mark}}}}
        passed = [record for record in shop.stream if compile_filters(pattern).match(record)]
        assert [record["dynamodb"]["SequenceNumber"] for record in passed] == [str(which + 1)]
        assert failures(shop.readers[which].relay.lambda_handler({"Records": passed}, Context())) == []
