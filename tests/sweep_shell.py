"""A bus, a table on the engine, and faults of its client, around sweeps of the whole library."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from dynamodb_outbox import Outbox
from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record import pending
from dynamodb_outbox.core.relay.outcome import (
    Answered,
    Fault,
    Kind,
    Outcome,
    Prepared,
    Presence,
    RequestFailed,
    Verified,
)
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.local.provision import create_table
from dynamodb_outbox.recover import Sweeper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conftest import Account
    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import Event

CONTENT = Fault(Kind.CONTENT, "Bad", "never")
TARGET = Fault(Kind.TARGET, "AccessDenied", "no permission")
UNKNOWN = RequestFailed(Fault(Kind.UNKNOWN, "ReadTimeout", "no answer"))
NO_AGE = timedelta(0)


class Bus:
    """A sink that answers as its script says of each event, and remembers what it accepted."""

    limits = SinkLimits(entries=10, request_bytes=4_000_000, entry_bytes=4_000_000)
    request_ms = 100

    def __init__(self, script: Callable[[Event], Fault | None] = lambda _: None, name: str = "orders") -> None:
        self.script = script
        self.name = name
        self.fails: RequestFailed | None = None
        self.presence = Verified(Presence.OK)
        self.accepted: list[Event] = []
        self.requests = 0
        self.asked = 0
        self.lock = threading.Lock()

    def prepare(self, event: Event) -> Prepared | Fault:
        """Take any event."""
        return Prepared(event, len(event.payload))

    def verify(self) -> Verified:
        """Say what is to be said."""
        self.asked += 1
        return self.presence

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Ask the script about each entry."""
        with self.lock:
            self.requests += 1
        if self.fails is not None:
            return self.fails
        results = tuple(map(self.script, entries))
        with self.lock:
            self.accepted += [event for event, fault in zip(entries, results, strict=True) if fault is None]
        return Answered(results)

    @property
    def ids(self) -> list[str]:
        """The ids of what was accepted, in order."""
        return [event.id for event in self.accepted]

    def payloads(self) -> list[Any]:
        """Return the data of what was accepted, in order."""
        return [json.loads(event.payload) for event in self.accepted]


class Shop:
    """A table of a layout on the engine, its writer, and a count of the requests that a client makes."""

    def __init__(self, engine: Account, layout: Layout | None = None, **outbox: Any) -> None:
        self.layout = layout if layout is not None else Layout()
        config = Config(connect_timeout=1, read_timeout=4, retries={"total_max_attempts": 1, "mode": "standard"})
        self.client = engine.client("dynamodb", config=config)
        self.calls: Counter[str] = Counter()
        self.client.meta.events.register("before-call.dynamodb", self._count)
        self.stream = create_table(engine.client("dynamodb"), "shop", layout=self.layout)
        self.outbox = Outbox(
            "shop", source="shop.orders", client=engine.client("dynamodb"), layout=self.layout, **outbox
        )

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def emit(self, key: str = "ORDER#1", data: Any = None) -> str:
        """Commit one event; return its id."""
        with self.outbox.transaction() as tx:
            event = tx.emit("order.placed", {} if data is None else data, key=key)
        return event.id

    def sweeper(self, bus: Any, **options: Any) -> Sweeper:
        """Return a sweeper of this table, for which a record is old enough when it is there."""
        options.setdefault("min_age", NO_AGE)
        return Sweeper(bus, table="shop", layout=self.layout, client=self.client, **options)

    def items(self) -> list[WireItem]:
        """Return all items but leases."""
        found = self.client.scan(TableName="shop", ConsistentRead=True)["Items"]
        return [item for item in found if "ob_lease" not in item]

    def index(self, partition: str | None = None) -> list[WireItem]:
        """Return what the index has in a partition, or in all that hold pending records."""
        shards = pending.shards_of(self.layout) if partition is None else (partition,)
        pages = [self.client.query(**pending.listing("shop", shard, self.layout, most=1000)) for shard in shards]
        return [item for page in pages for item in page["Items"]]

    def fail(self, operation: str, code: str, times: int = 1_000, *, status: int = 400) -> None:
        """Let requests of an operation meet an error, so many times, before they reach the table."""
        error = {"Code": code, "Message": "so it is"}
        answer = SimpleNamespace(status_code=status), {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
        met = itertools.count()

        def meet(**_: Any) -> Any:
            return answer if next(met) < times else None

        self.client.meta.events.register_first(f"before-call.dynamodb.{operation}", meet)

    def before(self, operation: str, act: Callable[[], object]) -> None:
        """Let something happen before the first request of an operation."""
        done = itertools.count()
        self.client.meta.events.register_first(
            f"before-call.dynamodb.{operation}", lambda **_: None if next(done) else void(act())
        )


def void(_: object) -> None:
    """Take what something returned for nothing: to a hook of botocore it would be an answer."""
