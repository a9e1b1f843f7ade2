"""Bad deliveries on real processes: many messages of fewer events, in no order, and consumers that are killed.

Two processes of `outbox consume booking:inbox` compete for one queue of the embedded engine. Now and then one of them
is killed in the midst of its work, and started again. What stands in the table at the end is compared with the events.

    python tests/consume/bad_deliveries.py --deliveries 10000 --events 3000

takes some minutes; the tests take a part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deliveries import from_rule, order

import dynamodb_outbox
from dynamodb_outbox import Layout
from dynamodb_outbox.core.record.decode import decode
from dynamodb_outbox.local.client import DEFAULT_ACCOUNT, local_client
from dynamodb_outbox.local.engine import Engine
from dynamodb_outbox.local.environment import function_environment
from dynamodb_outbox.local.provision import create_queue, create_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

__all__ = ["Outcome", "bad_deliveries"]

TABLE = "billing"
LAYOUT = Layout(version="version")
_HERE = Path(__file__).parent
_SOURCE = Path(dynamodb_outbox.__file__).parent.parent
_KEYS = 50
_WORKERS = 2
_HOLD_S = 3
_BATCH = 10
_AT_WORK_S = (0.05, 0.8)
"""For so long a process has had new messages to work on when it is killed."""
_READY_WITHIN_S = 30
_STALLED_S = 60
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    deliveries  messages that were sent; `handled` how often one was seen through, to whatever end: those that were in
                the hands of a process that was killed come again
    effects     rows in the table; `twice` and `missing` are events, and are to be 0
    own_wrong   events of which not exactly one own event tells
    total       what the totals of all keys add up to
    kills       processes that were killed; `drained`: those that ended by themselves when they were asked to
    """

    deliveries: int
    handled: Mapping[str, int]
    effects: int
    twice: int
    missing: int
    own_wrong: int
    total: int
    kills: int
    drained: int
    took_s: float

    def __str__(self) -> str:
        handled = ", ".join(f"{count:,} {what}" for what, count in sorted(self.handled.items()))
        return (
            f"{self.deliveries:,} deliveries: {self.effects:,} effects, {self.twice} twice, {self.missing} missing, "
            f"{self.own_wrong} without one own event, totals of {self.total:,}; {handled}; {self.kills} kills; "
            f"{self.took_s:.0f} s"
        )


