"""The sweeper of a run: a function of its own behind a schedule, with the world's clients, clock, entropy and crew.

A sweep does not come from the stream: it looks for itself, in the index and then in the table. Two of them may be at
work at once, in instances of their own, each of which dies, stands still, or has a clock that is off. While anything is
written or goes wrong they come as often as the settings say; after that every three minutes, which finds what is left.

Sweeps have numbers of their own, so that the luck of all other invocations is the same without them.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from dynamodb_outbox.recover.sweeper import Sweeper
from dynamodb_outbox.relay.setup import TABLE_CALLS
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.testing.simulation.facts import Swept
from dynamodb_outbox.testing.simulation.functions import Function
from dynamodb_outbox.testing.simulation.process import RECOVERY_PERILS
from dynamodb_outbox.testing.simulation.recovery import SWEEPER

if TYPE_CHECKING:
    from dynamodb_outbox.core.eventsource.answers import Answer
    from dynamodb_outbox.testing.simulation.functions import MakeHandler
    from dynamodb_outbox.testing.simulation.instance_world import Handler
    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.scenario import Scenario, Settings
    from dynamodb_outbox.testing.simulation.world import FunctionWorld

__all__ = ["FIRST_SWEEP", "SweeperFunction", "sweeper_handler"]

FIRST_SWEEP = 1_000_001
"""The number of the first sweep."""

_QUIET_EVERY_MS = 180_000
_APART_MS = (0, 3_000)
"""How far apart sweeps begin that are scheduled for the same time."""

_EVENT = '{"source":"aws.events","detail-type":"Scheduled Event","detail":{}}'


def sweeper_handler(world: FunctionWorld) -> Handler:
    """Return this library's own sweeper to EventBridge."""
    sweeper = Sweeper(
        EventBridge(world.destination, client=world.client("events")),
        table=world.table,
        layout=world.layout,
        client=world.client("dynamodb"),
        min_age=timedelta(milliseconds=world.min_age_ms),
        on_poison=world.on_poison,
        max_in_flight=world.in_flight,
        clock=world.clock,
        entropy=world.entropy,
        crew=world.crew(world.in_flight + TABLE_CALLS),
    )
    return sweeper.lambda_handler


class SweeperFunction(Function):
    """The function of the sweeper of `destination`; its events come from a schedule."""

    perils = RECOVERY_PERILS
    replaced = ""

    def __init__(self, network: Network, destination: str, make_handler: MakeHandler, settings: Settings) -> None:
        super().__init__(
            network, SWEEPER, make_handler, instances=settings.sweepers, timeout_ms=settings.sweep_timeout_ms
        )
        self._publishes_to = destination
        self._at_once = settings.sweepers
        self._every_ms = settings.sweep_every_ms
        self._sweeps = 0

    def schedule(self, scenario: Scenario) -> None:
        """Have sweeps begin, from the first interval on to the end of a run."""
        at_ms = self._every_ms
        while at_ms < scenario.ends_ms:
            for _ in range(self._at_once):
                apart_ms = self._chance.whole(*_APART_MS, "apart", self._sweeps)
                self._kernel.call_at(at_ms + apart_ms, partial(self._sweep, FIRST_SWEEP + self._sweeps))
                self._sweeps += 1
            at_ms += self._every_ms if at_ms < scenario.faults_until_ms else _QUIET_EVERY_MS

    def _sweep(self, number: int) -> None:
        invocation = self._invocation(number, _ignored)
        process, now_ms = invocation.instance.process, self._kernel.now_ms
        ahead_ms = process.clock.offset_ms
        swept = Swept(now_ms, self._publishes_to, number, process.name, invocation.until_ms, ahead_ms)
        self._network.ledger.note(swept)
        self._start(invocation, _EVENT)


def _ignored(_: Answer) -> None:
    """Take no notice of an answer: the next sweep comes anyway."""
