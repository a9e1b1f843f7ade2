"""What an outbox costs a month: how many requests there are, what units they take, and what these are priced at.

Three steps, each a function of the one before. `requests_of` counts what the code does, and is held to counted requests
by a test. `lines_of` turns requests into units: write units by the KB, and twice in a transaction [DDG]; GB-seconds by
the calls that an invocation waits for. Then each line has its price.

Where records are placed changes none of it: they are as many, in the same transactions.

Two others beside it are counted by the same rules: the relay as it is written by hand, event by event, which marks each
record (`requests_by_hand`, held to counted requests, too); and a Pipe from the stream to the sink, which publishes as a
relay with full invocations, and marks nothing. Neither sweeps, parks, or watches.

Reading a stream by Lambda is free. Not counted: logs, retries, data transfer, the consumer's side, point-in-time
recovery (by the size of the table), and an archive (by what it holds).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from dynamodb_outbox.arguments import choice, flag, refusal, whole
from dynamodb_outbox.choices import Settle, SinkKind
from dynamodb_outbox.core.limits import BATCH_STATEMENTS, EVENTBRIDGE, SNS, SQS
from dynamodb_outbox.core.metrics import METRICS
from dynamodb_outbox.infra.alarms import alarms_for
from dynamodb_outbox.infra.prices import PRICES, Price
from dynamodb_outbox.infra.resources import EVENT_COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "BESIDE",
    "Line",
    "Load",
    "Part",
    "Requests",
    "by_hand",
    "idle",
    "lines_of",
    "pipes",
    "plain",
    "requests_by_hand",
    "requests_of",
    "total",
]

Part = Literal["events", "sweeper", "watching"]
"""The last two are due when nothing happens, too."""

_refusal = partial(refusal, "Load")
_CHUNK_BYTES = 64 * 1024
_MONTH_MINUTES = 30 * 24 * 60
_GB = 1024**3
_OVERHEAD_MS = 10
"""Of an invocation, besides the calls that it waits for."""
_ENTRIES = {"bus": EVENTBRIDGE.entries, "topic": SNS.entries, "queue": SQS.entries}
_METRICS = len(EVENT_COUNTS) + len(METRICS)  # of the mapping, and our own; each code that events fail with adds one
_RANGES = {
    "events": (0, 10**12),
    "record_bytes": (1, 400_000),
    "item_bytes": (1, 400_000),
    "per_invocation": (1, 10_000),
    "call_ms": (1, 10_000),
    "memory_mb": (128, 10_240),
    "index_shards": (1, 1000),
    "sweep_minutes": (1, 60),
    "kept_days": (1, 3650),
}


@dataclass(frozen=True, kw_only=True)
class Load:
    """A month, and the set-up that it is for.

    events          events, each committed in a transaction of its own, with one item that changes
    record_bytes    bytes of a record; an event on its way is taken to be as large
    item_bytes      bytes of the item
    guarded         whether the transactions have an idempotency_key
    settle          the layout's
    sink            where events go
    per_invocation  records that the relay gets at once
    call_ms         how long a call of AWS takes
    memory_mb       of the functions
    index_shards, sweep_minutes    of the sweeper
    kept_days       for how long records are kept that expire

    Raises ConfigurationError for anything else.
    """

    events: int = 1_000_000
    record_bytes: int = 1_000
    item_bytes: int = 1_000
    guarded: bool = False
    settle: Settle = "expire"
    sink: SinkKind = "bus"
    per_invocation: int = 10
    call_ms: int = 20
    memory_mb: int = 512
    index_shards: int = 16
    sweep_minutes: int = 1
    kept_days: int = 7

    def __post_init__(self) -> None:
        for what, (least, most) in _RANGES.items():
            whole(getattr(self, what), _refusal(what), least=least, most=most)
        flag(self.guarded, _refusal("guarded"))
        choice(self.settle, _refusal("settle"), get_args(Settle))
        choice(self.sink, _refusal("sink"), get_args(SinkKind))

    @property
    def entries(self) -> int:
        """How many events a publish request takes."""
        return _ENTRIES[self.sink.removesuffix(".fifo")]


@dataclass(frozen=True)
class Requests:
    """What the code does for a month's events, in numbers of requests and of what is in them."""

    transactions: int
    actions: int
    invocations: int
    publishes: int
    published: int
    settles: int
    settled: int


@dataclass(frozen=True)
class Line:
    """One line of a bill: `quantity` of what the price named is for, and which part of the bill it belongs to."""

    what: str
    price: str
    quantity: float
    part: Part = "events"

    def usd(self, prices: Mapping[str, Price] = PRICES) -> float:
        """Return what it comes to."""
        price = prices[self.price]
        return self.quantity * price.usd / price.per


def requests_of(load: Load) -> Requests:
    """Return what is requested by writer and relay, when all goes well."""
    return Requests(
        transactions=load.events,
        actions=load.events * (3 if load.guarded else 2),
        invocations=math.ceil(load.events / load.per_invocation),
        publishes=_calls(load, load.entries),
        published=load.events,
        settles=0 if load.settle == "none" else _calls(load, BATCH_STATEMENTS),
        settled=0 if load.settle == "none" else load.events,
    )


def requests_by_hand(load: Load) -> Requests:
    """Return what is requested with a relay by hand: it publishes and marks one event after the other."""
    return replace(requests_of(load), publishes=load.events, settles=load.events, settled=load.events)


