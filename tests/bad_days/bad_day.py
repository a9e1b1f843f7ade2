"""A bad day on real processes: many events through the local event source and a bus that fails all the time.

`chaos.py` is the day on which processes die as well.

    python tests/bad_days/bad_day.py --events 10000 --keys 200 --bus events

takes some minutes; the tests take a part of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from days import failing, first_places, overtaken, source, wait_while_it_moves

from dynamodb_outbox import Outbox
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, local_client
from dynamodb_outbox.local.engine import Engine
from dynamodb_outbox.local.provision import create_bus, create_table
from dynamodb_outbox.testing.faultbus import FaultBus, Reset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Bus", "Day", "bad_day"]

Bus = Literal["events", "sqs", "sns"]

_CODES = {"events": ("InternalFailure", "ThrottlingException"), "sqs": ("InternalError",), "sns": ("InternalError",)}
_SERVICES = {"events": "EVENTBRIDGE", "sqs": "SQS", "sns": "SNS"}  # as AWS's own variables call them
_WRITERS = 4
_OUTAGE_S = 2.0
_NO_OUTAGE_S = 60.0
_STALLED_S = 200.0  # the relay leaves a destination alone for up to a minute, and again where the probe is reset


@dataclass(frozen=True)
class Day:
    """What came of it: events committed, of which so many never were accepted, or first accepted before an earlier one.

    `duplicates` are acceptances beyond the first. With a FIFO queue at the end of the line it counts what came out of
    that: what its deduplication took for a repetition, and should not have, is lost; `delivered_twice` came out again.
    """

    events: int
    lost: int
    reordered: int
    duplicates: int
    faults: Mapping[str, int]
    took_s: float
    delivered_twice: int | None = None

    def __str__(self) -> str:
        again = "" if self.delivered_twice is None else f", {self.delivered_twice} delivered twice"
        struck = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.faults.items()))
        return (
            f"{self.events:,} events: {self.lost} lost, {self.reordered} reordered, {self.duplicates:,} accepted again"
            f"{again}; {struck}; {self.took_s:.0f} s"
        )


def bad_day(engine: str, account: str, directory: Path, *, bus: Bus, events: int, keys: int) -> Day:
    """Commit events of so many keys, each with an order of its own, and relay them under faults and one outage.

    In 2 % of the requests the connection is reset: half before anything was accepted, half after. Each of the two
    happens at least once, and the outage begins while there is something to publish, however few requests the relay
    needs for all.
    """
    clients = {
        service: local_client(service, engine, account=account) for service in ("dynamodb", "events", "sqs", "sns")
    }
    create_table(clients["dynamodb"], "shop")
    arn, queue = _destination(bus, clients)
    plan = failing(7, _CODES[bus], resets=0.02)
    # Not the first ones: a reset is bad luck for the one request that is to tell whether the outage is over.
    last = events // keys - 1
    before = Reset(1.0, "before", max_consecutive=1, contains=f"ORDER#1, turn {last}")
    after = Reset(1.0, "after", max_consecutive=1, contains=f"ORDER#2, turn {last}")
    plan = replace(plan, resets=(before, after, *plan.resets))
    started = time.monotonic()
    with FaultBus(engine, plan) as faulty:
        settings = {
            "OUTBOX_SINK": arn,
            f"AWS_ENDPOINT_URL_{_SERVICES[bus]}": faulty.url,
            "OUTBOX_LOG_LEVEL": "ERROR",
        }
        relay = source(engine, account, directory, settings=settings)
        relay.start()
        try:
            committed = _committed(clients["dynamodb"], events, keys, faulty)
            wanted = {event for ids in committed.values() for event in ids}
            wait_while_it_moves(lambda: len(wanted & {one.id for one in faulty.accepted}), len(wanted), _STALLED_S)
            relay.leader.send_signal(signal.SIGTERM)
            relay.leader.wait(30)
        finally:
            relay.end()
        accepted = [one.id for one in faulty.accepted if one.id is not None]
        faults = Counter[str](fault.kind for fault in faulty.faults)
    arrived = accepted if queue is None else _delivered(clients["sqs"], queue)
    return Day(
        events=len(wanted),
        lost=len(wanted - set(arrived)),
        reordered=sum(len(overtaken(ids, first_places(arrived))) for ids in committed.values()),
        duplicates=len(accepted) - len(set(accepted)),
        faults=faults,
        took_s=time.monotonic() - started,
        delivered_twice=None if queue is None else len(arrived) - len(set(arrived)),
    )


def _destination(bus: Bus, clients: Mapping[str, Any]) -> tuple[str, str | None]:
    """Make the destination; return its ARN, and the URL of the FIFO queue at the end of the line."""
    if bus == "events":
        create_bus(clients["events"], "orders")
        return clients["events"].describe_event_bus(Name="orders")["Arn"], None
    sqs = clients["sqs"]
    queue = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    if bus == "sqs":
        return arn, queue
    topic = clients["sns"].create_topic(Name="orders.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    attributes = {"RawMessageDelivery": "true"}
    clients["sns"].subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
    return topic, queue


def _committed(client: Any, events: int, keys: int, faulty: FaultBus) -> dict[str, list[str]]:
    """Commit the events; return their ids by their keys, in the order of the commits. After a third the bus is out."""
    outbox = Outbox("shop", source="shop.orders", client=client)
    ids: dict[str, list[str]] = {f"ORDER#{number}": [] for number in range(keys)}

    def write(numbers: Sequence[int], turns: Sequence[int]) -> None:
        for turn, number in itertools.product(turns, numbers):
            key = f"ORDER#{number}"
            with outbox.transaction() as tx:
                tx.put({"pk": key, "sk": "META", "turn": turn}, overwrite=True)
                tx.emit("order.changed", {"change": f"{key}, turn {turn}"})
            ids[key].extend(tx.receipt.event_ids)

    shares = [range(start, keys, _WRITERS) for start in range(_WRITERS)]
    turns = range(events // keys)
    before, after = turns[: len(turns) // 3], turns[len(turns) // 3 :]
    with ThreadPoolExecutor(_WRITERS) as writers:
        list(writers.map(write, shares, itertools.repeat(before)))
        with _out(faulty):
            rest = [writers.submit(write, share, after) for share in shares]
        for each in rest:
            each.result()
    return ids


@contextmanager
def _out(faulty: FaultBus) -> Iterator[None]:
    """Let the bus be out: what is done here begins in the outage, which ends some time after it refused a request."""
    faulty.begin_outage("503")
    yield
    since = time.monotonic()
    while not any(fault.kind == "outage" for fault in faulty.faults):
        assert time.monotonic() - since < _NO_OUTAGE_S, "nothing was published during the outage"
        time.sleep(0.1)
    time.sleep(_OUTAGE_S)
    faulty.end_outage()


def _delivered(sqs: Any, queue: str) -> list[str]:
    """Return the ids of what a queue holds, in the order in which it gives them out."""
    ids = []
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            ids.append(json.loads(message["Body"])["id"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return ids


def main() -> None:
    """Run a day and print it; the exit status is 1 when anything was lost or out of order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--bus", choices=["events", "sqs", "sns"], default="events")
    given = parser.parse_args()
    with Engine() as engine, tempfile.TemporaryDirectory() as directory:
        day = bad_day(engine.url, DEFAULT_ACCOUNT, Path(directory), bus=given.bus, events=given.events, keys=given.keys)
    print(day)  # noqa: T201 -- a program's output
    sys.exit(bool(day.lost or day.reordered))


if __name__ == "__main__":
    main()
