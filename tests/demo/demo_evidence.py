"""Evidence made by hand: what a demo leaves when everything goes well, and ways to spoil it."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.local.demo.evidence import Evidence, HopEvidence, LaneEvidence
from dynamodb_outbox.local.demo.names import (
    FLAGGED,
    INVOICED,
    PAID,
    PLACED,
    customer_key,
    event_name,
    order_key,
)
from dynamodb_outbox.local.demo.schedule import LANES, Lane, Order, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Row = dict[str, Any]


@dataclass
class Made:
    """Evidence that can still be changed; `evidence()` freezes it."""

    schedule: Schedule
    items: list[Row] = field(default_factory=list)
    acceptances: list[Row] = field(default_factory=list)
    faults: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    consumer: list[Row] = field(default_factory=list)
    kills: list[Row] = field(default_factory=list)
    verdicts: list[Row] = field(default_factory=list)
    invoices: list[Row] = field(default_factory=list)
    """What the second hop's bus accepted."""
    entered: list[Row] = field(default_factory=list)
    """What was delivered to the second consumer."""
    ledger: list[Row] = field(default_factory=list)

    def evidence(self, **lanes: LaneEvidence) -> Evidence:
        """Return the evidence; the other lanes did the same as the outbox unless they are given."""
        own = LaneEvidence(tuple(self.acceptances), tuple(self.faults), tuple(self.items))
        same = replace(own, items=tuple(item for item in own.items if "OUTBOX#" not in item["sk"]))
        every: dict[Lane, LaneEvidence] = {lane: own if lane == "outbox" else lanes.get(lane, same) for lane in LANES}
        return Evidence(
            self.schedule,
            every,
            tuple(self.deliveries),
            tuple(self.consumer),
            tuple(self.kills),
            tuple(self.verdicts),
            HopEvidence(tuple(self.invoices), (), tuple(self.entered), tuple(self.ledger)),
            {"seconds": 1.5},
        )

    def row(self, order: Order) -> Row:
        """Return the row of an order."""
        return self.find(lambda item: item.get("request") == order.request_id)

    def find(self, wanted: Callable[[Mapping[str, Any]], object]) -> Row:
        """Return the first item of the orders table that is wanted."""
        return next(item for item in self.items if wanted(item))

    def publish(self, event_id: str, name: str, at_ms: int, **data: Any) -> None:
        """Let the bus accept an event once more, and deliver it."""
        _publish(self.acceptances, self.deliveries, event_id, name, at_ms=at_ms, **data)

    def publish_invoice(self, event_id: str, name: str, at_ms: int) -> None:
        """Let the second hop's bus accept an event once more, and deliver it."""
        _publish(self.invoices, self.entered, event_id, name, at_ms=at_ms)


def _publish(accepted: list[Row], delivered: list[Row], event_id: str, name: str, *, at_ms: int, **data: Any) -> None:
    detail = json.dumps({"specversion": "1.0", "id": event_id, "data": {"name": name, **data}})
    accepted.append({"n": len(accepted) + 1, "at_ms": at_ms, "detail": detail})
    body = json.dumps({"detail-type": "x", "detail": json.loads(detail)})
    delivered.append({"messageId": str(len(delivered)), "body": body, "received_ms": at_ms})


def perfect(schedule: Schedule) -> Made:
    """Return what a faultless run of `schedule` leaves: one delivery and one effect for each event."""
    made = Made(schedule)
    commits: Counter[int] = Counter()
    balances: Counter[int] = Counter()
    for order in schedule.orders:
        rejected = order.fault == "loses"
        made.verdicts.append({"request": order.request_id, "verdict": "rejected" if rejected else "committed"})
        if rejected:
            continue
        row: Row = {
            "pk": customer_key(order.customer),
            "sk": order_key(order.order_id),
            "request": order.request_id,
            "history": [],
        }
        made.items.append(row)
        commands = [(order.request_id, [PLACED, FLAGGED] if order.flagged else [PLACED])]
        commands += [(order.payment_id, [PAID])] if order.paid else []
        for request, types in commands:
            commits[order.customer] += 1
            names = [event_name(request, kind) for kind in types]
            balances[order.customer] += _commit(made, order, row, names=names, n=commits[order.customer])
    made.items += [{"pk": customer_key(one), "sk": "META", "version": n} for one, n in commits.items()]
    for one, cents in balances.items():
        key = customer_key(one)
        made.consumer.append({"pk": key, "sk": "INVOICE#1", "cents": cents - 100})
        made.consumer.append({"pk": key, "sk": "INVOICE#2", "cents": 100})
        made.ledger.append({"pk": key, "sk": "BALANCE", "cents": cents})
    for held in range(1_001, 1_001 + len(schedule.hit_by("relay-killed"))):
        made.faults.append({"kind": "held", "what": {"request": held}})
        made.kills.append({"at_ms": held, "pid": held, "request": held})
    return made


def _commit(made: Made, order: Order, row: Row, *, names: list[str], n: int) -> int:
    """Commit, publish, deliver and apply one transaction; return what it adds to the customer's balance."""
    at_ms = 1_000_000 + order.number * 100
    record_id = f"record-{names[0]}"
    events = [{"id": f"id-{name}", "data": {"name": name, "n": n}} for name in names]
    record: Row = {"pk": row["pk"], "sk": f"OUTBOX#{record_id}", "at": at_ms, "state": "published"}
    if len(names) > 1:
        record["events"] = json.dumps(events)
    else:
        events[0]["id"] = record_id
        record["payload"] = json.dumps(events[0]["data"])
    made.items.append(record)
    row["history"] += [{"name": name, "n": n} for name in names]
    for event in events:
        data: Any = event["data"]
        made.publish(str(event["id"]), data["name"], at_ms + 10 + order.number, n=n)
        _apply(made, row["pk"], str(event["id"]), data["name"], cents=order.cents, at_ms=at_ms + 20)
    return order.cents * len(events)


def _apply(made: Made, key: str, event_id: str, name: str, *, cents: int, at_ms: int) -> None:
    """Apply an event, emit the one that follows from it, and publish, deliver and enter that."""
    n = 1 + sum(item["pk"] == key and "history" in item for item in made.consumer)
    own, own_id = event_name(name, INVOICED), f"id-of-{name}"
    effect: Row = {"pk": key, "sk": f"EFFECT#{uuid.uuid4()}", "event": event_id, "cents": cents}
    record: Row = {"pk": key, "sk": f"OUTBOX#{own_id}", "at": at_ms, "state": "published"}
    made.consumer += [
        {**effect, "history": [{"name": own, "n": n}]},
        {**record, "payload": json.dumps({"name": own})},
    ]
    made.publish_invoice(own_id, own, at_ms)
    made.ledger.append({**effect, "event": own_id})
