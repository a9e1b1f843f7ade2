"""The account of a demo: from the evidence to the figures. Pure; the same evidence gives the same figures.

What must have been published is read off the rows: each lists the events that were committed with it. An event is

    lost           when a row lists it, and the bus never accepted it; but not when it is parked, where an operator sees
                   it, and the schedule says that no bus could ever have accepted it
    parked wrongly when it is parked, and the schedule does not say so: the bus would have taken it
    phantom        when the bus accepted it, and no row lists it: what it announces did not happen
    out of order   when its first acceptance comes after the first acceptance of a later event of its key; the order of
                   the key's events is that of their commits, which the rows number without gaps

`partial_failures` counts the PutEvents answers (HTTP 200) in which at least one entry was rejected, as the bus that
rejected them wrote them down. `relay_kills` counts the kills at which the bus says it held an accepted request of the
relay. `lost_answers` counts the answers to committed writes that never reached the writer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamodb_outbox.local.demo.counting import consumed, listed_twice, out_of_order, renamed
from dynamodb_outbox.local.demo.evidence import acceptance, changes, stored
from dynamodb_outbox.local.demo.names import META, PLACED, event_name, event_names, order_key
from dynamodb_outbox.local.demo.second_hop import hop_figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dynamodb_outbox.local.demo.counting import Consumed
    from dynamodb_outbox.local.demo.evidence import Acceptance, Evidence, Item, LaneEvidence
    from dynamodb_outbox.local.demo.schedule import Lane, Order
    from dynamodb_outbox.local.demo.second_hop import HopFigures

__all__ = ["Account", "LaneFigures", "OutboxFigures", "account_of"]

_REJECTIONS = ("entry_rejected", "entry_unacceptable")
_OK = 200


@dataclass(frozen=True)
class LaneFigures:
    """What can be said of every lane. Tuples hold the names of events, or keys; `published` counts distinct events."""

    orders: int
    committed: int
    events: int
    published: int
    acceptances: int
    lost: tuple[str, ...]
    phantom: tuple[str, ...]
    out_of_order_keys: tuple[str, ...]

    @property
    def rejected(self) -> int:
        """Orders that are not in the table: their commands were refused, or failed."""
        return self.orders - self.committed


@dataclass(frozen=True)
class OutboxFigures:
    """What only the outbox's lane has: records, a relay, and a consumer.

    consumed           what the consumer was handed, and what it made of it
    renamed            events that were published under more than one id
    committed_twice    events listed twice, and keys whose count of commits is not what their rows say
    wrong_outcomes     orders that are not in the table as they had to be, or whose caller was told otherwise, or
                       nothing
    parked_wrongly     events that are parked though the bus would have taken them
    kills_planned      how many of the `relay_kills` the schedule has
    calm_latency_ms    from commit to first acceptance, of the events that place calm orders, ascending; without the
                       very first order, which waits for the functions to start
    """

    consumed: Consumed
    renamed: tuple[str, ...]
    committed_twice: tuple[str, ...]
    wrong_outcomes: tuple[str, ...]
    parked: int
    parked_wrongly: tuple[str, ...]
    pending: int
    relay_kills: int
    kills_planned: int
    bus_rejections: int
    partial_failures: int
    lost_answers: int
    calm_latency_ms: tuple[int, ...]


@dataclass(frozen=True)
class Account:
    """The figures of each lane, the outbox's own, and those of the second hop."""

    lanes: Mapping[Lane, LaneFigures]
    outbox: OutboxFigures
    second: HopFigures


def account_of(evidence: Evidence) -> Account:
    """Draw up the account of `evidence`."""
    own = evidence.lanes["outbox"]
    records = stored(own.items)
    excused = {record.name for record in records if record.state == "parked"} & _unacceptable(evidence)
    lanes = {
        lane: _lane_figures(evidence.schedule.orders, one, excused if lane == "outbox" else set())
        for lane, one in evidence.lanes.items()
    }
    return Account(lanes, _outbox_figures(evidence), hop_figures(evidence))


