"""Which promises are left of a deployment in which one thing is broken, or two."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from doctor_ground import BUS, OUTSIDE, PAYLOADS, QUEUE, World
from test_doctor_checks import BREAKS, Break, mapping, piece, table, without

from dynamodb_outbox.doctor.choosing import system_of
from dynamodb_outbox.doctor.inventory import Unseen
from dynamodb_outbox.doctor.report import Report, report_on
from dynamodb_outbox.layout import Layout
from dynamodb_outbox.promises import Standing, guarantees

if TYPE_CHECKING:
    from dynamodb_outbox.infra.deployment import Deployment

HOLDS, OBSERVED, LIMITED, NOT = Standing.HOLDS, Standing.OBSERVED, Standing.LIMITED, Standing.NOT_PROMISED

TAKEN: tuple[tuple[dict[str, Standing], tuple[str, ...]], ...] = (
    ({}, ("s3:PutObject",)),
    ({"P2": LIMITED}, (
        "stream-off", "stream-view", "stream-stale", "mapping-missing", "mapping-disabled", "mapping-troubled",
        "filter-invalid", "variables", "table-name", "runtime", "switched-off", "target-key", "access-lacking",
        "pending-index", "sweeper-missing", "sweeper-unscheduled", "ttl-attribute", "payloads-gone", "payloads-early",
        "index-status", "function-state", "access-trust", "table-encryption", "sweeper-refused",
    )),
    ({"P2": NOT}, ("table-keys", "table-status", "target-gone")),
    ({"P4": LIMITED}, ("retries-ordered", "record-age-short")),
    ({"P2": LIMITED, "P4": LIMITED}, ("replicas", "starting-position", "filter-blocks", "sweeper-differs")),
    ({"P2": LIMITED, "P4": NOT}, ("partial-failures", "relayed-twice")),
    ({"P4": NOT}, ("parallelization",)),
    ({"P1": NOT, "P5": NOT, "P6": NOT}, ("strong-consistency",)),
    ({"P1": LIMITED, "P2": LIMITED, "P6": NOT}, ("written-by-hand",)),
)  # fmt: skip
"""What is taken while the rest is right: by checks, or by evidence where those of one id differ. By others: nothing."""

TAKES = {told: takes for takes, checks in TAKEN for told in checks}

UNKNOWN = ("relay-missing", "handler", "retry-mode")
"""Checks that hide the set-up when they are broken: nobody knows what the relay goes by, or where events go."""


def standings(report: Report) -> dict[str, Standing]:
    """Return the standing of each promise."""
    return {each.promise: each.standing for each in report.promises}


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.id)
def test_what_is_found_takes_from_the_promises(case: Break) -> None:
    """Those that it names are as low as it says, because of it alone; the others stand as in what is right."""
    world = World(case.deployment)
    case.how(world)
    report = world.report()
    takes = TAKES.get(case.evidence, TAKES.get(case.id, {}))
    right = standings(World(case.deployment).report())
    assert standings(report) == ({} if case.id in UNKNOWN else right | takes)
    assert {each.promise: each.because for each in report.promises if each.because} == dict.fromkeys(takes, (case.id,))
    for each in report.promises:
        assert all(f"{id_}: " in each.why for id_ in each.because)


def test_all_that_a_right_one_promises_is_what_its_set_up_does() -> None:
    """With nothing found, and nothing hidden: a bus limits P2, a FIFO queue does not."""
    for deployment, wanted in ((BUS, guarantees(sink="bus")), (QUEUE, guarantees(sink="queue.fifo"))):
        found = World(deployment).report().promises
        assert [(each.promise, each.standing, each.why) for each in found] == [
            (each.promise, each.standing, each.why) for each in wanted
        ]
        assert {(each.because, each.unseen) for each in found} == {((), ())}


STREAM = (
    table(StreamSpecification=None),
    mapping(Enabled=False),
    without("RelayStream"),
    mapping(FunctionResponseTypes=None),
    piece("Relay", ReservedConcurrentExecutions=0),
)
SWEEP = (
    without("Sweeper", "SweeperErrorsAlarm", "SweeperStoppedAlarm"),
    without("SweeperSchedule"),
    table(GlobalSecondaryIndexes=[]),
    piece("Sweeper", ReservedConcurrentExecutions=0),
)


@pytest.mark.parametrize("deployment", [BUS, QUEUE], ids=["bus", "queue"])
@pytest.mark.parametrize("sweep", range(len(SWEEP)))
def test_with_both_ways_closed_nothing_is_left_of_p2(deployment: Deployment, sweep: int) -> None:
    """With one of them it is limited to the other."""
    for stream in STREAM:
        world = World(deployment)
        SWEEP[sweep](world)
        assert standings(world.report())["P2"] is LIMITED
        stream(world)
        report = world.report()
        assert standings(report)["P2"] is NOT
        (p2,) = (each for each in report.promises if each.promise == "P2")
        assert len([each for each in report.findings if each.id in p2.because]) == 2


def test_where_nothing_is_swept_the_stream_is_all_there_is() -> None:
    """With settle='none' a sweeper is no second way; and where the bucket is gone that is said of P2."""
    deployment = replace(QUEUE, layout=Layout(settle="none"))
    world = World(deployment)
    assert standings(world.report())["P2"] is LIMITED
    without("GivenUp")(world)
    (p2,) = (each for each in world.report().promises if each.promise == "P2")
    assert (p2.standing, p2.because) == (LIMITED, ("on-failure-gone",))
    assert "in its bucket" not in p2.why
    mapping(Enabled=False)(world)
    assert standings(world.report())["P2"] is NOT


def test_of_several_sinks_each_promise_is_that_of_the_least() -> None:
    """A bus limits P2 whatever is beside it, and a FIFO queue has no say in it."""
    world = World(replace(BUS, sink={"a": "queue:orders.fifo", "*": "bus:orders"}))
    world["orders.fifo"].pop("KmsMasterKeyId")
    found = {each.promise: each for each in world.report().promises}
    assert (found["P2"].standing, found["P2"].because) == (LIMITED, ())
    assert "EventBridge says yes" in found["P2"].why


def test_what_could_not_be_seen_is_named_at_the_promises_that_it_may_take() -> None:
    """It makes none of them lower, and none of them certain."""
    why = Unseen("why")
    world = World(QUEUE)
    inventory = replace(world.inventory(), hidden={OUTSIDE["queue"][0].arn: why})
    world.pieces.pop("orders.fifo")
    inventory = replace(inventory, pieces=tuple(world.pieces.values()))
    report = report_on(system_of(inventory, PAYLOADS))
    assert standings(report) == standings(World(QUEUE).report())
    assert {each.promise: each.unseen for each in report.promises if each.unseen} == {
        "P2": ("target-gone", "target-key")
    }
