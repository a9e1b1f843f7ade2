"""An operator: somebody who decides about what is parked, and publishes what the event source has given up.

What is done is this library's own (`ParkedRecords`, `FailedBatches`), in a process of its own each time, at moments
that the scenario has. It is struck by faults as a sweeper is: whoever dies in the midst of it does it again, or not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.errors import OutboxError
from dynamodb_outbox.recover.failed_batches import FailedBatches
from dynamodb_outbox.recover.parked import ParkedRecords
from dynamodb_outbox.relay.setup import TABLE_CALLS
from dynamodb_outbox.sinks.eventbridge import EventBridge
from dynamodb_outbox.testing.simulation.facts import Answered, Ended, Operated, Raised
from dynamodb_outbox.testing.simulation.on_failure import BUCKET_URI, QUEUE_URL
from dynamodb_outbox.testing.simulation.process import RECOVERY_PERILS, Process
from dynamodb_outbox.testing.simulation.recovery import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dynamodb_outbox.testing.simulation.network import Network
    from dynamodb_outbox.testing.simulation.recovery import Does, Operation
    from dynamodb_outbox.testing.simulation.world import FunctionWorld

    Pick = Callable[[int], int]

__all__ = ["Operator"]

_FIRST = 2_000_001
"""The number of what an operator does first."""
_REASON = "nobody needs it"
_CLIENTS = {"streams": "dynamodbstreams", "sqs": "sqs", "s3": "s3"}
"""The services of what was given up, by what `FailedBatches` calls their clients."""


class Operator:
    """Does `operations`, with what `world_of` gives a process; publishes to `destination`."""

    def __init__(self, network: Network, destination: str, world_of: Callable[[Process], FunctionWorld]) -> None:
        self._network = network
        self._kernel = network.kernel
        self._chance = network.chance.of("operator")
        self._destination = destination
        self._world_of = world_of

    def plan(self, operations: Iterable[Operation]) -> None:
        """Have all of them done, each at its time."""
        for number, operation in enumerate(operations, _FIRST):
            self._kernel.call_at(operation.at_ms, partial(self._begin, number, operation))

    def _begin(self, number: int, operation: Operation) -> None:
        skew = self._network.faults.take("clock_skew", OPERATOR, invocation=number)
        process = Process(
            self._kernel,
            f"operator#{number - _FIRST + 1}",
            self._chance.seed,
            0 if skew is None else skew.amount_ms,
            owner=OPERATOR,
            perils=RECOVERY_PERILS,
        )
        process.invocation = number
        ledger = self._network.ledger
        process.when_killed = lambda: ledger.note(Ended(self._kernel.now_ms, number, "crash"))
        ledger.note(Operated(self._kernel.now_ms, self._destination, number, process.name, operation.does))
        process.spawn("main", partial(self._do, number, operation, process))

    def _do(self, number: int, operation: Operation, process: Process) -> None:
        ledger = self._network.ledger

        def pick(most: int) -> int:
            return self._chance.whole(0, most, "one", number)

        try:
            said = _DOES[operation.does](self._world_of(process), operation, pick)
        except OutboxError as error:
            ledger.note(Raised(self._kernel.now_ms, number, f"{type(error).__name__}: {error}"))
        else:
            ledger.note(Answered(self._kernel.now_ms, number, said, ()))
        process.when_killed = None


def _redrive_failed(world: FunctionWorld, operation: Operation, _: Pick) -> str:
    clients = {f"{name}_client": world.client(service) for name, service in _CLIENTS.items()}
    batches = FailedBatches(_sink(world), table=world.table, **_tools(world), **clients)
    report = batches.from_s3(BUCKET_URI) if operation.of == "bucket" else batches.from_queue(QUEUE_URL)
    return str(report.to_json())


def _redrive_parked(world: FunctionWorld, _: Operation, __: Pick) -> str:
    parked = ParkedRecords(world.table, **_tools(world))
    return str(parked.redrive(_sink(world), all=True, max_in_flight=world.in_flight).to_json())


def _discard_parked(world: FunctionWorld, _: Operation, pick: Pick) -> str:
    parked = ParkedRecords(world.table, **_tools(world))
    there = parked.list()
    if not there:
        return "nothing is parked"
    one = there[pick(len(there) - 1)]
    return str(parked.discard(_REASON, ids=[one.id]).to_json())


_DOES: dict[Does, Callable[[FunctionWorld, Operation, Pick], str]] = {
    "redrives what is parked": _redrive_parked,
    "discards what is parked": _discard_parked,
    "redrives what was given up": _redrive_failed,
}
"""How each is done; it returns what it came to. A pick is by chance, from 0 to what is said."""


def _sink(world: FunctionWorld) -> EventBridge:
    return EventBridge(world.destination, client=world.client("events"))


def _tools(world: FunctionWorld) -> dict[str, Any]:
    return {
        "layout": world.layout,
        "client": world.client("dynamodb"),
        "clock": world.clock,
        "entropy": world.entropy,
        "crew": world.crew(world.in_flight + TABLE_CALLS),
    }
