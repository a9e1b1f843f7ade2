"""What will happen in a demo, decided in advance from one seed.

A schedule holds the orders, in the order in which they are submitted, and the faults. Everything that can be decided
before the start is decided here, so that two runs with the same seed submit the same orders and meet the same faults;
what differs is timing. A first part of the orders is calm: nothing goes wrong, and latency is measured. The others
arrive evenly over the faulty phase, with at most one fault of their own each (`FAULTS`). Besides, the bus rejects a
share of all entries of that phase, takes a share of them twice, and is out for a while from the moment one order is
submitted. Three lanes write the same orders (`LANES`) and meet the same faults; only the outbox has a relay to kill.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "FAULTS",
    "LANES",
    "MAX_ORDERS",
    "MIN_ORDERS",
    "CustomersOutOfRange",
    "Fault",
    "Lane",
    "Order",
    "OrdersOutOfRange",
    "Schedule",
    "plan",
]

Lane = Literal["outbox", "write_then_publish", "publish_then_write"]
LANES: tuple[Lane, ...] = get_args(Lane)

Fault = Literal[
    "answer-lost", "writer-dies", "repeated", "loses", "unpublishable", "rejected", "doubled", "relay-killed"
]

FAULTS: Mapping[Fault, str] = MappingProxyType(
    {
        "answer-lost": "the answers to the committed write are lost, more of them than an SDK retries",
        "writer-dies": "the writer dies after its first step, and the command comes again a second later",
        "repeated": "the command succeeds, and its caller submits it again a second later",
        "loses": "an order with this id exists, with other content: the command must be rejected",
        "unpublishable": "the bus can never accept the event",
        "rejected": "the bus rejects the event twice before it takes it (besides the share that it rejects by chance)",
        "doubled": "the bus delivers the event twice (besides the share that it delivers twice by chance)",
        "relay-killed": "from here on, at the next acceptance: SIGKILL to the relay before it hears of it",
    }
)
"""The faults that an order can have, and what each of them is."""

MIN_ORDERS = 20
"""Fewer orders have no room for a calm part and for each kind of fault."""
MAX_ORDERS = 10_000
"""More would keep a laptop busy for many minutes and show nothing new."""

_SHARES: Mapping[Fault, float] = MappingProxyType(
    {
        "loses": 0.04,
        "unpublishable": 0.0,
        "rejected": 0.01,
        "doubled": 0.01,
        "answer-lost": 0.03,
        "writer-dies": 0.03,
        "repeated": 0.03,
    }
)
"""Shares of the faulty orders, at least one order each."""
_EARLY = 0.30
"""Lost conditions lie in this first part, well before the outage: a lane that cannot publish has no phantom to show."""
_KILLS = (0.10, 0.28, 0.92)
"""Where in the faulty part the relay is killed: twice before the outage, once during it or after."""
_OUTAGE = 0.42
_CALM_GAP_MS = 50
_FAULTY_GAP_MS = 40
_FAULTY_AT_LEAST_MS = 6_000


class OrdersOutOfRange(OutboxError):
    """A demo of `orders` orders cannot be planned."""

    def __init__(self, orders: int) -> None:
        self.orders = orders
        super().__init__(
            f"a demo takes {MIN_ORDERS} to {MAX_ORDERS:,} orders, not {orders:,}: with fewer there is no room for each "
            "kind of fault, and more show nothing new"
        )


class CustomersOutOfRange(OutboxError):
    """A demo of `orders` orders cannot be planned for `customers` customers."""

    def __init__(self, customers: int, orders: int) -> None:
        self.customers = customers
        self.orders = orders
        super().__init__(f"{orders:,} orders are of 1 to {orders:,} customers, not of {customers:,}")


@dataclass(frozen=True)
class Order:
    """One command to place an order. Two commands that claim the same `order_id` differ in `request_id`.

    `due_ms` counts from the start of its phase. A `flagged` order emits two events in one transaction. A `paid` one is
    changed by a second command (`payment_id`) of the same writer, once it is placed.
    """

    number: int
    order_id: str
    request_id: str
    customer: int
    cents: int
    flagged: bool
    paid: bool
    calm: bool
    due_ms: int
    fault: Fault | None = None

    @property
    def payment_id(self) -> str:
        """The request id of the command that pays the order."""
        return f"{self.request_id}-pay"


@dataclass(frozen=True)
class Schedule:
    """The orders and the faults of one demo.

    `rejected` and `doubled` are the shares of entries that the bus treats so by chance, 0 to 1; it rejects one entry
    `rejections_in_a_row` times at most, and takes it then, whatever the share. The outage begins when
    the order with the number `outage_at` is submitted through the outbox. `answers_lost` answers are lost for each
    order so marked.
    """

    seed: int
    customers: int
    orders: tuple[Order, ...]
    outage_at: int
    outage_ms: int = 6_500
    relay_timeout_ms: int = 3_000
    rejected: float = 0.05
    doubled: float = 0.04
    answers_lost: int = 3
    rejections_in_a_row: int = 2
    writers: int = 8

    def hit_by(self, fault: Fault) -> tuple[Order, ...]:
        """Return the orders that `fault` hits."""
        return tuple(order for order in self.orders if order.fault == fault)

    def phase(self, *, calm: bool) -> tuple[Order, ...]:
        """Return the orders of the calm part, or of the faulty one."""
        return tuple(order for order in self.orders if order.calm is calm)

    def describe(self) -> list[str]:
        """Return the schedule as lines for people."""
        faults = [f"{', '.join(o.request_id for o in self.hit_by(name))}: {what}" for name, what in FAULTS.items()]
        return [
            (
                f"seed {self.seed}: {counted(len(self.orders), 'order')} of {counted(self.customers, 'customer')}, "
                f"{counted(self.writers, 'writer')} a lane, the first {len(self.phase(calm=True))} orders without "
                "faults"
            ),
            (
                f"the bus rejects {self.rejected:.0%} of the entries, inside a 200 answer, but none of them more than "
                f"{counted(self.rejections_in_a_row, 'time')} in a row, and delivers {self.doubled:.0%} of them twice"
            ),
            (
                f"the bus is out for {self.outage_ms / 1000:g} s from {self.orders[self.outage_at].request_id} on "
                f"(the relay's time-out is {self.relay_timeout_ms / 1000:g} s)"
            ),
            *faults,
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the schedule in JSON's types; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schedule:
        """Return the schedule that `to_json` gave; KeyError or TypeError when it is something else."""
        return cls(**{**value, "orders": tuple(Order(**order) for order in value["orders"])})


def plan(orders: int, seed: int, *, customers: int | None = None, rejected: float = 0.05) -> Schedule:
    """Return the schedule for `orders` orders (`MIN_ORDERS` to `MAX_ORDERS`): the same for the same arguments.

    `customers` is 1 to `orders`; it defaults to 40, and fewer when there are not five orders for each. Raises
    OrdersOutOfRange and CustomersOutOfRange.
    """
    if not MIN_ORDERS <= orders <= MAX_ORDERS:
        raise OrdersOutOfRange(orders)
    dice = random.Random(f"outbox demo {seed}")  # noqa: S311 -- a schedule that can be repeated, nothing secret
    customers = customers if customers is not None else min(40, orders // 5)
    if not 1 <= customers <= orders:
        raise CustomersOutOfRange(customers, orders)
    calm = min(40, orders // 3)
    gap_ms = max(_FAULTY_GAP_MS, _FAULTY_AT_LEAST_MS // (orders - calm))
    outage_at = calm + int(_OUTAGE * (orders - calm))
    faults = _faults(dice, calm, orders, outage_at)
    placed = [_order(dice, number, customers) for number in range(orders)]
    first = iter(dice.sample(placed[:calm], sum(fault == "loses" for fault in faults.values())))
    for number in range(orders):
        due_ms = number * _CALM_GAP_MS if number < calm else (number - calm) * gap_ms
        order = replace(placed[number], calm=number < calm, due_ms=due_ms, fault=faults.get(number))
        if order.calm:
            order = replace(order, request_id=f"C{number:05d}")
        if order.fault in {"loses", "unpublishable"}:
            order = replace(order, flagged=False, paid=False)
        if order.fault == "answer-lost":
            order = replace(order, customer=_quiet_customer(placed, number))
        if order.fault == "loses":
            rival = next(first)
            order = replace(order, order_id=rival.order_id, customer=rival.customer, cents=rival.cents + 1)
        placed[number] = order
    return Schedule(seed, customers, tuple(placed), outage_at, rejected=rejected)


def _order(dice: random.Random, number: int, customers: int) -> Order:
    return Order(
        number=number,
        order_id=f"{number:05d}",
        request_id=f"F{number:05d}",
        customer=dice.randrange(1, customers + 1),
        cents=dice.randrange(100, 100_000),
        flagged=dice.random() < 0.2,  # noqa: PLR2004 -- one order in five
        paid=dice.random() < 0.4,  # noqa: PLR2004 -- two orders in five
        calm=False,
        due_ms=0,
    )


def _quiet_customer(orders: Sequence[Order], number: int) -> int:
    """Return the customer whose nearest other order is furthest from this one.

    An answer is to be lost after a commit; one that says that another command was faster would be lost to no purpose.
    """
    nearest: dict[int, int] = {}
    for other in orders:
        if other.number != number:
            distance = abs(other.number - number)
            nearest[other.customer] = min(distance, nearest.get(other.customer, distance))
    return max(nearest, key=lambda customer: (nearest[customer], customer))


def _faults(dice: random.Random, start: int, end: int, outage_at: int) -> dict[int, Fault]:
    """Return the faults of the orders from `start` to `end`: by number, at most one each."""
    count = end - start
    chosen: dict[int, Fault] = {start + int(share * count): "relay-killed" for share in _KILLS}
    free = [number for number in range(start, end) if number not in chosen and number != outage_at]
    dice.shuffle(free)
    early = [number for number in free if number < start + int(_EARLY * count)]
    for fault, share in _SHARES.items():
        for _ in range(max(1, round(share * count))):
            number = early.pop() if fault == "loses" else free[0]
            free.remove(number)
            chosen[number] = fault
    return chosen