class _Worker:
    """A process that consumes, and starts anew when it is killed."""

    def __init__(self, engine: str, account: str, queue: str, files: Path, *, read_first: bool) -> None:
        self._queue = queue
        self._log = files.with_suffix(".log")
        self.facts = files.with_suffix(".facts")
        path = os.pathsep.join(map(str, (_SOURCE, _HERE)))
        extra = {"PYTHONPATH": path, "READ_FIRST": "1" if read_first else ""}
        self._environment = function_environment(engine, account, extra=extra)
        self._start()

    def _start(self) -> None:
        with self._log.open("wb") as log, self.facts.open("ab") as facts:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "dynamodb_outbox.cli", "consume", "booking:inbox"),
                    *("--queue", self._queue, "--hold", str(_HOLD_S)),
                ],
                env=self._environment,
                stdout=facts,
                stderr=log,
                start_new_session=True,
            )
        self.since_s = time.monotonic()
        self._at_work = False

    def at_work_s(self) -> float:
        """Return for how long it has been at work; 0 until it is. Raises RuntimeError when it ended by itself."""
        if self.process.poll() is not None:
            raise RuntimeError(f"a consumer ended: {self.process.returncode}; {self._log.read_text()[-2000:]}")
        if not self._at_work and b" consuming " in self._log.read_bytes():
            self._at_work, self.since_s = True, time.monotonic()
        return time.monotonic() - self.since_s if self._at_work else 0.0

    def kill(self) -> None:
        """Kill it where it is, and start another one."""
        self.process.kill()
        self.process.wait()
        self._start()

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask it to stop."""
        self.process.send_signal(signal.SIGTERM)

    def drained(self) -> bool:
        """Return whether it has stopped because it was asked to."""
        return self.process.wait(_READY_WITHIN_S) == 0


def bad_deliveries(
    engine: str, account: str, directory: Path, *, deliveries: int, events: int, kills: int, seed: int = 1
) -> Outcome:
    """Deliver so many messages of so many events to two processes, with so many kills, spread evenly over them."""
    luck = random.Random(seed)  # noqa: S311 -- the same messages in each run
    dynamodb, sqs = (local_client(service, engine, account=account) for service in ("dynamodb", "sqs"))
    create_table(dynamodb, TABLE)
    queue = _Queue(sqs)
    messages = _messages(luck, deliveries, events)
    started = time.monotonic()
    with ExitStack() as stack:
        workers = []
        for n in range(_WORKERS):
            workers.append(_Worker(engine, account, queue.url, directory / f"worker-{n}", read_first=bool(n)))
            stack.callback(workers[-1].close)
        _deliver(queue, [body for _, body in messages], workers, _Kills(kills, luck))
        for worker in workers:
            worker.stop()
        drained = sum([worker.drained() for worker in workers])
    took_s = time.monotonic() - started
    handled = Counter(line for worker in workers for line in worker.facts.read_text().split())
    return Outcome(
        deliveries=deliveries,
        handled=handled,
        **_counted(dynamodb, {event for event, _ in messages}),
        kills=kills,
        drained=drained,
        took_s=took_s,
    )


def _messages(luck: random.Random, deliveries: int, events: int) -> list[tuple[str, str]]:
    """Return messages, each with the id of its event: of every event one at least, in no order."""
    bodies = {}
    for number in range(events):
        event = replace(order(number), key=f"CUSTOMER#{number % _KEYS}")
        bodies[event.id] = json.dumps(from_rule(event))
    chosen = [*bodies, *luck.choices(list(bodies), k=deliveries - events)]
    luck.shuffle(chosen)
    return [(event, bodies[event]) for event in chosen]


def _deliver(queue: _Queue, messages: Sequence[str], workers: Sequence[_Worker], kills: _Kills) -> None:
    """Send messages as the kills go on, so that each strikes in the midst of work; return when all of them are done."""
    sent, before, news_s = 0, (-1, -1), time.monotonic()
    share = -(-len(messages) // (kills.planned + 1))
    while True:
        while sent < min(len(messages), (kills.done + 1) * share):
            queue.send(messages[sent : sent + _BATCH])
            sent += _BATCH
        kills.strike(workers)
        left = queue.left()
        if not left and sent >= len(messages) and kills.done == kills.planned:
            return
        if (left, kills.done) != before:
            news_s, before = time.monotonic(), (left, kills.done)
        if time.monotonic() > news_s + _STALLED_S:
            raise RuntimeError(f"{left} messages are left, and nothing has happened for {_STALLED_S} s")
        time.sleep(_LOOK_EVERY_S)


class _Kills:
    """So many kills: whom the next one strikes, and after how long at work, is luck."""

    def __init__(self, planned: int, luck: random.Random) -> None:
        self.planned, self.done = planned, 0
        self._luck = luck
        self._draw()

    def _draw(self) -> None:
        self._since_s = time.monotonic()
        self._due_s, self._victim = self._luck.uniform(*_AT_WORK_S), self._luck.randrange(_WORKERS)

    def strike(self, workers: Sequence[_Worker]) -> None:
        """Kill a worker when it is time. Raises RuntimeError when one has ended by itself."""
        at_work_s = [worker.at_work_s() for worker in workers]
        since_s = min(at_work_s[self._victim], time.monotonic() - self._since_s)
        if self.done < self.planned and since_s > self._due_s:
            workers[self._victim].kill()
            self.done += 1
            self._draw()


class _Queue:
    """The queue that the workers compete for."""

    def __init__(self, client: Any) -> None:
        self.url = create_queue(client, "billing", visibility_timeout_s=_HOLD_S).url
        self._client = client

    def send(self, bodies: Sequence[str]) -> None:
        """Send messages. Raises RuntimeError for one that was not taken."""
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        if self._client.send_message_batch(QueueUrl=self.url, Entries=entries).get("Failed"):
            raise RuntimeError("the queue did not take a message")

    def left(self) -> int:
        """Return how many messages are not done."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


def _counted(client: Any, events: AbstractSet[str]) -> dict[str, int]:
    """Count what stands in the table against the events that were delivered."""
    effects, own, total = Counter[str](), Counter[str](), 0
    for item in _items(client):
        if item["pk"]["S"].startswith("EFFECT#"):
            effects[item["event"]["S"]] += 1
        elif item["pk"]["S"].startswith("TOTAL#"):
            total += int(item["count"]["N"])
        elif item["sk"]["S"].startswith("OUTBOX#"):
            own.update(event.data["of"] for event in decode(item, LAYOUT, source="booking").events)
    return {
        "effects": effects.total(),
        "twice": sum(count > 1 for count in effects.values()),
        "missing": len(events - effects.keys()),
        "own_wrong": sum(own[event] != 1 for event in events | own.keys()),
        "total": total,
    }


def _items(client: Any) -> Iterator[dict[str, Any]]:
    for page in client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True):
        yield from page["Items"]


def main() -> None:
    """Run it and print it; the exit status is 1 when an event was not applied once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deliveries", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=3_000)
    parser.add_argument("--kills", type=int, default=60)
    given = parser.parse_args()
    with Engine() as engine, tempfile.TemporaryDirectory() as directory:
        outcome = bad_deliveries(
            engine.url,
            DEFAULT_ACCOUNT,
            Path(directory),
            deliveries=given.deliveries,
            events=given.events,
            kills=given.kills,
        )
    print(outcome)  # noqa: T201 -- a program's output
    sys.exit(bool(outcome.twice or outcome.missing or outcome.own_wrong or outcome.total != given.events))


if __name__ == "__main__":
    main()
