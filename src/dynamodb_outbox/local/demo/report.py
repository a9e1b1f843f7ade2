"""What a demo says at its end: one JSON object, or a table that needs no knowledge of the code."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.local.demo.account import account_of
from dynamodb_outbox.local.demo.promises import promises
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamodb_outbox.local.demo.account import Account, LaneFigures, OutboxFigures
    from dynamodb_outbox.local.demo.counting import Consumed
    from dynamodb_outbox.local.demo.evidence import Evidence
    from dynamodb_outbox.local.demo.promises import Promise
    from dynamodb_outbox.local.demo.second_hop import HopFigures

__all__ = ["COLUMNS", "Report", "percentile", "report_of"]

COLUMNS = ("", "outbox", "write, then publish", "publish, then write")
"""The heads of the table's columns."""


@dataclass(frozen=True)
class Report:
    """The outcome: the figures by name, the promises, and the rows of the table.

    `unshown` says what was planned and did not happen, one phrase each: nothing was seen against a promise, and yet it
    was not put to the test that the demo announced.
    """

    figures: Mapping[str, Any]
    promises: tuple[Promise, ...]
    table: tuple[tuple[str, str, str, str], ...]
    unshown: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether every promise held."""
        return all(promise.kept for promise in self.promises)

    def to_json(self) -> dict[str, Any]:
        """Return the figures, and `promises`: what was seen against each, empty where nothing was."""
        return {**self.figures, "promises": {one.number: list(one.broken) for one in self.promises}}


def report_of(evidence: Evidence) -> Report:
    """Draw up the account of `evidence` and judge it."""
    account = account_of(evidence)
    run = {"seconds": evidence.run.get("seconds"), "seed": evidence.schedule.seed}
    figures = _figures(account) | run | _dual_write(account)
    return Report(figures, promises(account), _table(account), _unshown(account.outbox))


def percentile(values: Sequence[int], share: float) -> int | None:
    """Return the smallest of the ascending `values` that is not below `share` of them; None when there are none."""
    return values[max(0, ceil(share * len(values)) - 1)] if values else None


def _unshown(own: OutboxFigures) -> tuple[str, ...]:
    if own.relay_kills >= own.kills_planned:
        return ()
    return (f"{own.relay_kills} of {counted(own.kills_planned, 'planned relay kill')} happened",)


def _figures(account: Account) -> dict[str, Any]:
    lane, own = account.lanes["outbox"], account.outbox
    return {
        "orders": lane.orders,
        "committed": lane.committed,
        "rejected": lane.rejected,
        "partial_failures": own.partial_failures,
        "published": lane.published,
        "lost": len(lane.lost),
        "phantom": len(lane.phantom),
        **_consumed(own.consumed),
        "out_of_order_keys": len(lane.out_of_order_keys),
        "parked": own.parked,
        "pending": own.pending,
        "relay_kills": own.relay_kills,
        "bus_rejections": own.bus_rejections,
        "lost_answers": own.lost_answers,
        "latency_ms": {
            "p50": percentile(own.calm_latency_ms, 0.5),
            "p99": percentile(own.calm_latency_ms, 0.99),
            "samples": len(own.calm_latency_ms),
        },
        "invoices": _second_hop(account.second),
    }


def _second_hop(second: HopFigures) -> dict[str, Any]:
    return {
        "judged": second.judged,
        "events": second.events,
        "published": second.published,
        "lost": len(second.lost),
        "phantom": len(second.phantom),
        **_consumed(second.consumed),
        "out_of_order_keys": len(second.out_of_order_keys),
        "parked": len(second.parked),
        "pending": second.pending,
    }


def _consumed(one: Consumed) -> dict[str, int]:
    return {
        "deliveries": one.deliveries,
        "duplicates_delivered": one.duplicates_delivered,
        "effects_applied_twice": len(one.effects_twice),
    }


def _dual_write(account: Account) -> dict[str, Any]:
    return {
        "dual_write": {
            name: {
                "orders": lane.orders,
                "committed": lane.committed,
                "published": lane.published,
                "lost": len(lane.lost),
                "phantom": len(lane.phantom),
                "out_of_order_keys": len(lane.out_of_order_keys),
            }
            for name, lane in account.lanes.items()
            if name != "outbox"
        }
    }


def _table(account: Account) -> tuple[tuple[str, str, str, str], ...]:
    lanes = [account.lanes[name] for name in ("outbox", "write_then_publish", "publish_then_write")]
    own, second = account.outbox, account.second

    def row(title: str, *values: int | str) -> tuple[str, str, str, str]:
        cells = [str(value) for value in (*values, *("-",) * (len(COLUMNS) - 1 - len(values)))]
        return title, cells[0], cells[1], cells[2]

    def each(title: str, value: str) -> tuple[str, str, str, str]:
        return row(title, *(_count(lane, value) for lane in lanes))

    return (
        each("orders submitted", "orders"),
        each("orders in the table", "committed"),
        each("events that the table says happened", "events"),
        each("events that the bus announced", "published"),
        each("LOST: happened, and nobody was told", "lost"),
        each("PHANTOM: announced, and never happened", "phantom"),
        each("customers whose events came out of order", "out_of_order_keys"),
        row("set aside for an operator (parked)", own.parked),
        row("still on their way (pending)", own.pending),
        row("deliveries to the consumer", own.consumed.deliveries),
        row("  of these, duplicates", own.consumed.duplicates_delivered),
        row("events that the consumer applied twice", len(own.consumed.effects_twice)),
        row("events of invoices, emitted in turn", second.events),
        row("  lost, or announced and never happened", len(second.lost) + len(second.phantom)),
        row("  deliveries to the ledger", second.consumed.deliveries),
        row("  of these, duplicates", second.consumed.duplicates_delivered),
        row("  applied twice by the ledger", len(second.consumed.effects_twice)),
    )


def _count(lane: LaneFigures, name: str) -> int:
    value = getattr(lane, name)
    return len(value) if isinstance(value, tuple) else int(value)
