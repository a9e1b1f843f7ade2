"""The ground of a simulated world, for tests of single parts: kernel, ledger, faults, network."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from dynamodb_outbox.testing.simulation.chance import Chance
from dynamodb_outbox.testing.simulation.facts import Fact, Ledger
from dynamodb_outbox.testing.simulation.faults import FaultPlan, Faults, PlannedFault
from dynamodb_outbox.testing.simulation.kernel import Kernel, Threads
from dynamodb_outbox.testing.simulation.network import Network
from dynamodb_outbox.testing.simulation.process import FUNCTION_PERILS, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound=Fact)
T = TypeVar("T")
AN_HOUR_MS = 3_600_000


class Ground:
    """A kernel with a ledger, the faults of a plan, and a network."""

    def __init__(self, kernel: Kernel, faults: tuple[PlannedFault, ...], until_ms: int, seed: int) -> None:
        self.kernel = kernel
        self.ledger = Ledger()
        self.faults = Faults(FaultPlan(faults, until_ms), kernel, self.ledger)
        self.network = Network(kernel, self.ledger, self.faults, Chance(seed))

    def process(self, name: str = "client", *, owner: str = "orders") -> Process:
        """Return a new process, with the perils of a function."""
        return Process(self.kernel, name, 7, owner=owner, perils=FUNCTION_PERILS)

    def run(self, body: Callable[[], T], *, process: Process | None = None) -> list[T | Exception]:
        """Run `body` on a strand for an hour; return what it returned or raised, nothing when it did not end."""
        outcome: list[T | Exception] = []

        def strand() -> None:
            try:
                outcome.append(body())
            except Exception as error:  # noqa: BLE001 -- the test looks at it
                outcome.append(error)

        if process is None:
            self.kernel.spawn("test", strand)
        else:
            process.spawn("test", strand)
        self.kernel.run(self.kernel.now_ms + AN_HOUR_MS)
        return outcome

    def noted(self, kind: type[F]) -> list[F]:
        """Return the facts of a class."""
        return [fact for fact in self.ledger.facts if isinstance(fact, kind)]


def kernel_of(seed: int = 1, threads: Threads | None = None) -> Kernel:
    """Return a kernel whose order comes from a seed."""
    return Kernel(random.Random(seed), threads)  # noqa: S311 -- the same in each run


@contextmanager
def ground(
    *faults: PlannedFault, until_ms: int = 100 * AN_HOUR_MS, seed: int = 1, threads: Threads | None = None
) -> Iterator[Ground]:
    """Yield a ground, and end all its strands."""
    kernel = kernel_of(seed, threads)
    try:
        yield Ground(kernel, faults, until_ms, seed)
    finally:
        kernel.close()
