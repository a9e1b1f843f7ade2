"""The layouts that the engine suite runs through, each with tables made for it and items that fit them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ReadTimeoutError
from write_world import FakeClock, create_items_table

from dynamodb_outbox import Event, Keys, Layout, Outbox
from dynamodb_outbox.core.codec.values import serialize_item
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.core.record.place import is_record, key_text
from dynamodb_outbox.local.provision import create_table
from other_names import OTHER_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Account

TABLE, RECORDS = "shop", "outbox"


@dataclass(frozen=True)
class Case:
    """A layout, and where its records and its items are: in one table unless `outbox_table` says otherwise."""

    layout: Layout
    outbox_table: str | None = None
    tables: Mapping[str, Keys] = field(default_factory=dict)

    @property
    def records(self) -> str:
        """The table that holds the records."""
        return self.outbox_table or TABLE

    @property
    def keys(self) -> Keys:
        """Those of the items."""
        return self.tables.get(TABLE, self.layout.keys)

    @property
    def guarded(self) -> bool:
        """Whether the layout has room for guards."""
        return self.layout.pk_type == "S"


CASES = {
    "item": Case(Layout(version="version")),
    "own-partition": Case(Layout(own_partition=True, version="version")),
    "own-partition-pk-only": Case(Layout(own_partition=True, sk=None, version="version")),
    "pk-N": Case(Layout(pk_type="N", version="version")),
    "pk-B": Case(Layout(pk_type="B", version="version")),
    "table": Case(Layout(placement="table", version="version"), RECORDS),
    "table-pk-only": Case(
        Layout(placement="table", sk=None, version="version"), RECORDS, {TABLE: Keys("id", None, "N")}
    ),
    "table-of-N-B": Case(Layout(placement="table", version="version"), RECORDS, {TABLE: Keys("n", "b", "N", "B")}),
    "renamed": Case(
        Layout(
            pk="type", sk="payload", ttl="ttl", prefix="R/", guard_prefix="G/", columns=OTHER_NAMES, version="version"
        )
    ),
    "map": Case(Layout(payload_format="map", version="version")),
    "select": Case(Layout(select={"entity": "OUTBOX"}, version="version")),
    "select-in-own-partition": Case(
        Layout(select={"pk": {"prefix": "EV#"}}, prefix="EV#", own_partition=True, sk=None, version="version")
    ),
}
"""The matrix. All of them count versions, so that sequences and receipts are covered."""
GUARDED = [name for name, case in CASES.items() if case.guarded]


class LayoutWorld:
    """An outbox of one case over an engine, its tables made."""

    def __init__(self, engine: Account, case: Case) -> None:
        self.engine = engine
        self.client = engine.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
        self.case = case
        create_table(self.client, case.records, layout=case.layout, view_type=None)
        if case.records != TABLE:
            create_items_table(self.client, TABLE, case.keys)
        self.clock = FakeClock(time.time_ns() // 1_000_000)  # of today: the tables have a TTL, and the engine obeys it
        self.outbox = self.outbox_over(self.client)

    def outbox_over(self, client: Any, **options: Any) -> Outbox:
        """Return an outbox of the case."""
        case = self.case
        return Outbox(
            TABLE,
            source="shop.orders",
            layout=case.layout,
            outbox_table=case.outbox_table,
            tables={**case.tables, **options.pop("tables", {})},
            client=client,
            clock=self.clock,
            **options,
        )

    def key(self, number: int) -> dict[str, Any]:
        """Return the key of an item, by the types of its table."""
        values = {"S": f"ORDER#{number}", "N": number, "B": b"order-%d\xff" % number}
        return {name: values[kind] for name, kind in self.case.keys.types.items()}

    def partition(self, number: int) -> str:
        """Return the text of an item's partition key: the ordering key of its events."""
        return key_text(serialize_item(self.key(number))[self.case.keys.pk])

    def place(self, number: int) -> tuple[str, str, str]:
        """Return what a receipt calls an item."""
        keys, key = self.case.keys, serialize_item(self.key(number))
        return TABLE, self.partition(number), "" if keys.sk is None else key_text(key[keys.sk])

    def item(self, number: int) -> dict[str, Any] | None:
        """Return an item, in wire form, less its key."""
        found = self.client.get_item(TableName=TABLE, Key=serialize_item(self.key(number)), ConsistentRead=True)
        item: dict[str, Any] | None = found.get("Item")
        return None if item is None else {name: v for name, v in item.items() if name not in self.case.keys.types}

    def images(self) -> list[dict[str, Any]]:
        """Return the records as they are stored."""
        items = self.client.scan(TableName=self.case.records, ConsistentRead=True)["Items"]
        return [item for item in items if is_record(item, self.case.layout)]

    def events(self) -> dict[str, tuple[Event, ...]]:
        """Return the events of the records as a relay reads them, by key."""
        found: dict[str, tuple[Event, ...]] = {}
        for image in self.images():
            record = decode(image, self.case.layout, source="?")
            found[record.key] = found.get(record.key, ()) + record.events
        return found


class Losing:
    """A client that loses the answer to its first transaction, which the table no longer knows by its token then."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.meta = real.meta
        self.sent = 0
        self.reads: list[dict[str, Any]] = []

    def transact_write_items(self, **request: Any) -> Any:
        """Send, and lose the first answer."""
        self.sent += 1
        if self.sent > 1:
            request["ClientRequestToken"] = f"{request['ClientRequestToken'][:35]}~"
            return self.real.transact_write_items(**request)
        self.real.transact_write_items(**request)
        raise ReadTimeoutError(endpoint_url="lost")

    def get_item(self, **request: Any) -> Any:
        """Read."""
        self.reads.append(request)
        return self.real.get_item(**request)
