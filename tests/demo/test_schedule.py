"""The schedule: planned from a seed, complete for every size, printable, and kept as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamodb_outbox.local.demo.fault_plan import fault_plan
from dynamodb_outbox.local.demo.schedule import (
    FAULTS,
    MAX_ORDERS,
    MIN_ORDERS,
    CustomersOutOfRange,
    OrdersOutOfRange,
    Schedule,
    plan,
)
from dynamodb_outbox.testing.faultbus import FaultPlan

sizes = st.integers(MIN_ORDERS, 600)
seeds = st.integers(0, 2**63 - 1)


@given(sizes, seeds)
@settings(max_examples=60, deadline=None)
def test_every_size_has_a_calm_part_and_every_kind_of_fault(orders: int, seed: int) -> None:
    """However few orders: each kind of fault hits one at least, the relay dies three times, one event is poison."""
    schedule = plan(orders, seed)
    assert len(schedule.orders) == orders
    assert all(schedule.hit_by(fault) for fault in FAULTS)
    assert len(schedule.hit_by("relay-killed")) == 3
    assert len(schedule.hit_by("unpublishable")) == 1
    calm, faulty = schedule.phase(calm=True), schedule.phase(calm=False)
    assert calm + faulty == schedule.orders
    assert len(calm) >= 6
    assert all(order.fault is None and order.request_id.startswith("C") for order in calm)
    assert all(order.request_id.startswith("F") for order in faulty)
    assert schedule.orders[schedule.outage_at] in faulty


@given(sizes, seeds)
@settings(max_examples=60, deadline=None)
def test_a_condition_is_lost_to_an_order_placed_long_before(orders: int, seed: int) -> None:
    """A losing command claims the id of a calm order, for other content, before the outage; no two the same id."""
    schedule = plan(orders, seed)
    calm = {order.order_id: order for order in schedule.phase(calm=True)}
    losing = schedule.hit_by("loses")
    for order in losing:
        first = calm[order.order_id]
        assert (order.customer, order.request_id != first.request_id) == (first.customer, True)
        assert order.cents != first.cents
        assert order.number < schedule.outage_at
    assert len({order.order_id for order in losing}) == len(losing)
    others = [order.order_id for order in schedule.orders if order.fault != "loses"]
    assert len(set(others)) == len(others)


@given(sizes, seeds)
@settings(max_examples=30, deadline=None)
def test_orders_arrive_in_their_order_and_the_outage_outlasts_two_time_outs(orders: int, seed: int) -> None:
    """Due times never go back within a phase, and the outage is longer than twice the relay's time-out."""
    schedule = plan(orders, seed)
    for calm in (True, False):
        due = [order.due_ms for order in schedule.phase(calm=calm)]
        assert due == sorted(due)
        assert due[0] == 0
    assert schedule.outage_ms > 2 * schedule.relay_timeout_ms


@given(sizes, seeds)
@settings(max_examples=30, deadline=None)
def test_a_schedule_survives_json(orders: int, seed: int) -> None:
    """A schedule read back from its JSON is the same schedule."""
    schedule = plan(orders, seed)
    assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule


def test_the_seed_decides_everything() -> None:
    """The same seed plans the same, another one something else."""
    assert plan(100, 1) == plan(100, 1)
    assert plan(100, 1) != plan(100, 2)


def test_three_hundred_orders_have_forty_customers() -> None:
    """Forty customers, and five orders or more for each when there are fewer orders; or as many as asked for."""
    assert plan(300, 1).customers == 40
    assert plan(200, 1).customers == 40
    assert plan(50, 1).customers == 10
    assert {order.customer for order in plan(100, 1, customers=2).orders} == {1, 2}


@pytest.mark.parametrize("orders", [-1, 0, MIN_ORDERS - 1, MAX_ORDERS + 1])
def test_a_number_of_orders_out_of_range_is_refused(orders: int) -> None:
    """Too few or too many orders are a typed error that names the range."""
    with pytest.raises(OrdersOutOfRange, match=f"{MIN_ORDERS} to 10,000 orders") as caught:
        plan(orders, 1)
    assert caught.value.orders == orders


def test_the_printed_schedule_names_every_fault_and_whom_it_hits() -> None:
    """What is printed says of each fault what it is and which orders it hits, besides the outage and the shares."""
    schedule = plan(100, 3)
    text = "\n".join(schedule.describe())
    for fault, what in FAULTS.items():
        assert f"{', '.join(order.request_id for order in schedule.hit_by(fault))}: {what}" in text
    assert "seed 3" in text
    assert f"out for 6.5 s from {schedule.orders[schedule.outage_at].request_id} on" in text
    assert "rejects 5% of the entries, inside a 200 answer, but none of them more than 2 times in a row" in text


def test_the_printed_bound_of_rejections_is_the_one_that_the_bus_is_given() -> None:
    """Whatever the share: the bus rejects no entry more often in a row than the plan says."""
    schedule = replace(plan(20, 3, rejected=1.0), rejections_in_a_row=1)
    assert "none of them more than 1 time in a row" in schedule.describe()[1]
    assert {rule.max_consecutive for rule in fault_plan(schedule).rejections} == {1}


@pytest.mark.parametrize("customers", [-1, 0, 51])
def test_a_number_of_customers_out_of_range_is_refused(customers: int) -> None:
    """There is one customer at least, and an order for each of them."""
    with pytest.raises(CustomersOutOfRange, match="50 orders are of 1 to 50 customers") as caught:
        plan(50, 1, customers=customers)
    assert (caught.value.customers, caught.value.orders) == (customers, 50)


@pytest.mark.parametrize(("customers", "says"), [(1, "of 1 customer,"), (50, "of 50 customers,")])
def test_as_many_customers_as_orders_can_be_planned(customers: int, says: str) -> None:
    """The ends of the range are in it."""
    assert says in plan(50, 1, customers=customers).describe()[0]


@given(sizes, seeds)
@settings(max_examples=30, deadline=None)
def test_the_bus_is_given_a_plan_that_it_understands(orders: int, seed: int) -> None:
    """Every schedule is a plan of the fault-injecting bus, which reads back as the same plan."""
    made = fault_plan(plan(orders, seed))
    assert FaultPlan.from_json(made.to_json()) == made
    assert made.seed == seed
    assert len(made.unacceptable) == 1
