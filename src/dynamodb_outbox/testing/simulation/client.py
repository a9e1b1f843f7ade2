"""What all simulated boto3 clients share: what is asked of `client.meta`, and the SDK's own attempts at a call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from dynamodb_outbox.core.timing import attempts_of
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.config import Config

    from dynamodb_outbox.testing.simulation.network import Network, Troubles
    from dynamodb_outbox.testing.simulation.process import Process

__all__ = ["SimulatedClient"]

T = TypeVar("T")
_MOST_PAUSE_S = 20


class SimulatedClient:
    """A client of `service` in a process. `where` is what the network and the faults call the server.

    `config` has the time-outs and the attempts that the calls are made with. An operation that is not simulated is an
    attribute that the client does not have.
    """

    def __init__(
        self, network: Network, process: Process, *, service: str, where: str, region: str, config: Config
    ) -> None:
        self.meta = SimpleNamespace(
            config=config,
            region_name=region,
            endpoint_url=f"https://{where}.simulation.invalid/",
            service_model=SimpleNamespace(service_name=service, operation_model=lambda _: None),
            events=SimpleNamespace(emit=lambda *_, **__: []),
        )
        self._network = network
        self._process = process
        self._where = where
        self._attempts = attempts_of(config, service)
        self._connect_ms = round(1000 * config.connect_timeout)
        self._read_ms = round(1000 * config.read_timeout)

    def _call(self, operation: str, act: Callable[[], T], troubles: Troubles) -> T:
        """Make a call as boto3 does in its mode `standard`: with further attempts when one failed in passing."""
        for attempt in range(1, self._attempts):
            try:
                return self._once(operation, act, troubles)
            except TRANSPORT as error:
                if not may_pass(error):
                    raise
            pause_s = min(_MOST_PAUSE_S, self._process.entropy.unit() * 2 ** (attempt - 1))
            self._process.clock.sleep_ms(int(1000 * pause_s))
        return self._once(operation, act, troubles)

    def _once(self, operation: str, act: Callable[[], T], troubles: Troubles) -> T:
        return self._network.call(
            self._process,
            self._where,
            operation,
            act,
            timeout_ms=self._read_ms,
            connect_ms=self._connect_ms,
            troubles=troubles,
        )

    def __repr__(self) -> str:
        return f"<simulated client of {self._where}>"

    def _arguments(self, operation: str, request: dict[str, Any], *names: str) -> tuple[Any, ...]:
        """Return the arguments of these names. Raises TypeError when others were given, or one is missing."""
        if request.keys() != set(names):
            raise TypeError(f"{operation} takes {', '.join(names)}, and was given {', '.join(request) or 'nothing'}")
        return tuple(request[name] for name in names)
