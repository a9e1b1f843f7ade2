"""What can be wrong with a fault-injecting bus before it serves anything, and while it does."""

from __future__ import annotations

from dynamodb_outbox.errors import ConfigurationError, OutboxError

__all__ = [
    "EvidenceUnusable",
    "FaultBusError",
    "FaultBusRefused",
    "FaultPlanInvalid",
    "NothingHeld",
    "UpstreamAddressInvalid",
]


class FaultBusError(OutboxError):
    """The root of the fault-injecting bus's own errors."""


class FaultPlanInvalid(FaultBusError, ConfigurationError):
    """A plan says something that the bus does not know or cannot do: `where` in the plan, and the `reason`."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"fault plan, {where}: {reason}")


class UpstreamAddressInvalid(FaultBusError, ConfigurationError):
    """The `upstream` is not the address of an endpoint."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        super().__init__(f"upstream {upstream!r}: give http://HOST:PORT or https://HOST:PORT, without a path")


class EvidenceUnusable(FaultBusError):
    """The evidence `directory` cannot take this run's evidence; `reason` says why.

    A bus that cannot write down what it accepted stops answering: whatever it said would be unproven.
    """

    def __init__(self, directory: str, reason: str) -> None:
        self.directory = directory
        self.reason = reason
        super().__init__(f"evidence directory {directory}: {reason}")


class NothingHeld(FaultBusError):
    """No request was held within `timeout_s` seconds."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(
            f"no request was held within {timeout_s:g} s: does the plan hold one (holds), and were that many accepted?"
        )


class FaultBusRefused(FaultBusError):
    """The bus at `url` did not do what it was told: `status` of its answer (0: no answer) and the `reason`."""

    def __init__(self, url: str, status: int, reason: str) -> None:
        self.url = url
        self.status = status
        self.reason = reason
        super().__init__(f"fault bus at {url}: {reason}" + (f" (HTTP {status})" if status else ""))
