"""Calls between processes of the simulated world and its servers, and what goes wrong on the way.

A call leaves its process, reaches the server some time later and is acted on there, also when the caller is dead by
then; the answer comes back some time after that, or not at all. What its caller is told is what boto3 would raise. Each
call has two boundaries, before it leaves and after it was heard of: there a process may die, hang, or find that its
clock has jumped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from dynamodb_outbox.testing.simulation.facts import Heard, Sent
from dynamodb_outbox.testing.simulation.faults import Met
from dynamodb_outbox.testing.simulation.kernel import Mailbox
from dynamodb_outbox.testing.simulation.process import CLOCK_JUMP, Process
from dynamodb_outbox.testing.simulation.refusal import NotSimulated, called_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from dynamodb_outbox.testing.simulation.chance import Chance
    from dynamodb_outbox.testing.simulation.facts import Ledger
    from dynamodb_outbox.testing.simulation.faults import Faults, PlannedFault
    from dynamodb_outbox.testing.simulation.kernel import Kernel

__all__ = [
    "BUS",
    "COMMIT",
    "NO_TROUBLES",
    "PARK",
    "RECOVERY_CALLS",
    "RECOVERY_QUERIES",
    "SETTLE",
    "Network",
    "Troubles",
    "client_error",
]

T = TypeVar("T")

_OK, _BAD_REQUEST = 200, 400
_LEG_MS = (1, 12)
"""How long a request, or an answer, is on its way."""


@dataclass(frozen=True)
class Troubles:
    """Which kinds of faults meet a sort of call; "" is none.

    `throttling` is the code with which a throttled call is refused.
    """

    lost_before: str = ""
    lost_after: str = ""
    throttled: str = ""
    slow: str = "slow"
    outage: str = "outage"
    missing: str = ""
    denied: str = ""
    throttling: str = "ThrottlingException"
    kinds: frozenset[str] = field(init=False)
    """All of them."""

    def __post_init__(self) -> None:
        named = (self.lost_before, self.lost_after, self.throttled, self.slow, self.outage, self.missing, self.denied)
        object.__setattr__(self, "kinds", frozenset(filter(None, named)))


NO_TROUBLES = Troubles()
BUS = Troubles(
    lost_before="reset_before",
    lost_after="reset_after",
    throttled="throttled_request",
    missing="missing_target",
    denied="access_denied",
)
SETTLE = Troubles(lost_before="settle_lost_before", lost_after="settle_lost_after")
"""Throttling of a settle is the table's own: it may concern single statements."""
PARK = Troubles(
    lost_before="park_lost_before",
    lost_after="park_lost_after",
    throttled="park_throttled",
    throttling="ProvisionedThroughputExceededException",
)
RECOVERY_CALLS = Troubles(
    lost_before="recovery_lost_before",
    lost_after="recovery_lost_after",
    throttled="recovery_throttled",
    throttling="ProvisionedThroughputExceededException",
)
RECOVERY_QUERIES = Troubles(throttled="recovery_throttled", throttling="ProvisionedThroughputExceededException")
"""A query that gets no answer changes nothing: one that is throttled says the same."""
COMMIT = Troubles(
    lost_before="commit_lost_before",
    lost_after="commit_lost_after",
    throttled="commit_throttled",
    throttling="ProvisionedThroughputExceededException",
)


