"""A bus, a table and a context around the relay's Lambda handler, and the stream records that it is given."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, cast

from dynamodb_outbox.core.limits import SinkLimits
from dynamodb_outbox.core.record.moves import Parked, Parking, Settled
from dynamodb_outbox.core.record.waiting import Found
from dynamodb_outbox.core.relay.outcome import Answered, Fault, Kind, Outcome, Prepared, Presence, Verified
from dynamodb_outbox.relay.publisher import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamodb_outbox.core.values import WireItem
    from dynamodb_outbox.event import Event

TRANSIENT = Fault(Kind.TRANSIENT, "Busy")
CONTENT = Fault(Kind.CONTENT, "Bad", "never")
ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-01-31T12:00:00.000"


class Bus:
    """A sink that answers as its script says, and remembers what it accepted."""

    limits = SinkLimits(entries=10, request_bytes=1000, entry_bytes=1000)
    request_ms = 100

    def __init__(self, script: Callable[[Event], Fault | None] = lambda _: None, name: str = "orders") -> None:
        self.script = script
        self.name = name
        self.found = [Verified(Presence.OK)]  # the last of them stays
        self.asked = 0
        self.accepted: list[Event] = []
        self.calls = 0
        self.at_once = 0
        self.most_at_once = 0
        self.pause_s = 0.0
        self.lock = threading.Lock()

    def prepare(self, event: Event) -> Prepared | Fault:
        """Take any event."""
        return Prepared(event, 1)

    def verify(self) -> Verified:
        """Say what the script has next."""
        self.asked += 1
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Ask the script about each entry."""
        with self.lock:
            self.calls += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.pause_s)
        results = tuple(map(self.script, entries))
        with self.lock:
            self.at_once -= 1
            self.accepted += [event for event, fault in zip(entries, results, strict=True) if fault is None]
        return Answered(results)


class Table:
    """Record states that remember what they were told."""

    request_ms = 100

    def __init__(self, failure: str | None = None) -> None:
        self.failure = failure
        self.settled: list[str] = []
        self.parked: list[tuple[str, str, Parking]] = []
        self.answers: list[Settled] = []
        self.stored: dict[str, WireItem] = {}
        self.unread: str | None = None
        self.read: list[str] = []

    def settle(self, table: str, images: Sequence[WireItem], now_ms: int) -> Settled:
        """Settle, or answer as scripted."""
        assert table == "shop"
        assert now_ms > 1_700_000_000_000
        if self.answers:
            return self.answers.pop(0)
        self.settled += [image["sk"]["S"] for image in images]
        return Settled(done=len(images))

    def park(self, table: str, image: WireItem, parking: Parking) -> Parked:
        """Park, or fail as scripted."""
        before = {sort_key for _, sort_key, _ in self.parked}
        self.parked.append((table, image["sk"]["S"], parking))
        return Parked(new=self.failure is None and image["sk"]["S"] not in before, failure=self.failure)

    def find(self, table: str, key: WireItem) -> Found:
        """Find the item as it was inserted, or as is said by its sort key; or fail as scripted."""
        assert table == "shop"
        self.read.append(key["sk"]["S"].rpartition("#")[2])
        return Found(self.stored.get(self.read[-1], key)) if self.unread is None else Found({}, self.unread)


class Context:
    """Lambda's context, as far as it matters."""

    def __init__(self, remaining_ms: int = 10_000) -> None:
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left."""
        return self.remaining_ms


def row(number: int, *, pk: str = "ORDER#1", **image: Any) -> dict[str, Any]:
    """Return the stream record of a hand-written row."""
    keys = {"pk": {"S": pk}, "sk": {"S": f"OUTBOX#{number}"}}
    fields = {"type": {"S": "order.placed"}, "payload": {"S": f'{{"n":{number}}}'}, "ts": {"N": "1769860800"}}
    return {
        "eventName": "INSERT",
        "awsRegion": "eu-west-1",
        "eventSourceARN": ARN,
        "dynamodb": {
            "Keys": keys,
            "NewImage": keys | fields | image,
            "SequenceNumber": str(number),
            "StreamViewType": "NEW_IMAGE",
        },
    }


def short(event: Event) -> str:
    """Return an event's id without the partition that is part of it in a hand-written row."""
    return event.id.rpartition("#")[2]


def several(number: int, ids: str) -> dict[str, Any]:
    """Return the stream record of a record with several events."""
    elements = ",".join(
        f'{{"id":"{one}","type":"t","source":"s","time":"2026-01-31T12:00:00.000000Z","data":{{}}}}' for one in ids
    )
    record = row(
        number,
        ob_v={"N": "1"},
        key={"S": "ORDER#1"},
        at={"N": "1"},
        state={"S": "pending"},
        events={"S": f"[{elements}]"},
    )
    for name in ("type", "payload", "ts"):
        del record["dynamodb"]["NewImage"][name]
    return record


def relay(bus: Any, states: Table | None = None, **options: Any) -> Relay:
    """Return a relay between a bus and a table of this test."""
    made = Relay(bus, **options)
    made._states = states if states is not None else Table()
    return made


def failures(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    """Return the identifiers of an answer."""
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def the_event(number: int, key: str = "ORDER#1", to: str = "orders") -> str:
    """Return what the log calls the event of a row."""
    event_id = f"{key.replace('#', '%23')}#{number}"
    return f"the event 'order.placed' {event_id!r} of key {key!r}, record {number}, to {to}"


class Broken(Bus):
    """A sink with a bug."""

    def __init__(self, fault: BaseException | None) -> None:
        super().__init__()
        self.fault = fault

    def publish(self, entries: Sequence[Any]) -> Outcome:
        """Raise, or return something that is no outcome."""
        self.calls += 1
        if self.fault is not None:
            raise self.fault
        return cast("Outcome", list(entries))
