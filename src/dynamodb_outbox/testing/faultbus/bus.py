"""The fault-injecting bus, in this process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dynamodb_outbox.adapters.system import SystemClock
from dynamodb_outbox.errors import PortTaken
from dynamodb_outbox.testing.faultbus.control import PREFIX, BusState, control
from dynamodb_outbox.testing.faultbus.decisions import Decisions
from dynamodb_outbox.testing.faultbus.errors import EvidenceUnusable, FaultBusError, FaultPlanInvalid
from dynamodb_outbox.testing.faultbus.evidence import Evidence
from dynamodb_outbox.testing.faultbus.held import HeldRequests
from dynamodb_outbox.testing.faultbus.passing import PROTOCOLS, route
from dynamodb_outbox.testing.faultbus.plan import FaultPlan
from dynamodb_outbox.testing.faultbus.publish import Parts
from dynamodb_outbox.testing.faultbus.rules import Outage, check_count
from dynamodb_outbox.testing.faultbus.server import HOST, Server
from dynamodb_outbox.testing.faultbus.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from dynamodb_outbox.testing.faultbus.evidence import Acceptance, Fault
    from dynamodb_outbox.testing.faultbus.exchange import Answer, Request
    from dynamodb_outbox.testing.faultbus.held import Held
    from dynamodb_outbox.testing.faultbus.rules import OutageMode

__all__ = ["FaultBus"]

_POLL_S = 0.05
_JOIN_S = 2.0


class FaultBus:
    """A stand-in for an event bus: in front of any AWS-compatible endpoint, misbehaving on a plan.

    Give its `url` to clients as their endpoint. EventBridge PutEvents, SNS PublishBatch and SQS SendMessageBatch go
    through the plan; every other call is passed to `upstream` and its answer back, body and headers unchanged, so that
    one endpoint serves all services, long polls included.
    Bodies are held in memory whole: endless event streams cannot pass. Signatures are not renewed, so an upstream that
    checks them (AWS itself) refuses; local engines do not check them.

        with FaultBus(engine.url, FaultPlan(rejections=(Rejection(0.2, max_consecutive=2),))) as bus:
            client = boto3.client("events", endpoint_url=bus.url)
            ...
        assert len(bus.accepted) == 100

    `port` 0 means any free one; only 127.0.0.1 is listened on. `evidence` is a directory for `accepted.jsonl` and
    `faults.jsonl`, None keeps the evidence in memory alone. `upstream_timeout_s` bounds the wait for the upstream.
    `on_failure` is called, in some thread, when the evidence cannot be written any more; from then on every request
    is reset and `close` raises.

    Raises `UpstreamAddressInvalid`, and `FaultPlanInvalid` for a plan that loses the answers of a publish operation
    (`resets` does that). `start` raises `PortTaken` and `EvidenceUnusable`.
    """

    def __init__(
        self,
        upstream: str,
        plan: FaultPlan | None = None,
        *,
        port: int = 0,
        evidence: Path | str | None = None,
        upstream_timeout_s: float = 120.0,
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        self.plan = plan or FaultPlan()
        for index, lost in enumerate(self.plan.lost):
            if any(protocol.operation == lost.operation for protocol in PROTOCOLS):
                raise FaultPlanInvalid(f"lost[{index}].operation", f"{lost.operation} publishes: use resets")
        clock = SystemClock()
        self._wanted_port = port
        self._on_failure = on_failure
        self._failure: EvidenceUnusable | None = None
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._parts = Parts(
            decisions=Decisions(self.plan, clock),
            evidence=Evidence(evidence, clock),
            upstream=Upstream(upstream, timeout_s=upstream_timeout_s, clock=clock),
            held=HeldRequests(),
            clock=clock,
            closing=threading.Event(),
        )

    def start(self) -> FaultBus:
        """Listen and serve, in threads of this process. A bus is started once."""
        if self._server is not None:
            raise FaultBusError("a bus is started once; make another one")
        try:
            server = Server(self._wanted_port, self._serve, self._report)
        except (OSError, OverflowError) as error:
            raise PortTaken(self._wanted_port, getattr(error, "strerror", None) or str(error)) from error
        try:
            self._parts.evidence.open()
        except EvidenceUnusable:
            server.server_close()
            raise
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), name="faultbus", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """End all connections, held requests included, and stop listening. May be called again.

        Raises `EvidenceUnusable` when evidence could not be written on the way: then it is not complete.
        """
        if self._server is not None and self._thread is not None and not self._parts.closing.is_set():
            self._server.shutdown()
            self._thread.join()
            self._parts.closing.set()
            self._parts.held.close()
            self._parts.upstream.close()
            self._server.close(_JOIN_S)
            self._parts.evidence.close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> FaultBus:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The port that the bus listens on."""
        if self._server is None:
            raise FaultBusError("the bus has not been started")
        return self._server.server_port

    @property
    def url(self) -> str:
        """The endpoint to give to clients."""
        return f"http://{HOST}:{self.port}"

    @property
    def accepted(self) -> tuple[Acceptance, ...]:
        """Every acceptance by the upstream, in order."""
        return self._parts.evidence.accepted

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Everything that went wrong, on purpose or not, in order."""
        return self._parts.evidence.faults

    def state(self) -> BusState:
        """Return counts, and what is held or out at this moment."""
        accepted, faults = self._parts.evidence.counts()
        decisions = self._parts.decisions
        return BusState(
            requests=decisions.requests,
            accepted=accepted,
            faults=faults,
            held=self._parts.held.now(),
            armed=decisions.armed,
            outage=decisions.outage(),
        )

    def begin_outage(self, mode: OutageMode = "503", *, destination: str = "") -> None:
        """Serve no publish request from now on; `mode` is what clients see ("503", "reset" or "hang").

        With a `destination`, only requests to that one are meant; several may be out at a time.
        """
        out = Outage(0, 1, mode, destination=destination)
        self._parts.decisions.begin_outage(out.mode, out.destination)

    def end_outage(self) -> None:
        """End all that `begin_outage` began. The outages of the plan keep their times."""
        self._parts.decisions.end_outages()

    def hold_next(self, count: int = 1) -> None:
        """Withhold the answers to the next `count` requests that are accepted."""
        check_count(count, "count")
        self._parts.decisions.arm(count)

    def wait_held(self, timeout_s: float = 10.0) -> Held:
        """Return the oldest held request, as soon as there is one. Raises `NothingHeld` after `timeout_s`."""
        return self._parts.held.wait(timeout_s)

    def release(self, request: int | None = None) -> int:
        """Answer the held request of that number, or all of them (None); return how many there were."""
        return self._parts.held.release(request)

    def _serve(self, request: Request, client_gone: Callable[[], bool]) -> Answer | None:
        if request.target.startswith(PREFIX):
            return control(self, request)
        if self._failure is not None:
            return None
        return route(self._parts, request, client_gone, may_lose=bool(self.plan.lost))

    def _report(self, error: BaseException) -> None:
        if not isinstance(error, EvidenceUnusable):
            self._parts.evidence.fault("bus_error", "", error=f"{type(error).__name__}: {error}")
            return
        self._failure = error
        if self._on_failure is not None:
            self._on_failure()