class Network:
    """Carries calls. `chance` decides how long they take. What it is made of, the servers share."""

    def __init__(self, kernel: Kernel, ledger: Ledger, faults: Faults, chance: Chance) -> None:
        self.kernel = kernel
        self.ledger = ledger
        self.faults = faults
        self.chance = chance
        self._luck = chance.of("network")
        self._counts: dict[tuple[str, str, str], int] = {}
        self._calls = 0

    def call(
        self,
        process: Process,
        where: str,
        operation: str,
        act: Callable[[], T],
        *,
        timeout_ms: int,
        connect_ms: int = 1_000,
        troubles: Troubles = NO_TROUBLES,
    ) -> T:
        """Let the server `where` do `act`, once or not at all, and return its answer; blocks the strand.

        `act` runs at the server's own moment and must not wait. An exception of botocore that it raises is the answer.
        `timeout_ms` is how long the caller waits for an answer, `connect_ms` for a connection.

        Raises ClientError, ConnectionClosedError, ReadTimeoutError, ConnectTimeoutError, EndpointConnectionError as
        boto3 does, and Killed when the process ends meanwhile.
        """
        self.boundary(process)
        self._calls += 1
        kind = (process.name, where, operation)
        call: _Call[T] = _Call(self.kernel, self._calls, where, operation, process, luck=(*kind, self._nth(kind)))
        self.ledger.note(Sent(self.kernel.now_ms, where, operation, call.invocation, call.number, process.name))
        self._carry(call, act, troubles, connect_ms)
        reply = call.replies.get(until_ms=self.kernel.now_ms + connect_ms + timeout_ms)
        if reply is None:
            reply = _Failed(ReadTimeoutError(endpoint_url=_url(where)))
        how = type(reply.error).__name__ if isinstance(reply, _Failed) else ""
        self.ledger.note(Heard(self.kernel.now_ms, where, operation, call.invocation, call.number, how))
        self.boundary(process, after=True)
        if isinstance(reply, _Succeeded):
            return reply.value
        try:
            raise reply.error
        finally:
            del reply  # the error has this frame: a circle otherwise

    def boundary(self, process: Process, *, after: bool = False) -> None:
        """Stand before or after an effect: where a process may die, hang, or have its clock changed. Raises Killed.

        It stands still after one alone: what has been decided by the time that it was, is not sent long after that.
        """
        owner = self.kernel.here().owner
        if owner is not process and isinstance(owner, Process):
            self._refuse(process, owner)
        at, process.boundaries = process.boundaries, process.boundaries + 1
        left, perils = self.faults.left, process.perils
        if CLOCK_JUMP in left and (jump := self._peril(CLOCK_JUMP, process)) is not None:
            process.clock.offset_ms += jump.amount_ms
        if perils.hang in left and self._peril(perils.hang, process, at) is not None:
            while True:
                self.kernel.wait()
        if after and perils.freeze in left and (freeze := self._peril(perils.freeze, process, at)) is not None:
            process.frozen_until_ms = self.kernel.now_ms + freeze.amount_ms
        if after and process.frozen_until_ms > self.kernel.now_ms:
            self.kernel.wait(process.frozen_until_ms)
        if perils.crash in left and self._peril(perils.crash, process, at) is not None:
            process.kill()
            self.kernel.here()

    def _peril(self, kind: str, process: Process, boundary: int | None = None) -> PlannedFault | None:
        met = Met(0, process.name)
        return self.faults.take(kind, process.owner, invocation=process.invocation, boundary=boundary, met=met)

    def _refuse(self, process: Process, owner: Process) -> NoReturn:
        self.kernel.stop(
            NotSimulated(
                f"{owner.name} uses a client of {process.name}{called_from()}, another process: take clients from the "
                "world that make_handler gets for each instance, and keep none of them in a module."
            )
        )

    def _carry(self, call: _Call[T], act: Callable[[], T], troubles: Troubles, connect_ms: int) -> None:
        """Decide what becomes of a call: its reply, if any, is put where its caller waits."""
        out_ms = self._luck.whole(*_LEG_MS, *call.luck, "out")
        back_ms = self._luck.whole(*_LEG_MS, *call.luck, "back")
        if self.faults.left.isdisjoint(troubles.kinds):
            self._arrives(call, act, out_ms, back_ms, None)
            return
        if self._refused(call, troubles, out_ms + back_ms, connect_ms):
            return
        if (lost := self._take(troubles.lost_before, call)) is not None:
            self._break(call, lost, out_ms)
            return
        if (slow := self._take(troubles.slow, call)) is not None:
            extra_ms = slow.amount_ms
            before_ms = int(extra_ms * self._luck.unit(*call.luck, "slow"))
            out_ms, back_ms = out_ms + before_ms, back_ms + extra_ms - before_ms
        self._arrives(call, act, out_ms, back_ms, self._take(troubles.lost_after, call))

    def _arrives(
        self, call: _Call[T], act: Callable[[], T], out_ms: int, back_ms: int, lost: PlannedFault | None
    ) -> None:
        """Let a call arrive after a time, and its answer a time after that, unless that is `lost`."""

        def arrive() -> None:
            reply = _acted(act)
            if lost is None:
                self.kernel.call_at(self.kernel.now_ms + back_ms, partial(call.replies.put, reply))
            else:
                self._break(call, lost, back_ms)

        self.kernel.call_at(self.kernel.now_ms + out_ms, arrive)

    def _refused(self, call: _Call[T], troubles: Troubles, round_ms: int, connect_ms: int) -> bool:
        """Answer a call that the server does not act on, if it is one of those."""
        after_ms = round_ms
        error: Exception | None = None
        if self._take(troubles.outage, call) is not None:
            url = _url(call.where)
            if self._luck.unit(*call.luck, "outage") < _HALF:
                error = EndpointConnectionError(endpoint_url=url)
            else:
                after_ms, error = connect_ms, ConnectTimeoutError(endpoint_url=url)
        elif self._take(troubles.denied, call) is not None:
            error = client_error(call.operation, "AccessDeniedException", "not authorized to perform the action")
        elif self._take(troubles.missing, call) is not None:
            error = client_error(call.operation, "ResourceNotFoundException", f"{call.where} does not exist")
        elif self._take(troubles.throttled, call) is not None:
            error = client_error(call.operation, troubles.throttling, "Rate exceeded")
        if error is None:
            return False
        reply = _Failed(error)
        self.kernel.call_at(self.kernel.now_ms + after_ms, lambda: call.replies.put(reply))
        return True

    def _take(self, kind: str, call: _Call[Any]) -> PlannedFault | None:
        if kind not in self.faults.left:
            return None
        met = Met(call.number, call.process)
        return self.faults.take(kind, call.where, invocation=call.invocation, met=met)

    def _break(self, call: _Call[Any], fault: PlannedFault, after_ms: int) -> None:
        """Reset the connection of a call; with an amount the caller hears nothing, up to its time-out."""
        if not fault.amount_ms:
            reset = _Failed(ConnectionClosedError(endpoint_url=_url(call.where)))
            self.kernel.call_at(self.kernel.now_ms + after_ms, lambda: call.replies.put(reset))

    def _nth(self, kind: tuple[str, str, str]) -> int:
        """Return how many calls of a kind there were before: what happens to one does not depend on other kinds."""
        nth = self._counts.get(kind, 0)
        self._counts[kind] = nth + 1
        return nth


_HALF = 0.5


@dataclass(frozen=True)
class _Succeeded(Generic[T]):
    value: T


@dataclass(frozen=True)
class _Failed:
    error: Exception


class _Call(Generic[T]):
    def __init__(
        self,
        kernel: Kernel,
        number: int,
        where: str,
        operation: str,
        process: Process,
        *,
        luck: tuple[object, ...],
    ) -> None:
        self.number = number
        self.where = where
        self.operation = operation
        self.invocation = process.invocation
        self.process = process.name
        self.luck = luck
        self.replies: Mailbox[_Succeeded[T] | _Failed] = Mailbox(kernel)


def _acted(act: Callable[[], T]) -> _Succeeded[T] | _Failed:
    try:
        return _Succeeded(act())
    except ClientError as error:
        return _Failed(error.with_traceback(None))  # the server's frames are nobody's business here


def client_error(
    operation: str, code: str, message: str = "", *, status: int = _BAD_REQUEST, **more: Any
) -> ClientError:
    """Return an error answer as boto3 raises it; `more` are further members of the answer."""
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, operation)


def _url(where: str) -> str:
    return f"https://{where}.simulation.invalid/"
