"""The server that a sink under check talks to, and what it can be told to answer."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ContractBroken", "Reply", "StandIn"]


class ContractBroken(AssertionError):
    """A sink does not do what the relay relies on: `check` is the check's name, `why` what was found."""

    def __init__(self, check: str, why: str) -> None:
        self.check = check
        self.why = why
        super().__init__(f"{check}: {why}")


class Reply(Enum):
    """How a stand-in answers all requests from now on; those that ask for the destination (`verify`) too."""

    ACCEPT = "each entry is accepted; the destination is there"
    REFUSE = "the entries of the given ids are refused, each in its own result, and the others are accepted"
    OMIT = "all entries are accepted, and the answer has no result for those of the given ids"
    THROTTLED = "nothing is accepted, and the service asks for fewer requests"
    TROUBLE = "nothing is accepted: the service has a fault of its own, as with a status of 500"
    DENIED = "nothing is accepted: the caller is not allowed to do this"
    MISSING = "there is no such destination"
    GARBLED = "a success whose body is not in the service's form"
    RESET = "the request is read, and its connection broken without an answer"
    SILENT = "the request is read, and never answered"


class StandIn(Protocol):
    """A server under a test's control. Several threads of a check may call it, through the sink, at once."""

    def sink(self) -> Any:
        """Return a new sink whose destination is here, with the envelope "cloudevents" and time-outs below 2 s."""
        ...

    def play(self, reply: Reply, ids: frozenset[str] = frozenset()) -> None:
        """Answer like this from now on. `ids` are ids of events."""
        ...

    def accepted(self) -> Sequence[str]:
        """Return the ids of the events accepted so far, in order."""
        ...

    def size(self, entry: Any) -> int:
        """Return the size of an entry in bytes as the service counts it, by code other than the sink's own."""
        ...