def _lane_figures(orders: Sequence[Order], lane: LaneEvidence, excused: set[str | None]) -> LaneFigures:
    committed = changes(lane.items)
    accepted = [acceptance(row) for row in lane.acceptances]
    names = {change.name for change in committed}
    published = {one.name for one in accepted}
    return LaneFigures(
        orders=len(orders),
        committed=len(_committed(orders, lane.items)),
        events=len(names),
        published=len(published),
        acceptances=len(accepted),
        lost=tuple(sorted(names - published - excused)),
        phantom=tuple(sorted(str(name) for name in published - names)),
        out_of_order_keys=tuple(out_of_order(committed, accepted)),
    )


def _outbox_figures(evidence: Evidence) -> OutboxFigures:
    own = evidence.lanes["outbox"]
    accepted = [acceptance(row) for row in own.acceptances]
    records = stored(own.items)
    unacceptable = _unacceptable(evidence)
    held = {fault["what"]["request"] for fault in own.faults if fault["kind"] == "held"}
    rejections = [fault for fault in own.faults if fault["kind"] in _REJECTIONS]
    return OutboxFigures(
        consumed=consumed(accepted, evidence.deliveries, evidence.consumer),
        renamed=renamed(accepted),
        committed_twice=_committed_twice(own.items),
        wrong_outcomes=_wrong_outcomes(evidence),
        parked=sum(record.state == "parked" for record in records),
        parked_wrongly=tuple(
            sorted(
                record.name or record.id
                for record in records
                if record.state == "parked" and record.name not in unacceptable
            )
        ),
        pending=sum(record.state not in {"published", "parked"} for record in records),
        relay_kills=sum(kill["request"] in held for kill in evidence.kills),
        kills_planned=len(evidence.schedule.hit_by("relay-killed")),
        bus_rejections=len(rejections),
        partial_failures=len({fault["what"]["request"] for fault in rejections}),
        lost_answers=sum(fault["kind"] == "answer_lost" and fault["what"]["status"] == _OK for fault in own.faults),
        calm_latency_ms=_calm_latency(evidence, accepted),
    )


def _unacceptable(evidence: Evidence) -> set[str | None]:
    """Return the names of the events that the bus can never accept, as planned: a relay's mistakes excuse nothing."""
    return {event_name(order.request_id, PLACED) for order in evidence.schedule.hit_by("unpublishable")}


def _committed(orders: Iterable[Order], items: Iterable[Item]) -> set[str]:
    """Return the request ids of the orders that are in the table as these very commands wanted them."""
    rows = {item["sk"]: item.get("request") for item in items}
    return {order.request_id for order in orders if rows.get(order_key(order.order_id)) == order.request_id}


def _committed_twice(items: Sequence[Item]) -> tuple[str, ...]:
    commits: dict[str, set[int]] = defaultdict(set)
    for change in changes(items):
        commits[change.key].add(change.n)
    counted = {item["pk"]: item["version"] for item in items if item["sk"] == META}
    miscounted = [
        key for key in commits.keys() | counted.keys() if commits[key] != set(range(1, counted.get(key, 0) + 1))
    ]
    return tuple(sorted(listed_twice(items) + miscounted))


def _wrong_outcomes(evidence: Evidence) -> tuple[str, ...]:
    """Return the orders that are not as they had to be, and those whose caller was told otherwise, or nothing."""
    orders = evidence.schedule.orders
    items = evidence.lanes["outbox"].items
    committed = _committed(orders, items)
    listed = {item["request"]: [entry["name"] for entry in item["history"]] for item in items if "history" in item}
    wrong = {order.request_id for order in orders if listed.get(order.request_id, []) != event_names(order)}
    told: dict[str, set[str]] = defaultdict(set)
    for row in evidence.verdicts:
        told[row["request"]].add(row["verdict"])
    for request in told.keys() | {order.request_id for order in orders}:
        if told[request] != {"committed" if request in committed else "rejected"}:
            wrong.add(request)
    return tuple(sorted(wrong))


def _calm_latency(evidence: Evidence, accepted: Iterable[Acceptance]) -> tuple[int, ...]:
    calm = {order.request_id for order in evidence.schedule.phase(calm=True)[1:]}
    first: dict[str | None, int] = {}
    for one in accepted:
        first.setdefault(one.id, one.at_ms)
    return tuple(
        sorted(
            first[record.id] - record.at_ms
            for record in stored(evidence.lanes["outbox"].items)
            if record.name is not None and record.name.partition("/")[0] in calm and record.id in first
        )
    )
