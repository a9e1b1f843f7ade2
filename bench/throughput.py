"""A whole invocation over the network: the relay beside what people write, and beside the most that boto3 can do.

The bus is another process on this machine. All publish the same records of 1,000 keys, in order of their keys or not:

    ours        the relay, in order per key, 16 requests in flight, over the client that it makes itself
    one by one  a handler that sends one PutEvents a record and reports the first that fails
    Powertools  the BatchProcessor of AWS Lambda Powertools with such a function
    plain       boto3 with batches of 10 on 16 threads, of exactly the entries that the relay sends: the ceiling; over a
                client as people make it, and over one with the settings of the relay's

The first and the last leave the table alone, as Layout(settle="none") does; what settling costs is said beside them.
The figure is events a second of wall-clock time, and ours divided by the rival's, pair by pair.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from bench.bus import running_bus
from bench.clients import answered, own_client, usual_client
from bench.relay import Context, stream_record
from dynamodb_outbox import Layout, Outbox, Relay
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.sinks import EventBridge, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

__all__ = ["Throughput", "measure"]

_KEYS = 1_000
_SLOW = 150  # records for the rivals that send one at a time
_THREADS = 16
_BATCH = 10


@dataclass(frozen=True)
class Throughput:
    """Events a second of each, medians, and the ratio ours/rival: the median of the pairs."""

    rival: str
    latency_ms: int
    ours: float
    theirs: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"relay, bus answering after {self.latency_ms} ms: {self.ratio:.2f} x {self.rival} "
            f"({self.ours:,.0f} against {self.theirs:,.0f} events/s)"
        )


def measure(pairs: int) -> Iterator[Throughput]:
    """Compare over a bus that answers at once, and one that takes 8 ms."""
    with running_bus() as url, ThreadPoolExecutor(_THREADS) as threads:
        for latency_ms in (0, 8):
            yield from _at(f"{url}/{latency_ms}", latency_ms, pairs, threads)


def _at(endpoint: str, latency_ms: int, pairs: int, threads: Executor) -> Iterator[Throughput]:
    usual, own = usual_client("events", endpoint), own_client("events", endpoint)
    sink = EventBridge("orders", client=own)
    # Each round is a new delivery to it: what it remembers it would not send again.
    relay = Relay(sink, client=_table(), max_in_flight=_THREADS, remember_accepted=0)
    left_alone, settled = _records(Layout(settle="none")), _records(Layout())
    entries = _entries(left_alone, sink, Layout())

    def ours(records: Sequence[dict[str, Any]] = left_alone) -> int:
        if relay.lambda_handler({"Records": list(records)}, Context()) != {"batchItemFailures": []}:
            raise RuntimeError("the relay did not publish everything")
        return len(records)

    def plain(client: Any) -> int:
        chunks = [entries[start : start + _BATCH] for start in range(0, len(entries), _BATCH)]
        list(threads.map(lambda chunk: client.put_events(Entries=chunk), chunks))
        return len(entries)

    few = left_alone[:_SLOW]
    rivals: dict[str, Callable[[], int]] = {
        "one PutEvents a record": lambda: _one_by_one(usual, few),
        "Powertools BatchProcessor": lambda: _powertools(usual, few),
        "plain boto3 on 16 threads sending the same entries": lambda: plain(usual),
        "plain boto3 with the settings of the relay's client": lambda: plain(own),
        "itself, settling each record": lambda: ours(settled),
    }
    for name, theirs in rivals.items():
        yield _compared(name, latency_ms, ours, theirs, pairs)


def _compared(
    rival: str, latency_ms: int, ours: Callable[[], int], theirs: Callable[[], int], pairs: int
) -> Throughput:
    ours()
    theirs()
    rates = [(_rate(ours), _rate(theirs)) for _ in range(pairs)]
    return Throughput(
        rival=rival,
        latency_ms=latency_ms,
        ours=statistics.median(one for one, _ in rates),
        theirs=statistics.median(other for _, other in rates),
        ratio=statistics.median(one / other for one, other in rates),
    )


def _rate(work: Callable[[], int]) -> float:
    started = time.perf_counter()
    events = work()
    return events / (time.perf_counter() - started)


# --- the rivals -------------------------------------------------------------------------------------------------------


def _one_by_one(bus: Any, records: Sequence[dict[str, Any]]) -> int:
    """Do what a hand-written handler does: one request a record, and stop at the first that fails."""
    for record in records:
        answer = bus.put_events(Entries=[_entry(record["dynamodb"]["NewImage"])])
        if answer["FailedEntryCount"]:
            break
    return len(records)


def _powertools(bus: Any, records: Sequence[dict[str, Any]]) -> int:
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")
    from aws_lambda_powertools.utilities.batch import (  # noqa: PLC0415 -- of this comparison alone
        BatchProcessor,
        EventType,
        process_partial_response,
    )

    def publish(record: Any) -> None:
        image = record.raw_event["dynamodb"]["NewImage"]
        if bus.put_events(Entries=[_entry(image)])["FailedEntryCount"]:
            raise RuntimeError("not accepted")

    processor = BatchProcessor(event_type=EventType.DynamoDBStreams)
    process_partial_response({"Records": list(records)}, record_handler=publish, processor=processor)
    return len(records)


def _entry(image: dict[str, Any]) -> dict[str, Any]:
    return {
        "EventBusName": "orders",
        "Source": image["source"]["S"],
        "DetailType": image["type"]["S"],
        "Detail": json.dumps({"id": image["id"]["S"], "data": json.loads(image["payload"]["S"])}),
        "Time": datetime.fromtimestamp(int(image["at"]["N"]) / 1000, timezone.utc),
    }


# --- what all of them get ---------------------------------------------------------------------------------------------


def _table() -> Any:
    return answered("dynamodb", "BatchExecuteStatement", _settled)


def _settled(request: dict[str, Any]) -> dict[str, Any]:
    return {"Responses": [{"TableName": "shop"} for _ in request["Statements"]]}


def _records(layout: Layout) -> list[dict[str, Any]]:
    """Return two records a key, all first ones before all second ones."""
    client = answered("dynamodb", "TransactWriteItems", lambda _: {})
    writer = Outbox("shop", source="shop.orders", layout=layout, client=client)
    return [stream_record(writer, number, key=number % _KEYS) for number in range(2 * _KEYS)]


def _entries(records: Sequence[dict[str, Any]], sink: EventBridge, layout: Layout) -> list[dict[str, Any]]:
    """Return what the relay sends, as boto3 takes it."""
    images = [record["dynamodb"]["NewImage"] for record in records]
    events = [event for image in images for event in decode(image, layout, source="shop").events]
    return [prepared.entry for event in events if isinstance(prepared := sink.prepare(event), Prepared)]
