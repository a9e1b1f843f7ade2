"""The schedule's faults in the words of the fault-injecting bus: one plan, the same for the bus of every lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamodb_outbox.local.demo.names import PLACED, event_name
from dynamodb_outbox.testing.faultbus import Duplicate, FaultPlan, Lost, Rejection, Unacceptable

if TYPE_CHECKING:
    from dynamodb_outbox.local.demo.schedule import Fault, Schedule

__all__ = ["fault_plan", "second_fault_plan"]

_FAULTY = '"name":"F'
"""In the detail of every event of the faulty phase, and of no other: calm orders have request ids that begin with C."""
_DOUBLED_AGAIN = 0.2
"""The share that the second hop's bus delivers twice: no relay is killed there, which does the same."""


def fault_plan(schedule: Schedule) -> FaultPlan:
    """Return what the bus does wrong by itself. Outages and deaths of the relay are not in it: the demo makes them."""

    def marks(fault: Fault) -> list[str]:
        return [f'"name":"{event_name(order.request_id, PLACED)}"' for order in schedule.hit_by(fault)]

    requests = "|".join(order.request_id for order in schedule.hit_by("answer-lost"))
    return FaultPlan(
        seed=schedule.seed,
        unacceptable=tuple(Unacceptable(contains=mark) for mark in marks("unpublishable")),
        rejections=(
            *(
                Rejection(1.0, max_consecutive=schedule.rejections_in_a_row, contains=mark)
                for mark in marks("rejected")
            ),
            Rejection(schedule.rejected, max_consecutive=schedule.rejections_in_a_row, contains=_FAULTY),
        ),
        duplicates=(
            *(Duplicate(1.0, contains=mark) for mark in marks("doubled")),
            Duplicate(schedule.doubled, contains=_FAULTY),
        ),
        lost=(Lost("TransactWriteItems", key=f"({requests})/{PLACED}", first=schedule.answers_lost),),
    )


def second_fault_plan(schedule: Schedule) -> FaultPlan:
    """Return what the bus of the second hop does wrong: it rejects and doubles shares of the faulty phase's events."""
    rejection = Rejection(schedule.rejected, max_consecutive=schedule.rejections_in_a_row, contains=_FAULTY)
    return FaultPlan(
        seed=schedule.seed, rejections=(rejection,), duplicates=(Duplicate(_DOUBLED_AGAIN, contains=_FAULTY),)
    )
