"""What all simulated boto3 clients share: `meta` and `exceptions`, and the SDK's own attempts at a call."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import botocore.session
from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ClientError

from dynamodb_outbox.core.timing import attempts_of
from dynamodb_outbox.sdk.errors import TRANSPORT, may_pass
from dynamodb_outbox.testing.simulation.refusal import NotSimulated, called_from
from dynamodb_outbox.testing.simulation.wire import copied

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from botocore.config import Config

    from dynamodb_outbox.testing.simulation.network import Network, Troubles
    from dynamodb_outbox.testing.simulation.process import Process

__all__ = ["SimulatedClient"]

T = TypeVar("T")
_MOST_PAUSE_S = 20


class SimulatedClient:
    """A client of `service` in a process. `where` is what the network and the faults call the server.

    `config` has the time-outs and the attempts that the calls are made with. An operation that is not simulated ends
    the run with NotSimulated, and so does an argument that is not.
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
        self._service = service
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

    @property
    def exceptions(self) -> Any:
        """The exceptions of the service by their names, as boto3's client has them."""
        return _exceptions(self._service)

    def _once(self, operation: str, act: Callable[[], T], troubles: Troubles) -> T:
        try:
            answer = self._network.call(
                self._process,
                self._where,
                operation,
                act,
                timeout_ms=self._read_ms,
                connect_ms=self._connect_ms,
                troubles=troubles,
            )
        except ClientError as error:
            modeled = self.exceptions.from_code(error.response["Error"]["Code"])
            raise modeled(copied(error.response), error.operation_name) from None
        return copied(answer) if self._service == "dynamodb" else answer  # the others make theirs for each call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = sorted(one for one in dir(type(self)) if not one.startswith("_"))
        return self._refuse(f"{name}: {', '.join(known)} are")

    def _refuse(self, what: str) -> NoReturn:
        """End the run: `what` names what is not simulated, and what is."""
        error = NotSimulated(f"client({self._service!r}) has no {what} simulated{called_from()}.")
        self._network.kernel.stop(error)

    def __repr__(self) -> str:
        return f"<simulated client of {self._where}>"

    def _arguments(self, operation: str, request: dict[str, Any], *names: str) -> tuple[Any, ...]:
        """Return the arguments of these names. When others were given, or one is missing, the run ends."""
        if request.keys() != set(names):
            self._refuse(f"{operation} with {', '.join(request) or 'nothing'}: with {', '.join(names)} it is")
        return tuple(request[name] for name in names)


@lru_cache(maxsize=8)
def _exceptions(service: str) -> Any:
    """Return botocore's own exceptions of a service, made of its description."""
    model = botocore.session.get_session().get_service_model(service)
    return ClientExceptionsFactory().create_client_exceptions(model)
