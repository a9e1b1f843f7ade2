"""A bad day on a laptop: table, stream, event source, functions, buses and writers in virtual time, from one seed.

    from dynamodb_outbox.testing.simulation import simulate

    def make_handler(world):
        relay = MyRelay(world.client("events"), bus=world.destination)
        return relay.handler

    simulate(make_handler, seeds=range(500)).check()

The code of the handler is run as it is; what happens around it (crashes at every effect, lost answers, refused entries,
splits, redelivery, clocks that jump) is decided by the seed, and everything it comes to is held against `INVARIANTS`. A
failure is told as a story of the few writes and faults that it takes.
"""

from __future__ import annotations

from dynamodb_outbox.testing.simulation.consuming.world import ConsumerWorld, consumer_handler
from dynamodb_outbox.testing.simulation.faults import FAULTS
from dynamodb_outbox.testing.simulation.invariants import INVARIANTS, Violation, check
from dynamodb_outbox.testing.simulation.refusal import NotSimulated
from dynamodb_outbox.testing.simulation.report import Failure, Report, SimulationFailed
from dynamodb_outbox.testing.simulation.runs import simulate
from dynamodb_outbox.testing.simulation.scenario import Scenario, generate
from dynamodb_outbox.testing.simulation.sweeping import sweeper_handler
from dynamodb_outbox.testing.simulation.world import FunctionWorld, relay_handler, run

__all__ = [
    "FAULTS",
    "INVARIANTS",
    "ConsumerWorld",
    "Failure",
    "FunctionWorld",
    "NotSimulated",
    "Report",
    "Scenario",
    "SimulationFailed",
    "Violation",
    "check",
    "consumer_handler",
    "generate",
    "relay_handler",
    "run",
    "simulate",
    "sweeper_handler",
]