def lines_of(load: Load) -> tuple[Line, ...]:
    """Return the bill of a month, with what is due when nothing happens."""
    made = requests_of(load)
    settling = (
        Line("record enters the index", "write", made.settled),
        Line("record is settled", "write", made.settled * _kb(load.record_bytes)),
        Line("record leaves the index", "write", made.settled),
    )
    return (
        *_commit(load),
        *(settling if made.settled else ()),
        *_storage(load, kept={"delete": 0, "mark": 30}.get(load.settle, load.kept_days)),
        *_relay(load, made),
        _published(load, made.publishes, entries=min(load.entries, load.per_invocation)),
        *idle(load),
    )


def idle(load: Load) -> tuple[Line, ...]:
    """Return what is due when nothing happens: the sweeper and what watches."""
    sweeps = _MONTH_MINUTES // load.sweep_minutes
    watched = alarms_for("any", "any", timeout_s=30, lag_minutes=1, sweep_minutes=load.sweep_minutes)
    ms = sweeps * (_OVERHEAD_MS + load.index_shards * load.call_ms)
    return (
        Line("sweeper: queries of the index", "read", sweeps * load.index_shards / 2, "sweeper"),
        *_lambda("sweeper", sweeps, ms, load),
        Line("alarms", "alarm", sum(len(each.metrics) for each in watched), "watching"),
        Line("metrics", "metric", _METRICS, "watching"),
        Line("dashboard", "dashboard", 1, "watching"),
    )


def by_hand(load: Load) -> tuple[Line, ...]:
    """Return the bill of a relay by hand: one publish and one UpdateItem an event, one after the other; no sweeper."""
    made = requests_by_hand(load)
    return (
        *_commit(load),
        Line("record is marked", "write", made.settled * _kb(load.record_bytes)),
        *_storage(load, kept=load.kept_days),
        *_relay(load, made),
        _published(load, made.publishes, entries=1),
    )


def pipes(load: Load) -> tuple[Line, ...]:
    """Return the bill of a Pipe from the stream to the sink: records expire, and nobody marks them; no sweeper."""
    made = requests_of(replace(load, settle="none", per_invocation=load.entries))
    return (
        *_commit(load),
        *_storage(load, kept=load.kept_days),
        Line("pipe", "pipe", made.publishes * _chunks(min(load.entries, load.events) * load.record_bytes)),
        _published(load, made.publishes, entries=load.entries),
    )


def plain(load: Load) -> tuple[Line, ...]:
    """Return the bill of the items alone, written without a transaction: no events at all."""
    return (Line("item", "write", load.events * _kb(load.item_bytes)),)


BESIDE: Mapping[str, Callable[[Load], tuple[Line, ...]]] = {
    "a relay by hand": by_hand,
    "an EventBridge Pipe": pipes,
    "plain writes, and no events": plain,
}
"""What else there is to pay for, by name."""


def total(lines: tuple[Line, ...], prices: Mapping[str, Price] = PRICES) -> float:
    """Return the sum of a bill."""
    return sum(line.usd(prices) for line in lines)


def _calls(load: Load, takes: int) -> int:
    """Return the calls of all invocations, each of which `takes` so many events; the last one has what is left."""
    full, left = divmod(load.events, load.per_invocation)
    return full * math.ceil(load.per_invocation / takes) + math.ceil(left / takes)


def _commit(load: Load) -> tuple[Line, ...]:
    lines = [
        Line("item, in the transaction", "write", 2 * load.events * _kb(load.item_bytes)),
        Line("record, in the transaction", "write", 2 * load.events * _kb(load.record_bytes)),
    ]
    return (*lines, Line("guard, in the transaction", "write", 2 * load.events)) if load.guarded else tuple(lines)


def _storage(load: Load, *, kept: int) -> tuple[Line, ...]:
    months = kept / 30
    line = Line(f"records kept for {kept} days", "storage", load.events * load.record_bytes / _GB * months)
    return (line,) if kept else ()


def _relay(load: Load, made: Requests) -> tuple[Line, ...]:
    """Return what the relay's function takes: each invocation waits for its calls, one after the other."""
    ms = made.invocations * _OVERHEAD_MS + (made.publishes + made.settles) * load.call_ms
    return _lambda("relay", made.invocations, ms, load)


def _lambda(what: str, invocations: int, ms: float, load: Load) -> tuple[Line, ...]:
    part: Part = "sweeper" if what == "sweeper" else "events"
    return (
        Line(f"{what}: invocations", "invocation", invocations, part),
        Line(f"{what}: time", "gb_second", ms / 1000 * load.memory_mb / 1024, part),
    )


def _published(load: Load, requests: int, *, entries: int) -> Line:
    """Return what the sink charges: a bus by the event, topics and queues by the request, of so many entries."""
    if load.sink == "bus":
        return Line("events", "bus", load.events * _chunks(load.record_bytes))
    return Line("publish requests", load.sink, requests * _chunks(min(entries, load.events) * load.record_bytes))


def _kb(size: int) -> int:
    """Return the units of a write: it takes one for each KB that it begins."""
    return math.ceil(size / 1024)


def _chunks(size: int) -> int:
    return math.ceil(size / _CHUNK_BYTES)
