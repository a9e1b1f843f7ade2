"""What the code of an instance finds in its world, whatever it is there for: clients, a clock, workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamodb_outbox.testing.simulation.refusal import NotSimulated, called_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from dynamodb_outbox.errors import OutboxError
    from dynamodb_outbox.layout import Layout
    from dynamodb_outbox.ports import Clock, Crew, Entropy

    Handler = Callable[[Any, Any], Any]

__all__ = ["InstanceWorld"]


@dataclass(frozen=True, kw_only=True)
class InstanceWorld:
    """What an instance of a function, or of a consumer, is given.

    table, layout   the table that it works on
    clock, entropy  the ports of `dynamodb_outbox.ports`; code that is to be simulated asks no other clock
    """

    table: str
    layout: Layout
    clock: Clock
    entropy: Entropy
    _clients: dict[str, Callable[[], Any]]
    _make_crew: Callable[[int], Crew]
    _stop: Callable[[OutboxError], NoReturn]

    def client(self, service: str) -> Any:
        """Return what stands for `boto3.client(service)`: for a service that is simulated, "dynamodb" among them.

        Another service, and later an operation or an argument that is not simulated, ends the run with NotSimulated.
        Real clients are refused in the same way while a run is going on.
        """
        if service not in self._clients:
            known = ", ".join(self._clients)
            self._stop(NotSimulated(f"no service {service!r} is simulated{called_from()}: {known} are."))
        return self._clients[service]()

    def crew(self, size: int) -> Crew:
        """Return so many workers for tasks side by side.

        A thread of the handler's own that calls a client, the clock or a crew ends the run with NotSimulated: it runs
        outside of virtual time.
        """
        return self._make_crew(size)
